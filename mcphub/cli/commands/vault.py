"""Owns the verb vault: whether tokens and secrets can be had, unlocking them, another key.

It must not show what is kept.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from mcphub.status import VaultReport

DESCRIPTION = """\
The vault is the file that mcphub keeps tokens and secrets in, sealed; its key is in the system's key ring, or where
`[vault] key` of settings.toml says.
status: whether it can be opened, and if not, why and what to do.
unlock: ask for the key again, after the key ring was unlocked, say; a passphrase is asked for on the terminal, or read
from stdin with --stdin. What waited for it is tried at once. With --start-over a vault that cannot be opened, since it
is damaged or its key is lost, is set aside beside itself, and an empty one takes its place.
rotate: seal everything with a new key; with a passphrase, with a new one."""

ACTIONS = {
    "status": "whether it can be opened, and what to do if not",
    "unlock": "ask for its key again, and try what waited for it",
    "rotate": "seal everything with a new key",
}


STATES = {
    "open": "is open",
    "new": "is not there yet: the first secret or sign-in makes it",
    "locked": "is locked",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    from mcphub.cli.subverb import words_first
    from mcphub.cli.usage import add_actions

    add_actions(parser, ACTIONS)
    parser.add_argument("--stdin", action="store_true", help="with unlock and rotate: read the passphrase from stdin")
    parser.add_argument(
        "--start-over", action="store_true", help="with unlock: set a vault aside that cannot be opened, and begin anew"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(reorder=lambda words: words_first(words, ()))


def run(args: argparse.Namespace) -> int:
    from mcphub.cli import output
    from mcphub.cli.usage import UsageError

    if args.stdin and args.action == "status":
        raise UsageError("cannot run vault status: --stdin is for unlock and rotate")
    if args.start_over and args.action != "unlock":
        raise UsageError(f"cannot run vault {args.action}: --start-over is for unlock")
    from mcphub.cli.vault_access import VaultAccess

    access = VaultAccess()
    match args.action:
        case "status":
            report = access.status()
        case "unlock":
            new = args.start_over or not access.status()["exists"]
            report = access.unlock(_passphrase(args, access.needs_passphrase, new=new), args.start_over)
        case _:
            report = access.rotate(_passphrase(args, access.needs_passphrase, new=True))
    print(output.json_text(report) if args.json else text(report), end="\n" if args.json else "")
    return 1 if report["state"] == "locked" else 0


def _passphrase(args: argparse.Namespace, needed: bool, *, new: bool) -> str | None:
    from mcphub.cli.hidden_input import ask, from_stdin

    if args.stdin:
        return from_stdin("the passphrase")
    return ask("a new passphrase" if new else "the vault's passphrase", twice=new) if needed else None


def text(report: VaultReport) -> str:
    """The report for people."""
    from mcphub.cli import output

    stands = STATES[report["state"]]
    if report["state"] == "locked" and not report["exists"] and report["reason"] != "passphrase":
        stands = "is not there yet, and cannot be made"
    lines = [f"the vault {report['path']} {stands}; its key: {report['source']}"]
    if report["detail"]:
        lines.append(report["detail"])
    if report["warning"]:
        lines.append(f"warning: {report['warning']}")
    if not report["live"]:
        lines.append("(no daemon answers: this was found by looking at the vault from here)")
    return "".join(output.line(one) + "\n" for one in lines)
