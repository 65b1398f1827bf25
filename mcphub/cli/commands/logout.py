"""Owns the verb logout.

It must not know how tokens are given up: the daemon does it.
"""

from __future__ import annotations

from mcphub.cli import output
from mcphub.cli.usage import server_name
from mcphub.client import ControlClient, current_workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Sign out of a server, or with --all of every one, of the organisation, and of servers that are not configured any more.
Tokens are revoked where the authorization server has a place for that, and forgotten here in any case."""


def arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="?", type=server_name, metavar="NAME", help="the server")
    which.add_argument("--all", action="store_true", help="every server, and the organisation")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    report = ControlClient(workspace=current_workspace()).logout(None if args.all else args.name)
    if args.json:
        print(output.json_text(report))
        return 0
    found = [*report["signed_out"], *([report["idp"]] if "idp" in report else [])]
    for one in found:
        revoked = {True: "signed out, and its tokens are revoked", None: "signed out here"}
        text = revoked.get(one["revoked"], "signed out here; its authorization server did not confirm that it revoked")
        if one.get("again"):
            text += "; it gets tokens again by itself when it is used"
        elif "again" in one:
            text += f"; it needs the organisation's login now: mcphub login {one['name']}"
        print(output.line(f"{one['name']}: {text}"))
    if others := report.get("others", 0):
        print(f"{others} more, of servers that are not configured any more")
    if not found and not others:
        print("nobody was signed in")
    return 0
