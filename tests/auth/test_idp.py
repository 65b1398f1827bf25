"""The organisation's login: what is kept, its renewal, its exchange for an assertion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from mcphub.auth import idp
from mcphub.auth.flow import Answered, Reply, Unanswered
from mcphub.auth.records import IdpSession, decoded, encoded, idp_key
from mcphub.spec import IdpSpec, Secret
from mcphub.store.vault_state import Record
from tests.auth.jwts import jwk, signed
from tests.auth.stand_in import Answers, StandIn, failing
from tests.auth.transcript import NOW, answered, form_of, header_of

pytestmark = pytest.mark.anyio
IDP = "https://idp.example/tenant"
SPEC = IdpSpec(IDP, "mcphub", Secret("s"))
KEY = rsa.generate_private_key(65537, 2048)
PLACE = "https://idp.example/.well-known/oauth-authorization-server/tenant"
TOKEN, JWKS = "https://idp.example/token", "https://idp.example/jwks"
AS, RESOURCE = "https://as.example", "https://m.example/mcp"
METADATA = {
    "issuer": IDP,
    "authorization_endpoint": "https://idp.example/authorize",
    "token_endpoint": TOKEN,
    "jwks_uri": JWKS,
    "token_endpoint_auth_methods_supported": ["client_secret_basic"],
}
KEYS = answered({"keys": [jwk(KEY.public_key(), kid="k")]})
JAG_TYPE = "urn:ietf:params:oauth:token-type:id-jag"


def id_token(**changes: Any) -> str:
    claims = {"iss": IDP, "sub": "u1", "aud": "mcphub", "exp": NOW + 600, "iat": NOW} | changes
    return signed(claims, KEY, "RS256", kid="k")


def jag(typ: str = "oauth-id-jag+jwt", **changes: Any) -> str:
    claims = {"iss": IDP, "aud": AS, "resource": RESOURCE, "client_id": "c", "sub": "u1", "exp": NOW + 300} | changes
    return signed({name: value for name, value in claims.items() if value is not None}, KEY, "RS256", typ=typ)


def exchanged(token: str, **changes: Any) -> Answered:
    return answered({"access_token": token, "token_type": "N_A", "issued_token_type": JAG_TYPE} | changes)


def home_with(answers: Mapping[str, Answers], login: IdpSession | None = None, spec: IdpSpec = SPEC) -> StandIn:
    home = StandIn({PLACE: answered(METADATA), JWKS: KEYS, **answers}, spec)
    if login is not None:
        home.safe.gen = 1
        home.safe.records[idp.IDP, idp_key(spec.issuer, spec.client_id)] = Record(encoded(login), 1)
    return home


def login(*, ends: float = NOW + 600, refresh: str = "r0", token: str = "") -> IdpSession:
    return IdpSession(IDP, "mcphub", Secret(token or id_token()), "u1", ends, TOKEN, Secret(refresh))


def kept(home: StandIn) -> IdpSession | None:
    record = home.safe.records.get((idp.IDP, idp_key(IDP, "mcphub")))
    return decoded(record.data, IdpSession) if record is not None else None


# -- what the provider says of itself


async def test_its_metadata() -> None:
    """By its issuer, in the order for any issuer; PKCE need not be announced."""
    home = home_with({})
    assert (await idp.metadata(home, SPEC)).token_endpoint == TOKEN
    assert [ask.url for ask in home.told] == [PLACE]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (answered(METADATA | {"issuer": IDP + "/"}), "issuer_mismatch"),
        (answered(METADATA | {"issuer": "https://evil.example"}), "issuer_mismatch"),
        (answered(METADATA | {"token_endpoint": "http://127.0.0.1/"}), "unsafe_url"),
        (Answered(503), "idp_unavailable"),
        (Unanswered("unreachable", "x"), "idp_unavailable"),
        (Answered(404), "discovery_failed"),
    ],
)
async def test_metadata_of_no_use(reply: Reply, reason: str) -> None:
    """C097: without the tolerance for a slash; trouble may pass."""
    found = await failing(idp.metadata(home_with({PLACE: reply}), SPEC))
    assert found.reason == reason and found.failure.retry is (reason == "idp_unavailable")


@pytest.mark.parametrize(("url", "name"), [(TOKEN, "token_endpoint"), (METADATA["jwks_uri"], "jwks_uri")])
async def test_places_that_may_not_be_asked(url: str, name: str) -> None:
    """S3: refused before anybody is sent to a login."""
    home = home_with({})
    home.places = {url: "10.0.0.5 leads to 10.0.0.5"}
    found = await failing(idp.metadata(home, SPEC))
    assert found.reason == "unsafe_url" and name in found.failure.detail


async def test_a_slash_of_the_setting() -> None:
    """C097: an issuer without a path is what the setting says, to the last sign."""
    spec = IdpSpec("https://idp.example/", "mcphub")
    home = StandIn({"https://idp.example/.well-known/oauth-authorization-server": answered(
        METADATA | {"issuer": "https://idp.example"}
    )}, spec)  # fmt: skip
    assert (await failing(idp.metadata(home, spec))).reason == "issuer_mismatch"


# -- the login


async def test_a_login_that_is_good() -> None:
    """It is used as it is; nobody is asked."""
    home = home_with({}, login())
    assert (await idp.session(home, SPEC)) == login() and home.asked == []


@pytest.mark.parametrize("there", [None, login(ends=NOW, refresh="")])
async def test_nobody_has_signed_in(there: IdpSession | None) -> None:
    """Or the login has ended and nothing renews it."""
    found = await failing(idp.session(home_with({}, there), SPEC))
    assert found.reason == "idp_login_required" and IDP in str(found)


async def test_a_login_is_renewed() -> None:
    """C119: with the provider's refresh token, the client's proof, and nothing of a server; kept before it is used."""
    answer = answered({"access_token": "a", "id_token": id_token(), "refresh_token": "r1"})
    home = home_with({TOKEN: answer}, login(ends=NOW))
    found = await idp.session(home, SPEC)
    ask = next(ask for ask in home.asked if ask.url == TOKEN)
    assert form_of(ask) == {"grant_type": "refresh_token", "refresh_token": "r0"}
    assert header_of(ask, "Authorization") == "Basic bWNwaHViOnM=" and home.asked == home.told
    assert (found.expires_at, found.refresh_token) == (NOW + 600, "r1") and kept(home) == found
    assert {id_token(), "r1"} <= set(home.hidden)


async def test_the_refresh_token_that_stays() -> None:
    """An answer without one means the old one; `not_this` renews what has not ended."""
    home = home_with({TOKEN: answered({"access_token": "a", "id_token": id_token(iat=NOW - 1)})}, login())
    found = await idp.session(home, SPEC, not_this=id_token())
    assert (found.refresh_token, found.id_token) == ("r0", id_token(iat=NOW - 1))


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (answered({"error": "invalid_grant"}, 400), "idp_login_required"),
        (answered({"error": "invalid_client"}, 401), "idp_login_required"),
        (answered({"access_token": "a"}), "idp_login_required"),
        (answered({"access_token": "a", "id_token": id_token(sub="u2")}), "id_token_invalid"),
        (answered({"access_token": "a", "id_token": id_token(aud="x")}), "id_token_invalid"),
        (answered({"access_token": "a", "id_token": "x"}), "id_token_invalid"),
        (Answered(503), "idp_unavailable"),
        (Unanswered("unreachable", "x"), "idp_unavailable"),
    ],
)
async def test_a_renewal_that_fails(reply: Reply, reason: str) -> None:
    """Another person's login is not taken over; trouble is no reason for a login."""
    found = await failing(idp.session(home_with({TOKEN: reply}, login(ends=NOW)), SPEC))
    assert found.reason == reason and "r0" not in str(found)


