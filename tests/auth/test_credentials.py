"""The credentials of all servers, and what they take from the daemon."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from mcphub.auth import credentials, idp, sign_out
from mcphub.auth.failures import XaaFailure
from mcphub.auth.home import IDP_LOGIN
from mcphub.auth.records import IdpSession, encoded, idp_key
from mcphub.errors import TransportError
from mcphub.spec import HttpSpec, IdpSpec, OAuthSpec, Secret
from mcphub.store.challenges import Challenged
from tests.auth.homes import OAUTH, Clock, call, client, hub, server
from tests.auth.worlds import World
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_as import NOTHING, Guarded, RudeAs
from tests.fakes.rude_http import RudeHttp, empty

pytestmark = pytest.mark.anyio

URL = "https://m.example/mcp"


async def test_one_for_each_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same server in another workspace is the same; another URL, client, issuer, scope or header is not; nor is
    there one for an entry with credentials of its own. What is no part of that is taken over from the entry."""
    async with hub(tmp_path, Clock()) as home:
        first = home.of(server(URL))
        assert home.of(server(URL, workspace="/w")) is first
        others = [
            server(URL + "/2"),
            server(URL, name="other"),
            server(URL, replace(OAUTH, client_id="other")),
            server(URL, replace(OAUTH, issuer="https://a.example")),
            server(URL, replace(OAUTH, scopes=("x",))),
            replace(server(URL), transport=HttpSpec(Secret(URL), {"X-Team": Secret("blue")}, oauth=OAUTH)),
        ]
        assert len({id(home.of(one)) for one in others} | {id(first)}) == len(others) + 1
        own = HttpSpec(Secret(URL), {"authorization": Secret("Bearer x")}, oauth=OAUTH)
        assert home.credentials.of(replace(server(URL), transport=own)) is None
        assert home.credentials.of(server(URL, OAuthSpec(mode="none"))) is None
        assert home.credentials.signer(replace(server(URL), transport=own)) is None
        changed = replace(OAUTH, client_secret=Secret("s"), callback_port=4000)
        assert home.of(server(URL, changed)) is first and first.account.oauth == changed
        monkeypatch.setattr(credentials, "MOST", 3)
        home.of(server(URL + "/new"))
        assert home.of(server(URL)) is not first


async def test_the_end_waits_for_a_renewal(world: World) -> None:
    """Tokens that are on their way when the daemon ends are kept."""
    family = await world.sign_in()
    world.clock.at += world.auth.life
    held = asyncio.Event()
    world.auth.on("refresh", lambda request: world.auth._ordinary(request).after(held))
    async with client(world.credential) as made, anyio.create_task_group() as tasks:
        tasks.start_soon(call, made)
        await world.auth.until(lambda: world.auth.asked("refresh"))
        tasks.cancel_scope.cancel()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.hub.credentials.drain)
        await anyio.lowlevel.checkpoint()
        held.set()
    assert world.on_disk() == family.refresh


async def test_the_end_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An authorization server that says nothing holds up nobody."""
    monkeypatch.setattr("mcphub.auth.credentials.DRAIN", 0.05)
    await world.sign_in()
    world.clock.at += world.auth.life
    held = asyncio.Event()
    world.auth.on("refresh", NOTHING.after(held))
    async with client(world.credential) as made, anyio.create_task_group() as tasks:
        tasks.start_soon(call, made)
        await world.auth.until(lambda: world.auth.asked("refresh"))
        with anyio.fail_after(2):
            await world.hub.credentials.drain()
        tasks.cancel_scope.cancel()
    held.set()


async def test_what_cannot_be_remembered(tmp_path: Path) -> None:
    """It is told; nothing else comes of it."""
    (tmp_path / "challenges.json").mkdir()
    async with hub(tmp_path, Clock()) as home:
        home.credentials.remember("k", Challenged(1.0))
        await home.credentials.drain()
        assert home.credentials.challenged("k") == Challenged(1.0)
    assert any("cannot remember" in text for _, text in home.log)


# -- the organisation's login


async def test_a_login_at_the_organisation(tmp_path: Path) -> None:
    """8, S19: a server that takes it is not tried without; once it is given up it is revoked and forgotten, whatever
    the provider says."""
    clock = Clock()
    async with RudeAs(clock) as provider:
        guarded = Guarded(provider, OrdinaryMcp(sessions=False))
        spec = IdpSpec(provider.issuer, "cid")
        async with RudeHttp(guarded) as mcp, hub(tmp_path, clock, spec) as home:
            credential = home.of(server(mcp.url, OAuthSpec(mode="xaa", client_id="c", issuer=provider.issuer)))
            async with client(credential) as made:
                with pytest.raises(TransportError) as caught:
                    await call(made)
            assert caught.value.kind == "needs_auth" and mcp.requests == []
            assert credential.need is not None and credential.need.how == IDP_LOGIN
            assert credential.need.failure.reason is XaaFailure.IDP_LOGIN_REQUIRED

            key = idp_key(spec.issuer, spec.client_id)
            for rude, revoked in ((None, True), (empty(503), False), (NOTHING, False)):
                if rude is not None:
                    provider.on("revoke", rude)
                family = provider.signed_in()
                login = IdpSession(
                    spec.issuer,
                    "cid",
                    Secret("id-token"),
                    "me",
                    clock() + 60,
                    f"{provider.origin}/token",
                    Secret(family.refresh),
                )
                await home.vault.put(idp.IDP, key, encoded(login))
                assert await sign_out.sign_out_of_idp(home.credentials, spec) == sign_out.SignedOut(True, revoked)
                assert await home.vault.get(idp.IDP, key) is None
                assert family.refresh in provider.asked("revoke")[-1].body.decode()
            provider.on("metadata", empty(503))
            assert await sign_out.sign_out_of_idp(home.credentials, spec) == sign_out.SignedOut(False, None)
