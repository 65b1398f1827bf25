"""Owns for how long the lists of a server that is not connected are used still: one timer while it is away.

It must not know lists or states: its worker says when the connection is gone, and is told when the time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mcphub.connection.doubts import MOST


class ShelfLife:
    """Of the lists of one instance. `ended` is called once they are too old; `seen` is the moment at which they were
    known to be those of the server, seconds of the loop's clock, None = there is a connection, or there are none."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ended: Callable[[], None]) -> None:
        self.seen: float | None = None
        #: It is over.
        self.over = False
        self._loop = loop
        self._ended = ended
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, seen: float) -> None:
        """There is no connection, and the lists are those of this moment; it goes on where it has begun."""
        if self._timer is None and not self.over:
            self.seen = seen
            self._timer = self._loop.call_at(seen + MOST, self._end)

    def cancel(self) -> None:
        """There is a connection, or nothing left to be shown."""
        self.seen, self.over = None, False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def left(self, now: float) -> float:
        """Seconds that are left, of what has begun."""
        return max(0.0, self.seen + MOST - now) if self.seen is not None else 0.0

    def _end(self) -> None:
        self._timer, self.over = None, True
        self._ended()
