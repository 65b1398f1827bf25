"""Owns the five states of a connection, the events that move them, and `transition`, which alone builds the next one.

It must not act, wait, read a clock or know a transport. Time and jitter come in as arguments.

An event that speaks of one attempt carries that attempt's generation; an event of another generation changes nothing.
`docs/state-machine.md` is generated from this file. From any state `TurnedOff` leads to Disabled; from any but that,
`Asked` leads to Pending(0).
"""

from __future__ import annotations

from typing import TypeGuard, assert_never

import msgspec

from mcphub.connection.backoff import Backoff
from mcphub.connection.faults import Fault, FaultKind


class Disabled(msgspec.Struct, frozen=True):
    """Not wanted; `because`: person, policy, approval, duplicate, idle, stopping."""

    because: str
    detail: str = ""


class Pending(msgspec.Struct, frozen=True):
    """To be opened at `retry_at` (monotonic seconds). `attempt` 0 is the first try, then retry 1, 2, ... An idle one is
    opened when it is used, one that is offline when there is a way to its host, and not before. `once`: it had been
    given up, and is again where this attempt fails."""

    attempt: int
    retry_at: float
    fault: Fault | None = None
    idle: bool = False
    offline: bool = False
    once: bool = False


class Connected(msgspec.Struct, frozen=True):
    """Opened and listed. `attempt` is what it took, so that a server that dies at once is not counted anew; `renewed`:
    it took the place of a session that the server had ended."""

    since: float
    attempt: int = 0
    renewed: bool = False


class NeedsAuth(msgspec.Struct, frozen=True):
    """A person must sign in; nothing is open."""

    challenge: str


class Failed(msgspec.Struct, frozen=True):
    """Given up until something is asked or changes."""

    fault: Fault
    attempts: int


State = Disabled | Pending | Connected | NeedsAuth | Failed


class Opened(msgspec.Struct, frozen=True):
    """The attempt shook hands and listed."""

    generation: int


class Faulted(msgspec.Struct, frozen=True):
    """The attempt failed before it was connected."""

    generation: int
    fault: Fault


class Lost(msgspec.Struct, frozen=True):
    """The connection of this attempt is gone."""

    generation: int
    fault: Fault


class Challenged(msgspec.Struct, frozen=True):
    """The attempt needs a person."""

    generation: int
    challenge: str


class Asked(msgspec.Struct, frozen=True):
    """A person, a call or a change asks for a fresh start."""


class Unused(msgspec.Struct, frozen=True):
    """Nobody uses the connection of this attempt, and its entry wants it closed then."""

    generation: int


class Used(msgspec.Struct, frozen=True):
    """Somebody uses it."""


class TriedAgain(msgspec.Struct, frozen=True):
    """What was given up is worth one more attempt: a call came, or time passed."""


class Cut(msgspec.Struct, frozen=True):
    """This machine has no way to its host now."""


class Restored(msgspec.Struct, frozen=True):
    """There is a way to its host: again, another one, or after this machine slept. It may be tried `delay` seconds from
    now, so that not all are at once."""

    delay: float = 0.0


class TurnedOff(msgspec.Struct, frozen=True):
    """It shall not run."""

    because: str
    detail: str = ""


class TurnedOn(msgspec.Struct, frozen=True):
    """It shall run."""


Event = (
    Opened | Faulted | Lost | Challenged | Unused | Used | Asked | TriedAgain | Cut | Restored | TurnedOff | TurnedOn
)

#: What an idle instance is; nothing wakes it but an event.
IDLE = Pending(0, float("inf"), None, True)


def transition(state: State, event: Event, now: float, generation: int, backoff: Backoff, jitter: float = 0.5) -> State:
    """The next state; the same object where nothing changes. `generation` is that of the attempt that is current."""
    if isinstance(event, Opened | Faulted | Lost | Challenged | Unused) and event.generation != generation:
        return state
    match event:
        case TurnedOff():
            return Disabled(event.because, event.detail)
        case TurnedOn():
            return Pending(0, now) if isinstance(state, Disabled) else state
        case Asked():
            return state if isinstance(state, Disabled) else Pending(0, now)
        case TriedAgain():
            return Pending(0, now, once=True) if isinstance(state, Failed) else state
        case Unused():
            return IDLE if isinstance(state, Connected) else state
        case Cut():
            return _offline(state)
        case Restored():
            waits = isinstance(state, Failed) or (isinstance(state, Pending) and not state.idle)
            return Pending(0, now + event.delay, _fault(state)) if waits else state
        case Used():
            return Pending(0, now) if isinstance(state, Pending) and state.idle else state
        case Opened():
            if not _tries(state):
                return state
            return Connected(now, backoff.attempts if state.once else state.attempt, _expired(state.fault))
        case Challenged():
            if not _tries(state) and not isinstance(state, Connected):
                return state
            return NeedsAuth(event.challenge)
        case Faulted():
            if not _tries(state):
                return state
            attempt = backoff.attempts if state.once else state.attempt
            return _after(event.fault, attempt, now, backoff, jitter)
        case Lost():
            if not isinstance(state, Connected):
                return state
            if now - state.since >= backoff.stable_after or (_expired(event.fault) and not state.renewed):
                return Pending(0, now, event.fault)
            return _after(event.fault, state.attempt, now, backoff, jitter)
        case _:
            assert_never(event)


def _tries(state: State) -> TypeGuard[Pending]:
    """It may be on its way to a connection."""
    return isinstance(state, Pending) and not (state.idle or state.offline)


def _offline(state: State) -> State:
    """What it is while its host cannot be reached: what another try could not have helped stays said."""
    if _tries(state):
        return Pending(state.attempt, float("inf"), state.fault, offline=True)
    if isinstance(state, Failed) and state.fault.transient:
        return Pending(0, float("inf"), state.fault, offline=True)
    return state


def _fault(state: State) -> Fault | None:
    return state.fault if isinstance(state, Pending | Failed) else None


def _after(fault: Fault, attempt: int, now: float, backoff: Backoff, jitter: float) -> State:
    if not fault.transient or attempt >= backoff.attempts:
        return Failed(fault, attempt)
    return Pending(attempt + 1, now + max(backoff.delay(attempt + 1, jitter), fault.retry_after), fault)


def renews(state: State) -> bool:
    """Whether it waits for a connection because the server ended a session, and for nothing else."""
    return isinstance(state, Pending) and _expired(state.fault)


def _expired(fault: Fault | None) -> bool:
    """The server ended a session: the way to it is sound, so another is begun at once, but not time after time."""
    return fault is not None and fault.kind is FaultKind.SESSION_EXPIRED