async def test_a_renewal_without_an_id_token() -> None:
    """Where the refresh token itself is exchanged none is needed."""
    spec = msgspec.structs.replace(SPEC, subject="refresh_token")
    home = home_with({TOKEN: answered({"access_token": "a", "refresh_token": "r1"})}, login(ends=NOW), spec)
    assert (await idp.session(home, spec)).refresh_token == "r1"


async def test_a_new_refresh_token_is_kept_whatever_comes_of_the_rest() -> None:
    """The old one is dead from then on: a trouble with the keys must not cost the login."""
    answer = answered({"access_token": "a", "id_token": id_token(), "refresh_token": "r1"})
    home = home_with({TOKEN: answer, JWKS: Answered(503)}, login(ends=NOW))
    assert (await failing(idp.session(home, SPEC))).reason == "idp_unavailable"
    found = kept(home)
    assert found is not None and found.refresh_token == "r1" and found.expires_at == NOW


async def test_an_answer_that_is_lost() -> None:
    """The same is sent again at once, and only once."""
    answer = answered({"access_token": "a", "id_token": id_token(), "refresh_token": "r1"})
    home = home_with({TOKEN: [Unanswered("lost", "x", sent=True), answer]}, login(ends=NOW))
    assert (await idp.session(home, SPEC)).refresh_token == "r1"
    home = home_with({TOKEN: [Unanswered("lost", "x", sent=True)] * 2}, login(ends=NOW))
    assert (await failing(idp.session(home, SPEC))).reason == "idp_unavailable"
    found = kept(home)
    assert found is not None and found.refresh_token == "r0"


