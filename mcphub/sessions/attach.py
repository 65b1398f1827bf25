"""Owns the attach line: how an agent, or `mcphub connect` for it, says who it is before it speaks MCP.

It must not open anything, nor trust a claim: the line chooses a workspace and a label, it grants nothing.

The first line on agent.sock may be the notification `dev.mcphub/attach` with the params `client` (a label), `workspace`
(an absolute directory), `env` (variables of the agent's, of which those count that the person's settings list) and,
later, `view` and `lease`. Without it: the user's servers, no workspace.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping

import msgspec

from mcphub.spec import Secret

METHOD = "dev.mcphub/attach"
#: What the first bytes of a connection must hold to be looked at as an attach line.
MARK = b'"dev.mcphub/attach"'
#: An attach line is short; a longer first line is somebody's message.
MAX_LINE = 64 << 10


class Attach(msgspec.Struct, frozen=True):
    """Who attached. `problem` says what was wrong with the line, "" = nothing. `env` are the variables it offers."""

    client: str = ""
    workspace: str = ""
    problem: str = ""
    env: Mapping[str, Secret] = msgspec.field(default_factory=dict)


class _Params(msgspec.Struct):
    client: str = ""
    workspace: str = ""
    env: dict[str, str] = {}


class _Line(msgspec.Struct):
    method: str = ""
    params: msgspec.Raw = msgspec.Raw(b"{}")


def split(first: bytes) -> tuple[Attach | None, bytes]:
    """The attach line at the start of a connection, and what follows it; (None, all) where there is none."""
    line, newline, rest = first.partition(b"\n")
    if MARK not in line or not newline:
        return None, first
    try:
        found = msgspec.json.decode(line, type=_Line)
        if found.method != METHOD:
            return None, first
        params = msgspec.json.decode(found.params, type=_Params)
    except (msgspec.DecodeError, RecursionError) as e:
        return Attach(problem=f"the attach line cannot be read: {e}"), rest
    workspace = params.workspace
    if workspace and (not os.path.isabs(workspace) or "\0" in workspace or len(workspace) > 4096):
        return Attach(params.client[:100], "", "the workspace is not an absolute path"), rest
    # POSIX lets two leading slashes mean something else; here they would only be another name of the same place.
    directory = os.path.normpath("/" + workspace.lstrip("/")) if workspace else ""
    env = {name: Secret(value) for name, value in params.env.items() if "\0" not in value}
    return Attach(params.client[:100], directory, env=env), rest


def may_grow(first: bytes) -> bool:
    """Whether these first bytes may be the beginning of an attach line that has not come whole."""
    return b"\n" not in first and len(first) < MAX_LINE and first.lstrip()[:1] in (b"", b"{")
