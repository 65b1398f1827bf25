"""Owns the three states of a circuit breaker, and what each outcome of a call makes of them.

It must not know calls, servers or agents, read a clock or a random source. Whether there is a connection is the
connection's own machine; this says whether a call may go over one.

Each state has a generation. An outcome belongs to the generation in which its call was let through; one of an older
generation changes nothing.
"""

from __future__ import annotations

import enum

import msgspec

#: Failures in a row that open it.
FAILURES = 5
#: Seconds for which it is open the first time; each further time in a row twice as long, up to MOST, each up to SPREAD
#: of it longer.
FIRST = 5.0
MOST = 30.0
SPREAD = 0.2
#: Calls at a time that find out whether it may be closed.
PROBES = 1


class State(enum.StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Breaker(msgspec.Struct, frozen=True):
    """One circuit. Times are monotonic seconds: `since` it is in this state, `until` it is open. `failures` in a row;
    `opened`: how often in a row it was opened; `probes` are under way."""

    state: State = State.CLOSED
    generation: int = 0
    failures: int = 0
    opened: int = 0
    since: float = 0.0
    until: float = 0.0
    probes: int = 0


def ask(breaker: Breaker, now: float, *, anew: bool = False) -> tuple[Breaker, bool]:
    """What it is after a call wants to go, and whether that one may. One that may ends by `succeeded`, `failed` or
    `released` with the generation that the breaker has now. `anew`: what it failed with is another one by now, which
    is worth a look at once."""
    if breaker.state is State.CLOSED:
        return breaker, True
    if breaker.state is State.OPEN:
        if now < breaker.until and not anew:
            return breaker, False
        breaker = msgspec.structs.replace(
            breaker, state=State.HALF_OPEN, generation=breaker.generation + 1, since=now, probes=0
        )
    if breaker.probes >= PROBES:
        return breaker, False
    return msgspec.structs.replace(breaker, probes=breaker.probes + 1), True


def succeeded(breaker: Breaker, generation: int, now: float) -> Breaker:
    """The server has answered, whatever it said."""
    if generation != breaker.generation or breaker.state is State.OPEN:
        return breaker
    if breaker.state is State.CLOSED:
        return msgspec.structs.replace(breaker, failures=0, opened=0) if breaker.failures or breaker.opened else breaker
    return Breaker(generation=breaker.generation + 1, since=now)


def failed(breaker: Breaker, generation: int, now: float, chance: float) -> Breaker:
    """No answer came; `chance` in 0..1."""
    if generation != breaker.generation or breaker.state is State.OPEN:
        return breaker
    failures = breaker.failures + 1
    if breaker.state is State.CLOSED and failures < FAILURES:
        return msgspec.structs.replace(breaker, failures=failures)
    opened = breaker.opened + 1
    rest = min(MOST, FIRST * 2.0 ** min(opened - 1, 30)) * (1.0 + SPREAD * chance)
    return Breaker(State.OPEN, breaker.generation + 1, failures, opened, now, now + rest)


def released(breaker: Breaker, generation: int) -> Breaker:
    """A call ended without a word about the server: its agent did not want it any more, or it was not sent."""
    if generation != breaker.generation or breaker.state is not State.HALF_OPEN:
        return breaker
    return msgspec.structs.replace(breaker, probes=breaker.probes - 1)
