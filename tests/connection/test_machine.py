"""The five states and every event in each of them."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.connection.backoff import Backoff
from mcphub.connection.faults import Fault, FaultKind
from mcphub.connection.machine import (
    IDLE,
    Asked,
    Challenged,
    Connected,
    Cut,
    Disabled,
    Event,
    Failed,
    Faulted,
    Lost,
    NeedsAuth,
    Opened,
    Pending,
    Restored,
    State,
    TriedAgain,
    TurnedOff,
    TurnedOn,
    Unused,
    Used,
    renews,
    transition,
)

NOW = 1000.0
GENERATION = 7
BACKOFF = Backoff()
SOFT = Fault(FaultKind.LOST, "serve", "gone")
HARD = Fault(FaultKind.NOT_FOUND, "spawn", "no such program")
EXPIRED = Fault(FaultKind.SESSION_EXPIRED, "serve", "no session")
SILENT = Fault(FaultKind.UNRESPONSIVE, "serve", "the server answers nothing")
BUSY = Fault(FaultKind.HTTP_UNAVAILABLE, "handshake", "503", retry_after=100.0)

OFF = Disabled("person")
FIRST, THIRD, LAST = Pending(0, NOW - 1), Pending(3, NOW + 9, SOFT), Pending(5, NOW - 1, SOFT)
FRESH, STABLE = Connected(NOW - 29.9, 2), Connected(NOW - 30, 2)
AUTH, GIVEN_UP = NeedsAuth("https://as.example"), Failed(SOFT, 5)
OFFLINE = Pending(3, float("inf"), SOFT, offline=True)
EVERY: tuple[State, ...] = (OFF, IDLE, OFFLINE, FIRST, THIRD, LAST, FRESH, STABLE, AUTH, GIVEN_UP)


def after(state: State, event: Event, jitter: float = 0.5) -> State:
    return transition(state, event, NOW, GENERATION, BACKOFF, jitter)


@pytest.mark.parametrize("state", EVERY, ids=repr)
def test_what_leads_from_anywhere(state: State) -> None:
    """Turned off is Disabled from everywhere; only turned on leaves it; asked is a fresh start from all the others."""
    assert after(state, TurnedOff("person", "d")) == Disabled("person", "d")
    assert after(state, TurnedOn()) == (Pending(0, NOW) if state is OFF else state)
    assert after(state, Asked()) == (OFF if state is OFF else Pending(0, NOW))


@pytest.mark.parametrize(
    ("state", "event", "following"),
    [
        # the attempt succeeds
        (FIRST, Opened(7), Connected(NOW, 0)),
        (THIRD, Opened(7), Connected(NOW, 3)),
        (LAST, Opened(7), Connected(NOW, 5)),
        # the attempt fails: 1, 2, 4, 8, 16 s, then it is given up
        (FIRST, Faulted(7, SOFT), Pending(1, NOW + 1, SOFT)),
        (Pending(1, 0), Faulted(7, SOFT), Pending(2, NOW + 2, SOFT)),
        (Pending(2, 0), Faulted(7, SOFT), Pending(3, NOW + 4, SOFT)),
        (THIRD, Faulted(7, SOFT), Pending(4, NOW + 8, SOFT)),
        (Pending(4, 0), Faulted(7, SOFT), Pending(5, NOW + 16, SOFT)),
        (LAST, Faulted(7, SOFT), Failed(SOFT, 5)),
        # what another try cannot help is given up at once
        (FIRST, Faulted(7, HARD), Failed(HARD, 0)),
        (THIRD, Faulted(7, HARD), Failed(HARD, 3)),
        # lost soon after it was opened counts on, lost after it was stable begins anew and at once
        (FRESH, Lost(7, SOFT), Pending(3, NOW + 4, SOFT)),
        (STABLE, Lost(7, SOFT), Pending(0, NOW, SOFT)),
        (STABLE, Lost(7, HARD), Pending(0, NOW, HARD)),
        (FRESH, Lost(7, HARD), Failed(HARD, 2)),
        (Connected(NOW, 5), Lost(7, SOFT), Failed(SOFT, 5)),
        # and so is one that answered no probe: found after long silence, it is tried at once
        (FRESH, Lost(7, SILENT), Pending(3, NOW + 4, SILENT)),
        (STABLE, Lost(7, SILENT), Pending(0, NOW, SILENT)),
        # nobody uses it, and then somebody does
        (STABLE, Unused(7), IDLE),
        (FRESH, Unused(7), IDLE),
        (IDLE, Used(), Pending(0, NOW)),
        # a person is needed
        (FIRST, Challenged(7, "c"), NeedsAuth("c")),
        (STABLE, Challenged(7, "c"), NeedsAuth("c")),
    ],
)
def test_moves(state: State, event: Event, following: State) -> None:
    """C085: the moves of one attempt, with the documented delays."""
    assert after(state, event) == following


MOVES = {
    Opened: (Pending,),
    Faulted: (Pending,),
    Lost: (Connected,),
    Challenged: (Pending, Connected),
    Unused: (Connected,),
}


@pytest.mark.parametrize("state", EVERY, ids=repr)
@pytest.mark.parametrize(
    "event", [Opened(7), Faulted(7, SOFT), Faulted(7, HARD), Lost(7, SOFT), Challenged(7, "c"), Unused(7)], ids=repr
)
def test_events_where_they_mean_nothing(state: State, event: Event) -> None:
    """Late news in a state that does not expect it changes nothing: the same object comes back."""
    following = after(state, event)
    expecting = [] if state in (IDLE, OFFLINE) else MOVES[type(event)]
    assert (following is not state) == (type(state) in expecting)


@pytest.mark.parametrize("state", EVERY, ids=repr)
def test_use(state: State) -> None:
    """Use starts what is idle, and is nothing to any other state: it cuts no connection and no delay short."""
    assert after(state, Used()) == (Pending(0, NOW) if state is IDLE else state)


@pytest.mark.parametrize(
    ("state", "following"),
    [
        (FIRST, Pending(0, float("inf"), None, offline=True)),
        (THIRD, OFFLINE),
        (OFFLINE, OFFLINE),
        (GIVEN_UP, Pending(0, float("inf"), SOFT, offline=True)),
        (Failed(HARD, 0), Failed(HARD, 0)),
        *((state, state) for state in (OFF, IDLE, FRESH, STABLE, AUTH)),
    ],
)
def test_a_host_that_is_cut_off(state: State, following: State) -> None:
    """What would be tried is not, and does not count; what another try cannot help, and what is open, stays."""
    assert after(state, Cut()) == following


@pytest.mark.parametrize(
    ("state", "following"),
    [
        (FIRST, Pending(0, NOW + 0.2)),
        (THIRD, Pending(0, NOW + 0.2, SOFT)),
        (OFFLINE, Pending(0, NOW + 0.2, SOFT)),
        (GIVEN_UP, Pending(0, NOW + 0.2, SOFT)),
        (Failed(HARD, 0), Pending(0, NOW + 0.2, HARD)),
        *((state, state) for state in (OFF, IDLE, FRESH, STABLE, AUTH)),
    ],
)
def test_a_way_that_is_there(state: State, following: State) -> None:
    """C085: whatever is not connected, and wants to be, is tried soon with a fresh count, also what was given up."""
    assert after(state, Restored(0.2)) == following


@pytest.mark.parametrize("state", EVERY, ids=repr)
@pytest.mark.parametrize("generation", [6, 8, 0, -1])
def test_another_generation(state: State, generation: int) -> None:
    """An event of another attempt than the current one changes nothing, in any state."""
    for event in (
        Opened(generation),
        Faulted(generation, SOFT),
        Lost(generation, SOFT),
        Challenged(generation, "c"),
        Unused(generation),
    ):
        assert after(state, event) is state


@given(st.floats(0, 1))
def test_jitter_moves_the_next_try(jitter: float) -> None:
    """C085: the caller's chance makes the delay up to a fifth longer or shorter."""
    following = after(FIRST, Faulted(7, SOFT), jitter)
    assert isinstance(following, Pending)
    assert NOW + 0.79 < following.retry_at < NOW + 1.21


