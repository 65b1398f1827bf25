"""Who goes next where calls of several agents meet: rules by table, and whole runs against simulated servers."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcphub.gateway.lane import (
    ALONE,
    AMPLE,
    AT_ONCE,
    FEW,
    LONGEST,
    PATIENCE,
    RELEARNED,
    REMEMBERED,
    STEP,
    Lane,
    Place,
)

Duration = Callable[[random.Random], float]


def going(lane: Lane[int], owner: str, number: int, now: float = 0.0) -> list[Place[int]]:
    return [place for place in [lane.ask(owner, n, now) for n in range(number)] if place.going]


def test_one_alone_has_all_it_wants() -> None:
    """Nothing is held as long as nobody else is there."""
    lane: Lane[int] = Lane()
    assert len(going(lane, "a", 1000)) == 1000 and lane.waiting == 0


def test_beside_one_that_wants_little() -> None:
    """A flood goes in small portions, and who wants little never waits."""
    lane: Lane[int] = Lane()
    first = lane.ask("polite", 0, 0.0)
    assert first.going
    assert len(going(lane, "greedy", 1000)) == AMPLE
    lane.end(first, 0.0, True)
    assert lane.ask("polite", 1, 0.0).going


def test_beside_one_that_wants_little_where_there_is_more_room() -> None:
    """A lane says itself how much those who compete share in any case; what is within that is without a queue."""
    lane: Lane[int] = Lane(ample=8)
    assert lane.ask("polite", 0, 0.0).going
    places = going(lane, "greedy", 1000)
    assert len(places) == 8 and all(place.within for place in places)


def test_a_guess_becomes_better() -> None:
    """What one alone is known by first has waited too: each answer that took less is nearer to the truth."""
    lane: Lane[int] = Lane(alone=ALONE)
    places = [lane.adopt("a", number, 0.0) for number in range(ALONE + FEW)]
    assert not going(lane, "a", 1000)
    for place in places:
        lane.end(place, 0.004, True)
    went = [*lane.ready(0.004)]
    assert len(went) == 3 == 1 + AT_ONCE // 0.004
    for place in went:
        lane.end(place, 0.0045, True)
    assert len([*lane.ready(0.0045)]) == pytest.approx(AT_ONCE / 0.0005, abs=1)


def test_two_that_want_much_are_not_held() -> None:
    """Each has what it would have alone: neither wants so little that it must be kept from waiting."""
    lane: Lane[int] = Lane()
    one, two = [], []
    for number in range(64):
        one.append(lane.ask("a", number, 0.0))
        two.append(lane.ask("b", number, 0.0))
    assert not lane.level(0.0)
    for place in [*one, *two]:
        if place.going:
            lane.end(place, 0.1, True)
    later = 0.1 + 1.0
    assert sum(place.going for place in lane.ready(later)) == lane.flying
    assert lane.waiting == 0 and lane.level(later)


def test_in_turns() -> None:
    """Of those who wait for the same limit each goes once before any goes twice, in order within one."""
    lane: Lane[str] = Lane(limit=1)
    flying = lane.ask("x", "x", 0.0)
    for text in ("a1", "a2", "a3", "b1", "c1", "b2"):
        assert not lane.ask(text[0], text, 0.0).going
    order = []
    while True:
        lane.end(flying, 0.0, True)
        if not (ready := list(lane.ready(0.0))):
            break
        [flying] = ready
        order.append(flying.item)
    assert order == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_what_ends_while_it_waits_never_goes() -> None:
    """It is taken out, wherever it stands."""
    lane: Lane[int] = Lane(limit=1)
    flying = lane.ask("a", 0, 0.0)
    waiting = [lane.ask("a", n, 0.0) for n in range(1, 5)]
    lane.end(waiting[0], 0.0, False)
    lane.end(waiting[2], 0.0, False)
    lane.end(waiting[2], 0.0, False)
    assert lane.waiting == 2
    lane.end(flying, 0.0, True)
    assert [place.item for place in lane.ready(0.0)] == [2]
    lane.end(waiting[1], 0.0, True)
    assert [place.item for place in lane.ready(0.0)] == [4]
    assert lane.waiting == 0


def test_silence_lets_more_go() -> None:
    """Where nothing is answered, what is held may be what would run side by side."""
    lane: Lane[int] = Lane()
    lane.ask("polite", 0, 0.0)
    going(lane, "greedy", 100)
    assert not lane.silent(PATIENCE / 2) and not list(lane.ready(PATIENCE / 2))
    assert lane.silent(PATIENCE)
    assert len(list(lane.ready(PATIENCE))) == STEP


def test_one_that_is_gone_is_not_considered() -> None:
    """After a while, or at once when it has left, the other has all again."""
    lane: Lane[int] = Lane()
    lane.end(lane.ask("polite", 0, 0.0), 0.0, True)
    flying = going(lane, "greedy", 100)
    assert not lane.level(1.0)
    assert not list(lane.ready(1.0))
    later = REMEMBERED + 1
    lane.end(flying[0], later, True)
    assert len(list(lane.ready(later))) == 100 - AMPLE
    other: Lane[int] = Lane()
    other.end(other.ask("polite", 0, 0.0), 0.0, True)
    going(other, "greedy", 100)
    other.forget("polite")
    assert len(list(other.ready(0.0))) == 100 - AMPLE
    assert not other.waiting and other.level(0.0)


def test_what_was_on_its_way_counts() -> None:
    """It is counted when it is looked at first, beyond all limits."""
    lane: Lane[int] = Lane(limit=2)
    places = [lane.adopt("a", n, 0.0) for n in range(5)]
    waiting = lane.ask("b", 9, 0.0)
    for place in places[:3]:
        lane.end(place, 0.0, True)
        assert not list(lane.ready(0.0))
    lane.end(places[3], 0.0, True)
    assert list(lane.ready(0.0)) == [waiting]


# --- against simulated servers ----------------------------------------------------------------------------------------


class Run:
    """One that has a single call at a time, and one with `many`, at a server that does them one after the other
    (`serial`) or side by side. Times are virtual."""

    def __init__(
        self,
        *,
        serial: bool,
        takes: Duration,
        seconds: float,
        many: int = 1000,
        pause: float = 1e-6,
        comes: float = 0.0,
    ) -> None:
        """`pause`: seconds that the one thinks between an answer and its next call, from when it `comes` on."""
        self.polite: list[float] = []
        self.greedy: list[float] = []
        self.sent = 0
        self.seconds = seconds
        chance, lane, number = random.Random(1), Lane[tuple[str, float]](alone=ALONE), count()
        events: list[tuple[float, int, str, Place[tuple[str, float]] | None]] = []
        busy = now = 0.0
        for who in ["polite", *["greedy"] * many]:
            heapq.heappush(events, (0.001 if who == "greedy" else comes, next(number), who, None))
        heapq.heappush(events, (PATIENCE, next(number), "tick", None))

        def send(place: Place[tuple[str, float]]) -> None:
            nonlocal busy
            self.sent += place.item[0] == "greedy"
            took = takes(chance)
            busy = max(busy, now) + took
            heapq.heappush(events, (busy if serial else now + took, next(number), "answer", place))

        while events and events[0][0] <= seconds:
            now, _, what, place = heapq.heappop(events)
            if place is not None:
                lane.end(place, now, True)
                who, asked = place.item
                (self.polite if who == "polite" else self.greedy).append(now - asked)
                heapq.heappush(events, (now + (pause if who == "polite" else 1e-6), next(number), who, None))
            elif what == "tick":
                lane.silent(now)
                heapq.heappush(events, (now + PATIENCE, next(number), "tick", None))
            elif (asked_for := lane.ask(what, (what, now), now)).going:
                send(asked_for)
            for ready in lane.ready(now):
                send(ready)

    @property
    def p99(self) -> float:
        return sorted(self.polite)[len(self.polite) * 99 // 100]


@pytest.mark.parametrize(
    ("takes", "seconds", "most"),
    [(0.00002, 0.5, AMPLE + 1), (0.001, 5, 7), (0.02, 60, 5), (0.1, 100, 7)],
)
def test_a_flood_at_a_server_that_does_one_at_a_time(takes: float, seconds: float, most: float) -> None:
    """Who wants one thing at a time waits for a few of another's thousand, however long each takes."""
    run = Run(serial=True, takes=lambda _: takes, seconds=seconds)
    assert run.p99 <= most * takes * 1.01
    assert len(run.greedy) + len(run.polite) > 0.98 * seconds / takes


