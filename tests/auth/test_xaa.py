"""Tokens for the organisation's login: two exchanges, and what stays with whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import msgspec
import pytest

from mcphub.auth.bearer import told
from mcphub.auth.challenge import Challenge
from mcphub.auth.credential import REFUSED_REST, Credential
from mcphub.auth.discovery import Discovered, Resource
from mcphub.auth.flow import Answered, Ask, Reply, Unanswered
from mcphub.auth.home import WAIT
from mcphub.auth.methods import METHODS
from mcphub.auth.occasion import Occasion
from mcphub.auth.records import IdpSession
from mcphub.spec import IdpSpec, OAuthSpec, Secret
from tests.auth.stand_in import Answers, StandIn, failing
from tests.auth.test_idp import AS, RESOURCE, SPEC, TOKEN, exchanged, home_with, id_token, jag, login
from tests.auth.transcript import NOW, SERVER, account, answered, form_of, header_of

pytestmark = pytest.mark.anyio
obtain = METHODS["xaa"]
GOOD = answered({"access_token": "t", "token_type": "Bearer", "expires_in": 60, "refresh_token": "ignored"})
BAD = answered({"error": "invalid_grant"}, 400)


def oauth(**more: Any) -> OAuthSpec:
    return OAuthSpec(**({"mode": "xaa", "client_id": "c", "client_secret": Secret("k"), "issuer": AS} | more))


def occasion(home: StandIn, spec: OAuthSpec | None = None, **server: Any) -> Occasion:
    found = Discovered(Resource(RESOURCE), msgspec.structs.replace(SERVER, **server))
    return Occasion(account(oauth=spec or oauth()), found, ("a",), home)


def home_of(
    answers: Mapping[str, Answers], there: IdpSession | None, spec: IdpSpec = SPEC
) -> StandIn:
    return home_with({TOKEN: exchanged(jag()), SERVER.token_endpoint: GOOD, **answers}, there, spec)


def at_server(home: StandIn) -> list[Ask]:
    return [ask for ask in home.asked if ask not in home.told]


async def test_both_exchanges() -> None:
    """SEP-990: the id_token to the provider, its assertion to the server's authorization server, with the client's
    proof there; neither gets anything else (S14)."""
    home = home_of({}, login())
    found = await obtain(occasion(home))
    (ask,) = at_server(home)
    assert form_of(ask) == {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": jag(),
        "resource": RESOURCE,
        "scope": "a",
    }
    assert header_of(ask, "Authorization") == "Basic Yzpr"
    assert all(id_token().encode() not in ask.body for ask in at_server(home))
    assert (found.access_token, found.expires_at, found.refresh_token) == ("t", NOW + 60, "")
    assert SERVER.authorization_endpoint not in [ask.url for ask in home.asked]


async def test_a_login_that_has_ended() -> None:
    """C119: it is renewed without a browser."""

    def provider(ask: Ask) -> Reply:
        if form_of(ask)["grant_type"] == "refresh_token":
            return answered({"access_token": "a", "id_token": id_token(jti="2")})
        return exchanged(jag())

    home = home_of({TOKEN: provider}, login(ends=NOW))
    assert (await obtain(occasion(home))).access_token == "t"
    assert form_of(home.told[-1])["subject_token"] == id_token(jti="2")


async def test_a_login_that_is_not_taken() -> None:
    """It is renewed once, then the exchange is what failed."""
    subjects: list[str] = []

    def provider(ask: Ask) -> Reply:
        form = form_of(ask)
        if form["grant_type"] == "refresh_token":
            return answered({"access_token": "a", "id_token": id_token(jti=str(len(subjects)))})
        subjects.append(form["subject_token"])
        return BAD if len(subjects) < 2 else exchanged(jag())

    home = home_of({TOKEN: provider}, login())
    assert (await obtain(occasion(home))).access_token == "t"
    assert subjects == [id_token(), id_token(jti="1")]

    def never(ask: Ask) -> Reply:
        fresh = answered({"access_token": "a", "id_token": id_token(jti="9")})
        return fresh if form_of(ask)["grant_type"] == "refresh_token" else BAD

    home = home_of({TOKEN: never}, login())
    assert (await failing(obtain(occasion(home)))).reason == "exchange_rejected"
    assert len([ask for ask in home.told if ask.url == TOKEN]) == 3 and at_server(home) == []


async def test_an_assertion_that_is_not_taken() -> None:
    """A fresh one is worth one try, then it is rejected."""
    home = home_of({SERVER.token_endpoint: [BAD, GOOD]}, login())
    assert (await obtain(occasion(home))).access_token == "t"
    home = home_of({SERVER.token_endpoint: [BAD, BAD]}, login())
    assert (await failing(obtain(occasion(home)))).reason == "assertion_rejected"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (answered({"error": "invalid_client"}, 401), "client_rejected"),
        (answered({"error": "unauthorized_client"}, 400), "client_rejected"),
        (answered({"error": "access_denied"}, 400), "policy_denied"),
        (answered({"error": "invalid_scope"}, 400), "policy_denied"),
        (answered({"error": "other"}, 400), "assertion_rejected"),
        (Answered(503), "transient_exhausted"),
        (Unanswered("unreachable", "x"), "transient_exhausted"),
        (answered({}), "malformed_answer"),
    ],
)
async def test_how_a_server_refuses(reply: Reply, reason: str) -> None:
    """Each by its name, with one request."""
    home = home_of({SERVER.token_endpoint: [reply]}, login())
    found = await failing(obtain(occasion(home)))
    assert found.reason == reason and jag() not in str(found)


async def test_one_server_is_denied() -> None:
    """C119: the login stays for the others, and the denial with its server."""
    home = home_of({TOKEN: answered({"error": "access_denied"}, 400)}, login())
    assert (await failing(obtain(occasion(home)))).reason == "policy_denied"
    home.answers[TOKEN] = exchanged(jag())
    assert (await obtain(occasion(home))).access_token == "t"


@pytest.mark.parametrize(
    ("spec", "server", "reason"),
    [
        (oauth(client_id=""), {}, "client_required"),
        (oauth(issuer=""), {}, "client_unusable"),
        (oauth(issuer="https://other.example"), {}, "client_unusable"),
        (oauth(), {"token_endpoint": "https://evil.example/token"}, "client_unusable"),
    ],
)
async def test_where_a_secret_does_not_go(spec: OAuthSpec, server: dict[str, Any], reason: str) -> None:
    """S14: to an authorization server, or a host, that only the server names; nor is anything exchanged for it."""
    home = home_of({}, login())
    found = await failing(obtain(occasion(home, spec, **server)))
    assert found.reason == reason and home.asked == []


async def test_a_host_that_the_entry_names() -> None:
    """It may have the token endpoint; a client without a secret has nothing to lose."""
    there = "https://tokens.example/token"
    home = home_of({there: GOOD}, login())
    await obtain(occasion(home, oauth(hosts=("tokens.example",)), token_endpoint=there))
    await obtain(occasion(home, oauth(client_secret=Secret(""), issuer=""), token_endpoint=there))
    assert form_of(at_server(home)[-1])["client_id"] == "c"


async def test_no_provider() -> None:
    """Or nobody is signed in there: each says so."""
    found = await failing(obtain(occasion(StandIn({}))))
    assert found.reason == "client_required" and "xaaIdp" in str(found)
    assert (await failing(obtain(occasion(home_of({}, None))))).reason == "idp_login_required"


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        ({TOKEN: [answered({"error": "access_denied"}, 400), exchanged(jag())]}, "policy_denied"),
        ({TOKEN: [exchanged(jag(aud="https://other.example")), exchanged(jag())]}, "exchange_rejected"),
        ({SERVER.token_endpoint: [BAD, BAD, GOOD]}, "assertion_rejected"),
    ],
)
async def test_a_refusal_passes(
    monkeypatch: pytest.MonkeyPatch, refusal: Mapping[str, Answers], reason: str
) -> None:
    """It is seen while it lasts, keeps the authorities in peace for a while, and does not outlast that by itself: the
    next use, or a new connection, tries again."""
    for by_person in (False, True):
        copies = {url: list(one) if isinstance(one, list) else one for url, one in refusal.items()}
        home = home_of(copies, login())
        credential = Credential(account(oauth=oauth()), home)
        credential._found = (NOW, occasion(home).discovered)
        async with anyio.create_task_group() as tasks:
            monkeypatch.setattr(home, "start", tasks.start_soon)
            failure = await credential.refused(0, Challenge())
            assert failure is not None and failure.reason == reason and credential.need is None
            assert "tried again" in told("s", failure) and "mcphub reconnect s" in told("s", failure)
            shown = credential.shown
            assert shown is not None and (shown.how, shown.failure) == (WAIT, failure)
            asked = len(home.asked)
            assert await credential.refused(0, Challenge()) == failure and len(home.asked) == asked
            if by_person:
                await credential.ready(first=True)
            else:
                home.time += REFUSED_REST
            credential._found = (home.time, occasion(home).discovered)
            assert await credential.refused(0, Challenge()) is None
        assert credential.tokens is not None and credential.shown is None
