"""Owns the mark that every process of one server's tree carries, wherever it stands: a value of RLIMIT_LOCKS.

It must not know servers.

No kernel since 2.4.25 uses that resource limit. Fork and exec hand it on; setsid, a double fork and a cleared
environment do not change it; /proc/PID/limits shows it to everybody. A process that sets it anew (a hub nested in a
server does) loses its mark; where the daemon itself runs under a small hard limit there are no marks.
"""

from __future__ import annotations

import os
import resource

RLIMIT_LOCKS = 10
_LABEL = b"Max file locks"


def highest_mark() -> int:
    """A random start, below the mark that this process may carry itself, so that nested launchers do not clash; 0 =
    marks do not work here."""
    try:
        limit = resource.getrlimit(RLIMIT_LOCKS)[1]
        limit = (1 << 62) if limit == resource.RLIM_INFINITY else min(limit, 1 << 62)
        mark = limit // 2 + int.from_bytes(os.urandom(8), "little") % (limit // 2)
        return mark if mark > 1 << 40 else 0
    except (OSError, ValueError, ZeroDivisionError):
        return 0


def take_mark(mark: int) -> None:
    """Carry it from now on, with all that this process starts; nothing happens where the system refuses."""
    try:
        resource.setrlimit(RLIMIT_LOCKS, (mark, mark))
    except (OSError, ValueError):
        pass


def read_mark(pid: int) -> int:
    """The mark that a process carries; 0 = none or not to be known."""
    try:
        with open(f"/proc/{pid}/limits", "rb") as file:
            for line in file:
                if line.startswith(_LABEL):
                    word = line[len(_LABEL) :].split()[1]  # the hard limit: it cannot be raised again
                    return int(word) if word.isdigit() else 0
    except (OSError, IndexError):
        pass
    return 0