@pytest.mark.parametrize(
    ("takes", "mean"),
    [
        (lambda _: 0.1, 0.1),
        (lambda _: 1.0, 1.0),
        (lambda chance: chance.uniform(0.05, 0.15), 0.1),
        (lambda chance: chance.expovariate(10), 0.1),
    ],
)
def test_many_at_a_server_that_does_them_side_by_side(takes: Duration, mean: float) -> None:
    """They are not done one after the other, because somebody else is there: nine tenths of what could be is."""
    run = Run(serial=False, takes=takes, seconds=20, many=200)
    assert len(run.greedy) > 0.85 * 20 * 200 / mean


def test_two_hundred_that_take_ten_seconds() -> None:
    """All of them are at the server within a second."""
    assert Run(serial=False, takes=lambda _: 10.0, seconds=1.0, many=200).sent == 200


@pytest.mark.parametrize(
    ("takes", "pause"), [(0.0001, 1.0), (0.001, 13.0), (0.005, 1.0), (0.005, 13.0), (0.005, 70.0), (0.02, 70.0)]
)
def test_one_that_calls_now_and_then(takes: float, pause: float) -> None:
    """It waits for a few of another's five hundred each time, the first time too, though the other is alone most of
    the time: at a server that does one at a time, more is only a longer queue."""
    run = Run(serial=True, takes=lambda _: takes, seconds=20 + 6 * pause, many=500, pause=pause, comes=20.0)
    assert len(run.polite) >= 4
    assert max(run.polite) <= max(6 * takes, 1.1 * AT_ONCE)
    assert len(run.greedy) > 0.97 * run.seconds / takes


