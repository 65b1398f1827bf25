"""Owns the file of what the login shell's PATH was when it was last asked.

It must not know how a shell is asked, nor what the PATH is used for.
"""

from __future__ import annotations

import msgspec

from .state_file import StateFile

VERSION = 1


class LoginPath(msgspec.Struct, frozen=True):
    """`path` is the last PATH that `shell` gave ("" = none yet), `asked` when it was asked last (seconds since 1970, 0
    = never), `error` why that gave nothing, "" = it did."""

    path: str = ""
    shell: str = ""
    asked: int = 0
    error: str = ""


def login_path_file(path: str) -> StateFile[LoginPath]:
    """The file at `path`."""
    return StateFile(path, LoginPath, version=VERSION, lost="programs are looked for on the daemon's own PATH alone")
