"""The renewal of tokens: what is sent, and what an answer means for those that are kept."""

from __future__ import annotations

import msgspec
import pytest

from mcphub.auth.flow import Answered, Unanswered
from mcphub.auth.records import Registration, TokenSet
from mcphub.auth.refresh import RESTS, after, refresh, renewed, revoke
from mcphub.auth.token_answer import Granted, Lost, Malformed, Outcome, Refused
from mcphub.spec import Secret
from tests.auth.transcript import NOW, answered, form_of, header_of, play

AS = "https://as.example"
CLIENT = Registration("c", "dcr", AS, method="none")
TOKENS = TokenSet(
    Secret("a0"),
    AS,
    "c",
    f"{AS}/token",
    "https://m.example/mcp",
    obtained_at=NOW - 3600,
    expires_at=NOW,
    refresh_token=Secret("r0"),
    requested=("x",),
    granted=("x", "y"),
    client_source="dcr",
)


# -- what is sent


def test_the_request() -> None:
    """C112: the same resource, and no scope: the same is meant."""
    (ask,) = play(refresh(TOKENS, CLIENT, None), answered({"access_token": "a1"})).asks
    assert ask.url == f"{AS}/token"
    assert form_of(ask) == {
        "grant_type": "refresh_token",
        "refresh_token": "r0",
        "resource": "https://m.example/mcp",
        "client_id": "c",
    }
    basic = Registration("c", "config", AS, Secret("s"), "client_secret_basic")
    (ask,) = play(refresh(TOKENS, basic, None), answered({"access_token": "a1"})).asks
    assert header_of(ask, "Authorization") == "Basic Yzpz" and "client_id" not in form_of(ask)


def test_it_is_sent_once() -> None:
    """Whether it is sent again is decided elsewhere, never here."""
    for reply in (Answered(500), Unanswered("lost", "x", True), answered({"error": "invalid_request"}, 400)):
        assert len(play(refresh(TOKENS, CLIENT, None), reply).asks) == 1


def test_bound_tokens() -> None:
    """RFC 9449: with a proof, once more with the nonce that is wanted; tokens that are not bound any more are none."""

    def proof(nonce: str) -> tuple[tuple[str, str], ...]:
        return (("DPoP", f"proof {nonce}"),)

    tokens = msgspec.structs.replace(TOKENS, token_type="DPoP")
    wants = answered({"error": "use_dpop_nonce"}, 400, dpop_nonce="n")
    good = answered({"access_token": "a1", "token_type": "DPoP"})
    found = play(refresh(tokens, CLIENT, None, None, proof), wants, good)
    assert [header_of(ask, "DPoP") for ask in found.asks] == ["proof ", "proof n"]
    assert isinstance(found.result, Granted) and found.result.token_type == "DPoP"
    assert isinstance(play(refresh(tokens, CLIENT, None, None, proof), wants, wants).result, Refused)
    assert isinstance(play(refresh(TOKENS, CLIENT, None), wants).result, Refused)
    bearer = answered({"access_token": "a1", "token_type": "Bearer"})
    assert isinstance(play(refresh(tokens, CLIENT, None, None, proof), bearer).result, Malformed)


# -- what is kept


def test_the_tokens_after_it() -> None:
    """C107, C108: what the answer leaves out stays as it was, above all the refresh token; a lifetime that is not said
    is not known."""
    granted = Granted(Secret("a1"), "Bearer", 60.0, Secret("r1"), ("z",))
    expected = msgspec.structs.replace(
        TOKENS,
        access_token=Secret("a1"),
        refresh_token=Secret("r1"),
        obtained_at=NOW + 1,
        expires_at=NOW + 61,
        granted=("z",),
    )
    assert renewed(TOKENS, granted, NOW + 1) == expected
    bare = renewed(TOKENS, Granted(Secret("a1"), "Bearer"), NOW + 1)
    assert (bare.refresh_token, bare.granted, bare.expires_at, bare.requested) == ("r0", ("x", "y"), 0.0, ("x",))


# -- what follows

HALF = 0.5


