"""Owns the verb add: put a server into a file, or give it to the daemon that runs.

It must not know what an entry means, nor how a file is changed.
"""

from __future__ import annotations

import argparse
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mcphub.cli.change import Here

DESCRIPTION = """\
Add a server: a URL, or a program behind --. The flags are those of `claude mcp add`. Nothing is written where the
name is taken, the entry is wrong, or policy would not let it run. What stands on a command line can be seen by others
on this machine and in your shell's history: for a secret use --env NAME without a value, or `mcphub env set`."""

SCOPES = ("user", "project", "local", "dynamic")


def arguments(parser: argparse.ArgumentParser) -> None:
    from mcphub.cli.entry_flags import TRANSPORTS, sorted_arguments

    scope_arguments(parser)
    parser.add_argument("-t", "--transport", choices=TRANSPORTS, help="default: http for a URL, else stdio")
    parser.add_argument(
        "-e", "--env", action="append", default=[], metavar="K=V",
        help="a variable for a program; K alone: the value in your environment is kept in the environment file, and "
        "the entry refers to it. May be given again",
    )
    parser.add_argument(
        "-H", "--header", action="append", default=[], metavar="'K: V'",
        help="a header for a server at a URL; ${VARIABLE} in it is kept as it is. May be given again",
    )
    parser.add_argument(
        "--client-id", default="", metavar="ID", help="this client's id, where it was registered by hand"
    )
    parser.add_argument(
        "--client-secret", action="store_true",
        help="its secret: asked for without showing it, or from MCP_CLIENT_SECRET; kept in the vault, and the entry "
        "refers to it",
    )
    parser.add_argument(
        "--callback-port", type=int, metavar="PORT", help="the port that was registered for the browser to come back to"
    )
    parser.add_argument("name", metavar="NAME", help="what to call it: 1 to 64 of A-Z a-z 0-9 _ -")
    parser.add_argument(
        "target", nargs=argparse.REMAINDER, metavar="URL | -- COMMAND [ARG ...]", help="where it is, or how to start it"
    )
    parser.set_defaults(reorder=sorted_arguments)


def scope_arguments(parser: argparse.ArgumentParser) -> None:
    """What add and add-json have in common."""
    parser.add_argument(
        "-s", "--scope", choices=SCOPES, default="user",
        help="user: your mcp.json (the default); project: the project's .mcp.json, which others see too; local: yours, "
        "in this project only, outside of it; dynamic: until the daemon ends",
    )
    parser.add_argument("--keep", action="store_true", help="with --scope dynamic: also after the daemon has ended")
    parser.add_argument("--here", action="store_true", help="with --scope dynamic: only for agents of this directory")
    parser.add_argument("--force", action="store_true", help="replace an entry of this name in the same file")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    from mcphub.cli.entry_flags import entry_of, oauth_of

    target = args.target[1:] if args.target[:1] == ["--"] else args.target
    entry, kept = entry_of(args.transport, target, args.env, args.header, os.environ)
    secret = f"{args.name}/client-secret" if args.client_secret else ""
    if secret and args.scope == "project":
        from mcphub.cli.usage import UsageError

        text = "a project's file is for others, too, and cannot refer to your secrets; use --scope local"
        raise UsageError(f"cannot add the server: --client-secret: {text}")
    if oauth := oauth_of(entry, args.client_id, args.callback_port, secret):
        entry["oauth"] = oauth
    return add(args, entry, kept, secret)


