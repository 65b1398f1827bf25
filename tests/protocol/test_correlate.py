"""Requests in flight: ids, whose a reply is, deadlines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.protocol.correlate import Pending
from mcphub.protocol.jsonrpc import Envelope, Raw


class Waiting:
    """A waiter with nothing behind it."""

    def __init__(self, deadline: float = 10.0, hard: float = 60.0, idle: float = 10.0) -> None:
        self.deadline = deadline
        self.hard = hard
        self.idle = idle

    def answered(self, env: Envelope) -> None: ...

    def unanswered(self, kind: str, message: str) -> None: ...

    def progressed(self, params: Raw) -> None: ...


def test_ten_thousand_ids_never_repeat() -> None:
    """No id repeats on one connection, whether its request was answered or not."""
    pending = Pending()
    ids = [pending.add(Waiting()) for _ in range(5000)]
    for mid in ids[::2]:
        pending.take(mid)
    ids += [pending.add(Waiting()) for _ in range(5000)]
    assert len(set(ids)) == 10_000
    assert min(ids) == 1


@pytest.mark.parametrize("mid", [7, "7"])
def test_an_id_of_ours_in_either_type(mid: object) -> None:
    """C058: 7 and "7" are the request 7; the second answer finds nobody."""
    pending = Pending()
    waiters = [Waiting() for _ in range(10)]
    for waiter in waiters:
        pending.add(waiter)
    assert pending.take(mid) is waiters[6]
    assert pending.take(mid) is None
    assert len(pending.waiting) == 9


@pytest.mark.parametrize(
    "mid",
    ["07", "", " 7", "7 ", "+7", "-7", "7.0", "\u0667", "\u00b2", "x", "9" * 5000, "0", 0, -7, 10**30]
    + [None, 7.0, True, [7], {}, "11", 11],
)
def test_an_id_that_is_none_of_ours(mid: object) -> None:
    """C058: anything but the canonical decimal of a pending id finds nobody, and raises nothing."""
    pending = Pending()
    for _ in range(10):
        pending.add(Waiting())
    assert pending.take(mid) is None
    assert len(pending.waiting) == 10


@pytest.mark.parametrize(
    ("now", "waiter", "deadline"),
    [
        (5.0, Waiting(), 15.0),
        (55.0, Waiting(), 60.0),
        (99.0, Waiting(), 60.0),
        (5.0, Waiting(deadline=30.0), 30.0),
        (5.0, Waiting(idle=0.0), 10.0),
        (5.0, Waiting(deadline=float("inf"), hard=float("inf"), idle=0.0), float("inf")),
    ],
)
def test_progress_moves_the_deadline(now: float, waiter: Waiting, deadline: float) -> None:
    """C156: progress gives another idle limit from now, never past the hard end, and never takes time away."""
    pending = Pending()
    token = pending.add(waiter)
    assert pending.progress(token, now) is waiter
    assert pending.progress(str(token), now) is waiter
    assert waiter.deadline == deadline


@pytest.mark.parametrize("token", [2, "2", "01", None, 1.0, True, [], "x" * 5000])
def test_progress_of_an_unknown_token(token: object) -> None:
    """C156: a token that was not given out moves nothing."""
    pending = Pending()
    waiter = Waiting()
    pending.add(waiter)
    assert pending.progress(token, 5.0) is None
    assert waiter.deadline == 10.0


@given(st.lists(st.floats(0, 100), max_size=20), st.floats(0, 100))
def test_overdue_and_the_end(deadlines: list[float], now: float) -> None:
    """Those whose time has come are given out once; the end gives out all the others."""
    pending = Pending()
    waiters = {pending.add(w): w for w in map(Waiting, deadlines)}
    late = pending.overdue(now)
    assert late == [(mid, w) for mid, w in waiters.items() if w.deadline <= now]
    assert pending.overdue(now) == []
    rest = [w for w in waiters.values() if w.deadline > now]
    assert pending.drain() == rest
    assert pending.drain() == []
