"""Owns what an editor's extension says of itself in the entry that leads to its server.

It must not know how the server is reached: by the transport that the rest of the type names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcphub.spec import Ide, Secret

from .fields import Fault, boolean, refuse_nul, string
from .reading import Expansion, Reading

#: Types of entry that an editor's extension writes, and the transport of each.
IDE_TYPES = {"sse-ide": "sse", "ws-ide": "ws"}
#: Keys that such an entry has beside those of a remote server.
KEYS = frozenset(["ideName", "ideRunningInWindows", "authToken"])
#: The header that carries `authToken`, as the editors' extensions expect it.
AUTH_HEADER = "X-Claude-Code-Ide-Authorization"


def read_ide(reading: Reading) -> Ide | None:
    """Who the editor is, None where the entry is none of an editor. Raises `Fault`."""
    kind = reading.raw.get("type")
    if kind not in IDE_TYPES:
        return None
    if reading.foreign:
        raise Fault(f"type {kind!r} works only where the editor itself says so, and not in {reading.whose}", "type")
    return Ide(string(reading.raw, "ideName"), boolean(reading.raw, "ideRunningInWindows"))


def ide_headers(raw: Mapping[str, Any], expansion: Expansion) -> Mapping[str, Secret]:
    """What is sent to an editor's server beside the headers of the entry. Raises `Fault`."""
    if raw.get("type") not in IDE_TYPES or not (token := string(raw, "authToken")):
        return {}
    refuse_nul(token, "authToken")
    return {AUTH_HEADER: Secret(expansion.expand(token, "authToken"))}
