"""Owns how many bytes the calls that wait may hold: of one agent, and in all.

It must not know what a call is, nor where it waits.
"""

from __future__ import annotations

from collections.abc import Hashable

#: Bytes of arguments that wait in mcphub, of one agent and of all. The first is as much as one message may have.
MAX_OF_ONE = 64 << 20
MAX_OF_ALL = 256 << 20


class Kept:
    """Those of one hub."""

    def __init__(self, of_one: int = MAX_OF_ONE, of_all: int = MAX_OF_ALL) -> None:
        self._of_one = of_one
        self._of_all = of_all
        self._owners: dict[Hashable, int] = {}
        self.total = 0

    def add(self, owner: Hashable, size: int) -> str:
        """Keep so many more; why they cannot be kept, "" = they are."""
        own = self._owners.get(owner, 0) + size
        if own > self._of_one:
            return f"{self._of_one >> 20} MiB of this agent's calls wait already"
        if self.total + size > self._of_all:
            return f"{self._of_all >> 20} MiB of calls wait already"
        self._owners[owner] = own
        self.total += size
        return ""

    def drop(self, owner: Hashable, size: int) -> None:
        """So many are not kept any more."""
        own = self._owners.pop(owner, 0) - size
        if own > 0:
            self._owners[owner] = own
        self.total -= size