EVENTS = st.one_of(
    st.builds(Opened, st.integers(6, 8)),
    st.builds(Faulted, st.integers(6, 8), st.sampled_from([SOFT, HARD, BUSY])),
    st.builds(Lost, st.integers(6, 8), st.sampled_from([SOFT, HARD, EXPIRED, SILENT])),
    st.builds(Challenged, st.integers(6, 8), st.just("c")),
    st.builds(Unused, st.integers(6, 8)),
    st.builds(Used),
    st.builds(Asked),
    st.builds(TriedAgain),
    st.builds(Cut),
    st.builds(Restored, st.floats(0, 5)),
    st.builds(TurnedOff, st.just("person")),
    st.builds(TurnedOn),
)


@given(
    st.lists(st.tuples(EVENTS, st.floats(0, 40), st.floats(0, 1)), max_size=60),
    st.builds(Backoff, attempts=st.integers(0, 4)),
)
def test_random_walks(walk: list[tuple[Event, float, float]], backoff: Backoff) -> None:
    """C085, C086, H7: whatever happens in whatever order, the machine keeps its promises."""
    state: State = Pending(0, 0.0)
    now = 0.0
    for event, passed, jitter in walk:
        now += passed
        before, state = state, transition(state, event, now, GENERATION, backoff, jitter)
        if isinstance(event, Opened | Faulted | Lost | Challenged | Unused) and event.generation != GENERATION:
            assert state is before
        if isinstance(before, Disabled) and not isinstance(event, TurnedOff):
            assert isinstance(state, Pending if isinstance(event, TurnedOn) else Disabled)
        if before is not state and state == IDLE:
            assert isinstance(before, Connected) and isinstance(event, Unused)
        if before == IDLE and state is not before:
            assert isinstance(event, Used | Asked | TurnedOff)
        if isinstance(before, Pending) and before.offline and state is not before:
            assert isinstance(event, Restored | Asked | TurnedOff)
        match state:
            case Pending(idle=True):
                assert state == IDLE
            case Pending(offline=True):
                assert state.retry_at == float("inf")
                assert state is before or isinstance(event, Cut)
            case Pending(attempt=attempt):
                assert 0 <= attempt <= backoff.attempts
                asked = state.fault.retry_after if state.fault is not None else 0.0
                longest = max(backoff.most * (1 + backoff.spread), asked)
                assert state is before or now <= state.retry_at <= now + longest
                if state is not before and attempt == 0:
                    assert state.retry_at == now + (event.delay if isinstance(event, Restored) else 0)
            case Connected():
                assert 0 <= state.attempt <= backoff.attempts
                assert state.since <= now
                assert state is before or isinstance(event, Opened)
            case Failed():
                assert state.attempts <= backoff.attempts
                assert state is before or not state.fault.transient or state.attempts == backoff.attempts
            case NeedsAuth():
                assert state is before or isinstance(event, Challenged)
            case Disabled():
                assert state is before or isinstance(event, TurnedOff)
        if isinstance(before, Connected) and isinstance(event, Lost) and state is not before:
            # At once after a connection that lasted, or for a session that expired, but not again for the next one.
            lasted = now - before.since >= backoff.stable_after
            at_once = isinstance(state, Pending) and state.attempt == 0
            assert at_once == (lasted or (event.fault is EXPIRED and not before.renewed))
        if isinstance(before, Failed | NeedsAuth) and state is not before:
            assert isinstance(event, Asked | TriedAgain | Cut | Restored | TurnedOff)
        if isinstance(before, Pending) and before.once and isinstance(event, Faulted) and state is not before:
            assert isinstance(state, Failed)


