"""Owns the record of a daemon's launchers, by which the next daemon finds what was left when both were killed at once.

It must not know servers, nor when a daemon may take over; where there are no marks it does nothing.

A daemon or a launcher that is killed alone is survived by the other, which ends all. Killed together they leave what is
in a session of its own and listens to nothing. The record is a line for each launcher, `BOOT MARK`, in the runtime
directory: a mark counts for the boot that it was made in.
"""

from __future__ import annotations

import os
import signal

from mcphub.transport.launcher.marks import read_mark
from mcphub.transport.launcher.proc import look, send_signal

#: One launcher starts no more programs than that.
MOST_PROGRAMS = 1 << 20
#: So often is looked again for what was forked meanwhile.
LOOKS = 5


class Leftovers:
    """The record at `path`, which is this daemon's from `take_over` to `close`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._boot = _boot()
        self._marks: list[int] = []
        self._ours = False

    def started(self, mark: int) -> None:
        """A launcher of this daemon has this highest mark, 0 = none."""
        if mark:
            self._marks.append(mark)
            if self._ours:
                self._write()

    def take_over(self) -> int:
        """Kill what carries a mark of the record; who wrote it is gone, since the sockets are this daemon's. Nothing
        is done where this process carries one: so does whoever started it. Returns how many were killed."""
        marks = self._read()
        self._ours = True
        self._write()
        if not marks or _is_of(marks, read_mark(os.getpid())):
            return 0
        killed: set[int] = set()
        for _ in range(LOOKS):
            found = [one for some in look().values() for one in some if one.state != b"Z"]
            found = [one for one in found if _is_of(marks, read_mark(one.pid))]
            if not found:
                break
            killed.update(one.pid for one in found if send_signal(one, signal.SIGKILL))
        return len(killed)

    def close(self) -> None:
        """All that its launchers started has ended. The record of a daemon that took over meanwhile stays."""
        if self._ours and self._text() == self._expected():
            try:
                os.unlink(self._path)
            except OSError:
                pass

    def _expected(self) -> str:
        return "".join(f"{self._boot} {mark}\n" for mark in self._marks)

    def _text(self) -> str:
        try:
            with open(self._path, encoding="ascii", errors="replace") as file:
                return file.read(1 << 20)
        except OSError:
            return ""

    def _read(self) -> list[int]:
        words = [line.split() for line in self._text().splitlines()]
        found = [line[1] for line in words if len(line) == 2 and line[0] == self._boot]
        return [int(mark) for mark in found if mark.isdigit() and len(mark) < 20]

    def _write(self) -> None:
        try:
            draft = self._path + ".new"
            with open(draft, "w", encoding="ascii") as file:
                file.write(self._expected())
            os.replace(draft, self._path)
        except OSError:
            pass  # without it the next daemon finds nothing, as if there were no marks


def _is_of(marks: list[int], mark: int) -> bool:
    return mark > 0 and any(0 < highest - mark <= MOST_PROGRAMS for highest in marks)


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "-"
