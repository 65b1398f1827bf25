"""Credentials on each request: whose they are, where they go, what a refusal leads to."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from typing import Any

import anyio
import pytest

from mcphub import net
from mcphub.auth.bearer import BearerSigner, told
from mcphub.auth.dpop import DpopKey
from mcphub.auth.failures import Failure, FlowFailure, Reason, RefreshFailure, Unmet, XaaFailure
from mcphub.auth.home import CONFIG
from mcphub.errors import TransportError
from mcphub.protocol.http_answer import Refusal
from mcphub.spec import Secret
from mcphub.transport.sign_in import explained
from tests.auth.homes import call, client, server
from tests.auth.worlds import World
from tests.fakes.rude_http import Reply, Request, RudeHttp, body, empty, redirect

pytestmark = pytest.mark.anyio


def sent(request: Request) -> str:
    return request.header("Authorization") or ""


async def test_where_tokens_go(world: World) -> None:
    """1.11: to the server's own origin, on each request, whatever the path, and never in the URL."""
    family = await world.sign_in()
    signer = BearerSigner(world.credential)
    origin = world.mcp.origin
    own = [(b"Authorization", b"Bearer " + family.access.encode())]
    for path in ("/mcp", "/mcp?session=1", "/other"):
        assert list(signer.headers_for("POST", origin + path)) == own
    for url in ("http://127.0.0.1:9/mcp", "https" + origin[4:] + "/mcp", "http://localhost:1/", "http://example.com/mcp"):
        assert list(signer.headers_for("POST", url)) == []
    assert list(signer.headers_for("GET", origin + "/mcp")) == own
    assert await world.calls() == 200
    assert all(family.access not in request.target for request in world.mcp.requests)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects(world: World, status: int) -> None:
    """S5: no token goes to another origin; within the origin 307 and 308 are followed with it."""
    family = await world.sign_in()
    async with RudeHttp(lambda request: body(b"{}")) as other:
        world.mcp.on("tools/call", redirect(status, other.origin + "/mcp"))
        assert await world.calls() == status
        assert other.requests == []
    world.mcp.on("tools/call", redirect(status, "/mcp?again"))
    assert await world.calls() == (200 if status in (307, 308) else status)
    assert all(sent(request) == f"Bearer {family.access}" for request in world.mcp.requests)


async def test_its_own_header_wins(world: World) -> None:
    """What the caller has set under that name is replaced: there is one Authorization."""
    family = await world.sign_in()
    async with client(world.credential) as made, made.exchange("POST", [(b"authorization", b"Basic eA==")], b"{}"):
        pass
    names = [value for name, value in world.mcp.requests[-1].headers if name.lower() == "authorization"]
    assert names == [f"Bearer {family.access}"]


async def test_what_a_server_says_of_itself_is_asked_without_tokens(world: World) -> None:
    """1.3: metadata is for everybody; the guard of this test fails where a token comes with it."""
    await world.sign_in()
    async with client(world.credential) as made:
        text = await explained(made, world.mcp.url, Refusal("needs_auth", "HTTP 401"))
    assert text.startswith("needs a sign-in: mcphub login s (HTTP 401; sign-in at")
    assert [sent(request) for request in world.mcp.requests] == [""]


async def test_a_server_without_a_sign_in(world: World) -> None:
    """C093: the second: a person is sent to the entry, not to a sign-in; nothing is remembered that were not so."""
    async with RudeHttp(lambda request: empty(401 if request.method == "POST" else 404)) as other:
        credential = world.hub.of(server(other.url, name="other"))
        async with client(credential) as made:
            assert await call(made) == 401
            assert "offers no sign-in" in await explained(made, other.url, Refusal("needs_auth", "HTTP 401"))
        credential.wanted()
        assert credential.need is not None and credential.need.how == CONFIG
        assert world.hub.credentials.challenged(credential.key) is None


