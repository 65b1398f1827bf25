"""Owns who goes next where there are more calls a second than there may be: what waits for a rate, and in which order.

It must not know what a call is, nor read a clock: times are seconds of any one clock, and come in as arguments. A rate
is given out in turns among the lines that wait for it, in order within one, and paid by what goes, when it goes: what
ends while it waits has taken nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from mcphub.gateway.rates import Bucket

#: A token that is there in less than so many seconds is there.
NOW = 1e-6
#: So many more numbers than items, and twice as many, are kept at most.
SLACK = 64

T = TypeVar("T")


class Rate:
    """A bucket, and what a person must know of it: what it limits, and where that is set. Equal to itself alone."""

    __slots__ = ("bucket", "waiting", "what", "where")

    def __init__(self, bucket: Bucket, what: str, where: str) -> None:
        self.bucket = bucket
        self.what = what
        self.where = where
        #: How many wait for it, and perhaps for another too.
        self.waiting = 0


class Line(Generic[T]):
    """What waits for the same rates of the same one, by the numbers that say who came first."""

    __slots__ = ("items", "numbers", "rates")

    def __init__(self, rates: Sequence[Rate]) -> None:
        self.rates = rates
        self.items: dict[int, T] = {}
        self.numbers: list[int] = []

    def add(self, number: int, item: T) -> None:
        self.items[number] = item
        heappush(self.numbers, number)
        if len(self.numbers) > 2 * len(self.items) + SLACK:
            self.numbers = list(self.items)
            heapify(self.numbers)

    def first(self) -> int:
        while self.numbers[0] not in self.items:
            heappop(self.numbers)
        return self.numbers[0]


class Pace(Generic[T]):
    """What waits for rates. A key stands for one line, and always for the same rates as long as something waits."""

    def __init__(self) -> None:
        #: Who is first in turn in front.
        self._lines: OrderedDict[Hashable, Line[T]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._lines)

    def count(self, key: Hashable) -> int:
        """How many of this line wait."""
        line = self._lines.get(key)
        return len(line.items) if line is not None else 0

    def free(self, rates: Sequence[Rate], now: float) -> bool:
        """Whether one more may go at once: nobody is before it, and there is a token of each."""
        return all(not rate.waiting and rate.bucket.wait(now) < NOW for rate in rates)

    def wait(self, key: Hashable, rates: Sequence[Rate], now: float) -> tuple[float, Rate]:
        """Seconds until one more of this line would go as things stand, and the rate that it would wait for longest."""
        own = self.count(key)
        longest, slowest = -1.0, rates[0]
        for rate in rates:
            ahead = own
            if rate.waiting > own:
                for other, line in self._lines.items():
                    if other != key and rate in line.rates:
                        ahead += min(len(line.items), own + 1)
            wait = rate.bucket.wait(now) + ahead / rate.bucket.rate
            if wait > longest:
                longest, slowest = wait, rate
        return longest, slowest

    def add(self, key: Hashable, rates: Sequence[Rate], number: int, item: T) -> None:
        """It waits until `ready` names it: before those of its line with higher numbers."""
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(rates)
        line.add(number, item)
        for rate in line.rates:
            rate.waiting += 1

    def drop(self, key: Hashable, number: int) -> None:
        """It waits no more. Harmless where it did not."""
        line = self._lines.get(key)
        if line is not None and line.items.pop(number, None) is not None:
            self._shorter(key, line)

    def ready(self, now: float) -> Iterator[T]:
        """What may go now, one after the other; whoever sends it pays its rates before the next is named."""
        found = True
        while found:
            found = False
            for key in list(self._lines):
                line = self._lines.get(key)
                if line is None or not self._has_tokens(line, now):
                    continue
                found = True
                item = line.items.pop(line.first())
                self._lines.move_to_end(key)
                self._shorter(key, line)
                yield item

    def next(self, now: float) -> float | None:
        """Seconds until the next may go, None = nothing waits."""
        return min((max(r.bucket.wait(now) for r in line.rates) for line in self._lines.values()), default=None)

    def _shorter(self, key: Hashable, line: Line[T]) -> None:
        for rate in line.rates:
            rate.waiting -= 1
        if not line.items:
            del self._lines[key]

    @staticmethod
    def _has_tokens(line: Line[T], now: float) -> bool:
        return all(rate.bucket.wait(now) < NOW for rate in line.rates)
