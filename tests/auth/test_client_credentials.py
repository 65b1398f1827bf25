"""Tokens that a client gets for itself."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from mcphub.auth.discovery import Discovered, Resource
from mcphub.auth.flow import Answered, Reply, Unanswered
from mcphub.auth.methods import METHODS
from mcphub.auth.occasion import Occasion
from mcphub.spec import OAuthSpec, Secret
from tests.auth.jwts import opened, pem
from tests.auth.stand_in import StandIn, failing
from tests.auth.transcript import NOW, SERVER, account, answered, form_of, header_of

pytestmark = pytest.mark.anyio
KEY = ec.generate_private_key(ec.SECP256R1())
GOOD = answered({"access_token": "t", "token_type": "Bearer", "expires_in": 60})
obtain = METHODS["client_credentials"]


def oauth(**more: Any) -> OAuthSpec:
    found = {"mode": "client_credentials", "client_id": "c", "client_secret": Secret("s p:c"), "issuer": SERVER.issuer}
    return OAuthSpec(**(found | more))


def occasion(home: StandIn, spec: OAuthSpec, **server: Any) -> Occasion:
    found = Discovered(Resource("https://m.example/mcp"), msgspec.structs.replace(SERVER, **server))
    return Occasion(account(oauth=spec), found, ("a",), home)


async def test_with_a_secret() -> None:
    """RFC 6749, 4.4: resource and scope, Basic where the server does not say."""
    home = StandIn({SERVER.token_endpoint: GOOD})
    found = await obtain(occasion(home, oauth()))
    (ask,) = home.asked
    assert form_of(ask) == {"grant_type": "client_credentials", "resource": "https://m.example/mcp", "scope": "a"}
    assert header_of(ask, "Authorization") == "Basic YzpzK3AlM0Fj"
    assert (found.access_token, found.expires_at, found.refresh_token) == ("t", NOW + 60, "")
    await obtain(occasion(home, oauth(), methods=("client_secret_post",)))
    assert form_of(home.asked[1])["client_secret"] == "s p:c" and not header_of(home.asked[1], "Authorization")


async def test_with_a_key() -> None:
    """RFC 7523: the audience of the assertion is the issuer, not the endpoint; no secret is sent beside it."""
    home = StandIn({SERVER.token_endpoint: GOOD})
    spec = oauth(private_key=Secret(pem(KEY)), client_secret=Secret(""))
    for _ in range(2):
        await obtain(occasion(home, spec, methods=("private_key_jwt",), signing_algorithms=("ES256",)))
    forms = [form_of(ask) for ask in home.asked]
    assert forms[0]["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    claims = [opened(form["client_assertion"], KEY.public_key())[1] for form in forms]
    assert {one["aud"] for one in claims} == {SERVER.issuer} and claims[0]["jti"] != claims[1]["jti"]
    assert all(form["grant_type"] == "client_credentials" and form["client_id"] == "c" for form in forms)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (oauth(client_id=""), "client_required"),
        (oauth(client_secret=Secret("")), "client_required"),
        (oauth(issuer=""), "client_unusable"),
        (oauth(issuer="https://other.example"), "client_unusable"),
        (oauth(private_key=Secret("no key")), "client_unusable"),
    ],
)
async def test_what_an_entry_lacks(spec: OAuthSpec, reason: str) -> None:
    """A secret goes to the issuer that the entry names, and to nobody that a server names."""
    home = StandIn({})
    found = await failing(obtain(occasion(home, spec)))
    assert found.reason == reason and home.asked == [] and "oauth." in str(found)


@pytest.mark.parametrize(
    ("reply", "reason", "retry"),
    [
        (answered({"error": "invalid_client"}, 401), "client_rejected", False),
        (answered({"error": "invalid_scope"}, 400), "scope_rejected", False),
        (answered({"error": "invalid_target"}, 400), "scope_rejected", False),
        (answered({"error": "unsupported_grant_type"}, 400), "request_rejected", False),
        (Answered(503), "transient_exhausted", True),
        (Unanswered("unreachable", "x"), "transient_exhausted", True),
        (answered({}), "malformed_answer", False),
    ],
)
async def test_how_it_fails(reply: Reply, reason: str, retry: bool) -> None:
    """With one request."""
    home = StandIn({SERVER.token_endpoint: [reply]})
    found = await failing(obtain(occasion(home, oauth())))
    assert (found.reason, found.failure.retry) == (reason, retry) and len(home.asked) == 1
    assert "s p:c" not in str(found)