async def test_a_dead_refresh_token_is_sent_once() -> None:
    """C119: not once for each server that wants it."""
    home = home_with({TOKEN: [answered({"error": "invalid_grant", "error_description": "r0?"}, 400)]}, login(ends=NOW))
    for _ in range(3):
        found = await failing(idp.session(home, SPEC))
        assert found.reason == "idp_login_required" and "r0" not in str(found)


async def test_a_person_signs_in_during_a_renewal() -> None:
    """Theirs is kept."""
    theirs = login(refresh="theirs")

    def meanwhile(ask: object) -> Reply:
        home.safe.gen += 1
        home.safe.records[idp.IDP, idp_key(IDP, "mcphub")] = Record(encoded(theirs), home.safe.gen)
        return answered({"access_token": "a", "id_token": id_token(), "refresh_token": "r1"})

    home = home_with({TOKEN: meanwhile}, login(ends=NOW))
    assert (await failing(idp.session(home, SPEC))).reason == "idp_unavailable"
    assert kept(home) == theirs and await idp.session(home, SPEC) == theirs


async def test_whether_a_login_may_serve() -> None:
    """8: a server is only tried where there is something to try it with."""
    for there, expected in ((None, False), (login(ends=NOW, refresh=""), False), (login(ends=NOW), True)):
        assert await idp.may_serve(home_with({}, there), SPEC) is expected
    assert await idp.may_serve(home_with({}, login(refresh="")), SPEC) is True


# -- the keys


async def test_keys_are_asked_for_once_more() -> None:
    """The provider may have changed them; once, then the token is not valid."""
    old = answered({"keys": []})
    home = home_with({JWKS: [old, KEYS]})
    server = await idp.metadata(home, SPEC)
    assert await idp.checked(home, SPEC, server, Secret(id_token()), "") == ("u1", NOW + 600)
    home = home_with({JWKS: [old, old]})
    found = await failing(idp.checked(home, SPEC, server, Secret(id_token()), ""))
    assert found.reason == "id_token_invalid" and "does not publish" in str(found)


async def test_keys_that_cannot_be_had() -> None:
    """That may pass; a provider that names none cannot be used."""
    home = home_with({JWKS: Answered(500)})
    server = await idp.metadata(home, SPEC)
    assert (await failing(idp.checked(home, SPEC, server, Secret(id_token()), ""))).reason == "idp_unavailable"
    without = msgspec.structs.replace(server, jwks_uri="")
    assert (await failing(idp.checked(home, SPEC, without, Secret(id_token()), ""))).reason == "id_token_invalid"


