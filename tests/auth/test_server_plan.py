"""A person's sign-in to one server: metadata, this client's identity there, the tokens that come of it."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from mcphub.auth.credential import Credential
from mcphub.auth.flow import Answered, Ask, Reply
from mcphub.auth.server_plan import ServerPlan
from mcphub.auth.sign_in import Question
from mcphub.spec import OAuthSpec, Secret
from tests.auth.jwts import opened, public_of, thumbprint
from tests.auth.stand_in import Answers, StandIn, failing
from tests.auth.transcript import NOW, account, answered, form_of, header_of

pytestmark = pytest.mark.anyio
URL, AS = "https://m.example/mcp", "https://as.example"
PRM = "https://m.example/.well-known/oauth-protected-resource/mcp"
METADATA = f"{AS}/.well-known/oauth-authorization-server"
REGISTER, TOKEN = f"{AS}/register", f"{AS}/token"


def home_of(*, prm: dict[str, Any] | None = None, **server: Any) -> StandIn:
    """A server whose authorization server registers clients `c1`, `c2` and so on."""
    found: dict[str, Any] = {
        "issuer": AS, "authorization_endpoint": f"{AS}/authorize", "token_endpoint": TOKEN,
        "registration_endpoint": REGISTER, "code_challenge_methods_supported": ["S256"],
    }  # fmt: skip
    resource = {"resource": URL, "authorization_servers": [AS], "scopes_supported": ["a"], **(prm or {})}
    registered: list[Ask] = []

    def register(ask: Ask) -> Reply:
        registered.append(ask)
        return answered({"client_id": f"c{len(registered)}", **json.loads(ask.body)}, 201)

    answers: dict[str, Answers] = {
        PRM: answered(resource),
        METADATA: answered(found | server),
        REGISTER: register,
        TOKEN: answered({"access_token": "t", "expires_in": 60, "refresh_token": "r"}),
    }
    return StandIn(answers)


def plan_of(home: StandIn, oauth: OAuthSpec | None = None, document: str = "") -> ServerPlan:
    return ServerPlan(Credential(account(URL, oauth), home), document)


async def question(plan: ServerPlan, port: int = 4100) -> Question:
    await plan.begin()
    return await plan.ask(f"http://127.0.0.1:{port}/callback")


def asked(found: Question) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(found.url).query))


async def test_a_sign_in() -> None:
    """It registers, asks, exchanges; the tokens are kept with all that renews and revokes them."""
    home = home_of(revocation_endpoint=f"{AS}/revoke")
    plan = plan_of(home)
    found = await question(plan)
    assert (asked(found)["client_id"], asked(found)["resource"], asked(found)["scope"]) == ("c1", URL, "a")
    await plan.finish(found.pending, Secret("x"))
    tokens = plan.credential.tokens
    assert tokens is not None and (tokens.access_token, tokens.refresh_token) == ("t", "r")
    assert (tokens.expires_at, tokens.issuer, tokens.client_id, tokens.resource) == (NOW + 60, AS, "c1", URL)
    assert (tokens.client_source, tokens.revocation_endpoint) == ("dcr", f"{AS}/revoke")
    assert form_of(home.asked[-1])["redirect_uri"] == asked(found)["redirect_uri"]


async def test_a_registration_is_used_again() -> None:
    """C101: at the port that it was registered with; with another one it is made anew."""
    home = home_of()
    first = plan_of(home)
    await question(first)
    again = plan_of(home)
    await again.begin()
    assert again.place == ("127.0.0.1", 0, 4100)
    assert asked(await question(again))["client_id"] == "c1"
    assert asked(await question(plan_of(home), 4200))["client_id"] == "c2"


async def test_an_id_of_the_entry() -> None:
    """C102: nothing is registered; once it was used at one issuer, no other one that a server names gets it."""
    home = home_of()
    oauth = OAuthSpec(client_id="mine", client_secret=Secret("k"))
    assert asked(await question(plan_of(home, oauth)))["client_id"] == "mine"
    assert REGISTER not in [ask.url for ask in home.asked]
    evil = "https://evil.example"
    home.answers[PRM] = answered({"resource": URL, "authorization_servers": [evil]})
    home.answers[f"{evil}/.well-known/oauth-authorization-server"] = answered(
        {"issuer": evil, "authorization_endpoint": f"{evil}/a", "token_endpoint": f"{evil}/t",
         "code_challenge_methods_supported": ["S256"]}
    )  # fmt: skip
    failed = await failing(question(plan_of(home, oauth)))
    assert failed.reason == "client_unusable" and AS in str(failed) and evil in str(failed)


async def test_a_document_of_our_own() -> None:
    """Where the server takes such: the entry's before the setting's."""
    ours, theirs = "https://client.example/mcphub.json", "https://entry.example/client.json"
    home = home_of(client_id_metadata_document_supported=True)
    assert asked(await question(plan_of(home, None, ours)))["client_id"] == ours
    assert asked(await question(plan_of(home, OAuthSpec(client_metadata_url=theirs), ours)))["client_id"] == theirs


async def test_bound_tokens() -> None:
    """RFC 9449: one key for the request, its proof and the tokens; where the server wants that no others are taken."""
    home = home_of(prm={"dpop_bound_access_tokens_required": True})
    plan = plan_of(home)
    found = await question(plan)
    failed = await failing(plan.finish(found.pending, Secret("x")))
    assert failed.reason == "token_malformed" and not plan.credential.version
    home.answers[TOKEN] = answered({"access_token": "t", "token_type": "DPoP"})
    await plan.finish(found.pending, Secret("x"))
    tokens = plan.credential.tokens
    assert tokens is not None and tokens.token_type == "DPoP"
    key = json.loads(tokens.dpop_key)
    assert asked(found)["dpop_jkt"] == thumbprint(key)
    assert opened(header_of(home.asked[-1], "DPoP"), public_of(key))[1]["htu"] == TOKEN


async def test_a_sign_in_that_fails_leaves_what_was_there() -> None:
    """C118: old tokens are replaced only once the new ones are kept."""
    home = home_of()
    plan = plan_of(home)
    await plan.finish((await question(plan)).pending, Secret("x"))
    again = ServerPlan(plan.credential)
    found = await question(again)
    home.answers[TOKEN] = answered({"error": "invalid_grant"}, 400)
    assert (await failing(again.finish(found.pending, Secret("y")))).reason == "exchange_failed"
    home.answers[PRM] = Answered(503)
    assert (await failing(question(ServerPlan(plan.credential)))).reason == "discovery_failed"
    assert plan.credential.tokens is not None and plan.credential.tokens.access_token == "t"


async def test_a_registration_for_more_scopes() -> None:
    """Where a server wants scopes that this client did not register with it registers anew, with those of before as
    well; the tokens that the old registration was given stay with it, whoever comes next (C118)."""
    home = home_of()
    plan = plan_of(home)
    await plan.finish((await question(plan)).pending, Secret("x"))
    tokens = plan.credential.tokens
    assert tokens is not None
    home.answers[PRM] = answered({"resource": URL, "authorization_servers": [AS], "scopes_supported": ["b"]})
    assert asked(await question(plan_of(home)))["client_id"] == "c2"
    sent = [json.loads(ask.body)["scope"] for ask in home.asked if ask.url == REGISTER]
    assert sent == ["a", "a b"]
    before = await plan.credential.client_of(tokens)
    assert before is not None and before.client_id == tokens.client_id == "c1"
    home.answers[PRM] = answered({"resource": URL, "authorization_servers": [AS], "scopes_supported": ["a"]})
    assert asked(await question(plan_of(home)))["client_id"] == "c2"


async def test_a_registration_is_forgotten_alone() -> None:
    """One that its server does not know any more goes, and the one that took its place stays."""
    home = home_of()
    plan = plan_of(home)
    await plan.finish((await question(plan)).pending, Secret("x"))
    tokens = plan.credential.tokens
    assert tokens is not None
    await question(plan_of(home), 4200)
    await plan.credential.forget_registration(AS, "c1")
    assert await plan.credential.client_of(tokens) is None
    kept = await plan.credential.registration(AS)
    assert kept is not None and kept.client_id == "c2"
    await plan.credential.forget_registration(AS, "c2")
    assert await plan.credential.registration(AS) is None
