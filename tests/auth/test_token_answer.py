"""What the answer of a token endpoint means, whatever its form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.auth.flow import Answered, Reply, Unanswered
from mcphub.auth.token_answer import Granted, Lost, Malformed, Outcome, Refused, lifetime, read, read_token
from tests.auth.transcript import answered
from tests.tables import Row, label, rows


def _as_told(outcome: Outcome) -> dict[str, str]:
    """All that the table can ask for."""
    found = {"outcome": type(outcome).__name__.lower()}
    if isinstance(outcome, Granted):
        expires = outcome.expires_in
        found |= {
            "type": outcome.token_type,
            "expires": "none" if expires is None else f"{expires:g}",
            "refresh": str(outcome.refresh_token) or "none",
            "scopes": "none" if outcome.scopes is None else ",".join(outcome.scopes),
        }
    else:
        found["text"] = outcome.detail
    if isinstance(outcome, Refused):
        found |= {
            "error": outcome.error, "status": str(outcome.status), "transient": "yes" if outcome.transient else "no"
        }  # fmt: skip
    return found


@pytest.mark.parametrize("row", rows("auth", "token_answers"), ids=label)
def test_what_it_means(row: Row) -> None:
    """C107: an error is one whatever the status, numbers may be strings, junk is not an hour, a token must be one."""
    _, status, body, outcome, more = row.columns
    data = b"" if body == '""' else body.encode()
    found = _as_told(read_token(Answered(int(status), data, {"content-type": "application/json"})))
    assert found["outcome"] == outcome
    for name, _, value in (part.partition("=") for part in more.split(" ")):
        value = value.replace("~", " ")
        assert value in found[name] if name == "text" else value == found[name], name


def test_tokens_that_are_bound() -> None:
    """DPoP is a type only where a proof was sent; a bearer token is an answer to that too, for the caller to judge."""
    bound = answered({"access_token": "t", "token_type": "dpop"})
    assert _as_told(read_token(bound, dpop=True))["type"] == "DPoP"
    assert _as_told(read_token(answered({"access_token": "t"}), dpop=True))["type"] == "Bearer"


def test_what_is_no_token_for_a_header() -> None:
    """RFC 8693: where an assertion is asked for, its type says that it is none for a request, in any case of
    letters."""
    assert _as_told(read_token(answered({"access_token": "t", "token_type": "n_a"}), other="N_A"))["type"] == "N_A"
    for document in ({"access_token": "t"}, {"access_token": "t", "token_type": "Bearer"}):
        assert isinstance(read_token(answered(document), other="N_A"), Malformed)
    assert isinstance(read_token(answered({"access_token": "t", "token_type": "N_A"})), Malformed)


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (Unanswered("unreachable", "x"), Lost("x", False)),
        (Unanswered("tls", "x"), Lost("x", False)),
        (Unanswered("timeout", "x", True), Lost("x", True)),
        (Unanswered("lost", "x", True), Lost("x", True)),
        (Unanswered("unsafe", "x"), Lost("x", False, transient=False)),
        (Unanswered("redirect", "x", True), Refused("invalid_response", "x")),
        (Unanswered("too_large", "x", True), Malformed("x")),
    ],
)
def test_no_answer(reply: Reply, outcome: Outcome) -> None:
    """Whether the server may have acted is kept; S3: an address that may not be asked is no refusal of anybody's; S4:
    a redirect is an error."""
    assert read_token(reply) == outcome


@pytest.mark.parametrize(
    ("value", "seconds"), [("30", 30.0), (" 30 ", 30.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0), ("-1", 0.0), ("", 0.0)]
)
def test_when_it_may_be_asked_again(value: str, seconds: float) -> None:
    """Seconds, as Retry-After has them."""
    found = read_token(answered({"error": "slow_down"}, 429, retry_after=value))
    assert isinstance(found, Refused) and found.retry_after == seconds


def test_a_nonce() -> None:
    """RFC 9449: it comes with the refusal."""
    found = read_token(answered({"error": "use_dpop_nonce"}, 400, dpop_nonce="n"))
    assert found == Refused("use_dpop_nonce", "use_dpop_nonce", 400, False, 0.0, "n")


def test_other_endpoints() -> None:
    """Registration and revocation: a success may hold anything, or nothing."""
    assert read(answered({"client_id": "x"}, 201)) == ({"client_id": "x"}, 201)
    assert read(Answered(200)) == ({}, 200)
    assert read(Answered(204, b" \n")) == ({}, 204)


def test_nothing_of_it_is_printed() -> None:
    """S12: neither tokens nor the answer that they came in."""
    document = {"access_token": "s3cret", "refresh_token": "s3cret", "id_token": "s3cret"}
    found = read_token(answered(document))
    assert isinstance(found, Granted) and "s3cret" not in repr(found)


@given(st.binary(max_size=200), st.integers(100, 599), st.booleans())
def test_any_bytes(body: bytes, status: int, dpop: bool) -> None:
    """It is never an error of ours."""
    read_token(Answered(status, body), dpop=dpop)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_FIELDS = ["access_token", "token_type", "expires_in", "scope", "refresh_token", "error", "ok", "authed_user"]


@given(st.dictionaries(st.sampled_from(_FIELDS), _JSON, max_size=8), st.sampled_from([200, 400, 500]))
def test_any_document(document: dict[str, object], status: int) -> None:
    """Nor where it is nearly an answer; what is granted fits into a header."""
    found = read_token(answered(document, status))
    if isinstance(found, Granted):
        assert found.access_token.isascii() and found.access_token.isprintable() and " " not in found.access_token


@given(_JSON | st.integers(-(10**400), 10**400) | st.floats())
def test_any_lifetime(value: object) -> None:
    """C107: between now and ten years, or not known."""
    found = lifetime(value)
    assert found is None or 0 <= found < 4e8
