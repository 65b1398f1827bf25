"""Owns which lists of an instance may not be what its server has now, since when, and for how long they are used still.

It must not know the lists, nor read a clock: the time comes in. A list is in doubt from the moment at which it is known
to have changed, or could not be listed again, until it has been; all are while there is no connection.
"""

from __future__ import annotations

from collections.abc import Iterable

#: For so long lists are shown that nobody could confirm, seconds; then they are gone.
MOST = 7 * 86_400.0


class Doubts:
    """Of the lists of one instance, by method."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        #: Those in doubt; the same object while they are the same.
        self.methods: frozenset[str] = frozenset()

    def __contains__(self, method: str) -> bool:
        return method in self._since

    @property
    def since(self) -> float | None:
        """The moment since which any is in doubt, None = none is."""
        return min(self._since.values(), default=None)

    def add(self, methods: Iterable[str], now: float) -> bool:
        """They are from now on, where they were not; whether that is news."""
        new = [method for method in methods if method not in self._since]
        for method in new:
            self._since[method] = now
        if new:
            self.methods = frozenset(self._since)
        return bool(new)

    def remove(self, method: str) -> bool:
        """It was listed, and nothing was heard of it meanwhile; whether that is news."""
        if self._since.pop(method, None) is None:
            return False
        self.methods = frozenset(self._since)
        return True

    def over(self, method: str, now: float) -> bool:
        """Whether it is in doubt for longer than it may be."""
        return method in self._since and now - self._since[method] > MOST
