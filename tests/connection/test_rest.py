"""When a connection that nobody uses is closed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcphub.connection.rest import LEAST, Rest

NEVER = float("inf")


def test_without_a_limit() -> None:
    """It is never looked at, and never closed."""
    rest = Rest(0.0, 100.0, 7)
    assert rest.at == NEVER
    assert not rest.due(1e9, busy=False, asked=7)
    assert not rest.used


def test_what_nobody_uses() -> None:
    """It is due once the time has passed, and not before."""
    rest = Rest(8.0, 100.0, 7)
    assert rest.at == 102.0
    assert not rest.due(101.0, busy=False, asked=7)
    for at in (102.0, 104.0, 106.0):
        assert not rest.due(at, busy=False, asked=7)
    assert rest.at == 108.0
    assert rest.due(108.0, busy=False, asked=7)
    assert not rest.used


def test_what_counts_as_use() -> None:
    """A request since the last look, and one that is still being answered, begin the time anew."""
    rest = Rest(8.0, 100.0, 7)
    assert not rest.due(102.0, busy=False, asked=8)
    assert rest.used
    assert not rest.due(109.0, busy=True, asked=8)
    assert not rest.due(116.9, busy=False, asked=8)
    assert rest.due(117.0, busy=False, asked=8)


@given(st.floats(1.0, 1000.0), st.lists(st.floats(0.0, 50.0), max_size=30))
def test_it_takes_between_one_and_one_and_a_quarter_times_as_long(idle: float, uses: list[float]) -> None:
    """Whenever it was used last, it is not closed earlier, and not much later."""
    now, asked, used_at = 0.0, 0, 0.0
    rest = Rest(idle, now, asked)
    moments = []
    for pause in uses:
        used_at += pause
        moments.append(used_at)
    for _ in range(20_000):
        now = rest.at
        asked = sum(moment <= now for moment in moments)
        if rest.due(now, busy=False, asked=asked):
            break
        assert rest.at > now
    last = max((moment for moment in moments if moment <= now), default=0.0)
    assert idle - 1e-6 <= now - last <= idle * 1.25 + LEAST + 1e-6
