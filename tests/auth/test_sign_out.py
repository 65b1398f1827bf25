"""The end of a sign-in: revoked there, forgotten here, whatever is under way."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from mcphub.auth.sign_out import sign_out
from tests.auth.worlds import World, refusal
from tests.fakes.rude_as import NOTHING, error
from tests.fakes.rude_http import Reply, empty

pytestmark = pytest.mark.anyio


async def test_signing_out(world: World) -> None:
    """S19: the refresh token is revoked, then the access token; both are forgotten; what is open with them ends."""
    family = await world.sign_in()
    assert await world.calls() == 200
    done = await sign_out(world.credential)
    assert done.was and done.revoked is True
    asked = [request.body.decode() for request in world.auth.asked("revoke")]
    assert [family.refresh in text and "hint=refresh_token" in text for text in asked] == [True, False]
    assert family.access in asked[1] and "hint=access_token" in asked[1]
    assert await world.kept() == "" and world.credential.tokens is None and not family.alive
    assert world.credential.ended is not None
    assert (await refusal(world)).kind == "needs_auth"
    assert (await sign_out(world.credential)).was is False


@pytest.mark.parametrize("rude", [empty(503), NOTHING, error("invalid_client"), empty(404)])
async def test_signing_out_whatever_the_answer(world: World, rude: Reply) -> None:
    """S19: they are forgotten here in any case."""
    await world.sign_in()
    world.auth.on("revoke", rude, times=None)
    done = await sign_out(world.credential)
    assert done.was and done.revoked is False
    assert await world.kept() == "" and world.credential.tokens is None


async def test_signing_out_of_a_server_that_has_no_place_for_it(world: World) -> None:
    """S19: nothing is asked."""
    await world.sign_in(revocation_endpoint="")
    done = await sign_out(world.credential)
    assert done.was and done.revoked is None and world.auth.requests == []


async def test_signing_out_during_a_refresh(world: World) -> None:
    """What the renewal brings is given up too: nothing comes back."""
    family = await world.sign_in()
    world.clock.at += world.auth.life
    held = asyncio.Event()
    world.auth.on("refresh", lambda request: world.auth._ordinary(request).after(held))

    async def one() -> None:
        await world.calls()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        await world.auth.until(lambda: world.auth.asked("refresh"))
        tasks.start_soon(sign_out, world.credential)
        await anyio.lowlevel.checkpoint()
        held.set()
    assert await world.kept() == "" and world.credential.tokens is None and not family.alive