@pytest.mark.parametrize(
    ("takes", "mean"),
    [(lambda _: 0.1, 0.1), (lambda _: 2.0, 2.0), (lambda chance: chance.expovariate(10), 0.1)],
)
def test_one_alone_at_a_server_that_does_many_side_by_side(takes: Duration, mean: float) -> None:
    """It has all of them done as if nobody counted them, but for a moment when what was learned is looked at again."""
    seconds = 2 * RELEARNED
    run = Run(serial=False, takes=takes, seconds=seconds, many=300, comes=2 * seconds)
    assert len(run.greedy) > 0.85 * seconds * 300 / mean


def test_ten_thousand_of_one_alone() -> None:
    """All that hang are at the server within a second: nobody else is there for whom it would matter."""
    assert Run(serial=False, takes=lambda _: 100.0, seconds=1.0, many=10_000, comes=9.0).sent == 10_000


def test_what_one_alone_had_does_not_count_against_another() -> None:
    """What it had on its way because nobody else was there is not what it may have from then on."""
    lane: Lane[int] = Lane(alone=ALONE)
    flying = going(lane, "greedy", 1000)
    assert len(flying) == ALONE + FEW and not lane.level(0.0)
    assert lane.ask("polite", 0, 0.0).going
    for place in flying:
        lane.end(place, 0.001, True)
        assert lane.flying > AMPLE or list(lane.ready(0.001)) or lane.flying > FEW


