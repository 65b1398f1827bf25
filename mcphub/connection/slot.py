"""Owns one opening's place in the start-up limiter: taken once, given back once, and how many wait before it.

It must not know what is opened, nor how many may be at once.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import anyio

#: Those that wait, in order, by limiter.
_QUEUES: WeakKeyDictionary[anyio.CapacityLimiter, list[Slot]] = WeakKeyDictionary()


class Slot:
    """One place; may be given back as often as anybody likes."""

    def __init__(self, limiter: anyio.CapacityLimiter) -> None:
        self._limiter = limiter
        self._held = False

    async def take(self) -> None:
        queue = _QUEUES.setdefault(self._limiter, [])
        queue.append(self)
        try:
            await self._limiter.acquire_on_behalf_of(self)
        finally:
            queue.remove(self)
        self._held = True

    def give_back(self) -> None:
        if self._held:
            self._held = False
            self._limiter.release_on_behalf_of(self)

    @property
    def waits(self) -> str:
        """That it waits for its turn, and how many are before it; "" = it does not."""
        queue = _QUEUES.get(self._limiter, [])
        if self not in queue:
            return ""
        starting, before = self._limiter.borrowed_tokens, queue.index(self)
        return f"waits for its turn: {starting} start now, and {before} wait before it"
