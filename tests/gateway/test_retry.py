"""Whether a call whose answer did not come is sent again, and after how long."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.channel import NOT_ACTED_ON
from mcphub.connection.strikes import COUNTED, HEARD
from mcphub.gateway import retry
from mcphub.gateway.retry import ATTEMPTS, FAILURES, Class, Purpose, Verdict, decide, delay, failure

READ, IDEMPOTENT, WRITE = Purpose


def verdict(kind: str, purpose: Purpose = READ, more: Mapping[str, float] = MappingProxyType({})) -> Verdict:
    given = {"now": 100.0, "deadline": 200.0, "estimate": 1.0, "chance": 0.0, **more}
    return decide(kind, purpose, attempt=int(given.pop("attempt", 1)), **given)


@pytest.mark.parametrize(
    ("kind", "of", "read", "idempotent", "write"),
    [
        ("refused", Class.REQUEST, False, False, False),
        ("older", Class.REQUEST, False, False, False),
        ("needs_auth", Class.AUTHORIZATION, False, False, False),
        ("tls", Class.TRANSPORT, False, False, False),
        ("rate_limited", Class.TRANSPORT, False, False, False),
        ("unreachable", Class.TRANSPORT, True, True, True),
        ("session", Class.TRANSPORT, True, True, True),
        ("unsent", Class.TRANSPORT, True, True, True),
        ("overdue", Class.TRANSPORT, False, False, False),
        ("lost", Class.ANSWER_LOST, True, True, False),
        ("ended", Class.ANSWER_LOST, True, True, False),
        ("exited", Class.ANSWER_LOST, True, True, False),
        ("no_response", Class.ANSWER_LOST, True, True, False),
        ("status", Class.ANSWER_LOST, True, True, False),
        ("timeout", Class.ANSWER_LOST, True, True, False),
        ("unreadable", Class.ANSWER_LOST, False, False, False),
        ("stopping", Class.ANSWER_LOST, False, False, False),
        ("what nobody has heard of", Class.ANSWER_LOST, False, False, False),
    ],
)
def test_each_failure(kind: str, of: Class, read: bool, idempotent: bool, write: bool) -> None:
    """C089, K4.1, K4.3: what may have had effects is never sent again; what was certainly not acted on is, whatever it
    is; what a person, or another request, is needed for is not."""
    assert failure(kind).of is of
    assert [verdict(kind, purpose).again for purpose in (READ, IDEMPOTENT, WRITE)] == [read, idempotent, write]


def test_no_reason_is_forgotten() -> None:
    """K4.1, K4.4: every reason that a transport, or the connection, gives has its row, and none that may have been
    acted on passes for one that was not."""
    assert (NOT_ACTED_ON | COUNTED | HEARD) - {"silent"} <= FAILURES.keys()
    for kind, found in FAILURES.items():
        if found.of is Class.TRANSPORT:
            assert kind in NOT_ACTED_ON


@pytest.mark.parametrize(
    ("attempt", "chance", "retry_after", "seconds"),
    [
        (1, 0.0, 0.0, 0.2),
        (2, 0.0, 0.0, 0.4),
        (3, 0.0, 0.0, 0.8),
        (6, 0.0, 0.0, 5.0),
        (1000, 0.0, 0.0, 5.0),
        (1, 1.0, 0.0, 0.25),
        (1, 0.0, 7.0, 7.0),
        (6, 0.0, 0.5, 5.0),
    ],
)
def test_delays(attempt: int, chance: float, retry_after: float, seconds: float) -> None:
    """K4.2: 200 ms, doubled up to 5 s, with jitter; never sooner than the server wants."""
    assert delay(attempt, chance, retry_after) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"attempt": ATTEMPTS}, "it was sent 3 times"),
        ({"deadline": 101.2}, "there is no time for another attempt"),
        ({"deadline": 101.21}, ""),
        ({"retry_after": 3600.0}, "there is no time for another attempt"),
        ({"estimate": 100.0}, "there is no time for another attempt"),
        ({}, ""),
    ],
)
def test_limits(more: dict[str, float], reason: str) -> None:
    """C075, K4.2: three attempts in all, and only where an attempt that takes as long as the last would be in time."""
    found = verdict("lost", more=more)
    assert found.again == (not reason)
    assert found.reason == (reason or "sending it twice does no harm")
    assert verdict("unreachable").reason == "it was not acted on"


@given(
    kind=st.sampled_from([*FAILURES, "x"]),
    purpose=st.sampled_from(list(Purpose)),
    attempt=st.integers(1, 6),
    now=st.floats(0, 1e9),
    left=st.floats(0, 1e4),
    estimate=st.floats(0, 1e4),
    chance=st.floats(0, 1),
    retry_after=st.floats(0, 1e5),
)
def test_what_always_holds(
    kind: str,
    purpose: Purpose,
    attempt: int,
    now: float,
    left: float,
    estimate: float,
    chance: float,
    retry_after: float,
) -> None:
    """No attempt is begun that could not end in time, nor one above three; a write only if it was not acted on; and
    whatever is decided says why."""
    found = decide(
        kind,
        purpose,
        attempt=attempt,
        now=now,
        deadline=now + left,
        estimate=estimate,
        chance=chance,
        retry_after=retry_after,
    )
    assert found.reason
    if not found.again:
        assert found.delay == 0.0
        return
    assert attempt < ATTEMPTS and now + found.delay + estimate < now + left
    assert found.delay >= max(retry.FIRST, retry_after)
    assert purpose is not WRITE or kind in NOT_ACTED_ON
