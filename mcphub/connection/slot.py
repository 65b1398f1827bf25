"""Owns one opening's place in the start-up limiter: taken once, given back once, whatever happens.

It must not know what is opened, nor how many may be at once.
"""

from __future__ import annotations

import anyio


class Slot:
    """One place; may be given back as often as anybody likes."""

    def __init__(self, limiter: anyio.CapacityLimiter) -> None:
        self._limiter = limiter
        self._held = False

    async def take(self) -> None:
        await self._limiter.acquire_on_behalf_of(self)
        self._held = True

    def give_back(self) -> None:
        if self._held:
            self._held = False
            self._limiter.release_on_behalf_of(self)
