"""Owns the decision whether a call whose answer did not come is sent again, and after how long.

It must not send, wait, read a clock or a random source: all that comes in. A tool's isError, a JSON-RPC error and a
cancel are no failures and never come here.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

#: A call is sent so often in all.
ATTEMPTS = 3
#: Seconds before the second attempt; each further one waits twice as long, up to MOST, each up to SPREAD of it longer,
#: so that what failed together does not come back together.
FIRST = 0.2
MOST = 5.0
SPREAD = 0.25


class Purpose(enum.StrEnum):
    """What sending a call twice would mean."""

    READ = "read"
    #: Twice does no more than once: the tool says so, or its server knows a call by an argument.
    IDEMPOTENT = "idempotent"
    WRITE = "write"


class Class(enum.StrEnum):
    """Of what kind a failure is."""

    #: Parameters or capability: the same request would fail the same way.
    REQUEST = "request"
    AUTHORIZATION = "authorization"
    #: It did not reach what acts on it.
    TRANSPORT = "transport"
    #: It may have been acted on.
    ANSWER_LOST = "answer-lost"


class Failure(msgspec.Struct, frozen=True):
    """What a reason of `channel.Receiver.unanswered` means here. `transient`: the same may work a moment later."""

    of: Class
    transient: bool


#: By reason. What is not here is taken as lost for good.
FAILURES: Mapping[str, Failure] = {
    "refused": Failure(Class.REQUEST, False),
    "older": Failure(Class.REQUEST, False),
    "needs_auth": Failure(Class.AUTHORIZATION, False),
    "unreachable": Failure(Class.TRANSPORT, True),
    "session": Failure(Class.TRANSPORT, True),
    # Another session was tried for it already.
    "session_over": Failure(Class.TRANSPORT, False),
    "tls": Failure(Class.TRANSPORT, False),
    # The transport itself has waited for as long as the server wanted, and sent it again (transport/http_request.py).
    "rate_limited": Failure(Class.TRANSPORT, False),
    "unsent": Failure(Class.TRANSPORT, True),
    # No time is left for another attempt.
    "overdue": Failure(Class.TRANSPORT, False),
    "lost": Failure(Class.ANSWER_LOST, True),
    "ended": Failure(Class.ANSWER_LOST, True),
    "exited": Failure(Class.ANSWER_LOST, True),
    "no_response": Failure(Class.ANSWER_LOST, True),
    "status": Failure(Class.ANSWER_LOST, True),
    "timeout": Failure(Class.ANSWER_LOST, True),
    # It was acted on, and would be answered the same way.
    "unreadable": Failure(Class.ANSWER_LOST, False),
    "stopping": Failure(Class.ANSWER_LOST, False),
}
_FINAL = Failure(Class.ANSWER_LOST, False)


class Verdict(msgspec.Struct, frozen=True):
    """Whether it is sent again, after `delay` seconds, and why, or why not."""

    again: bool
    reason: str
    delay: float = 0.0


def failure(kind: str) -> Failure:
    """What this reason of `unanswered` means."""
    return FAILURES.get(kind, _FINAL)


def delay(attempt: int, chance: float, retry_after: float = 0.0) -> float:
    """Seconds to wait after this attempt (1 = the first); `chance` in 0..1. A server that said how long it wants to be
    left alone is."""
    base = min(MOST, FIRST * 2.0 ** min(attempt - 1, 30))
    return max(base, retry_after) * (1.0 + SPREAD * chance)


def decide(
    kind: str,
    purpose: Purpose,
    *,
    attempt: int,
    now: float,
    deadline: float,
    estimate: float,
    chance: float,
    retry_after: float = 0.0,
) -> Verdict:
    """After attempt number `attempt` (1 = the first) has failed by `kind`. `now` and `deadline` are monotonic seconds,
    `estimate` are those that an attempt is likely to take."""
    found = failure(kind)
    if found.of is Class.REQUEST:
        return Verdict(False, "the same request would be refused again")
    if found.of is Class.AUTHORIZATION:
        return Verdict(False, "a person, or a credential, is needed first")
    if not found.transient:
        return Verdict(False, "another attempt would end the same way")
    if found.of is Class.ANSWER_LOST and purpose is Purpose.WRITE:
        return Verdict(False, "it may have had effects")
    if attempt >= ATTEMPTS:
        return Verdict(False, f"it was sent {attempt} times")
    wait = delay(attempt, chance, retry_after)
    if now + wait + estimate >= deadline:
        return Verdict(False, "there is no time for another attempt")
    why = "it was not acted on" if found.of is Class.TRANSPORT else "sending it twice does no harm"
    return Verdict(True, why, wait)
