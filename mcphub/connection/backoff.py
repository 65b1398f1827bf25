"""Owns the delays between attempts: 1 s doubling to 30 s, each up to a fifth longer or shorter.

It must not know why an attempt failed, nor read a clock or a random source: the jitter comes in.
"""

from __future__ import annotations

import msgspec


class Backoff(msgspec.Struct, frozen=True):
    """`attempts` retries after the first try. Times are seconds; `stable_after` is how long a connection must have
    lasted for its loss to count as the first."""

    attempts: int = 5
    first: float = 1.0
    most: float = 30.0
    spread: float = 0.2
    stable_after: float = 30.0

    def delay(self, attempt: int, jitter: float) -> float:
        """Seconds before retry `attempt` (1 = first retry); `jitter` in 0..1."""
        base = min(self.most, self.first * 2.0 ** min(attempt - 1, 30))
        return base * (1.0 - self.spread + 2.0 * self.spread * jitter)
