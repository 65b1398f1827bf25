"""Owns the verb enable: switch a server on again, by whatever it was switched off.

It must not let anything run that waits for approval or that policy forbids: those are other questions.
"""

from __future__ import annotations

import os

from mcphub.cli.usage import server_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from mcphub.cli.change import Here
    from mcphub.config.layer import Entry

DESCRIPTION = """\
Switch a server on again that `mcphub disable` switched off, here and everywhere. Where your own file says
"enabled": false, that is taken out of it."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", type=server_name, metavar="NAME", help="the server")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    from mcphub.cli.change import Here, report, standing
    from mcphub.config.names import shown_name, unknown_server
    from mcphub.errors import ConfigError
    from mcphub.store.toggles import ToggleStore

    here = Here.now()
    shown = shown_name(args.name)
    workspace = os.path.realpath(here.workspace) if here.workspace else ""
    taken = ToggleStore(here.places.toggles).enable(args.name, workspace)
    one = here.load().resolved.servers.get(args.name)
    if one is None and not taken and here.row(args.name) is None:
        raise ConfigError(f"cannot enable {shown}: {unknown_server(args.name, so='so here')}")
    written = one is not None and one.entry is not None and _switch_on(here, one.entry)
    here.tell()
    after = here.load()
    path = one.origin.path if one is not None else ""
    notes = [note for note in standing(here, args.name, path, after) if not note.startswith("it is used here")]
    fields = {"name": args.name, "enabled": True, "directories": list(taken), "path": path if written else ""}
    text = f"{shown} is switched on" if taken or written else f"{shown} was not switched off"
    report(fields, text, notes, as_json=args.json)
    return 0


def _switch_on(here: Here, entry: Entry) -> bool:
    """Take the switch out of the entry itself, where it is off and in a file of the person's. Raises ConfigError where
    it is off in another's."""
    from mcphub.config.writable import places_of
    from mcphub.errors import ConfigError
    from mcphub.spec import Scope

    keys = [key for key, off in (("enabled", False), ("disabled", True)) if entry.raw.get(key) is off]
    if not keys:
        return False
    scope = entry.origin.scope
    if scope in (Scope.USER, Scope.LOCAL):
        for place in places_of(scope, here.workspace, here.places):
            if place.path == entry.origin.path:
                for key in keys:
                    place.remove_member(entry.name, key)
                return True
    raise ConfigError(
        f"cannot enable {entry.name}: {entry.place(keys[0])} switches it off, and that is not a file of yours alone"
    )
