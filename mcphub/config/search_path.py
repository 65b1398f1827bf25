"""Owns where programs are looked for: the daemon's own PATH, the login shell's, and what the two are together.

It must not run a shell, read a file or ask the file system.
"""

from __future__ import annotations

#: Characters of a PATH above which it is cut: no program could be started with a longer one.
MAX_PATH = 32_768


def merged(own: str, login: str) -> str:
    """The PATH that servers get, of the daemon's own and the login shell's ("" = it is not known).

    A service manager gives a few directories of the system, all of which the login shell has as well: then the order
    is the one of a terminal, in which a newer interpreter stands before the system's. Whoever started the daemon with
    directories that the login shell does not have meant something by it: they come first, all else behind.
    """
    mine, theirs = _directories(own), _directories(login)
    if not theirs:
        return own
    first, then = (theirs, mine) if set(mine) <= set(theirs) else (mine, theirs)
    return ":".join(dict.fromkeys([*first, *then]))


def usable(path: str) -> str:
    """What can be kept of a PATH that a shell printed: absolute directories, each once; "" = nothing of it."""
    found: list[str] = []
    room = MAX_PATH
    for directory in dict.fromkeys(_directories(path)):
        room -= len(directory) + 1
        if room < 0:
            break
        if directory.isprintable():
            found.append(directory)
    return ":".join(found)


def between(output: bytes, mark: bytes) -> bytes | None:
    """What a program printed between two marks, whatever else was printed around it; None while that is not whole."""
    parts = output.split(mark, 2)
    return parts[1] if len(parts) == 3 else None


def _directories(path: str) -> list[str]:
    return [directory for directory in path.split(":") if directory.startswith("/")]
