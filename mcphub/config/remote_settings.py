"""Owns what `remoteSettings` of a managed document says: where more of it is fetched from, and how strictly.

It must not fetch anything, nor know what will come.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import msgspec

from mcphub.spec import Origin

from .jsonc import kind_of
from .masking import masked_url
from .urls import url_fault

KEY = "remoteSettings"

_KEYS = frozenset(["url", "failClosed", "caFile"])


class RemoteSettings(msgspec.Struct, frozen=True):
    """The document is at `url`, behind a certificate that `ca_file` vouches for ("" = the system's store).
    `fail_closed`: without it only the organisation's servers run."""

    url: str
    origin: Origin
    fail_closed: bool = False
    ca_file: str = ""

    @property
    def shown(self) -> str:
        """The URL as it may be printed."""
        return masked_url(self.url)


def parse_remote(value: Any, origin: Origin) -> RemoteSettings:
    """The value of the key at `origin`. Raises ValueError with the end of a sentence: what is wrong there must close,
    since rules were meant to come from it."""
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, found {kind_of(value)}")
    for key in value:
        if key not in _KEYS:
            raise ValueError(f"unknown key {ascii(key)[:60]}; known here: {', '.join(sorted(_KEYS))}")
    url = value.get("url")
    if not isinstance(url, str):
        raise ValueError(f"url: expected a string, found {kind_of(url)}" if "url" in value else "url is missing")
    if fault := url_fault(url) or ("" if urlsplit(url).scheme == "https" else "expected https://"):
        raise ValueError(f"url: {fault}")
    fail_closed = value.get("failClosed", False)
    if not isinstance(fail_closed, bool):
        raise ValueError(f"failClosed: expected true or false, found {kind_of(fail_closed)}")
    ca_file = value.get("caFile", "")
    if not isinstance(ca_file, str) or not (ca_file == "" or ca_file.startswith("/")) or "\0" in ca_file:
        raise ValueError("caFile: expected an absolute path")
    return RemoteSettings(url, origin, fail_closed, ca_file)
