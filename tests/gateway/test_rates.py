"""Buckets of tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.gateway.rates import Bucket


def test_a_burst_and_then_the_rate() -> None:
    """So many at once, then one a half second, and after a rest the burst again."""
    bucket = Bucket(2, 3)
    assert [bucket.take(100.0) for _ in range(5)] == pytest.approx([0, 0, 0, 0.5, 1.0])
    assert bucket.wait(100.0) == pytest.approx(1.5)
    assert bucket.wait(200.0) == 0
    assert [bucket.take(200.0) for _ in range(4)] == pytest.approx([0, 0, 0, 0.5])


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (1, 0), (float("nan"), 1)])
def test_what_is_no_rate(rate: float, burst: int) -> None:
    """It is refused."""
    with pytest.raises(ValueError, match="rate"):
        Bucket(rate, burst)


@given(rate=st.floats(0.1, 100), burst=st.integers(1, 20), gaps=st.lists(st.floats(0, 2), max_size=50))
def test_never_more_than_allowed(rate: float, burst: int, gaps: list[float]) -> None:
    """In any stretch of time there are no more than the burst and what the rate gives in it."""
    bucket, now, went = Bucket(rate, burst), 0.0, []
    for gap in gaps:
        now += gap
        went.append(now + bucket.take(now))
    for first in range(len(went)):
        for last in range(first, len(went)):
            assert last - first + 1 <= burst + rate * (went[last] - went[first]) + 1e-6
