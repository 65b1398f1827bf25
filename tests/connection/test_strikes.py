"""When failed requests end a connection."""

from __future__ import annotations

import errno

import httpcore2
import pytest

from mcphub.connection.strikes import COUNTED, NONE, SIGNALS, Strikes
from mcphub.outbound.failures import Peer, renamed


def after(sequence: str) -> Strikes:
    """R = a reset, T = a real answer (isError or not), H = an answer that refuses, L = ended here; stops when out."""
    strikes = NONE
    for step in sequence:
        if step == "T":
            strikes = strikes.answered()
        else:
            strikes = strikes.failed({"R": "lost", "H": "refused", "L": "timeout"}[step])
        if strikes.enough:
            return strikes
    return strikes


@pytest.mark.parametrize(
    ("sequence", "out"),
    [
        ("R", False),
        ("RR", False),
        ("RRR", True),
        ("RTRTRT", False),
        ("RRTR", False),
        ("RRTRTR", False),
        ("RRTRR", False),
        ("RRTRRTRR", True),
        ("RHRHR", False),
        ("RT" * 10, False),
        ("RT" * 11, True),
        ("RTT" * 1000, False),
        ("RLRLR", True),
        ("L" * 60, False),
        ("H" * 60, False),
        ("RLLLLLLLLRLLLLLLLLR", True),
        ("TTTTTTRRR", True),
    ],
)
def test_sequences(sequence: str, out: bool) -> None:
    """C086: three in a row are enough; an answer ends the row, a cancellation does not; a server whose every second
    request fails is found out in the end."""
    assert after(sequence).enough is out


@pytest.mark.parametrize("kind", ["lost", "unreachable", "tls", "status", "no_response", "silent"])
def test_what_counts(kind: str) -> None:
    """What speaks of the way to the server counts."""
    assert NONE.failed(kind).failed(kind).failed(kind).enough


@pytest.mark.parametrize("kind", ["refused", "needs_auth", "rate_limited", "unreadable", "timeout", "ended", "other"])
def test_what_does_not_count(kind: str) -> None:
    """C086: an answer that refuses is an answer, a deadline of ours says nothing of the server."""
    strikes = NONE
    for _ in range(100):
        strikes = strikes.failed(kind)
    assert strikes == NONE


def test_answers_forget() -> None:
    """After enough answers nothing is remembered, so nothing is computed for them either."""
    strikes = NONE.failed("lost").failed("lost")
    for _ in range(20):
        strikes = strikes.answered()
    assert strikes is NONE


@pytest.mark.parametrize("signal", SIGNALS)
def test_the_nine_signals(signal: str) -> None:
    """C086: each is a strike by whatever name it comes here, so that three in a row end the connection; with an answer
    between them none does."""
    assert len(SIGNALS) == 9
    for kind in SIGNALS[signal]:
        assert kind in COUNTED
        assert not NONE.failed(kind).failed(kind).enough
        assert NONE.failed(kind).failed(kind).failed(kind).enough
        assert not NONE.failed(kind).failed(kind).answered().failed(kind).enough


@pytest.mark.parametrize(
    ("signal", "number", "connecting"),
    [
        ("ECONNRESET", errno.ECONNRESET, False),
        ("ETIMEDOUT", errno.ETIMEDOUT, True),
        ("ETIMEDOUT", errno.ETIMEDOUT, False),
        ("EPIPE", errno.EPIPE, False),
        ("EHOSTUNREACH", errno.EHOSTUNREACH, True),
        ("ECONNREFUSED", errno.ECONNREFUSED, True),
    ],
)
def test_errors_of_the_system(signal: str, number: int, connecting: bool) -> None:
    """What the system says while a connection is made, and after that, has the kind that is said of its signal."""
    error: Exception = httpcore2.ConnectError("no") if connecting else httpcore2.ReadError("no")
    error.__cause__ = OSError(number, "x")
    assert renamed(error, Peer("m.example:443")).kind in SIGNALS[signal]