async def test_a_refusal_that_is_no_matter_of_tokens(world: World) -> None:
    """A 403 without insufficient_scope is passed on as it is: nothing is renewed, nobody is asked."""
    await world.sign_in()
    world.mcp.on("tools/call", empty(403), times=None)
    async with client(world.credential) as made:
        assert await call(made) == 403
        assert made.signer is not None and made.signer.told("x") is None
    assert world.auth.requests == [] and world.credential.need is None


async def test_what_is_told_of_a_refusal(world: World) -> None:
    """A first sign-in is explained by whoever opens the connection; anything else is a whole sentence."""
    async with client(world.credential) as made:
        assert await call(made) == 401
        assert made.signer is not None and made.signer.told("HTTP 401") is None
    await world.sign_in()
    world.guarded.refuses = frozenset(["tools/call"])
    async with client(world.credential) as made:
        assert await call(made) == 401
        assert made.signer is not None
        kind, text = made.signer.told("HTTP 401") or ("", "")
    assert kind == "needs_auth" and text.endswith("(grant_rejected): mcphub login s")


@pytest.mark.parametrize(
    ("reason", "retry", "kind", "words"),
    [
        (Unmet.LOGIN_REQUIRED, False, "needs_auth", "needs a sign-in: mcphub login s"),
        (Unmet.STORE, False, "needs_auth", "needs the vault: why"),
        (Unmet.INSUFFICIENT_SCOPE, False, "needs_auth", "needs a new sign-in, since why (insufficient_scope)"),
        (RefreshFailure.GRANT_REJECTED, False, "needs_auth", "needs a new sign-in, since why (grant_rejected)"),
        (RefreshFailure.TRANSIENT_EXHAUSTED, True, "unreachable", "cannot get its tokens: why (transient_exhausted)"),
        (RefreshFailure.STORE_FAILED, True, "unreachable", "cannot get its tokens: why (store_failed)"),
        (FlowFailure.DISCOVERY_FAILED, True, "unreachable", "cannot get its tokens"),
        (FlowFailure.DISCOVERY_FAILED, False, "refused", "cannot get its tokens"),
        (XaaFailure.POLICY_DENIED, False, "refused", "cannot get its tokens"),
        (XaaFailure.IDP_UNAVAILABLE, True, "unreachable", "cannot get its tokens"),
        (XaaFailure.IDP_LOGIN_REQUIRED, False, "needs_auth", "needs a sign-in at the organisation, since why (idp"),
    ],
)
async def test_kinds_of_failure(world: World, reason: Reason, retry: bool, kind: str, words: str) -> None:
    """10: trouble that passes is no sign-in that is needed; what a policy forbids neither."""
    failure = Failure(reason, "why", retry=retry)
    assert told("s", failure).startswith(words)
    signer = BearerSigner(world.credential)
    signer.failure = failure
    signer._vain = True
    found = signer.told("x")
    assert found is not None and found[0] == kind


def test_nobody_is_sent_to_sign_in_where_that_helps_nothing() -> None:
    """8: what a client gets for itself is mended in its entry; what it gets for the organisation's login, by that."""
    rejected = Failure(RefreshFailure.CLIENT_REJECTED, "why")
    words = "cannot get its tokens: why (client_rejected); correct `oauth` of its entry"
    assert told("s", rejected, silent=True) == words
    assert told("s", Failure(XaaFailure.IDP_LOGIN_REQUIRED, "why"), silent=True).endswith("mcphub login s")


async def test_tokens_are_hidden_in_what_is_said_of_their_server(world: World) -> None:
    """S12: whoever shows what this server says is told what must not be seen in it."""
    hidden: list[str] = []
    signer = world.hub.credentials.signer(world.spec, lambda *values, owner: hidden.extend(values))
    assert signer is not None
    family = await world.sign_in()
    async with net.http_client(world.mcp.url, {}, signer=signer) as made:
        assert await call(made) == 200
        world.clock.at += world.auth.life
        assert await call(made) == 200
    assert len(hidden) == 4 and {family.access, family.refresh} <= set(hidden)


# -- bound tokens


