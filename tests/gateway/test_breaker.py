"""The three states of a circuit breaker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.gateway.breaker import (
    FAILURES,
    FIRST,
    MOST,
    PROBES,
    SPREAD,
    Breaker,
    State,
    ask,
    failed,
    released,
    succeeded,
)

CLOSED = Breaker()


def opened(now: float = 0.0, before: Breaker = CLOSED) -> Breaker:
    found = before
    for _ in range(FAILURES):
        found = failed(found, found.generation, now, 0.0)
    assert found.state is State.OPEN
    return found


def test_what_is_well_stays_as_it_is() -> None:
    """Nothing that goes well changes anything, not even the value."""
    found = Breaker()
    assert ask(found, 5.0) == (found, True)
    assert succeeded(found, 0, 5.0) is found and released(found, 0) is found


def test_failures_in_a_row() -> None:
    """It opens after so many, and not where one in between was answered."""
    found = Breaker()
    for _ in range(10):
        for _ in range(FAILURES - 1):
            found = failed(found, 0, 1.0, 0.0)
        assert found.state is State.CLOSED and ask(found, 1.0)[1]
        found = succeeded(found, 0, 1.0)
        assert found.failures == 0
    found = opened(7.0, found)
    assert (found.since, found.until, found.generation) == (7.0, 7.0 + FIRST, 1)
    assert ask(found, 7.0 + FIRST - 0.001) == (found, False)


def test_a_probe() -> None:
    """Once its time is over one call goes, and no other until that one has ended; it decides."""
    found, may = ask(opened(), FIRST)
    assert may and found.state is State.HALF_OPEN
    for _ in range(PROBES - 1):
        found, may = ask(found, FIRST)
        assert may
    assert ask(found, FIRST) == (found, False)
    closed = succeeded(found, found.generation, 9.0)
    assert (closed.state, closed.failures, closed.opened, closed.since) == (State.CLOSED, 0, 0, 9.0)
    again = failed(found, found.generation, 9.0, 0.0)
    assert (again.state, again.until) == (State.OPEN, 9.0 + 2 * FIRST)
    back = released(found, found.generation)
    assert back.state is State.HALF_OPEN and ask(back, FIRST)[1]


def test_the_rest_grows() -> None:
    """Each time in a row it is twice as long, up to a limit; once an answer came it is as short as at first."""
    found, rests = opened(), []
    for chance in (0.0, 0.0, 0.0, 1.0, 0.0, 0.0):
        rests.append(found.until - found.since)
        found, _ = ask(found, found.until)
        found = failed(found, found.generation, found.since, chance)
    assert rests == pytest.approx([5, 10, 20, MOST, MOST * (1 + SPREAD), MOST])
    found, _ = ask(found, found.until)
    found = opened(found.until, succeeded(found, found.generation, found.until))
    assert found.until - found.since == FIRST


def test_what_comes_late() -> None:
    """An outcome of an older generation changes nothing: not that it is open, not that one finds out."""
    found = opened()
    for generation in (0, 1):
        assert failed(found, generation, 1.0, 0.0) is found
        assert succeeded(found, generation, 1.0) is found
        assert released(found, generation) is found
    half, _ = ask(found, FIRST)
    for generation in (0, 1):
        assert failed(half, generation, 9.0, 0.0) is half
        assert succeeded(half, generation, 9.0) is half
        assert released(half, generation) is half


EVENTS = st.lists(
    st.tuples(st.sampled_from(["ask", "ask", "ok", "fail", "fail", "release"]), st.integers(0, 50), st.floats(0, 9)),
    max_size=80,
)


@given(EVENTS, st.floats(0, 1))
def test_whatever_happens(events: list[tuple[str, int, float]], chance: float) -> None:
    """In any order of calls and outcomes: no more probes than allowed, none while it is open, nothing is let through
    for ever or kept back for ever, and generations only rise."""
    found, now = Breaker(), 0.0
    under_way: list[int] = []
    for event, which, later in events:
        now += later
        before = found
        if event == "ask":
            found, may = ask(found, now, anew=(anew := which % 5 == 0))
            if may:
                under_way.append(found.generation)
            over = anew or before.state is State.HALF_OPEN or now >= before.until
            assert may == (before.state is State.CLOSED or (over and before.probes < PROBES))
        elif under_way:
            generation = under_way.pop(which % len(under_way))
            if event == "ok":
                found = succeeded(found, generation, now)
            elif event == "fail":
                found = failed(found, generation, now, chance)
            else:
                found = released(found, generation)
            if generation != before.generation:
                assert found is before
        assert found.generation >= before.generation
        assert (found.generation > before.generation) == (found.state is not before.state)
        assert 0 <= found.probes <= PROBES
        if found.state is State.HALF_OPEN:
            assert found.probes == under_way.count(found.generation)
        else:
            assert found.probes == 0
        if found.state is State.CLOSED:
            assert found.failures < FAILURES
        if found.state is State.OPEN:
            assert FIRST <= found.until - found.since <= MOST * (1 + SPREAD)
            assert found.failures >= FAILURES
    for generation in under_way:
        found = released(found, generation)
    _, may = ask(found, now + MOST * 2)
    assert may
