"""Owns the verb reconnect.

It must not know what a connection is.
"""

from __future__ import annotations

from mcphub.cli import output
from mcphub.cli.usage import server_name
from mcphub.client import ControlClient, current_workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Close and open again one server, or all; attempts start from zero. `mcphub status --watch` shows it.
With --all, files that cannot be used are named on stderr, and the exit status is 1."""


def arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="?", type=server_name, metavar="NAME", help="the server")
    which.add_argument("--all", action="store_true", help="every server")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    report = ControlClient(workspace=current_workspace()).reconnect(None if args.all else args.name)
    if args.json:
        print(output.json_text(report))
    else:
        names = ", ".join(output.line(name) for name in report["reconnected"])
        print(f"reconnecting {names}" if names else "there is nothing to reconnect")
        for problem in report.get("problems", []):
            output.complain(problem)
    return 1 if report.get("problems") else 0