# -- the exchange


async def exchange(reply: Reply, spec: IdpSpec = SPEC) -> tuple[StandIn, Any]:
    home = home_with({TOKEN: reply}, spec=spec)
    return home, idp.assertion_for(home, spec, login(), AS, RESOURCE, ("a", "b"), "c")


async def test_an_exchange() -> None:
    """RFC 8693: for that authorization server and that resource, to the provider alone."""
    home, work = await exchange(exchanged(jag()))
    assert await work == jag()
    ask = next(ask for ask in home.told if ask.url == TOKEN)
    assert form_of(ask) == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": JAG_TYPE,
        "audience": AS,
        "resource": RESOURCE,
        "subject_token": id_token(),
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "scope": "a b",
    }
    assert header_of(ask, "Authorization").startswith("Basic ") and home.asked == home.told
    assert jag() in home.hidden and kept(home) is None


async def test_the_refresh_token_as_subject() -> None:
    """Where the setting says so."""
    home, work = await exchange(exchanged(jag()), msgspec.structs.replace(SPEC, subject="refresh_token"))
    await work
    form = form_of(next(ask for ask in home.told if ask.url == TOKEN))
    assert (form["subject_token"], form["subject_token_type"]) == (
        "r0", "urn:ietf:params:oauth:token-type:refresh_token",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (answered({"error": "access_denied"}, 400), "policy_denied"),
        (answered({"error": "invalid_target"}, 400), "policy_denied"),
        (answered({"error": "unauthorized_client"}, 400), "policy_denied"),
        (answered({"error": "invalid_scope"}, 400), "policy_denied"),
        (answered({"error": "invalid_request"}, 400), "exchange_rejected"),
        (Answered(503), "idp_unavailable"),
        (Unanswered("lost", "x", True), "idp_unavailable"),
        (answered({"access_token": jag(), "token_type": "Bearer", "issued_token_type": JAG_TYPE}), "exchange_rejected"),
        (exchanged(jag(), issued_token_type="urn:ietf:params:oauth:token-type:access_token"), "exchange_rejected"),
        (exchanged(jag(), issued_token_type=None), "exchange_rejected"),
        (exchanged(""), "exchange_rejected"),
        (exchanged(jag("JWT")), "exchange_rejected"),
        (exchanged(jag(aud="https://other.example")), "exchange_rejected"),
        (exchanged(jag(aud=None)), "exchange_rejected"),
        (exchanged(jag(resource="https://other.example")), "exchange_rejected"),
        (exchanged(jag(client_id="other")), "exchange_rejected"),
    ],
)
async def test_an_exchange_that_fails(reply: Reply, reason: str) -> None:
    """What is denied is called so; an assertion for another place, resource or client is not passed on."""
    _, work = await exchange(reply)
    found = await failing(work)
    assert found.reason == reason and id_token() not in str(found) and AS in str(found)


@pytest.mark.parametrize("token", ["opaque", jag(aud=["x", AS]), jag(resource=["x", RESOURCE]), jag(resource=None)])
async def test_assertions_that_are_passed_on(token: str) -> None:
    """What says nothing of itself is the authorization server's to judge; lists may name others too."""
    _, work = await exchange(exchanged(token))
    assert await work == token


async def test_a_subject_that_is_not_taken() -> None:
    """It is another thing than a denial: a fresh one may do."""
    _, work = await exchange(answered({"error": "invalid_grant"}, 400))
    with pytest.raises(idp.StaleSubject) as caught:
        await work
    assert caught.value.failure.reason == "exchange_rejected"


def test_the_client() -> None:
    """It is the setting's, at this issuer."""
    found = idp.client_of(SPEC, IDP)
    assert (found.client_id, found.secret, found.issuer, found.source) == ("mcphub", "s", IDP, "config")