class Bound:
    """A server that takes tokens that are bound to a key, with a nonce of its own."""

    def __init__(self, nonce: str) -> None:
        self.nonce = nonce
        self.proofs: list[dict[str, Any]] = []

    def __call__(self, request: Request) -> Reply:
        kind, _, token = sent(request).partition(" ")
        proof = (request.header("DPoP") or "").split(".")
        if kind != "DPoP" or len(proof) != 3:
            return empty(401, ("WWW-Authenticate", 'DPoP error="invalid_token"'))
        claims = json.loads(base64.urlsafe_b64decode(proof[1] + "=="))
        self.proofs.append(claims)
        if self.nonce and claims.get("nonce") != self.nonce:
            said = (("WWW-Authenticate", 'DPoP error="use_dpop_nonce"'), ("DPoP-Nonce", self.nonce))
            return empty(401, *said)
        return body(b"{}").with_headers(("DPoP-Nonce", self.nonce)) if self.nonce else body(b"{}")


async def test_bound_tokens(world: World) -> None:
    """7: a fresh proof for each request; a nonce costs one more request, and is kept; another one is taken over."""
    guard = Bound("n1")
    async with RudeHttp(guard) as mcp:
        world.mcp.ordinary = guard
        key = DpopKey.generate(os.urandom).to_json()
        await world.sign_in(token_type="DPoP", dpop_key=Secret(key))
        async with client(world.credential) as made:
            assert await call(made) == 200
            assert await call(made) == 200
            assert [claims.get("nonce") for claims in guard.proofs] == [None, "n1", "n1"]
            guard.nonce = "n2"
            assert await call(made) == 200
        assert mcp.requests == []
    assert len({claims["jti"] for claims in guard.proofs}) == len(guard.proofs) == 5
    assert {(claims["htm"], claims["htu"]) for claims in guard.proofs} == {("POST", world.mcp.url)}
    assert world.auth.requests == [] and world.credential.need is None


async def test_a_server_that_is_never_content_with_a_nonce(world: World) -> None:
    """It ends: each request is sent a few times at most."""
    guard = Bound("n1")
    count = iter(range(100))

    def never(request: Request) -> Reply:
        guard.nonce = f"n{next(count)}"
        return guard(request)

    world.mcp.ordinary = never
    world.auth.on("refresh", empty(503), times=None)
    await world.sign_in(token_type="DPoP", dpop_key=Secret(DpopKey.generate(os.urandom).to_json()))
    async with client(world.credential) as made:
        assert await call(made) == 401
    assert len(world.mcp.requests) <= BearerSigner.tries + 1


async def test_a_connection_whose_tokens_died_sends_nothing_without(world: World) -> None:
    """What was opened as somebody is not gone on with as nobody."""
    family = await world.sign_in()
    async with client(world.credential) as made:
        assert await call(made) == 200
        family.alive = False
        assert await call(made) == 401
        before = len(world.mcp.requests)
        with pytest.raises(TransportError, match="grant_rejected"):
            await call(made)
        assert len(world.mcp.requests) == before


async def test_requests_at_once_share_what_is_known(world: World) -> None:
    """While one renews, those that come later wait for it and are sent once."""
    await world.sign_in()
    world.clock.at += world.auth.life
    held = asyncio.Event()
    world.auth.on("refresh", lambda request: world.auth._ordinary(request).after(held))
    async with client(world.credential) as made, anyio.create_task_group() as tasks:
        tasks.start_soon(call, made)
        await world.auth.until(lambda: world.auth.asked("refresh"))
        tasks.start_soon(call, made)
        await anyio.lowlevel.checkpoint()
        assert world.mcp.requests == []
        held.set()
    assert [sent(request).startswith("Bearer access") for request in world.mcp.requests] == [True, True]


async def test_a_first_login(world: World) -> None:
    """Nobody is told of a new sign-in who had none before."""
    first = Failure(XaaFailure.IDP_LOGIN_REQUIRED, "nobody has signed in at https://idp.example")
    assert told("s", first, silent=True) == "needs a sign-in at the organisation: mcphub login s"
