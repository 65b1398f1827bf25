"""The sign-in of a person: what is asked, which callback is believed, and the exchange of the code."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.auth.authorization_code import (
    OFFLINE,
    Pending,
    Strange,
    authorization_url,
    begin,
    code_of,
    exchange,
    scopes_to_ask,
)
from mcphub.auth.discovery import AuthorizationServer
from mcphub.auth.failures import SignInFailed
from mcphub.auth.flow import Answered, Reply, Unanswered
from mcphub.auth.records import Registration
from mcphub.spec import Secret
from tests.auth.transcript import SERVER, answered, form_of, header_of, play

CLIENT = Registration("c", "dcr", SERVER.issuer, method="none")
REDIRECT = "http://127.0.0.1:4100/callback"
RESOURCE = "https://m.example/mcp"


def pending(
    server: AuthorizationServer = SERVER,
    client: Registration = CLIENT,
    scopes: tuple[str, ...] = ("a", "b"),
    random: Callable[[int], bytes] = os.urandom,
) -> Pending:
    return begin(server, client, REDIRECT, RESOURCE, scopes, random)


def query(url: str) -> dict[str, str]:
    pairs = parse_qsl(urlsplit(url).query, keep_blank_values=True, strict_parsing=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


# -- scopes

CATALOGUE = tuple(f"s{number}" for number in range(40))


@pytest.mark.parametrize(
    ("configured", "challenged", "resource", "server", "asked"),
    [
        ((), ("a", "b"), ("c",), CATALOGUE, ("a", "b")),
        ((), (), ("a", "c"), CATALOGUE, ("a", "c")),
        ((), (), (), CATALOGUE, ()),
        (("x",), ("a", "b"), ("c",), CATALOGUE, ("x",)),
        ((), ("a",), (), (OFFLINE, "z"), ("a", OFFLINE)),
        ((), ("a", OFFLINE), (), (OFFLINE,), ("a", OFFLINE)),
        ((), ("a",), (), (), ("a",)),
        ((), (), (), (OFFLINE,), ()),
        ((), ("a", "a"), (), (), ("a",)),
        (("x",), ("a",), (), (OFFLINE, "z"), ("x", OFFLINE)),
    ],
)
def test_which_scopes(
    configured: tuple[str, ...],
    challenged: tuple[str, ...],
    resource: tuple[str, ...],
    server: tuple[str, ...],
    asked: tuple[str, ...],
) -> None:
    """C105: the entry's, else the challenge's, else the resource's, else none; never the catalogue of the server, but
    for offline_access where it offers that, and a refresh token is wanted."""
    assert scopes_to_ask(configured, challenged, resource, server) == asked
    without = scopes_to_ask(configured, challenged, resource, server, refresh=False)
    assert without == tuple(one for one in asked if one != OFFLINE or OFFLINE in (*configured, *challenged))


# -- the request


def test_what_is_asked() -> None:
    """C112, B85: the resource as it is; PKCE with S256 alone (C104); `state` of 32 bytes."""
    one = pending()
    found = query(authorization_url(one))
    state, challenge = found.pop("state"), found.pop("code_challenge")
    assert found == {
        "response_type": "code",
        "client_id": "c",
        "redirect_uri": REDIRECT,
        "scope": "a b",
        "code_challenge_method": "S256",
        "resource": RESOURCE,
    }
    assert len(base64.urlsafe_b64decode(state + "=")) == 32
    digest = hashlib.sha256(one.verifier.encode()).digest()
    assert challenge == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    assert len(one.verifier) == 64 and one.verifier not in authorization_url(one)


def test_each_is_another_one() -> None:
    """C104, S8: state, verifier and nonce are fresh for each sign-in."""
    many = [pending(scopes=("openid",)) for _ in range(20)]
    assert len({one.state for one in many} | {one.verifier for one in many} | {one.nonce for one in many}) == 60


def test_what_is_asked_at_times() -> None:
    """A nonce for OpenID, consent for refresh tokens there, the thumbprint of a key; and no parameter without a
    value."""
    found = query(authorization_url(pending(scopes=("openid", OFFLINE)), dpop_thumbprint="tp"))
    assert len(found["nonce"]) == 22 and (found["prompt"], found["dpop_jkt"]) == ("consent", "tp")
    bare = query(authorization_url(begin(SERVER, CLIENT, REDIRECT, "", (), os.urandom)))
    assert not {"scope", "resource", "nonce", "prompt", "dpop_jkt"} & set(bare)


def test_an_endpoint_with_a_query() -> None:
    """What is in it already stays; every value is encoded."""
    server = msgspec.structs.replace(SERVER, authorization_endpoint="https://as.example/a?tenant=x%20y")
    client = msgspec.structs.replace(CLIENT, client_id="https://c.example/x?y=1&z=ü")
    url = authorization_url(pending(server, client))
    assert url.startswith("https://as.example/a?tenant=x%20y&response_type=code&")
    assert query(url)["client_id"] == client.client_id and " " not in url and url.isascii()


def test_nothing_of_it_is_printed() -> None:
    """S12: neither state nor verifier."""
    one = pending()
    assert one.state not in repr(one) and one.verifier not in repr(one)


# -- the callback


def came(one: Pending, **pairs: str) -> Secret | Strange:
    return code_of(one, list({"state": str(one.state), **pairs}.items()))


SAYS_ISS = msgspec.structs.replace(SERVER, says_iss=True)


@pytest.mark.parametrize("server", [SERVER, SAYS_ISS])
def test_a_code(server: AuthorizationServer) -> None:
    """With the issuer that it is expected from, whether that was announced or not."""
    one = pending(server)
    assert came(one, code="x", iss=SERVER.issuer, unknown="y") == "x"
    assert came(pending(), code="x") == "x"


def test_what_is_of_no_sign_in() -> None:
    """C100: a wrong or missing state, and anything that stands there twice; nothing of it is believed."""
    one = pending()
    state = str(one.state)
    for pairs in (
        [],
        [("code", "x")],
        [("code", "x"), ("state", "")],
        [("code", "x"), ("state", str(pending().state))],
        [("code", "x"), ("state", state[:-1])],
        [("code", "x"), ("state", state + "x")],
        [("code", "x"), ("state", "ü\udc80")],
        [("error", "access_denied"), ("state", "x")],
        [("code", "x"), ("state", state), ("state", state)],
        [("code", "x"), ("code", "x"), ("state", state)],
        [("code", "x"), ("state", state), ("iss", SERVER.issuer), ("iss", "https://evil.example")],
        [("error", "a"), ("error", "b"), ("state", state)],
    ):
        assert isinstance(code_of(one, pairs), Strange)


@pytest.mark.parametrize(
    ("server", "pairs"),
    [
        (SERVER, {"iss": "https://evil.example", "code": "x"}),
        (SERVER, {"iss": SERVER.issuer + "/", "code": "x"}),
        (SERVER, {"iss": "HTTPS://as.example", "code": "x"}),
        (SERVER, {"iss": "", "code": "x"}),
        (SAYS_ISS, {"code": "x"}),
        (SAYS_ISS, {"iss": "https://evil.example", "code": "x"}),
        (SAYS_ISS, {"error": "access_denied", "error_description": "told by evil"}),
        (SERVER, {"iss": "https://evil.example", "error": "access_denied", "error_description": "told by evil"}),
    ],
)
def test_an_answer_of_another_server(server: AuthorizationServer, pairs: dict[str, str]) -> None:
    """B85: RFC 9207: the issuer comes before anything else is believed, without any tolerance (C097); of what another
    one sent nothing is shown."""
    with pytest.raises(SignInFailed) as caught:
        came(pending(server), **pairs)
    assert caught.value.reason == "issuer_mismatch"
    assert "evil" not in str(caught.value) and "denied" not in str(caught.value)


@pytest.mark.parametrize(
    ("pairs", "reason", "part"),
    [
        ({"error": "access_denied", "error_description": "not\x1b[2J you"}, "denied", "access_denied: not [2J you"),
        ({"error": "access_denied", "code": "x"}, "denied", "access_denied"),
        ({"error": "server_error"}, "provider_error", "server_error"),
        ({"error": ""}, "provider_error", "https://as.example says"),
        ({}, "provider_error", "neither a code nor an error"),
        ({"code": ""}, "provider_error", "neither a code nor an error"),
        ({"error": "x" * 5000}, "provider_error", "…"),
    ],
)
def test_how_a_sign_in_ends_without_a_code(pairs: dict[str, str], reason: str, part: str) -> None:
    """S11: what the server says is cut, and fit to be shown."""
    with pytest.raises(SignInFailed) as caught:
        came(pending(), **pairs)
    assert caught.value.reason == reason and part in str(caught.value) and len(str(caught.value)) < 500


@given(st.lists(st.tuples(st.sampled_from(["code", "state", "iss", "error", "x"]), st.text(max_size=20)), max_size=8))
def test_any_callback(pairs: list[tuple[str, str]]) -> None:
    """Without the state nothing is more than strange."""
    assert isinstance(code_of(pending(), pairs), Strange)


# -- the exchange

TOKENS = {"access_token": "t", "token_type": "bearer", "refresh_token": "r"}


def test_the_token_request() -> None:
    """C101, C112, B85: the same redirect URI and resource as before; the verifier; the id of a client without a
    secret."""
    one = pending()
    found = play(exchange(one, Secret("x")), answered(TOKENS))
    (ask,) = found.asks
    assert (ask.method, ask.url, header_of(ask, "Accept")) == ("POST", SERVER.token_endpoint, "application/json")
    assert form_of(ask) == {
        "grant_type": "authorization_code",
        "code": "x",
        "redirect_uri": REDIRECT,
        "code_verifier": str(one.verifier),
        "resource": RESOURCE,
        "client_id": "c",
    }
    assert not header_of(ask, "Authorization")
    assert (found.result.access_token, found.result.refresh_token) == ("t", "r")


def test_the_token_request_of_a_client_with_a_secret() -> None:
    """It is proved as the registration says."""
    client = Registration("c", "config", SERVER.issuer, Secret("s"), "client_secret_basic")
    (ask,) = play(exchange(pending(client=client), Secret("x")), answered(TOKENS)).asks
    assert header_of(ask, "Authorization") == "Basic Yzpz" and "client_id" not in form_of(ask)
    keyed = Registration("c", "config", SERVER.issuer, method="private_key_jwt")
    (ask,) = play(exchange(pending(client=keyed), Secret("x"), lambda: "signed"), answered(TOKENS)).asks
    assert form_of(ask)["client_assertion"] == "signed"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (answered({"error": "invalid_grant"}, 400), "exchange_failed"),
        (answered({"ok": False, "error": "invalid_code"}), "exchange_failed"),
        (answered({"error": "invalid_target", "error_description": "no such resource"}, 400), "exchange_failed"),
        (Answered(500), "exchange_failed"),
        (Answered(429), "exchange_failed"),
        (Answered(302), "exchange_failed"),
        (Unanswered("lost", "it broke off", True), "exchange_failed"),
        (Unanswered("unreachable", "nothing listens"), "exchange_failed"),
        (Unanswered("redirect", "HTTP 302 to https://evil.example", True), "exchange_failed"),
        (Unanswered("unsafe", "it leads to 127.0.0.1"), "unsafe_url"),
        (Unanswered("too_large", "larger than 256 KiB", True), "token_malformed"),
        (answered({"access_token": ""}), "token_malformed"),
        (answered({"access_token": "t", "token_type": "mac"}), "token_malformed"),
        (Answered(200, b"<html>"), "token_malformed"),
    ],
)
def test_a_code_is_sent_once(reply: Reply, reason: str) -> None:
    """C112: whatever comes, and however it passes: a code is good for one use, and no refusal is asked again."""
    found = play(exchange(pending(), Secret("x")), reply)
    assert found.reason == reason and len(found.asks) == 1
    assert found.failure is not None and not found.failure.retry


def test_a_nonce() -> None:
    """RFC 9449: a server that wants one has not looked at the code, and is asked a second time, never a third; the
    proof and the assertion are new."""
    made: list[str] = []

    def proof(nonce: str) -> tuple[tuple[str, str], ...]:
        return (("DPoP", f"proof {nonce}"),)

    def assertion() -> str:
        made.append(f"assertion {len(made)}")
        return made[-1]

    wants = answered({"error": "use_dpop_nonce"}, 400, dpop_nonce="n")
    client = Registration("c", "config", SERVER.issuer, method="private_key_jwt")
    bound = answered(TOKENS | {"token_type": "DPoP"})
    found = play(exchange(pending(client=client), Secret("x"), assertion, proof), wants, bound)
    assert [header_of(ask, "DPoP") for ask in found.asks] == ["proof ", "proof n"]
    assert [form_of(ask)["client_assertion"] for ask in found.asks] == ["assertion 0", "assertion 1"]
    assert found.result.token_type == "DPoP"
    assert play(exchange(pending(), Secret("x"), None, proof), wants, wants).reason == "exchange_failed"
    assert play(exchange(pending(), Secret("x")), wants).reason == "exchange_failed"
