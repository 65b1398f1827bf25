"""Owns the verb remove: take a server out of the file it is in, or away from the daemon that runs.

It must not know how a file is changed.
"""

from __future__ import annotations

from mcphub.cli.commands.add import SCOPES
from mcphub.cli.usage import server_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from mcphub.cli.change import Here

DESCRIPTION = """\
Take a server out of your mcp.json, the project's .mcp.json, your own servers of this project, or away from those that
were added to the daemon."""

#: What a person can do about a server that no command of theirs put there.
ELSEWHERE = {
    "enterprise": "only your organisation can change it",
    "managed": "only your organisation can take it away; `mcphub disable` switches it off for you",
    "plugin": "it goes with its plugin; `mcphub disable` switches it off",
    "webapp": "it comes from a catalogue; `mcphub disable` switches it off",
    "embedded": "it is there while no other server is",
    "session": "it ends with the session that brought it",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", type=server_name, metavar="NAME", help="the server")
    parser.add_argument("-s", "--scope", choices=SCOPES, help="where to take it from; needed where it is in several")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    from mcphub.cli.change import Here, report
    from mcphub.config.names import shown_name
    from mcphub.config.writable import WRITABLE, holders
    from mcphub.errors import ConfigError
    from mcphub.spec import Scope

    here = Here.now()
    name, shown = args.name, shown_name(args.name)
    wanted = None if args.scope is None else Scope(args.scope)
    places = holders(name, here.workspace, here.places, [one for one in WRITABLE if wanted in (None, one)])
    found = list(dict.fromkeys(str(place.scope) for place in places))
    if wanted in (None, Scope.DYNAMIC) and _dynamic(here, name):
        found.insert(0, str(Scope.DYNAMIC))
    if not found:
        raise ConfigError(f"cannot remove {shown}: {_not_there(here, name, args.scope)}")
    if len(found) > 1:
        raise ConfigError(f"cannot remove {shown}: it is in the scopes {', '.join(found)}; say which by --scope")
    if found == [Scope.DYNAMIC]:
        _remove_dynamic(here, name)
        path = ""
    else:
        path = places[0].path
        if not places[0].remove(name):
            raise ConfigError(f"cannot remove {shown}: {path} does not hold it any more")
        here.tell()
    one = here.load().resolved.servers.get(name)
    notes = [] if one is None else [f"{one.origin} has this name too, and counts here now"]
    text = f"removed {shown} from scope {found[0]}" + (f" ({path})" if path else "")
    report({"name": name, "scope": found[0], "path": path}, text, notes, as_json=args.json)
    return 0


def _dynamic(here: Here, name: str) -> bool:
    from mcphub.spec import Scope

    one = here.load().resolved.servers.get(name)
    if one is not None and Scope.DYNAMIC in (one.origin.scope, *(origin.scope for origin in one.shadows)):
        return True
    return any(row["scope"] == Scope.DYNAMIC for row in here.rows(name))


def _remove_dynamic(here: Here, name: str) -> None:
    from mcphub.config.readfile import Reader
    from mcphub.config.sources.project import searched
    from mcphub.errors import ControlError
    from mcphub.store.dynamic import DynamicServers

    try:
        here.client.remove_server(name)
    except ControlError as error:
        if error.status:
            raise
        kept = DynamicServers(here.places.dynamic)
        for directory in (*searched(here.workspace, here.places.home, Reader()), ""):
            if kept.remove(name, directory):
                return
        raise


def _not_there(here: Here, name: str, scope: str | None) -> str:
    from mcphub.config.names import unknown_server

    resolved = here.load().resolved
    one = resolved.servers.get(name)
    if one is None:
        broken = list(dict.fromkeys(layer.path for layer in resolved.layers if layer.faulty))
        may = f"; {', '.join(broken)} cannot be used now, and may name it" if broken else ""
        return unknown_server(name, so="so here") + may
    hint = ELSEWHERE.get(str(one.origin.scope), f"--scope {one.origin.scope} takes it from there")
    where = f"it is not in scope {scope}; " if scope is not None else ""
    return f"{where}it comes from {one.origin}: {hint}"
