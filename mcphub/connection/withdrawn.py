"""Owns what a server may still be doing for requests that were withdrawn, until it has shown that it read of that.

It must not know what was asked, nor by whom. A server reads a byte stream in order: one that has answered what was sent
behind a withdrawal has read it. Where nothing else is sent there, a ping is.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping

import msgspec

from mcphub.protocol.correlate import Waiter
from mcphub.protocol.jsonrpc import Envelope, Raw

#: Requests that are remembered after they were withdrawn; more than a server that reads has unread.
MOST = 1000


class One(msgspec.Struct):
    """A request that was withdrawn `at` (monotonic seconds), when `last` was the last id in use."""

    waiter: Waiter
    mid: int
    at: float
    last: int
    #: How many that were sent behind it ended without an answer.
    without: int = 0


class Withdrawn:
    """Of one connection."""

    def __init__(self) -> None:
        self._kept: deque[One] = deque(maxlen=MOST)

    def add(self, waiter: Waiter, mid: int, at: float, last: int) -> None:
        self.lapsed(mid)
        self._kept.append(One(waiter, mid, at, last))

    def lapsed(self, mid: float = math.inf) -> None:
        """A request ended and may not have been answered; without its id, any may be it."""
        for one in self._kept:
            if one.last < mid:
                one.without += 1

    def late(self, mid: int) -> None:
        """Its answer came all the same: its server is done with it."""
        for one in self._kept:
            if one.mid == mid:
                self._kept.remove(one)
                return

    def read_until(self, at: float) -> None:
        """All that was withdrawn until then has been read."""
        while self._kept and self._kept[0].at <= at:
            self._kept.popleft()

    def since(self, at: float) -> list[One]:
        """Those that were withdrawn later, the oldest first; the others are forgotten."""
        self.read_until(at)
        return list(self._kept)

    def unread(self, waiting: Mapping[int, object], last: int) -> list[One]:
        """Those of which its server has not shown that it has read it, the oldest first. `waiting` has the ids that are
        not answered, `last` is the last id in use."""
        if self._kept:
            ids = sorted(waiting)
            # What shows it for one does so for those before it.
            while self._kept and self._is_read(self._kept[0], ids, last):
                self._kept.popleft()
        return list(self._kept)

    def _is_read(self, one: One, ids: list[int], last: int) -> bool:
        """Whether anything that was sent behind it has been answered."""
        return last - one.last > len(ids) - bisect_right(ids, one.last) + one.without

    def __bool__(self) -> bool:
        return bool(self._kept)

    def clear(self) -> None:
        self._kept.clear()


class Behind:
    """Waits for the answer to a ping that was sent behind what was withdrawn `at`; any answer will do. Implements
    correlate.Waiter."""

    __slots__ = ("at", "deadline", "hard", "idle", "then")

    def __init__(self, at: float, over: Callable[[], None]) -> None:
        self.deadline = self.hard = float("inf")
        self.idle = 0.0
        self.at = at
        #: Who wants to know.
        self.then = [over]

    def answered(self, env: Envelope) -> None:
        self._over()

    def unanswered(self, kind: str, message: str) -> None:
        self._over()

    def progressed(self, params: Raw) -> None:
        pass

    def _over(self) -> None:
        then, self.then = self.then, []
        for told in then:
            told()
