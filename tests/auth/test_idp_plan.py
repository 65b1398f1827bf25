"""A person's login at the organisation's identity provider."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest

from mcphub.auth.flow import Answered
from mcphub.auth.idp_plan import IdpPlan
from mcphub.spec import IdpSpec, Secret
from tests.auth.stand_in import StandIn, failing
from tests.auth.test_idp import IDP, METADATA, PLACE, SPEC, TOKEN, home_with, id_token, kept
from tests.auth.transcript import NOW, answered, form_of, header_of

pytestmark = pytest.mark.anyio
REDIRECT = "http://127.0.0.1:50000/callback"


async def signed_in(tokens: dict[str, Any], spec: IdpSpec = SPEC) -> tuple[StandIn, IdpPlan]:
    """Up to the exchange of the code; `nonce` True stands for the right one."""
    home = home_with({}, spec=spec)
    plan = IdpPlan(home, spec)
    await plan.begin()
    question = await plan.ask(REDIRECT)
    if tokens.get("id_token") is True:
        tokens["id_token"] = id_token(nonce=question.pending.nonce)
    home.answers[TOKEN] = answered({"access_token": "a", **tokens})
    await plan.finish(question.pending, Secret("x"))
    return home, plan


async def test_what_a_person_is_asked() -> None:
    """OpenID with a nonce and PKCE, for no resource; refresh tokens where the provider has them."""
    spec = msgspec.structs.replace(SPEC, scopes=("email",), callback_port=3118)
    home = home_with({PLACE: answered(METADATA | {"scopes_supported": ["openid", "offline_access"]})}, spec=spec)
    plan = IdpPlan(home, spec)
    assert plan.place == ("127.0.0.1", 3118, 0) and plan.name == IDP
    await plan.begin()
    question = await plan.ask(REDIRECT)
    asked = dict(parse_qsl(urlsplit(question.url).query))
    assert (asked["scope"], asked["client_id"], asked["prompt"]) == ("openid email offline_access", "mcphub", "consent")
    assert asked["nonce"] == question.pending.nonce and asked["code_challenge_method"] == "S256"
    assert "resource" not in asked


async def test_a_login() -> None:
    """C119: it is kept once for all servers, with the client's proof at the provider, and hidden."""
    home, _ = await signed_in({"id_token": True, "refresh_token": "r"})
    found = kept(home)
    assert found is not None and (found.subject, found.expires_at, found.refresh_token) == ("u1", NOW + 600, "r")
    ask = next(ask for ask in home.told if ask.url == TOKEN)
    assert form_of(ask)["grant_type"] == "authorization_code" and header_of(ask, "Authorization").startswith("Basic ")
    assert {str(found.id_token), "r", "a"} <= set(home.hidden) and home.asked == home.told


@pytest.mark.parametrize(
    "tokens",
    [{}, {"id_token": "x"}, {"id_token": id_token()}, {"id_token": id_token(nonce="another")}, {"id_token": 5}],
)
async def test_a_login_that_is_not_believed(tokens: dict[str, Any]) -> None:
    """Without an id_token of this very login nothing is kept."""
    found = await failing(signed_in(dict(tokens)))
    assert found.reason == "id_token_invalid"


async def test_a_provider_that_cannot_be_reached() -> None:
    """Nobody is sent anywhere."""
    found = await failing(IdpPlan(home_with({PLACE: Answered(503)}), SPEC).begin())
    assert found.reason == "idp_unavailable"
