"""Owns the verb disable: switch a server off, wherever it comes from.

It must not change a file of servers: what a person switches off is that person's own, and kept in the state directory.
"""

from __future__ import annotations

import os

from mcphub.cli.usage import server_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Switch a server off for yourself, whatever file it comes from; it is closed if it runs, and stays off until
`mcphub enable`."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", type=server_name, metavar="NAME", help="the server")
    parser.add_argument("--here", action="store_true", help="only for agents that work in this directory or below it")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    from mcphub.cli.change import Here, report
    from mcphub.config.names import shown_name, unknown_server
    from mcphub.errors import ConfigError
    from mcphub.store.toggles import ToggleStore

    here = Here.now()
    shown = shown_name(args.name)
    if args.here and not here.workspace:
        raise ConfigError(f"cannot disable {shown} here: this directory is gone")
    if args.name not in here.load().resolved.servers and here.row(args.name) is None:
        raise ConfigError(f"cannot disable {shown}: {unknown_server(args.name, so='so here')}")
    directory = os.path.realpath(here.workspace) if args.here else ""
    ToggleStore(here.places.toggles).disable(args.name, directory)
    here.tell()
    where = f" for agents in {directory}" if directory else ""
    fields = {"name": args.name, "enabled": False, "directory": directory}
    report(fields, f"{shown} is switched off{where}", [], as_json=args.json)
    return 0
