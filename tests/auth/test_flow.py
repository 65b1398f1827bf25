"""What a step of signing in asks of the network: requests, and nothing of them in a log."""

from __future__ import annotations

import pytest

from mcphub.auth.flow import Answered, Ask, Unanswered, get, post_form, post_json
from tests.auth.transcript import form_of, header_of


def test_a_document_is_asked_for_as_json() -> None:
    """Without credentials of any kind."""
    ask = get("server metadata", "https://as.example/x", ("MCP-Protocol-Version", "2026-07-28"))
    assert (ask.method, ask.body, ask.url) == ("GET", b"", "https://as.example/x")
    assert ask.headers == (("Accept", "application/json"), ("MCP-Protocol-Version", "2026-07-28"))


def test_a_form() -> None:
    """Fields are encoded each by itself; those without a value are left out (C105: never an empty scope)."""
    ask = post_form("token", "https://as.example/token", {"a": "x y&z=ü", "scope": ""}, ("DPoP", "p"))
    assert form_of(ask) == {"a": "x y&z=ü"}
    assert header_of(ask, "Content-Type") == "application/x-www-form-urlencoded"
    assert (header_of(ask, "Accept"), header_of(ask, "DPoP")) == ("application/json", "p")


def test_a_document_is_sent_as_json() -> None:
    """With its type."""
    ask = post_json("registration", "https://as.example/r", {"a": ["x"]})
    assert (ask.body, header_of(ask, "Content-Type")) == (b'{"a":["x"]}', "application/json")


def test_nothing_of_it_is_printed() -> None:
    """S12: bodies, headers and URLs of requests and answers may hold secrets."""
    ask = Ask("token", "https://as.example/?s3cret", "POST", (("Authorization", "s3cret"),), b"s3cret")
    assert "s3cret" not in repr(ask)
    assert "s3cret" not in repr(Answered(200, b"s3cret", {"x": "s3cret"}))


@pytest.mark.parametrize(
    ("status", "ok", "transient"),
    [(200, True, False), (201, True, False), (204, True, False), (302, False, False), (400, False, False),
     (401, False, False), (404, False, False), (408, False, True), (429, False, True), (500, False, True),
     (503, False, True)],
)  # fmt: skip
def test_what_a_status_says(status: int, ok: bool, transient: bool) -> None:
    """Trouble of the server and too many requests may pass; a refusal does not."""
    assert (Answered(status).ok, Answered(status).transient) == (ok, transient)


def test_no_answer() -> None:
    """Whether the server may have acted is said, and is no by default."""
    assert not Unanswered("unreachable", "nothing listens").sent
