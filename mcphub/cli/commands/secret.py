"""Owns the verb secret: what `${secret:NAME}` in an entry stands for, kept in the vault.

It must not print a value, nor take one from the words of a command line.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Keep, list or take away the secrets that ${secret:NAME} in an entry refers to. They are sealed in mcphub's vault
(`mcphub vault status`) and never printed. `secret set NAME` asks for the value on the terminal without showing it; with
--stdin it reads all of stdin, and one line break at the end is dropped. Servers that refer to a secret which changed
are started again, no others."""

ACTIONS = {
    "set": "keep a value for NAME",
    "list": "the names, and the servers that refer to each",
    "remove": "take NAME away",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    from mcphub.cli.subverb import words_first
    from mcphub.cli.usage import add_actions

    add_actions(parser, ACTIONS)
    parser.add_argument("names", nargs="*", metavar="NAME", help="the secret; none for list")
    parser.add_argument("--stdin", action="store_true", help="with set: read the value from stdin")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(reorder=lambda words: words_first(words, ()))


def run(args: argparse.Namespace) -> int:
    from mcphub.cli import output
    from mcphub.cli.usage import UsageError

    if len(args.names) != (args.action != "list"):
        wanted = "no name" if args.action == "list" else "one NAME"
        raise UsageError(f"cannot run secret {args.action}: it takes {wanted}")
    if args.stdin and args.action != "set":
        raise UsageError(f"cannot run secret {args.action}: --stdin is for set")
    if args.names and (fault := _fault(args.names[0])):
        raise UsageError(f"cannot run secret {args.action}: {fault}")
    from mcphub.cli.vault_access import VaultAccess

    access = VaultAccess()
    if args.action == "list":
        listed = access.secrets()
        if args.json:
            print(output.json_text(listed))
        elif listed["secrets"]:
            rows = [(one["name"], ", ".join(one["servers"]) or "-") for one in listed["secrets"]]
            print(output.table(("NAME", "SERVERS"), rows), end="")
        else:
            output.complain("no secret is kept")
        return 0
    if args.action == "set":
        from mcphub.cli.hidden_input import ask, from_stdin, on_terminal

        what = f"the secret {args.names[0]}"
        if on_terminal() and not args.stdin:
            access.refuse_locked(args.names[0])  # whoever types a secret in should not have done so for nothing
            value = ask(what)
        else:
            value = from_stdin(what)
        report = access.set(args.names[0], value)
    else:
        report = access.remove(args.names[0])
    if args.json:
        print(output.json_text(report))
        return 0
    users = ", ".join(report["servers"])
    verb = "used by" if args.action == "set" else "still referred to by"
    print(output.line(f"{report['name']}: {report['action']}" + (f"; {verb} {users}" if users else "")))
    return 0


def _fault(name: str) -> str:
    """What a person wrote who put the value beside the name is not repeated."""
    if "=" in name:
        return "write the name alone: a value on a command line can be seen by others; it is asked for, or --stdin"
    from mcphub.config.expand import secret_name_fault

    return secret_name_fault(name)
