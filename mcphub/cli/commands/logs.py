"""Owns the verb logs.

It must not know where the lines are kept.
"""

from __future__ import annotations

from mcphub.cli import output
from mcphub.cli.usage import UsageError, server_name
from mcphub.client import ControlClient, current_workspace
from mcphub.errors import ControlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from mcphub.status import LogsReport

DESCRIPTION = (
    "Print the last lines that a server wrote to stderr, oldest first, control characters as escapes; among them, "
    "marked [stdout], the lines on its stdout that are no messages of the protocol, of many only some."
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", type=server_name, metavar="NAME", help="the server")
    parser.add_argument("-n", "--lines", type=int, default=100, metavar="N", help="at most so many (default 100)")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with each line that comes; Ctrl-C ends it")
    parser.add_argument("--json", action="store_true", help="print the report as JSON; with -f one a line")


def run(args: argparse.Namespace) -> int:
    if args.lines < 0:
        raise UsageError("cannot print the log: --lines must not be negative")
    client = ControlClient(workspace=current_workspace())
    if args.follow:
        return _follow(client, args.name, args.lines, args.json)
    report = client.logs(args.name, args.lines)
    if args.json:
        print(output.json_text(report))
        return 0
    _show(report, first=True)
    return 0


def _show(report: LogsReport, *, first: bool) -> None:
    if first and report["dropped"]:
        output.complain(f"{output.size(report['dropped'])} of older output are not kept")
    for line in report["lines"]:
        print(output.block(line))


def _follow(client: ControlClient, name: str, lines: int, as_json: bool) -> int:
    import gc

    gc.enable()  # main.py switches it off for what ends at once
    first = True
    for report in client.follow_logs(name, lines):
        if as_json:
            print(output.json_text(report, compact=True))
        else:
            _show(report, first=first)
        first = False
        print(end="", flush=True)
    raise ControlError(f"the mcphub daemon at {client.path} has stopped")