def add(args: argparse.Namespace, entry: dict[str, Any], kept: Mapping[str, str], secret: str = "") -> int:
    """Add the entry that the command line asks for. `kept` are variables that it refers to, `secret` the name of a
    secret that is to be asked for, "" = none."""
    from mcphub.cli.admission import judge
    from mcphub.cli.change import Here, report, standing
    from mcphub.cli.usage import UsageError
    from mcphub.config.names import name_fault, shown_name
    from mcphub.config.writable import Place, place_for
    from mcphub.errors import ConfigError
    from mcphub.spec import Scope

    if fault := name_fault(args.name):
        raise UsageError(f"cannot add server {shown_name(args.name)}: {fault}")
    scope = Scope(args.scope)
    if args.keep and scope is not Scope.DYNAMIC:
        raise UsageError("cannot add the server: --keep is for --scope dynamic; what is in a file is kept")
    if args.here and scope is not Scope.DYNAMIC:
        raise UsageError("cannot add the server: --here is for --scope dynamic; in a file use --scope local")
    here = Here.now()
    if scope is Scope.DYNAMIC:
        place = Place(scope, here.places.dynamic, _directory(args, here))
    else:
        place = place_for(scope, here.workspace, here.places)
        if not args.force and place.has(args.name):
            raise ConfigError(
                f"cannot add server {args.name}: it already exists in scope {scope} ({place.path}); "
                "to replace it, add --force"
            )
    judged = judge(here.load(), place, args.name, entry)
    notes = _keep(here, kept) + _keep_secret(secret)
    if scope is Scope.DYNAMIC:
        return _add_dynamic(args, here, entry, notes)
    place.put(args.name, entry, replace=args.force)
    here.tell()
    notes += judged
    notes += standing(here, args.name, place.path, here.load())
    fields = {"name": args.name, "scope": args.scope, "path": place.path}
    report(fields, f"added {args.name} to scope {args.scope} ({place.path})", notes, as_json=args.json)
    return 0


def _keep(here: Here, kept: Mapping[str, str]) -> list[str]:
    """Put variables into the environment file. Raises ConfigError where one is there with another value: who else
    refers to it cannot be known."""
    from mcphub.config.environment import parse_environment
    from mcphub.config.environment_edit import set_variable
    from mcphub.errors import ConfigError
    from mcphub.store import atomicfile

    if not kept:
        return []
    path = here.places.environment

    def change(data: bytes | None) -> bytes:
        values, _ = parse_environment(data or b"", path)
        for name, value in kept.items():
            if values.get(name, value) != value:
                raise ConfigError(
                    f"cannot keep {name}: {path} has another value for it; write --env {name}='${{{name}}}' to use "
                    f"that one, or change it by `mcphub env set {name}`"
                )
            if name not in values:
                data = set_variable(data, name, value)
        return data or b""

    atomicfile.update(path, change, private=True)
    names = ", ".join(kept)
    return [f"{names} {'is' if len(kept) == 1 else 'are'} kept in {path}, and referred to as ${{...}}"]


def _keep_secret(name: str) -> list[str]:
    """Ask for a secret, or take it from MCP_CLIENT_SECRET, and keep it. Raises ConfigError."""
    if not name:
        return []
    from mcphub.cli.hidden_input import ask
    from mcphub.cli.vault_access import VaultAccess

    access = VaultAccess()
    access.refuse_locked(name)
    access.set(name, os.environ.get("MCP_CLIENT_SECRET") or ask("the client's secret", otherwise="MCP_CLIENT_SECRET"))
    return [f"its client secret is kept in the vault, and referred to as ${{secret:{name}}}"]


def _directory(args: argparse.Namespace, here: Here) -> str:
    """Whose agents an added server is for, "" = all."""
    return os.path.realpath(here.workspace) if args.here and here.workspace else ""


def _add_dynamic(args: argparse.Namespace, here: Here, entry: dict[str, Any], notes: list[str]) -> int:
    from mcphub.cli.change import report
    from mcphub.errors import ControlError
    from mcphub.store.dynamic import Added, DynamicServers

    state = reason = ""
    directory = _directory(args, here)
    try:
        added = here.client.add_server(args.name, entry, keep=args.keep, workspace=directory)
        state, reason = added["state_text"], added["reason"]
        hidden = ", ".join(f"{one['path']} {one['key']}" for one in added["shadows"])
        notes = [*notes, f"it is used in place of {hidden}"] if hidden else notes
    except ControlError as error:
        if error.status or not args.keep:
            raise
        DynamicServers(here.places.dynamic).add(Added(args.name, entry, directory), keep=True)
    notes = [*notes, f"{args.name} is {state}: {reason}"] if reason else notes
    fields = {"name": args.name, "scope": args.scope, "path": here.places.dynamic if args.keep else ""}
    text = f"added {args.name}, {'kept' if args.keep else 'until the daemon ends'}"
    report(fields, text, notes, as_json=args.json)
    return 0
