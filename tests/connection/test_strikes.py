"""When failed requests end a connection."""

from __future__ import annotations

import pytest

from mcphub.connection.strikes import NONE, Strikes


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


@pytest.mark.parametrize("kind", ["lost", "unreachable", "tls", "status", "no_response"])
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
