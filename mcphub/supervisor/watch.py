"""Owns one value that is replaced as a whole: the latest, its revision, and waiting for a newer one.

It must not know what the value is. Readers never see a half-made value, and never miss that there is a newer one.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


class Watch(Generic[T]):
    """The latest value. Revisions start at 1 and only rise."""

    def __init__(self, value: T) -> None:
        self.value = value
        self.revision = 1
        self._newer = anyio.Event()

    def publish(self, value: T) -> None:
        self.value = value
        self.touch()

    def touch(self) -> None:
        """The value has changed inside, or must be looked at again."""
        self.revision += 1
        newer, self._newer = self._newer, anyio.Event()
        newer.set()

    async def newer_than(self, revision: int) -> int:
        """Wait until the revision is above this one; returns it."""
        while self.revision <= revision:
            await self._newer.wait()
        return self.revision
