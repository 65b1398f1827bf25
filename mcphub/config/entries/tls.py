"""Owns what an entry says of certificates: the one that is shown to its server, and those that vouch for the server.

It must not read them.
"""

from __future__ import annotations

import posixpath

from mcphub.spec import TlsFiles

from .fields import Fault, mapping, no_string, refuse_nul
from .reading import Expansion, Reading

KEY = "tls"
PARTS = ("cert", "key", "ca")


def read_tls(reading: Reading, expansion: Expansion) -> TlsFiles | None:
    """The files at `tls`, None where there are none; relative paths start at the file with the entry. Raises
    `Fault`."""
    if KEY not in reading.raw:
        return None
    given = mapping(reading.raw, KEY)
    found: dict[str, str] = {}
    shown: dict[str, str] = {}
    for part, value in given.items():
        if part not in PARTS:
            raise Fault(f"unknown key; there are {', '.join(PARTS)}", KEY, part)
        if not isinstance(value, str):
            raise no_string(value, KEY, part)
        refuse_nul(value, KEY, part)
        if reading.foreign and part != "ca":
            text = f"{reading.whose} may not use your certificates; if you want it, set the server up in your own "
            raise Fault(f"{text}mcp.json", KEY, part)
        found[part] = _path(reading, expansion.expand(value, KEY, part), part)
        if "$" in value:
            shown[part] = value
    if found.get("key") and not found.get("cert"):
        raise Fault("a key is used with its certificate only; give cert too", KEY, "key")
    return TlsFiles(**found, shown=tuple(shown.items())) if any(found.values()) else None


def _path(reading: Reading, text: str, part: str) -> str:
    if not text or (not reading.enabled and "$" in text):
        return text
    if text.startswith("~"):
        raise Fault("~ is not replaced; write ${HOME}", KEY, part)
    path = posixpath.normpath(posixpath.join(reading.directory, text))
    if not posixpath.isabs(path):
        raise Fault("expected an absolute path, for example ${HOME}/client.pem", KEY, part)
    return path


