"""Who goes next where there are more calls a second than there may be."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcphub.gateway.pace import Pace, Rate
from mcphub.gateway.rates import Bucket


def rate(a_second: float, burst: int = 1) -> Rate:
    return Rate(Bucket(a_second, burst), "calls a second", "somewhere")


class Run:
    """Calls of several that come to one pace. Times are virtual."""

    def __init__(self) -> None:
        self.pace: Pace[tuple[str, int]] = Pace()
        self.now = 0.0
        self.went: list[tuple[float, tuple[str, int]]] = []
        self._numbers = count()

    def ask(self, line: str, rates: list[Rate], n: int) -> int:
        number = next(self._numbers)
        if self.pace.free(rates, self.now):
            self._pay(rates, (line, n))
        else:
            self.pace.add(line, rates, number, (line, n))
        return number

    def _pay(self, rates: list[Rate], item: tuple[str, int]) -> None:
        for one in rates:
            one.bucket.take(self.now)
        self.went.append((self.now, item))

    def until(self, rates: dict[str, list[Rate]], end: float) -> None:
        while (wait := self.pace.next(self.now)) is not None and self.now + wait <= end:
            self.now += wait
            for item in self.pace.ready(self.now):
                self._pay(rates[item[0]], item)
        self.now = end


def test_in_turns() -> None:
    """Each that waits goes once before any goes twice, in order within one, a token apart."""
    one = [rate(10)]
    run, rates = Run(), {"a": one, "b": one, "c": one}
    for n in range(4):
        run.ask("a", one, n)
    run.ask("b", one, 0)
    run.ask("c", one, 0)
    run.until(rates, 10)
    assert [item for _, item in run.went] == [("a", 0), ("a", 1), ("b", 0), ("c", 0), ("a", 2), ("a", 3)]
    assert [at for at, _ in run.went] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5])


def test_what_is_dropped_has_taken_nothing() -> None:
    """The next one of another goes when the next of these would have, however many there were."""
    one = [rate(20)]
    run = Run()
    numbers = [run.ask("a", one, n) for n in range(400)]
    for number in numbers:
        run.pace.drop("a", number)
    assert not run.pace and not one[0].waiting
    run.ask("b", one, 0)
    run.until({"b": one}, 1)
    at, item = run.went[-1]
    assert at == pytest.approx(0.05) and item == ("b", 0) and len(run.went) == 2


def test_how_long_it_takes() -> None:
    """As long as it then does, if nobody comes meanwhile: one's own before it, and as many of each other."""
    one = [rate(10)]
    run = Run()
    for n in range(100):
        run.ask("a", one, n)
    wait, slowest = run.pace.wait("b", one, 0.0)
    assert wait == pytest.approx(0.2) and slowest is one[0]
    assert run.pace.wait("a", one, 0.0)[0] == pytest.approx(10.0)
    run.ask("b", one, 0)
    assert run.pace.wait("a", one, 0.0)[0] == pytest.approx(10.1)
    run.until({"a": one, "b": one}, 0.2)
    assert ("b", 0) in [item for _, item in run.went]


def test_two_rates() -> None:
    """A slow tool holds back neither other tools nor other agents, and takes no token of the server's until it goes."""
    server, tool = rate(10), rate(1)
    run, rates = Run(), {"a tool": [tool, server], "a": [server], "b": [server]}
    for n in range(10):
        run.ask("a tool", rates["a tool"], n)
        run.ask("a", rates["a"], n)
        run.ask("b", rates["b"], n)
    run.until(rates, 2.05)
    assert [n for _, (who, n) in run.went if who == "a tool"] == [0, 1, 2]
    assert len(run.went) == 21
    wait, slowest = run.pace.wait("a tool", rates["a tool"], run.now)
    assert slowest is tool and wait == pytest.approx(7.95)


def test_what_comes_back_is_before_what_came_later() -> None:
    """By the numbers, whatever the order in which they are added."""
    pace: Pace[int] = Pace()
    one = [rate(1, 100)]
    for number in (5, 3, 9, 1, 7):
        pace.add("a", one, number, number)
    pace.drop("a", 3)
    pace.drop("a", 3)
    pace.drop("b", 1)
    assert list(pace.ready(0.0)) == [1, 5, 7, 9] and not pace


def test_numbers_of_what_was_dropped_are_not_kept() -> None:
    """However many come and go while one waits."""
    pace: Pace[int] = Pace()
    one = [rate(0.001)]
    pace.add("a", one, 0, 0)
    for number in range(1, 10_000):
        pace.add("a", one, number, number)
        pace.drop("a", number)
    assert len(pace._lines["a"].numbers) < 100 and one[0].waiting == 1


_STEPS = st.lists(
    st.tuples(st.sampled_from(["ask", "ask", "drop", "wait"]), st.integers(0, 3), st.integers(0, 30)), max_size=120
)


@given(steps=_STEPS, fast=st.floats(2, 50), burst=st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_order_rates_and_progress(steps: list[tuple[str, int, int]], fast: float, burst: int) -> None:
    """Within one they go in order, no rate is passed in any stretch of time, nothing goes twice, all that waits goes,
    and none of those who wait all the time goes twice before another has gone once."""
    server, tool = rate(fast, burst), rate(1)
    rates = {"0": [server], "1": [server], "2": [server], "3": [tool, server]}
    run, waiting = Run(), dict[int, str]()
    names = count()
    for what, who, which in steps:
        if what == "ask":
            waiting[run.ask(str(who), rates[str(who)], next(names))] = str(who)
        elif what == "drop" and waiting:
            number = list(waiting)[which % len(waiting)]
            run.pace.drop(waiting.pop(number), number)
        elif what == "wait":
            run.until(rates, run.now + which / 10)
    turns = len(run.went)
    ahead = {who: run.pace.count(who) for who in "012"}
    run.until(rates, run.now + 1000)
    assert not run.pace and not server.waiting and not tool.waiting
    items = [item for _, item in run.went]
    assert len(set(items)) == len(items)
    for name in rates:
        mine = [n for one, n in items if one == name]
        assert mine == sorted(mine)
    slow = [at for at, (one, _) in run.went if one == "3"]
    for allowed, times in ((server, [at for at, _ in run.went]), (tool, slow)):
        bucket = allowed.bucket
        for first in range(len(times)):
            for last in range(first, len(times)):
                assert last - first + 1 <= bucket.burst + bucket.rate * (times[last] - times[first]) + 1e-3
    least = min(ahead.values())
    rest = [who for who, _ in items[turns:] if who in "012"][: 3 * least]
    for turn in range(least):
        assert sorted(rest[3 * turn : 3 * turn + 3]) == ["0", "1", "2"]
