"""A request for tokens that needs no person: form, proof, nonce, and what is kept of the answer."""

from __future__ import annotations

import json

import msgspec
import pytest

from mcphub.auth.discovery import Discovered, Resource
from mcphub.auth.failures import RefreshFailure, SignInFailed
from mcphub.auth.flow import Answered, Reply, Unanswered
from mcphub.auth.granting import Binding, Reasons, binding_for, failed, grant, tokens_of
from mcphub.auth.occasion import Occasion
from mcphub.auth.records import Registration, TokenSet
from mcphub.auth.token_answer import Granted, Lost, Malformed, Refused
from mcphub.spec import Secret
from tests.auth.jwts import opened, public_of
from tests.auth.stand_in import StandIn
from tests.auth.transcript import NOW, SERVER, account, answered, form_of, header_of, play

CLIENT = Registration("c", "config", SERVER.issuer, Secret("s"), "client_secret_post")
RESOURCE = Resource("https://m.example/mcp")
TOKENS = {"access_token": "t", "expires_in": 60, "refresh_token": "r"}


def occasion(*, dpop: bool = False, last: TokenSet | None = None, resource: Resource = RESOURCE) -> Occasion:
    return Occasion(account(), Discovered(resource, SERVER), ("a", "b"), StandIn({}), last, dpop)


def test_a_request() -> None:
    """The grant's own fields, and the proof of the client."""
    (ask,) = play(grant(SERVER, CLIENT, {"grant_type": "x", "scope": ""}), answered(TOKENS)).asks
    assert form_of(ask) == {"grant_type": "x", "client_id": "c", "client_secret": "s"}


@pytest.mark.parametrize("reply", [Answered(500), Unanswered("lost", "x", True), answered({"error": "x"}, 400)])
def test_it_is_sent_once(reply: Reply) -> None:
    """What may be tried again is not this module's to say."""
    assert len(play(grant(SERVER, CLIENT, {}), reply).asks) == 1


def test_a_nonce() -> None:
    """A second request where one is wanted, never a third; each proof is of the same key, and another one."""
    binding = binding_for(occasion(dpop=True))
    assert binding is not None
    wants = answered({"error": "use_dpop_nonce"}, 400, dpop_nonce="n")
    found = play(grant(SERVER, CLIENT, {}, None, binding), wants, answered(TOKENS | {"token_type": "DPoP"}))
    proofs = [opened(header_of(ask, "DPoP"), public_of(json.loads(binding.json)))[1] for ask in found.asks]
    assert [proof.get("nonce") for proof in proofs] == [None, "n"]
    assert {proof["htu"] for proof in proofs} == {SERVER.token_endpoint} and proofs[0]["jti"] != proofs[1]["jti"]
    assert isinstance(found.result, Granted) and found.result.token_type == "DPoP"
    assert isinstance(play(grant(SERVER, CLIENT, {}, None, binding), wants, wants).result, Refused)
    assert isinstance(play(grant(SERVER, CLIENT, {}), wants).result, Refused)
    assert binding.json not in repr(binding)


def test_the_key_of_bound_tokens() -> None:
    """It is that of the tokens before; none where nothing is to be bound."""
    last = TokenSet(Secret("t"), "i", "c", "e", dpop_key=Secret("{}"))
    found = binding_for(occasion(dpop=True, last=last))
    assert found is not None and found.json == "{}"
    assert binding_for(occasion(last=last)) is None


def test_what_is_kept() -> None:
    """No refresh token where they are asked for anew; scopes as requested where the answer has none."""
    granted = Granted(Secret("t"), "Bearer", 60.0, Secret("r"))
    expected = TokenSet(
        Secret("t"),
        SERVER.issuer,
        "c",
        SERVER.token_endpoint,
        RESOURCE.resource,
        obtained_at=NOW,
        expires_at=NOW + 60,
        requested=("a", "b"),
        granted=("a", "b"),
        client_method="client_secret_post",
    )
    assert tokens_of(occasion(), CLIENT, granted, None) == expected
    assert tokens_of(occasion(), CLIENT, granted, None, refresh=True).refresh_token == "r"
    bare = tokens_of(occasion(), CLIENT, Granted(Secret("t"), "Bearer", scopes=("z",)), None)
    assert (bare.expires_at, bare.granted, bare.requested) == (0.0, ("z",), ("a", "b"))


def test_a_downgrade() -> None:
    """RFC 9449: tokens that anybody could use are refused where the server wants bound ones, or gave such before."""
    bearer = Granted(Secret("t"), "Bearer")
    bound = occasion(dpop=True)
    binding = binding_for(bound)
    assert tokens_of(bound, CLIENT, bearer, binding).dpop_key == ""
    assert tokens_of(bound, CLIENT, Granted(Secret("t"), "DPoP"), binding).dpop_key
    required = occasion(dpop=True, resource=msgspec.structs.replace(RESOURCE, dpop=True))
    before = occasion(dpop=True, last=TokenSet(Secret("t"), "i", "c", "e", token_type="DPoP", dpop_key=Secret("{}")))
    for one in (required, before):
        with pytest.raises(SignInFailed) as caught:
            tokens_of(one, CLIENT, bearer, Binding("{}", one))
        assert caught.value.reason == "token_malformed"


REASONS = Reasons(
    {"invalid_client": RefreshFailure.CLIENT_REJECTED},
    RefreshFailure.REQUEST_REJECTED,
    RefreshFailure.TRANSIENT_EXHAUSTED,
    RefreshFailure.MALFORMED_ANSWER,
)


@pytest.mark.parametrize(
    ("outcome", "reason", "retry"),
    [
        (Refused("invalid_client", "x", 401), "client_rejected", False),
        (Refused("other", "x", 400), "request_rejected", False),
        (Refused("invalid_client", "x", 503, True), "transient_exhausted", True),
        (Lost("x", False), "transient_exhausted", True),
        (Lost("x", False, False), "unsafe_url", False),
        (Malformed("x", 200), "malformed_answer", False),
    ],
)
def test_what_a_failure_is_called(outcome: Refused | Lost | Malformed, reason: str, retry: bool) -> None:
    """By its error where that says something, as trouble where it may pass."""
    found = failed("no token", outcome, REASONS).failure
    assert (found.reason, found.retry, found.detail) == (reason, retry, "no token: x")