@pytest.mark.parametrize(
    ("limit", "crowded", "most"),
    [(1, True, 1), (2, True, 1), (2, False, 2), (3, False, 3), (4, False, 3), (80, False, 70)],
)
def test_a_part_of_a_limit_is_kept_free(limit: int, crowded: bool, most: int) -> None:
    """Nobody who has something on its way has all of it, so that the first of another goes at once; what is free of
    that part is for the firsts alone."""
    lane: Lane[int] = Lane(limit, shared=True)
    lane.crowded = crowded
    flying = going(lane, "a", 100)
    assert len(flying) == most
    if 1 < most < limit:
        firsts = [lane.ask(n, n, 0.0) for n in range(limit - most + 1)]
        assert [place.going for place in firsts] == [True] * (limit - most) + [False]
        lane.end(flying[0], 0.0, True)
        assert list(lane.ready(0.0)) == [firsts[-1]]


# --- whatever happens -------------------------------------------------------------------------------------------------

_STEPS = st.lists(
    st.tuples(st.sampled_from(["ask", "answer", "drop", "wait"]), st.integers(0, 3), st.integers(0, 10)), max_size=200
)


@given(steps=_STEPS)
@settings(max_examples=100, deadline=None)
def test_nothing_waits_for_ever(steps: list[tuple[str, int, int]]) -> None:
    """Though nothing is answered any more, all that waits goes, bit by bit: what is on its way may take an hour."""
    lane: Lane[int] = Lane()
    now, flying = 0.0, []
    for what, owner, which in steps:
        now += which / 100
        if what == "ask":
            flying += [place for place in [lane.ask(owner, 0, now)] if place.going]
        elif flying and what != "wait":
            lane.end(flying.pop(which % len(flying)), now, True)
        flying += lane.ready(now)
    for _ in range(lane.waiting):
        now += LONGEST
        lane.silent(now)
        list(lane.ready(now))
    assert lane.waiting == 0


@given(limit=st.integers(0, 5), steps=_STEPS)
@settings(max_examples=200, deadline=None)
def test_order_bounds_and_progress(limit: int, steps: list[tuple[str, int, int]]) -> None:
    """Within one they go in order; no limit is passed; nothing goes twice; and when all that flies is answered, all
    that waits goes, each of those who wait within as many turns as there are others."""
    lane: Lane[tuple[int, int]] = Lane(limit)
    now, numbers = 0.0, count()
    flying: list[Place[tuple[int, int]]] = []
    waiting: list[Place[tuple[int, int]]] = []
    went: list[Place[tuple[int, int]]] = []

    def go(places: list[Place[tuple[int, int]]]) -> None:
        for place in places:
            assert place not in went
            went.append(place)
            flying.append(place)
            if place in waiting:
                waiting.remove(place)

    def check() -> None:
        assert (lane.flying, lane.waiting) == (len(flying), len(waiting))
        assert not limit or lane.flying <= limit

    for what, owner, which in steps:
        now += which / 100
        if what == "ask":
            place = lane.ask(owner, (owner, next(numbers)), now)
            go([place]) if place.going else waiting.append(place)
        elif what == "answer" and flying:
            lane.end(flying.pop(which % len(flying)), now, True)
        elif what == "drop" and waiting:
            lane.end(waiting.pop(which % len(waiting)), now, False)
        elif what == "wait":
            lane.silent(now)
        go(list(lane.ready(now)))
        check()
    rounds = len(waiting)
    while waiting:
        assert flying and rounds >= 0
        rounds -= 1
        while flying:
            lane.end(flying.pop(), now, True)
        go(list(lane.ready(now)))
        check()
    for owner in range(4):
        mine = [place.item[1] for place in went if place.item[0] == owner]
        assert mine == sorted(mine)


def test_the_least_is_a_few() -> None:
    """However slow a server is, two are on their way there, so that it never waits for mcphub."""
    run = Run(serial=True, takes=lambda _: 0.02, seconds=20, many=1000)
    assert len(run.greedy) + len(run.polite) >= 20 / 0.02 - FEW
