"""Owns which repository a linked worktree of git belongs to.

It must not run git, nor believe a `.git` file alone: anybody can put one into an archive, and what a person set up for
a repository is not for whoever claims to be a part of it. git itself writes the way back, and that is looked at too.
"""

from __future__ import annotations

import os

from mcphub.errors import ConfigError

from .readfile import Reader

_POINTER = b"gitdir:"


def main_directory(root: str, reader: Reader) -> str:
    """The real path of the repository whose linked worktree `root` (a real path) is: its main worktree, or the bare
    repository; "" where `root` is no linked worktree.

    `ROOT/.git` is then a file `gitdir: COMMON/worktrees/NAME`, and `COMMON/worktrees/NAME/gitdir` holds the path of
    that very file (gitrepository-layout(5)).
    """
    pointer = os.path.join(root, ".git")
    if not os.path.isfile(pointer):
        return ""
    text = _read(pointer, reader)
    if not text.startswith(_POINTER):
        return ""
    private = os.path.realpath(os.path.join(root, _path(text[len(_POINTER) :])))
    worktrees, common = os.path.dirname(private), os.path.dirname(os.path.dirname(private))
    if os.path.basename(worktrees) != "worktrees":
        return ""
    back = _path(_read(os.path.join(private, "gitdir"), reader))
    if not back or os.path.realpath(os.path.join(private, back)) != pointer:
        return ""
    return os.path.dirname(common) if os.path.basename(common) == ".git" else common


def _read(path: str, reader: Reader) -> bytes:
    if len(path) > 4096 or "\0" in path:
        return b""
    try:
        return reader.read(path) or b""
    except ConfigError:
        return b""


def _path(text: bytes) -> str:
    line = text.strip(b" \t\r\n")
    return os.fsdecode(line) if b"\0" not in line and b"\n" not in line else ""
