"""Owns the file of what a catalogue of connectors said last.

It must not know how it is fetched, nor what its entries mean.
"""

from __future__ import annotations

import msgspec

from .state_file import StateFile

VERSION = 1


class Said(msgspec.Struct, frozen=True):
    """`document` is the last good text that `catalogue`, a URL, answered with ("" = none yet), `etag` names that state
    of it, and it was seen to be so at `confirmed` (seconds since 1970). `error` is why the last look gave nothing
    better, "" = it did."""

    catalogue: str = ""
    document: str = ""
    etag: str = ""
    confirmed: int = 0
    error: str = ""


def connectors_file(path: str) -> StateFile[Said]:
    """The file at `path`."""
    return StateFile(path, Said, version=VERSION, lost="there are no connectors until the catalogue is read again")
