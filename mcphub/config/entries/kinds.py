"""Owns which transport an entry asks for, and which of its keys have a meaning there.

It must not know what the values of those keys mean, nor how a transport is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from mcphub.config.jsonc import kind_of

from .fields import Fault, string
from .ide import IDE_TYPES
from .ide import KEYS as IDE_KEYS

#: What an entry asks for.
Kind = Literal["stdio", "HTTP", "SSE", "WebSocket", "in-process"]

_REMOTE_KINDS: Final[Mapping[str, Kind]] = {
    "http": "HTTP",
    "streamable-http": "HTTP",
    "streamableHttp": "HTTP",
    "sse": "SSE",
    "ws": "WebSocket",
    "sse-ide": "SSE",
    "ws-ide": "WebSocket",
}
#: A server that lives in the daemon.
_IN_PROCESS = "sdk"
_USED = frozenset(
    [
        "type", "command", "args", "env", "cwd", "envFile", "enabled", "disabled", "enabledTools",
        "disabledTools", "startupTimeout", "timeout", "inputTimeout", "inheritEnv", "stdio", "era", "url",
        "sampling", "sharing", "lazy", "idleTimeout", "limits",
        "alwaysOn", "healthCheck", "trustAnnotations", "tools",
    ]
)
_LATER = frozenset(
    [
        "alwaysLoad",
        "restart", "source",
    ]
)
_REMOTE_ONLY = frozenset(
    [
        "headers", "headersHelper", "tls", "oauth",
    ]
)
_IN_PROCESS_ONLY = frozenset(["name"])
_PROGRAM_ONLY = frozenset(
    [
        "args", "env", "cwd", "envFile", "inheritEnv", "stdio",
    ]
)


#: Every key that an entry may have without being told that nobody knows it.
KEYS = _USED | _LATER | _REMOTE_ONLY | _PROGRAM_ONLY
#: Those of them that do nothing in this version.
UNUSED_KEYS = _LATER
#: Values of `type` that name a remote server which a person writes.
REMOTE_TYPES = tuple(name for name in _REMOTE_KINDS if name not in IDE_TYPES)


def transport_kind(raw: Mapping[str, Any]) -> Kind | None:
    """What the entry asks for, None when it is a blank form. Raises `Fault`.

    A contradiction is an error and never guessed away: the guess would decide whether a program runs here (case C011).
    """
    kind = raw.get("type", "")
    if not isinstance(kind, str):
        raise Fault(f"expected a string, found {kind_of(kind)}", "type")
    url = string(raw, "url")
    blank = "url" in raw and url == ""
    command = "command" in raw
    if kind in _REMOTE_KINDS:
        if command:
            raise Fault(f"type {kind!r} is a remote server, which has no command; remove one of the two", "command")
        if "url" not in raw:
            raise Fault(f"missing; a server of type {kind!r} needs it", "url")
        if blank:
            return None
        schemes = ("ws://", "wss://") if _REMOTE_KINDS[kind] == "WebSocket" else ("http://", "https://")
        if not url.lower().startswith((*schemes, "${")):
            raise Fault(f"expected an address that begins with {' or '.join(schemes)}", "url")
        return _REMOTE_KINDS[kind]
    if kind == _IN_PROCESS:
        if command or "url" in raw:
            raise Fault("type 'sdk' is a server inside the daemon, which has no command and no url", "type")
        return "in-process"
    if kind not in ("", "stdio"):
        raise Fault(f"unknown type {ascii(kind[:40])}; use 'stdio', 'http', 'sse' or 'ws'", "type")
    if url and command:
        raise Fault("both command and url are set, so it is unclear whether a program may run; remove one", "url")
    if url and kind == "stdio":
        raise Fault("type 'stdio' is a program, which has no url; give command, or set type to 'http'", "url")
    if url:
        raise Fault("url without type; add \"type\": \"http\" (or 'sse', 'ws')", "type")
    if command:
        return "stdio"
    if blank:
        return None
    raise Fault("missing; give the program to run, or type and url for a remote server", "command")


def unused_keys(raw: Mapping[str, Any], kind: Kind) -> Iterator[tuple[str, str]]:
    """Each key that does nothing in an entry of this kind, and why."""
    for key in raw:
        if kind in ("stdio", "in-process") and key in _REMOTE_ONLY:
            yield key, "not used by a server that is a program"
        elif kind != "stdio" and key in _PROGRAM_ONLY:
            yield key, "not used by a remote server"
        elif kind == "WebSocket" and key == "oauth":
            yield key, "not used by a server at a WebSocket; give it an Authorization header"
        elif key in UNUSED_KEYS:
            yield key, "not used yet"
        elif key not in _USED and key not in _REMOTE_ONLY and key not in _extra(raw, kind):
            yield key, "unknown key, not used"


def _extra(raw: Mapping[str, Any], kind: Kind) -> frozenset[str]:
    """Keys that have a meaning in entries of a few kinds alone."""
    if kind == "in-process":
        return _IN_PROCESS_ONLY
    return IDE_KEYS if raw.get("type") in IDE_TYPES else frozenset()
