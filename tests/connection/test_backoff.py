"""The delays between attempts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.connection.backoff import Backoff


def test_the_numbers() -> None:
    """C085: 1, 2, 4, 8, 16 seconds, then 30 for ever; half the jitter is none."""
    backoff = Backoff()
    assert [backoff.delay(n, 0.5) for n in range(1, 9)] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert backoff.attempts == 5


@pytest.mark.parametrize(("jitter", "delay"), [(0.0, 3.2), (0.5, 4.0), (1.0, 4.8)])
def test_jitter(jitter: float, delay: float) -> None:
    """C085: each delay is up to a fifth longer or shorter, as the caller's chance says."""
    assert Backoff().delay(3, jitter) == pytest.approx(delay)


@given(st.integers(1, 10**9), st.floats(0, 1), st.floats(0.001, 100), st.floats(0.001, 1000), st.floats(0, 1))
def test_bounds(attempt: int, jitter: float, first: float, most: float, spread: float) -> None:
    """No attempt, however late, waits longer than the most and its spread, or less than nothing."""
    backoff = Backoff(first=first, most=most, spread=spread)
    assert 0 <= backoff.delay(attempt, jitter) <= most * (1 + spread) * 1.000001
    assert backoff.delay(attempt, 0.5) <= backoff.delay(attempt + 1, 0.5)
