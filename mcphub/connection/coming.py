"""Owns which lists of an instance are on their way since its server said that they have changed, each under a number.

It must not know the lists, nor read a clock: the time comes in. Whoever waits for a list waits for one that is read
after what was said by then, and not for what is said later: a server that goes on and on keeps nobody waiting.
"""

from __future__ import annotations

from collections.abc import Iterable


class Coming:
    """Of the lists of one instance, by method."""

    def __init__(self) -> None:
        #: Those for which somebody waits that are not being read yet.
        self.awaited: set[str] = set()
        self._said = 0
        #: What was said of each last, as long as it was not listed after that.
        self._told: dict[str, int] = {}
        #: What had been said of those that are being read now, and since when they are.
        self._reading: dict[str, int] = {}
        self._since = 0.0
        #: What each one that was read, or could not be, counts for.
        self._done: dict[str, int] = {}

    def told(self, methods: Iterable[str]) -> None:
        """Their server said that they have changed."""
        self._said += 1
        for method in methods:
            self._told[method] = self._said

    def begin(self, methods: Iterable[str], now: float) -> None:
        """They are being read from now on."""
        self._reading = {method: self._told.get(method, 0) for method in methods}
        self._since = now
        self.awaited.difference_update(self._reading)

    def end(self) -> bool:
        """They were read, or could not be; whether anybody may have waited for them."""
        found = {method: number for method, number in self._reading.items() if number}
        self._reading = {}
        self._done.update(found)
        for method, number in found.items():
            if self._told.get(method) == number:
                del self._told[method]
        return bool(found)

    def reset(self) -> None:
        """There is a new connection, on which all will be listed."""
        self._told.clear()
        self._reading = {}
        self.awaited.clear()

    def number(self, method: str, now: float, patience: float) -> int:
        """What is to be waited for until this list is what its server has now; 0 = nothing. A server that has been
        asked for lists so many seconds ago and does not answer is not waited for."""
        if method not in self._told or (self._reading and now - self._since >= patience):
            return 0
        return self._told[method]

    def awaits(self, method: str, number: int) -> bool:
        """Whether what was said under this number is still to be listed."""
        return method in self._told and self._done.get(method, 0) < number
