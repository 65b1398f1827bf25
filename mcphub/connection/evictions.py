"""Owns whether a server keeps one session at a time, as told by when its sessions were opened and lost.

It must not know connections, nor read a clock: times come in, as monotonic seconds. A server that was restarted loses
all its sessions at once, so what that explains counts once; an eviction follows upon an opening, and comes again.
"""

from __future__ import annotations

#: How soon after another one was opened a session is lost that was lost for it, seconds.
SHORTLY = 60.0
#: How often it happens until it is believed, and within what time, seconds.
ENOUGH = 2
TOGETHER = 600.0


class Evictions:
    """What was seen of one server's sessions."""

    def __init__(self) -> None:
        self._opened = self._lost = float("-inf")
        self._seen = 0
        self._sure = False

    def opened(self, now: float) -> None:
        """A session is being opened, or is open now."""
        self._opened = now

    def lost(self, opened: float, proven: bool, now: float) -> bool:
        """The server does not know a session any more that was opened then; returns whether it keeps one at a time.
        `proven`: it has answered there since the last other session was opened."""
        if opened < self._lost:
            return False  # it was there when the one before was lost: what ended that one may have ended this one
        together = now - self._lost <= TOGETHER
        self._lost = now
        if proven or now - self._opened > SHORTLY:
            self._seen = 0
            return False
        self._seen = self._seen + 1 if together else 1
        self._sure = self._sure or self._seen >= ENOUGH
        return self._sure
