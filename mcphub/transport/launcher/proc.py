"""Owns looks at /proc: which processes there are, which one is below which, and signalling the very one that was seen.

It must not know servers, nor which processes may be signalled.
"""

from __future__ import annotations

import errno
import os
import signal


class Process:
    """One process at a look at /proc; (`pid`, `start`) is its identity, `start` in clock ticks since boot."""

    __slots__ = ("group", "parent", "pid", "session", "start", "state")

    def __init__(self, pid: int, stat: bytes) -> None:
        fields = stat[stat.rindex(b")") + 2 :].split()  # the name before it may hold blanks and parentheses
        self.pid = pid
        self.state = fields[0]
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.start = int(fields[19])


def look_at(pid: int) -> Process | None:
    """The process of that number now, None = there is none."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            return Process(pid, os.read(fd, 4096))
        finally:
            os.close(fd)
    except (OSError, ValueError, IndexError):
        return None


def look() -> dict[int, list[Process]]:
    """All processes by the number of their parent."""
    children: dict[int, list[Process]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            process = look_at(int(name))
            if process is not None:
                children.setdefault(process.parent, []).append(process)
    return children


def tree(children: dict[int, list[Process]], top: Process) -> list[Process]:
    """`top` and all below it. A child is never older than its parent: such a pair is a number that was used again."""
    found = [top]
    for process in found:
        found.extend(child for child in children.get(process.pid, ()) if child.start >= process.start)
    return found


def send_signal(process: Process, signo: int) -> bool:
    """Signal that very process, not another that got its number since. False = gone, or not ours to signal."""
    try:
        fd = os.pidfd_open(process.pid)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            return False
        fd = -1
    try:
        now = look_at(process.pid)
        if now is None or now.start != process.start:
            return False
        if fd >= 0:
            signal.pidfd_send_signal(fd, signo)
        else:
            os.kill(process.pid, signo)
        return True
    except OSError:
        return False
    finally:
        if fd >= 0:
            os.close(fd)