@pytest.mark.parametrize(
    ("outcome", "attempt", "resent", "odd", "do", "reason", "rest"),
    [
        (Granted(Secret("a"), "Bearer"), 1, False, False, "keep", "", 0.0),
        # Dead, whatever the server calls it.
        (Refused("invalid_grant", "x", 400), 1, False, False, "forget", "grant_rejected", 0.0),
        (Refused("invalid_grant", "x", 400), 3, True, True, "forget", "grant_rejected", 0.0),
        (Refused("invalid_request", "the Refresh Token is bad", 400), 1, False, False, "forget", "grant_rejected", 0.0),
        (Refused("invalid_request", "bad refresh_token", 400), 1, False, False, "forget", "grant_rejected", 0.0),
        (Refused("invalid_request", "bad", 400), 1, False, False, "again", "request_rejected", 0.0),
        (Refused("invalid_request", "bad", 400), 1, False, True, "forget", "grant_rejected", 0.0),
        # A person must act, and the tokens are not known to be dead.
        (Refused("invalid_client", "x", 401), 1, False, False, "ask", "client_rejected", 0.0),
        (Refused("unauthorized_client", "x", 400), 1, False, False, "ask", "client_rejected", 0.0),
        (Refused("invalid_scope", "x", 400), 1, False, False, "ask", "scope_rejected", 0.0),
        (Refused("invalid_target", "x", 400), 1, False, False, "ask", "scope_rejected", 0.0),
        (Refused("unsupported_grant_type", "x", 400), 1, False, False, "ask", "request_rejected", 0.0),
        (Refused("", "HTTP 404", 404), 1, False, False, "ask", "request_rejected", 0.0),
        (Refused("", "HTTP 401", 401), 1, False, False, "ask", "request_rejected", 0.0),
        # Trouble: three tries, then nothing is lost and nobody is asked.
        (Refused("", "HTTP 500", 500, True), 1, False, False, "again", "", RESTS[0] * HALF),
        (Refused("", "HTTP 500", 500, True), 2, False, False, "again", "", RESTS[1] * HALF),
        (Refused("", "HTTP 500", 500, True), 3, False, False, "give_up", "transient_exhausted", 0.0),
        (Refused("", "HTTP 429", 429, True, 7.0), 1, False, False, "again", "", 7.0),
        (Refused("", "HTTP 429", 429, True, 30.0), 1, False, False, "again", "", 30.0),
        (Refused("", "HTTP 429", 429, True, 31.0), 1, False, False, "give_up", "transient_exhausted", 0.0),
        (Refused("temporarily_unavailable", "x", 400, True), 3, False, False, "give_up", "transient_exhausted", 0.0),
        (Lost("nothing listens", False), 1, False, False, "again", "", RESTS[0] * HALF),
        (Lost("nothing listens", False), 3, False, False, "give_up", "transient_exhausted", 0.0),
        (Lost("it leads to 10.0.0.1", False, False), 1, False, False, "give_up", "transient_exhausted", 0.0),
        # An answer that was lost: once more at once, then a person.
        (Lost("it broke off", True), 1, False, False, "again", "", 0.0),
        (Lost("it broke off", True), 1, True, False, "ask", "grant_rejected", 0.0),
        # A success without a token: a person only at the second one.
        (Malformed("no access_token", 200), 1, False, False, "give_up", "malformed_answer", 0.0),
        (Malformed("no access_token", 200), 1, False, True, "ask", "malformed_answer", 0.0),
    ],
)
def test_what_follows(
    outcome: Outcome, attempt: int, resent: bool, odd: bool, do: str, reason: str, rest: float
) -> None:
    """C108: dead tokens are forgotten, trouble never costs any; a server that answers invalid_request to a dead token
    is not asked for ever."""
    found = after(outcome, attempt, resent=resent, odd_before=odd, chance=HALF)
    assert (found.do, str(found.failure.reason) if found.failure else "", found.rest) == (do, reason, rest)
    if reason == "transient_exhausted":
        assert found.failure is not None and found.failure.retry


def test_rests_are_spread() -> None:
    """Clients that failed together do not come back together."""
    rests = [after(Lost("x", False), 2, resent=False, odd_before=False, chance=c / 10).rest for c in range(11)]
    assert rests == sorted(rests) and (rests[0], rests[-1]) == (0.0, RESTS[1])


# -- revocation


def test_revocation() -> None:
    """S19, RFC 7009: token by token, with the client's proof; what the server answers is told."""
    flow = revoke(f"{AS}/revoke", "r0", "refresh_token", CLIENT, None)
    found = play(flow, Answered(200))
    assert form_of(found.asks[0]) == {"token": "r0", "token_type_hint": "refresh_token", "client_id": "c"}
    assert found.result is True
    for reply in (Answered(400), Answered(503), Unanswered("unreachable", "x")):
        assert play(revoke(f"{AS}/revoke", "r0", "refresh_token", CLIENT, None), reply).result is False