@pytest.mark.parametrize("state", EVERY, ids=repr)
def test_one_more_attempt(state: State) -> None:
    """A call, and the time that has passed, are worth one attempt of what was given up and nothing to anything else; a
    connection that does not last then is given up as well."""
    following = after(state, TriedAgain())
    if not isinstance(state, Failed):
        assert following is state
        return
    assert following == Pending(0, NOW, once=True)
    assert after(following, Faulted(7, SOFT)) == Failed(SOFT, 5)
    assert after(following, Opened(7)) == Connected(NOW, 5)
    assert after(after(following, Opened(7)), Lost(7, SOFT)) == Failed(SOFT, 5)
    assert after(following, Asked()) == Pending(0, NOW)


@given(st.lists(st.floats(0, 29.9), min_size=20, max_size=20))
def test_a_server_that_dies_soon_after_every_start_is_given_up(lives: list[float]) -> None:
    """C085: a handshake alone does not set the count back; only a connection that lasted does."""
    state: State = Pending(0, 0.0)
    now = 0.0
    starts = 0
    for life in lives:
        if not isinstance(state, Pending):
            break
        now = max(now, state.retry_at)
        state = transition(state, Opened(GENERATION), now, GENERATION, BACKOFF)
        starts += 1
        now += life
        state = transition(state, Lost(GENERATION, SOFT), now, GENERATION, BACKOFF)
    assert state == Failed(SOFT, 5)
    assert starts == 6


def test_there_are_five_states() -> None:
    """There is no sixth."""
    assert {s.__name__ for s in get_args(State)} == {"Disabled", "Pending", "Connected", "NeedsAuth", "Failed"}
    assert {type(s) for s in EVERY} == set(get_args(State))


def test_a_session_that_expired() -> None:
    """C065: another session is begun at once, however young the connection was; not a second time in a row."""
    renewed = after(after(Connected(NOW - 1, 2), Lost(7, EXPIRED)), Opened(7))
    assert after(Connected(NOW - 1, 2), Lost(7, EXPIRED)) == Pending(0, NOW, EXPIRED)
    assert renewed == Connected(NOW, 0, renewed=True)
    assert after(renewed, Lost(7, EXPIRED)) == Pending(1, NOW + 1, EXPIRED)
    assert after(Connected(NOW - 30, 0, renewed=True), Lost(7, EXPIRED)) == Pending(0, NOW, EXPIRED)


@pytest.mark.parametrize(("retry_after", "delay"), [(0.5, 1.0), (7.0, 7.0), (3600.0, 3600.0)])
def test_a_server_that_wants_to_be_left_alone(retry_after: float, delay: float) -> None:
    """C075: what it asks for is the least delay, never less than the usual one."""
    busy = Fault(FaultKind.HTTP_UNAVAILABLE, "handshake", "503", retry_after=retry_after)
    assert after(FIRST, Faulted(7, busy)) == Pending(1, NOW + delay, busy)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (Pending(0, 0.0), False),
        (Pending(0, 0.0, Fault(FaultKind.SESSION_EXPIRED, "serve", "x")), True),
        (Pending(1, 0.0, Fault(FaultKind.LOST, "serve", "x")), False),
        (Connected(0.0, 0, True), False),
        (Failed(Fault(FaultKind.SESSION_EXPIRED, "serve", "x"), 3), False),
        (Disabled("person"), False),
    ],
)
def test_renewal(state: State, expected: bool) -> None:
    """Only what waits because the server ended a session is renewed; what is open in other sessions then stays."""
    assert renews(state) is expected
