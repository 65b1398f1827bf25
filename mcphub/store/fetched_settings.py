"""Owns the file that keeps managed settings as they were fetched last.

It must not know what they say, nor how they are fetched. It lies in the person's state directory, so a person can
change it: what must hold against them belongs into a file of root's.
"""

from __future__ import annotations

import msgspec

from .state_file import StateFile

VERSION = 1


class Copy(msgspec.Struct, frozen=True):
    """`document` is the last good text that `url` answered with ("" = none yet), `etag` names that state of it, and it
    was seen to be so at `confirmed` (seconds since 1970). `fault` is what is wrong with the only answer that there was.
    `error` is why the last attempt, at `tried`, gave nothing better, "" = it did."""

    url: str = ""
    document: str = ""
    etag: str = ""
    confirmed: int = 0
    tried: int = 0
    fault: str = ""
    error: str = ""


def fetched_settings_file(path: str) -> StateFile[Copy]:
    """The file at `path`."""
    return StateFile(path, Copy, version=VERSION, lost="fetched settings are in force once they were fetched again")
