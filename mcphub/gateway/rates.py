"""Owns how often something may be done: a bucket of tokens that fills by time.

It must not know what is counted, nor read a clock: times are seconds of any one clock, and come in as arguments.
"""

from __future__ import annotations


class Bucket:
    """`rate` a second on average, `burst` at once. It is kept as the one moment at which it will be full again (GCRA,
    ITU-T I.371), so an idle one costs nothing and is exact."""

    __slots__ = ("_full", "burst", "rate")

    def __init__(self, rate: float, burst: int = 1) -> None:
        if not rate > 0 or burst < 1:
            raise ValueError("a rate must be above 0, and a burst 1 at least")
        self.rate = rate
        self.burst = burst
        self._full = float("-inf")

    def wait(self, now: float) -> float:
        """Seconds until there is a token, 0 = there is one. Takes none."""
        return max(0.0, self._full - now - (self.burst - 1) / self.rate)

    def take(self, now: float) -> float:
        """Take a token, or the next that will be there; seconds until then."""
        wait = self.wait(now)
        self._full = max(self._full, now) + 1 / self.rate
        return wait
