"""Owns the verb logs.

It must not know where the lines are kept.
"""

from __future__ import annotations

from mcphub.cli import output
from mcphub.client import ControlClient, current_workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = "Print the last lines that a server wrote to stderr, oldest first, control characters as escapes."


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the server")
    parser.add_argument("-n", "--lines", type=int, default=100, metavar="N", help="at most so many (default 100)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    if args.lines < 0:
        output.complain("--lines must not be negative")
        return 2
    report = ControlClient(workspace=current_workspace()).logs(args.name, args.lines)
    if args.json:
        print(output.json_text(report))
        return 0
    if report["dropped"]:
        output.complain(f"{output.size(report['dropped'])} of older output are not kept")
    for line in report["lines"]:
        print(output.block(line))
    return 0
