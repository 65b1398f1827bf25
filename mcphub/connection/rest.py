"""Owns when a connection that nobody uses is closed, and what is known of its server while there is none.

It must not close anything, nor read a clock: the time comes in. What agents asked is counted by the connection, so that
a call costs nothing here; the count is looked at four times in the time that it takes.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mcphub.connection.handshake import Facts
from mcphub.connection.source import Source

#: Seconds between two looks at least.
LEAST = 0.25
#: Seconds for which a server that was started for its lists alone may still be wanted.
LEARNED = 1.0


class Known(msgspec.Struct, frozen=True):
    """What a server said when it was last connected: enough to list its tools without starting it. It was connected
    last at `at`, wall clock seconds, 0 = not known; `source` is whose word it is."""

    facts: Facts
    tools: tuple[bytes, ...]
    shelf: Mapping[str, tuple[bytes, ...]]
    source: Source = Source()
    at: float = 0.0


class Rest:
    """Of one connection, opened at `now`; `idle` seconds without use end it, 0 = never. `at` is when to look."""

    def __init__(self, idle: float, now: float, asked: int) -> None:
        self.at = float("inf")
        #: Somebody has used it.
        self.used = False
        self._idle = idle
        self._since = now
        self._asked = asked
        self._next(now)

    def due(self, now: float, *, busy: bool, asked: int) -> bool:
        """Whether it is to be closed. `busy`: it is in use now; `asked`: requests of agents so far."""
        if not self._idle or now < self.at:
            return False
        if busy or asked != self._asked:
            self.used = True
            self._since, self._asked = now, asked
        elif now >= self._since + self._idle:
            return True
        self._next(now)
        return False

    def _next(self, now: float) -> None:
        if self._idle:
            self.at = min(max(self._since + self._idle, now), now + max(self._idle / 4, LEAST))
