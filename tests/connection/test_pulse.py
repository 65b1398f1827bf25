"""When a silent connection is probed, and what comes of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcphub.connection.pulse import Health, Look, Pulse

#: Looks are made at 25, 50, 75 and 100 s of silence; an answer may take 10 s.
HEALTH = Health(100.0, 10.0)


class Line:
    """A connection whose clock is moved by hand; what was said is logged as (time, what)."""

    def __init__(self, health: Health = HEALTH) -> None:
        self.now = 0.0
        self.signs = 0
        self.busy = False
        self.at_probe = 0
        self.pulse = Pulse(health, 0.0, 0)
        self.log: list[tuple[float, str]] = []

    def until(self, end: float) -> Line:
        while self.pulse.at <= end:
            self.now = max(self.now, self.pulse.at)
            before = self.pulse.at
            look = self.pulse.look(self.now, busy=self.busy, signs=self.signs)
            assert self.pulse.at > before, "a look must not be due again at once"
            if look is Look.MISSED:
                assert self.signs == self.at_probe, "it gave a sign since"
            if look is not Look.NOTHING:
                self.log.append((self.now, look.name))
                self.at_probe = self.signs
        self.now = end
        return self

    def fail(self) -> Line:
        self.pulse.failed(self.pulse.number, self.now)
        return self

    def answer(self, number: int | None = None) -> Line:
        self.signs += 1
        self.pulse.answered(self.pulse.number if number is None else number, self.now)
        return self


def test_never() -> None:
    """Without a time it is never looked at."""
    pulse = Pulse(Health(0.0), 5.0, 0)
    assert pulse.at == float("inf")
    assert pulse.look(1e9, busy=False, signs=0) is Look.NOTHING


def test_silence() -> None:
    """It is probed once the time has passed; three probes that stay unanswered are three misses, 10 s apart."""
    assert Line().until(131).log == [(100, "PROBE"), (110, "MISSED"), (120, "MISSED"), (130, "MISSED")]


def test_an_answer() -> None:
    """The next probe is the same time away, and a quick answer makes nobody slow."""
    line = Line().until(100.5).answer().until(199)
    assert line.log == [(100, "PROBE")]
    assert not line.pulse.slow
    assert line.until(201).log == [(100, "PROBE"), (200.5, "PROBE")]


@pytest.mark.parametrize("busy", [True, False])
def test_use(busy: bool) -> None:
    """Answers and progress put the probe off, and so does a call in flight, be it ever so silent: a server that does
    one thing at a time cannot answer. One probe is sent beside it, whose silence is no miss."""
    line = Line()
    for second in range(10, 1000, 10):
        line.busy, line.signs = busy, line.signs + (not busy)
        line.until(second)
    assert line.log == ([(30.0, "PROBE")] if busy else [])
    assert (line.pulse.mute, line.pulse.slow) == (busy, False)
    if busy:
        line.until(1000).answer()
    line.busy = False
    assert 1065 <= next(at for at, _ in line.until(1130).log if at > 1000) <= 1125


def test_progress_while_it_is_probed() -> None:
    """C086: a probe that is missed while a call makes progress is no miss."""
    line = Line().until(101)
    line.busy, line.signs = True, 1
    assert line.until(150).log == [(100, "PROBE")]


def test_a_call_that_came_later_excuses_nothing() -> None:
    """The probe was sent first: a server that lives had answered it."""
    line = Line().until(101)
    line.busy = True
    assert line.until(131).log == [(100, "PROBE"), (110, "MISSED"), (120, "MISSED"), (130, "MISSED")]


def test_slow_by_silence_and_by_what_an_answer_took() -> None:
    """Slow begins 2 s after an unanswered probe, and stays with an answer that took so long."""
    line = Line().until(101.9)
    assert not line.pulse.slow
    assert line.until(102).pulse.slow
    assert line.pulse.silent(102.5) == 2.5
    assert line.until(103).answer().pulse.slow
    assert (line.pulse.took, line.pulse.silent(104)) == (3, 0)


def test_recovery() -> None:
    """While it is slow it is probed every 15 s; two quick answers in a row end it, any other begins the row anew."""
    line = Line().until(103).answer()
    for second, took, slow in ((118, 0.5, True), (133.5, 1.5, True), (150, 0.5, True), (165.5, 0.5, False)):
        assert line.until(second).log[-1] == (second, "PROBE")
        assert line.until(second + took).answer().pulse.slow is slow, second
    assert line.until(265).log[-1][0] == 165.5
    assert line.until(267).log[-1] == (266, "PROBE")


def test_recovery_in_use() -> None:
    """A slow one is probed while it is in use as well, or it would stay slow for as long; then silence is no miss, and
    no further probe is added to one that waits."""
    line = Line().until(103).answer()
    line.busy = True
    assert line.until(400).log == [(100, "PROBE"), (118, "PROBE")]
    line.answer().busy = False
    assert line.pulse.took == 282
    assert "MISSED" not in [what for _, what in line.until(440).log[:3]]


def test_a_server_that_answers_everything_late() -> None:
    """Its answers, however late, are signs of life: no two misses follow each other."""
    line = Line()
    due: list[tuple[float, int]] = []
    known = 0
    for tenth in range(20_000):
        line.until(tenth / 10)
        due += [(tenth / 10 + 12, number) for number in range(known + 1, line.pulse.number + 1)]
        known = line.pulse.number
        while due and due[0][0] <= tenth / 10:
            line.answer(due.pop(0)[1])
    whats = [what for _, what in line.log]
    assert line.pulse.slow and len(whats) > 100
    assert "MISSEDMISSED" not in "".join(whats)


def test_a_call_without_any_sign() -> None:
    """30 s into a silent call it is probed beside it, 2 s later it is mute, for as long as it says nothing, and never
    missed; a call that was given up changes nothing of that until the time of silence is over."""
    line = Line()
    line.busy = True
    assert not line.until(31.9).pulse.mute and line.log == [(30, "PROBE")]
    assert line.until(32).pulse.mute and line.pulse.beside
    assert line.until(95).pulse.heard_of(95) == 95
    line.busy = False
    assert line.until(150).pulse.mute
    assert "MISSED" not in [what for _, what in line.log]
    line.until(250)
    assert [what for _, what in line.log][-2:] == ["MISSED", "MISSED"]


def test_a_call_of_a_server_that_answers_beside_it() -> None:
    """It is asked now and then and never called anything; one that answers late was at its call, and is not slow."""
    line = Line()
    line.busy = True
    for second in range(1, 1000):
        before = line.pulse.number
        if line.until(second).pulse.number > before:
            line.answer()
    assert 20 < len(line.log) < 34 and not line.pulse.mute and not line.pulse.slow
    late = Line()
    late.busy = True
    found = [late.until(60).pulse.mute, late.answer().pulse.mute, late.pulse.slow]
    assert found == [True, False, False]


def test_progress_after_it_was_mute() -> None:
    """Any sign ends it, though the probe stays unanswered."""
    line = Line()
    line.busy = True
    before = line.until(60).pulse.mute
    line.signs += 1
    assert (before, line.until(71).pulse.mute) == (True, False)


def test_a_rest() -> None:
    """While nothing can come through, nothing is asked or missed, and the silence before does not count."""
    line = Line().until(115)
    assert line.log == [(100, "PROBE"), (110, "MISSED")]
    before = line.pulse.slow
    line.pulse.rested(115, line.signs)
    assert (before, line.pulse.slow, line.pulse.silent(115)) == (True, False, 0)
    assert line.until(214).log[2:] == []
    assert line.until(216).log[2:] == [(215, "PROBE")]


def test_a_probe_that_fails() -> None:
    """Where each request travels by itself its loss is told and counted there: the next follows, none is a miss."""
    line = Line().until(100)
    for second in (101, 111, 121):
        assert line.until(second).fail().pulse.away
    assert line.until(125).log == [(100, "PROBE"), (110, "PROBE"), (120, "PROBE")]
    assert not line.pulse.slow and not line.pulse.beside
    assert not line.until(130.5).answer().pulse.away


def test_a_probe_that_fails_beside_a_call() -> None:
    """It says at once that there is no way to its server, is repeated, and never counts; the first that is answered,
    and any other sign, ends that."""
    line = Line()
    line.busy = True
    assert not line.until(30).pulse.away
    assert line.fail().pulse.away and line.pulse.beside
    while line.now < 200:
        before = line.pulse.number
        line.until(line.now + 1)
        if line.pulse.number > before:
            assert line.pulse.away and line.pulse.beside
            line.fail()
    assert {what for _, what in line.log} == {"PROBE"} and 8 <= len(line.log) <= 14
    assert (line.pulse.away, line.pulse.mute, line.pulse.slow) == (True, False, False)
    assert line.pulse.heard_of(200) == 200
    line.signs += 1
    assert not line.until(211).pulse.away
    line.until(250).fail()
    before = line.pulse.number
    while line.pulse.number == before:
        line.until(line.now + 1)
    assert line.pulse.away and not line.answer().pulse.away


def test_a_server_that_was_away_and_takes_what_it_is_sent() -> None:
    """A probe that has neither failed nor been answered got there: its server is mute, and not away."""
    line = Line()
    line.busy = True
    line.until(30).fail().until(53)
    assert (line.pulse.number, line.pulse.away, line.pulse.mute) == (2, True, True)
    assert not line.until(80).pulse.away and line.pulse.mute


def test_the_end_of_a_call_whose_server_is_away() -> None:
    """It is asked at once and again then, and that counts: nobody waits for it any more."""
    line = Line()
    line.busy = True
    line.until(30).fail().until(36)
    line.busy = False
    line.until(41)
    assert line.log == [(30, "PROBE"), (40, "PROBE")] and not line.pulse.beside
    later = Line()
    later.busy = True
    later.until(30).fail().until(41)
    later.busy = False
    assert later.until(56).log[1] == (55, "PROBE") and not later.pulse.beside


def test_what_fails_though_it_got_there() -> None:
    """A server that takes a probe and does not begin to answer in time is silent, and there is a way to it."""
    line = Line()
    line.busy = True
    line.until(90).pulse.failed(line.pulse.number, 90, away=False)
    assert line.pulse.mute and not line.pulse.away


def test_a_way_that_is_lost_while_a_slow_server_is_at_a_call() -> None:
    """Probes of a slow one that go beside a call do not count either, whatever becomes of them."""
    line = Line().until(103).answer()
    line.busy = True
    for _ in range(5):
        before = line.pulse.number
        while line.pulse.number == before:
            line.until(line.now + 1)
        assert line.pulse.beside
        line.fail()
    assert line.pulse.slow and line.pulse.away


def test_why_it_is_slow() -> None:
    """The time that made it slow is kept beside the quicker ones since; of one that answers only the second probe it is
    the silence before; when it is quick again nothing of it is left."""
    line = Line().until(103).answer()
    assert (line.pulse.slow_by, line.pulse.took, line.pulse.in_vain, line.pulse.since_then) == (1, 3, False, None)
    line.until(118).until(118.25).answer()
    assert (line.pulse.slow_by, line.pulse.took, line.pulse.in_vain, line.pulse.since_then) == (1, 3, False, 0.25)
    line.until(133.25).until(133.5).answer()
    assert (line.pulse.slow, line.pulse.took, line.pulse.since_then) == (False, 0, None)
    deaf = Line().until(120.25).answer()
    assert (deaf.pulse.slow_by, deaf.pulse.took, deaf.pulse.in_vain, deaf.pulse.since_then) == (1, 20.25, True, 0.25)
    given_up = Line().until(105)
    given_up.pulse.failed(1, 105, away=False)
    assert (given_up.pulse.slow_by, given_up.pulse.took, given_up.pulse.in_vain) == (1, 5, True)


def test_an_answer_to_nothing() -> None:
    """What was never asked, or answered before, says nothing."""
    line = Line().until(100).answer()
    before = line.pulse.at
    line.pulse.answered(1, 109.0)
    line.pulse.answered(7, 109.0)
    line.pulse.failed(7, 109.0)
    assert (line.pulse.at, line.pulse.slow) == (before, False)


@settings(deadline=None)
@given(
    st.builds(Health, st.floats(1, 1000), st.floats(1, 100)),
    st.lists(st.tuples(st.floats(0, 400), st.sampled_from(["sign", "answer", "busy", "free", "fail"])), max_size=40),
)
def test_whatever_happens(health: Health, events: list[tuple[float, str]]) -> None:
    """It always looks again, never at once, and never says that a server missed what gave a sign meanwhile."""
    line = Line(health)
    for passed, what in events:
        line.until(line.now + passed)
        assert line.now < line.pulse.at < float("inf")
        if what == "sign":
            line.signs += 1
        elif what == "answer":
            line.answer()
        elif what == "fail":
            line.fail()
        else:
            line.busy = what == "busy"
        assert line.pulse.silent(line.now) >= 0
        pulse = line.pulse
        assert pulse.took > 0 or pulse.oldest or not pulse.slow, "there is a reason why it is slow"
