"""Owns what a program writes to its stdout that is no message: its last lines, and what its log gets of them.

It must not know messages, nor judge the text. Its log is the ring of its stderr, which keeps the order of both; a flood
costs that a few lines a minute.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from mcphub.transport.stderr import LINE, StderrRing, rewritten, shown

#: Lines kept for whoever asks why it failed.
KEPT = 5
#: So many lines go to the log in each period of so many seconds, and the last KEPT of a connection in any case.
MOST = 20
PERIOD = 60.0


class Strays:
    """Of one program, over its restarts. `now` in monotonic seconds."""

    def __init__(self, log: StderrRing, now: Callable[[], float]) -> None:
        self._log = log
        self._now = now
        self._last: deque[bytes] = deque(maxlen=KEPT)
        #: Lines that the log still takes in this period, which ends then; those that it did not take since the last.
        self._room = 0
        self._until = float("-inf")
        self._left_out = 0

    def begin(self) -> None:
        """The program is started anew: what it said before does not count."""
        self._last.clear()

    def take(self, line: bytes | memoryview) -> None:
        """One line, whole or not, without its newline. Costs a copy of at most LINE bytes."""
        kept = bytes(line[:LINE])
        self._last.append(kept)
        if self._room:
            self._room -= 1
        elif (now := self._now()) >= self._until:
            self._until = now + PERIOD
            self._room = MOST - 1
            self._tell(self._left_out)
        else:
            self._left_out += 1
            return
        self._log.put(kept)

    def calmed(self) -> None:
        """It speaks the protocol again: these lines are no reason for what happens later."""
        self._last.clear()

    def end(self, unfinished: bytes) -> None:
        """Its stdout has ended, with this behind the last newline."""
        # What begins as a message does is one that was cut: what it holds is for an agent.
        if unfinished.strip() and not unfinished.lstrip().startswith(b"{"):
            self.take(unfinished)
        self._catch_up()

    def tail(self, count: int) -> list[str]:
        """The last lines, oldest first, at most KEPT, fit to be shown."""
        lines = [shown(rewritten(line)) for line in self._last]
        return lines[max(0, len(lines) - count) :]

    def _catch_up(self) -> None:
        """The log has the last lines too."""
        missing = min(self._left_out, len(self._last))
        self._tell(self._left_out - missing)
        for line in list(self._last)[len(self._last) - missing :]:
            self._log.put(line)

    def _tell(self, lines: int) -> None:
        if lines:
            self._log.put(b"(%d lines are left out here)" % lines)
        self._left_out = 0
