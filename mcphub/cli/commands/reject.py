"""Owns the verb reject.

It must not know how decisions are kept.
"""

from __future__ import annotations

from mcphub.cli import output
from mcphub.cli.usage import server_name
from mcphub.client import ControlClient, current_workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = "Never run a server that this directory asks for; close it if it runs. `mcphub approve` takes it back."


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", type=server_name, metavar="NAME", help="the server")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    report = ControlClient(workspace=current_workspace()).reject(args.name)
    if args.json:
        print(output.json_text(report))
    else:
        print(f"{output.line(report['name'])} is rejected here and will not run")
    return 0
