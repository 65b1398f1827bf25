"""The life of one account's tokens: real sockets, the real vault, a clock that hub and authorization server share."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import anyio
import msgspec
import pytest

from mcphub.auth import credential as credential_module
from mcphub.auth.credential import Credential
from mcphub.auth.failures import FlowFailure, RefreshFailure, SignInFailed, Unmet
from mcphub.auth.home import BROWSER, CONFIG, VAULT, WAIT
from mcphub.errors import TransportError
from mcphub.net import HttpClient
from mcphub.spec import OAuthSpec, Secret
from mcphub.store.vault import Record, Trouble, Vault, VaultUnavailable
from tests.auth.homes import HEADERS, call, client, hub, server, tokens
from tests.auth.worlds import World, refusal
from tests.fakes.hub import eventually
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_as import NOTHING, RudeAs, error
from tests.fakes.rude_http import (
    CLOSE,
    NEVER,
    RESET,
    Answer,
    Reply,
    Request,
    RudeHttp,
    body,
    empty,
    encoded,
    raw,
    slowly,
    stream,
)

pytestmark = pytest.mark.anyio

DAY = 86400.0


# -- one renewal


async def test_forty_three_calls_at_the_moment_of_expiry(world: World) -> None:
    """C108, H7: exactly one refresh reaches the server, and all calls succeed; on a second connection too."""
    await world.sign_in()
    world.clock.at += world.auth.life
    found: list[int] = []

    async def one(made: HttpClient) -> None:
        found.append(await call(made))

    async with client(world.credential) as made, client(world.credential) as other, anyio.create_task_group() as tasks:
        for number in range(43):
            tasks.start_soon(one, made if number % 2 else other)
    assert found == [200] * 43
    assert len(world.auth.asked("refresh")) == 1
    assert world.guarded.turned_away == 0


async def test_forty_three_calls_that_are_refused_at_once(world: World) -> None:
    """C108, C110: a 401 leads to one refresh whatever the clock says, for all who got it."""
    family = await world.sign_in()
    family.ends = 0.0  # revoked before its time
    found: list[int] = []

    async def one(made: HttpClient) -> None:
        found.append(await call(made))

    async with client(world.credential) as made, anyio.create_task_group() as tasks:
        for _ in range(43):
            tasks.start_soon(one, made)
    assert found == [200] * 43
    assert len(world.auth.asked("refresh")) == 1


async def test_a_caller_that_leaves_loses_nothing(world: World) -> None:
    """A call that waits for a renewal is cancelled: what the renewal brings is kept and used."""
    family = await world.sign_in()
    first = family.refresh
    world.clock.at += world.auth.life
    held = asyncio.Event()
    world.auth.on("refresh", lambda request: world.auth._ordinary(request).after(held))
    async with client(world.credential) as made:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, made)
            await world.auth.until(lambda: world.auth.asked("refresh"))
            tasks.cancel_scope.cancel()
        held.set()
        assert await call(made) == 200
    assert await world.kept() == family.refresh != first
    assert len(world.auth.asked("refresh")) == 1


async def test_two_daemons_and_one_refresh(world: World) -> None:
    """C108: whoever comes second finds in the vault what the first has got, and uses that."""
    await world.sign_in()
    async with world.restarted() as other:
        assert await world.calls(other) == 200
        world.clock.at += world.auth.life
        found: list[int] = []

        async def one(credential: Credential) -> None:
            found.append(await world.calls(credential))

        async with anyio.create_task_group() as tasks:
            for credential in (world.credential, other) * 5:
                tasks.start_soon(one, credential)
        assert found == [200] * 10
        assert len(world.auth.asked("refresh")) == 1
        assert world.credential.tokens == other.tokens


PROCESS = """
import sys, anyio
from pathlib import Path
from tests.auth.homes import Clock, call, client, hub, server
async def main():
    clock = Clock()
    clock.at = float(sys.argv[3])
    async with hub(Path(sys.argv[1]), clock) as home, client(home.of(server(sys.argv[2]))) as made:
        print(await call(made))
anyio.run(main)
"""


@pytest.mark.parametrize("acted", [False, True])
async def test_a_process_that_is_killed_in_the_middle_of_a_refresh(world: World, acted: bool) -> None:
    """C108: its lock is free at once. Where the server had not acted the next one renews as ever; where it had, the old
    refresh token is a theft to it: a person is asked, and nothing is repeated."""
    family = await world.sign_in()
    old = family.refresh
    world.clock.at += world.auth.life
    held = raw(NEVER)
    world.auth.on("refresh", lambda request: world.auth.lost(request).after(NEVER) if acted else held)
    arguments = [sys.executable, "-c", PROCESS, str(world.path), world.mcp.url, str(world.clock.at)]
    async with await anyio.open_process(arguments, env={**os.environ}, stderr=sys.stderr) as process:
        await world.auth.until(lambda: world.auth.asked("refresh"))
        process.send_signal(signal.SIGKILL)
        await process.wait()
    with anyio.fail_after(5):
        if acted:
            told = await refusal(world)
            assert told.kind == "needs_auth" and "mcphub login s" in str(told)
            assert await world.kept() == ""
            assert world.credential.ended is not None
            await refusal(world)
        else:
            assert await world.calls() == 200
            assert await world.kept() == family.refresh != old
    assert len(world.auth.asked("refresh")) == 2


async def test_two_processes_at_once(world: World) -> None:
    """C108: two real processes at the moment of expiry, one refresh."""
    await world.sign_in()
    world.clock.at += world.auth.life
    arguments = [sys.executable, "-c", PROCESS, str(world.path), world.mcp.url, str(world.clock.at)]
    found: list[bytes] = []

    async def one() -> None:
        found.append((await anyio.run_process(arguments)).stdout)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        tasks.start_soon(one)
    assert found == [b"200\n", b"200\n"]
    assert len(world.auth.asked("refresh")) == 1


# -- time


async def test_thirty_days_of_use(world: World) -> None:
    """No second login as long as the refresh token lives: one refresh for each time that it is used after its end."""
    await world.sign_in()
    async with client(world.credential) as made:
        for step in range(150):
            world.clock.at += 600.0 if step % 2 else 9.5 * 3600
            assert await call(made) == 200
    assert len(world.auth.asked("refresh")) == 75
    assert world.credential.need is None and world.guarded.turned_away == 0


@pytest.mark.parametrize(("life", "most"), [(30.0, 4), (5.0, 25)])
async def test_short_tokens(world: World, life: float, most: int) -> None:
    """C110: a token that lives shorter than the usual head start is used for most of its life."""
    world.auth.life = life
    await world.sign_in()
    async with client(world.credential) as made:
        for _ in range(100):
            world.clock.at += 1.0
            assert await call(made) == 200
    assert len(world.auth.asked("refresh")) <= most


@pytest.mark.parametrize("jump", [-DAY, DAY, -400 * DAY])
async def test_the_clock_jumps(world: World, jump: float) -> None:
    """C110: the hub's clock jumps, the server's does not: tokens are kept, at most one refresh is in vain."""
    await world.sign_in()
    true = world.clock.at
    world.auth.clock = lambda: true
    world.clock.at += jump
    assert await world.calls() == 200
    world.clock.at -= jump
    true += world.auth.life + 1
    world.clock.at += world.auth.life + 1
    assert await world.calls() == 200
    assert len(world.auth.asked("refresh")) <= 2
    assert world.credential.need is None


async def test_a_clock_that_jumps_drops_no_tokens_that_cannot_be_renewed(world: World) -> None:
    """C110: only the server knows whether they are over."""
    await world.sign_in(refresh_token=Secret(""))
    true = world.clock.at
    world.auth.clock = lambda: true
    world.clock.at += DAY
    assert await world.calls() == 200
    assert world.credential.tokens is not None


@pytest.mark.parametrize("said", [0, -5, "3600abc", 1e12, None, "", True, [], {}, "60"])
async def test_junk_for_a_lifetime(world: World, said: Any) -> None:
    """C107: what is no lifetime is none: the tokens are used until they are refused, not renewed for each call."""
    await world.sign_in()
    world.auth.said_life = said
    if said is None:
        world.auth.extra["expires_in"] = None
    world.clock.at += world.auth.life
    async with client(world.credential) as made:
        for _ in range(5):
            assert await call(made) == 200
        assert len(world.auth.asked("refresh")) == 1
        world.clock.at += world.auth.life
        assert await call(made) == 200
        assert len(world.auth.asked("refresh")) == 2


# -- trouble that passes

SLACK = body(b'{"ok":false,"error":"ratelimited"}')
TRANSIENT = {
    "503": empty(503),
    "500 with an error": error("server_error", status=500),
    "429": empty(429, ("Retry-After", "0")),
    "temporarily_unavailable": error("temporarily_unavailable"),
    "200 that is none": SLACK,
    "internal_error": error("internal_error", status=200),
}


@pytest.mark.parametrize("rude", TRANSIENT.values(), ids=TRANSIENT)
async def test_trouble_that_passes(world: World, rude: Reply) -> None:
    """It is tried three times; then the call fails as one to a server that is away, the tokens stay, nobody is asked;
    and the server is left alone for a while."""
    family = await world.sign_in()
    world.auth.on("refresh", rude, times=2)
    world.clock.at += world.auth.life
    assert await world.calls() == 200
    assert len(world.auth.asked("refresh")) == 3

    kept = family.refresh
    world.auth.on("refresh", rude, times=None)
    world.clock.at += world.auth.life
    assert (await refusal(world)).kind == "unreachable"
    assert (await refusal(world)).kind == "unreachable"
    assert len(world.auth.asked("refresh")) == 6
    assert await world.kept() == kept
    assert world.credential.need is None and world.credential.ended is None
    world.auth.forget()
    world.clock.at += 11
    assert await world.calls() == 200


async def test_tokens_that_are_still_good_are_used(world: World) -> None:
    """Nobody notices that an authorization server is away for a minute; nor is it asked for each call."""
    await world.sign_in()
    world.auth.on("refresh", empty(503), times=None)
    world.clock.at += world.auth.life - 30
    async with client(world.credential) as made:
        for _ in range(20):
            assert await call(made) == 200
        assert len(world.auth.asked("refresh")) == 3
        world.auth.forget()
        world.clock.at += 15
        assert await call(made) == 200
    assert world.guarded.turned_away == 0


async def test_a_slow_renewal_delays_nobody_whose_token_is_good(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ahead of its end a token is used while the next one is on its way."""
    monkeypatch.setattr(credential_module, "AHEAD", 0.05)
    await world.sign_in()
    held = asyncio.Event()
    world.auth.on("refresh", NOTHING.after(held), times=None)
    world.clock.at += world.auth.life - 30
    with anyio.fail_after(3):
        assert await world.calls() == 200
        monkeypatch.setattr(credential_module, "AHEAD", -1.0)  # it has been under way for longer by now
        for _ in range(5):
            assert await world.calls() == 200
    assert len(world.auth.asked("refresh")) == 1
    held.set()


async def test_a_server_that_wants_a_long_rest(world: World) -> None:
    """Retry-After beyond what anybody waits for is no reason to ask three times."""
    await world.sign_in()
    world.auth.on("refresh", empty(429, ("Retry-After", "3600")), times=None)
    world.clock.at += world.auth.life
    assert (await refusal(world)).kind == "unreachable"
    assert len(world.auth.asked("refresh")) == 1


async def test_an_authorization_server_that_is_away(world: World) -> None:
    """Nothing listens: the tokens stay, and work again once it is back."""
    port = world.auth.port
    await world.sign_in(token_endpoint=f"http://127.0.0.1:{_free_port()}/token")
    world.clock.at += world.auth.life
    told = await refusal(world)
    assert told.kind == "unreachable" and "transient_exhausted" in str(told)
    assert await world.kept() and world.credential.need is None
    assert port == world.auth.port
    assert world.credential.shown is not None and world.credential.shown.how == WAIT
    assert world.credential.shown.failure.reason is RefreshFailure.TRANSIENT_EXHAUSTED


async def test_trouble_is_shown_until_it_is_over(world: World) -> None:
    """What keeps calls from working is a fact that is seen, and gone with the next success."""
    await world.sign_in()
    world.auth.on("refresh", empty(503, ("Retry-After", "3600")), times=1)
    world.clock.at += world.auth.life
    await refusal(world)
    shown = world.credential.shown
    assert shown is not None and (shown.how, shown.failure.reason) == (WAIT, RefreshFailure.TRANSIENT_EXHAUSTED)
    changes = world.hub.changes
    world.clock.at += credential_module.LEFT_ALONE
    assert await world.calls() == 200
    assert world.credential.shown is None and world.hub.changes > changes


def _free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as made:
        found: int = made.getsockname()[1]
    return found


# -- answers that are lost


LOST = {
    "closed": NOTHING,
    "reset": raw(RESET),
    "cut short": Reply(200, (("Content-Length", "1000"),), (b'{"access', CLOSE)),
    "no end": stream(b'{"access', NEVER, kind="application/json"),
    "never begun": raw(NEVER),
    "drop by drop": stream(*slowly(b"{" + b" " * 100, 1, 0.05), kind="application/json"),
}


@pytest.mark.parametrize("rude", LOST.values(), ids=LOST)
async def test_an_answer_that_is_lost_before_the_server_acted(
    world: World, rude: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same is sent again at once, and works."""
    monkeypatch.setattr("mcphub.auth.sending.WHOLE", 0.5)
    await world.sign_in()
    world.auth.on("refresh", rude)
    world.clock.at += world.auth.life
    assert await world.calls() == 200
    assert len(world.auth.asked("refresh")) == 2


async def test_an_answer_that_is_lost_after_the_server_acted(world: World) -> None:
    """The refresh token is used up: the server says so to the second one, and a person is asked."""
    await world.sign_in()
    world.auth.on("refresh", world.auth.lost)
    world.clock.at += world.auth.life
    told = await refusal(world)
    assert told.kind == "needs_auth" and "grant_rejected" in str(told)
    assert len(world.auth.asked("refresh")) == 2
    assert await world.kept() == ""


async def test_answers_that_are_always_lost(world: World) -> None:
    """As long as the access token is good nobody is asked; then a person is, once; the tokens stay for another try."""
    await world.sign_in()
    world.auth.on("refresh", NOTHING, times=None)
    world.clock.at += world.auth.life - 30
    async with client(world.credential) as made:
        for _ in range(5):
            assert await call(made) == 200
        assert len(world.auth.asked("refresh")) == 2 and world.credential.need is None
        world.clock.at += 40
        for _ in range(3):
            with pytest.raises(TransportError, match="needs a new sign-in") as caught:
                await call(made)
            assert caught.value.kind == "needs_auth"
        assert len(world.auth.asked("refresh")) == 4
    assert world.credential.ended is not None and await world.kept()
    world.auth.forget()
    assert await world.calls() == 200  # a new connection is a person's wish, or a new start
    assert world.credential.need is None and world.credential.ended is None


# -- tokens that are dead

DEAD = {
    "invalid_grant": error("invalid_grant"),
    "Slack": body(b'{"ok":false,"error":"invalid_refresh_token"}'),
    "GitHub": body(b"error=bad_refresh_token&error_description=no", "application/x-www-form-urlencoded"),
    "token_expired": error("token_expired", status=401),
    "named in the text": error("invalid_request", "The refresh token is unknown"),
    "token_revoked": error("token_revoked", status=200),
}


@pytest.mark.parametrize("rude", DEAD.values(), ids=DEAD)
async def test_a_refresh_token_that_is_dead(world: World, rude: Reply) -> None:
    """One question is enough: the tokens are dropped, a person is asked, and the server is not asked again."""
    await world.sign_in()
    world.auth.on("refresh", rude, times=None)
    world.clock.at += world.auth.life
    async with client(world.credential) as made:
        for _ in range(3):
            with pytest.raises(TransportError) as caught:
                await call(made)
            assert caught.value.kind == "needs_auth" and "mcphub login s" in str(caught.value)
    assert len(world.auth.asked("refresh")) == 1
    assert world.credential.need is not None and world.credential.need.how == BROWSER
    assert world.credential.need.failure.reason is RefreshFailure.GRANT_REJECTED
    assert await world.kept() == ""


REJECTED = {
    "invalid_client": (error("invalid_client", status=401), RefreshFailure.CLIENT_REJECTED, 1),
    "invalid_scope": (error("invalid_scope"), RefreshFailure.SCOPE_REJECTED, 1),
    "unsupported": (error("unsupported_grant_type"), RefreshFailure.REQUEST_REJECTED, 1),
    "404": (empty(404), RefreshFailure.REQUEST_REJECTED, 1),
}


@pytest.mark.parametrize(("rude", "reason", "asked"), REJECTED.values(), ids=REJECTED)
async def test_what_a_person_must_mend(world: World, rude: Reply, reason: RefreshFailure, asked: int) -> None:
    """The tokens stay and are used as long as they are good, the server is asked once; then a person is."""
    await world.sign_in()
    world.auth.on("refresh", rude, times=None)
    world.clock.at += world.auth.life - 30
    async with client(world.credential) as made:
        for _ in range(5):
            assert await call(made) == 200
        assert world.credential.need is not None and world.credential.ended is None
        world.clock.at += 40
        with pytest.raises(TransportError) as caught:
            await call(made)
        assert caught.value.kind == "needs_auth" and str(reason) in str(caught.value)
    assert len(world.auth.asked("refresh")) == asked
    assert world.credential.need.failure.reason is reason and await world.kept()
    await world.sign_in()
    assert await world.calls() == 200 and world.credential.need is None


async def test_a_token_endpoint_that_has_moved(world: World) -> None:
    """B86: a token endpoint is looked up anew, once, where the old one is not there any more; only at the same
    issuer."""
    family = await world.sign_in()

    def moved(request: Request) -> Reply:
        return empty(404) if request.path == "/token" else world.auth._ordinary(request)

    world.auth.on("refresh", moved, times=None)
    world.auth.document["token_endpoint"] = f"{world.auth.origin}/token/2"
    world.clock.at += world.auth.life
    assert await world.calls() == 200
    assert [request.path for request in world.auth.asked("refresh")] == ["/token", "/token/2"]
    assert await world.kept() == family.refresh
    world.clock.at += world.auth.life
    assert await world.calls() == 200
    assert len(world.auth.asked("refresh")) == 3

    async with RudeAs(world.clock) as other:
        world.guarded.server = other
        world.auth.forget()
        world.auth.on("refresh", empty(404), times=None)
        world.clock.at += world.auth.life
        assert (await refusal(world)).kind == "needs_auth"
        assert other.asked("token") == [] and await world.kept() == family.refresh


async def test_two_invalid_requests_in_a_row(world: World) -> None:
    """A server that says nothing but invalid_request of a dead token means just that."""
    await world.sign_in()
    world.auth.on("refresh", error("invalid_request"), times=None)
    world.clock.at += world.auth.life
    assert "grant_rejected" in str(await refusal(world))
    assert len(world.auth.asked("refresh")) == 2 and await world.kept() == ""


async def test_a_success_without_a_token(world: World) -> None:
    """The first time it may be a mistake, the second time a person is asked; the tokens stay."""
    await world.sign_in()
    world.auth.on("refresh", body(b"<html>", "text/html"), times=None)
    world.clock.at += world.auth.life
    async with client(world.credential) as made:
        with pytest.raises(TransportError):
            await call(made)
        assert world.credential.need is None
        world.clock.at += 11
        with pytest.raises(TransportError) as caught:
            await call(made)
    assert caught.value.kind == "needs_auth" and await world.kept()


async def test_tokens_in_a_form(world: World) -> None:
    """An answer may be a form, whatever was asked for."""
    await world.sign_in()
    world.auth.form = True
    world.clock.at += world.auth.life
    assert await world.calls() == 200
    assert world.credential.tokens is not None and world.credential.tokens.expires_at == world.clock.at + 3600


async def test_an_answer_without_a_refresh_token(world: World) -> None:
    """The old one stays."""
    family = await world.sign_in()
    world.auth.rotates = False
    world.auth.extra["refresh_token"] = None
    for _ in range(3):
        world.clock.at += world.auth.life
        assert await world.calls() == 200
    assert await world.kept() == family.refresh


async def listed(made: HttpClient) -> int:
    """Another request on this connection; its status."""
    asked = encoded({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}})
    async with made.exchange("POST", HEADERS, asked) as answer:
        await answer.read(1 << 20)
        return answer.status


async def test_new_tokens_that_are_refused_too(world: World) -> None:
    """One refresh, one retry; then the call fails, and nothing is dropped. It is left at that for a while, whatever
    else the server takes, on this connection or another."""
    await world.sign_in()
    world.guarded.refuses = frozenset(["tools/call"])
    async with client(world.credential) as made:
        assert await call(made) == 401
        for _ in range(3):
            assert await listed(made) == 200
            assert await call(made) == 401
        assert await world.calls() == 401
        assert len(world.auth.asked("refresh")) == 1
        assert world.credential.ended is None
        world.clock.at += credential_module.REJECTED_REST
        assert await call(made) == 401
        assert await call(made) == 401
        assert len(world.auth.asked("refresh")) == 2
        assert world.credential.need is not None
        world.guarded.refuses = frozenset()
        assert await call(made) == 200
    assert world.credential.need is None


async def test_tokens_that_nothing_renews_are_refused_before_their_time(world: World) -> None:
    """One 401 may be a mistake: they stay, and are used again."""
    await world.sign_in(refresh_token=Secret(""), expires_at=0.0)
    world.guarded.refuses = frozenset(["tools/call"])
    assert await world.calls() == 401
    assert world.credential.tokens is not None and world.credential.need is not None
    world.guarded.refuses = frozenset()
    assert await world.calls() == 200
    assert world.credential.need is None or world.credential.need.failure.reason is RefreshFailure.GRANT_REJECTED


# -- somebody else's tokens


@pytest.mark.parametrize("answer", [None, error("invalid_grant"), NOTHING, empty(503)])
async def test_a_person_signs_in_during_a_refresh(world: World, answer: Answer | None) -> None:
    """C108: whatever comes of the old tokens, the new ones are kept and used."""
    await world.sign_in()
    world.clock.at += world.auth.life
    held = asyncio.Event()

    def late(request: Request) -> Reply:
        made = answer if isinstance(answer, Reply) else world.auth._ordinary(request)
        return made.after(held)

    world.auth.on("refresh", late)
    found: list[int] = []

    async def one() -> None:
        found.append(await world.calls())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        await world.auth.until(lambda: world.auth.asked("refresh"))
        family = await world.sign_in()
        held.set()
    assert found == [200]
    assert await world.kept() == family.refresh
    assert world.credential.tokens is not None and str(world.credential.tokens.refresh_token) == family.refresh
    assert len(world.auth.asked("refresh")) == 1


async def test_another_process_signs_in_during_a_refresh(world: World) -> None:
    """C108: compare-and-delete: the loser takes nothing away from the winner, and uses what that has."""
    await world.sign_in()
    world.clock.at += world.auth.life
    held = asyncio.Event()
    world.auth.on("refresh", error("invalid_grant").after(held))
    found: list[int] = []

    async def one() -> None:
        found.append(await world.calls())

    async with world.restarted() as other, anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        await world.auth.until(lambda: world.auth.asked("refresh"))
        family = world.auth.signed_in()
        await other.take(tokens(world.auth, family, world.clock))
        held.set()
    assert found == [200] and await world.kept() == family.refresh


async def test_another_process_signs_in(world: World) -> None:
    """A refusal makes look into the vault before anybody is asked."""
    assert await world.calls() == 401
    async with world.restarted() as other:
        await other.take(tokens(world.auth, world.auth.signed_in(), world.clock))
    world.credential._home.remember(world.credential.key, None)
    assert await world.calls() == 200


# -- the vault


async def test_a_vault_that_cannot_be_written(world: World) -> None:
    """Tokens that were renewed are used all the same, and written once that works; a restart finds them."""
    await world.sign_in()
    obstacle = world.path / "vault" / ".vault.new"
    (obstacle / "x").mkdir(parents=True)
    for _ in range(3):
        world.clock.at += world.auth.life
        assert await world.calls() == 200
    assert world.family is not None and await world.kept() != world.family.refresh
    assert any("store_failed" in text for _, text in world.hub.log)
    shown = world.credential.shown
    assert shown is not None and (shown.how, shown.failure.reason) == (WAIT, RefreshFailure.STORE_FAILED)
    (obstacle / "x").rmdir()
    obstacle.rmdir()
    wanted = world.family.refresh
    await eventually(lambda: world.on_disk() == wanted, timeout=5)
    await eventually(lambda: world.credential.shown is None, timeout=5)
    async with world.restarted() as other:
        assert await world.calls(other) == 200
    assert len(world.auth.asked("refresh")) == 3


async def test_the_end_of_the_daemon_writes_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be written is tried once more when the daemon ends, which is not delayed by that."""
    monkeypatch.setattr(credential_module, "WRITE_AGAIN", 3600.0)
    await world.sign_in()
    obstacle = world.path / "vault" / ".vault.new"
    obstacle.mkdir()
    world.clock.at += world.auth.life
    assert await world.calls() == 200
    obstacle.rmdir()
    with anyio.fail_after(3):
        await world.hub.credentials.drain()
    assert world.family is not None and await world.kept() == world.family.refresh


async def test_a_vault_that_is_locked(world: World) -> None:
    """C115: not to be able to read is not to have nothing: who needs the vault says so, who needs no sign-in runs, and
    once it can be read everything is as before."""
    await world.sign_in()
    key = world.path / "vault.key"
    key.rename(world.path / "away")
    async with world.restarted() as other, RudeHttp(OrdinaryMcp(sessions=False)) as free:
        async with hub(world.path, world.clock) as home:
            assert home.vault.state.trouble is Trouble.NO_KEY
            open_one = home.of(server(free.url, name="free"))
            assert await world.calls(open_one) == 200
            assert open_one.need is None
        assert await world.calls(other) == 401
        assert other.need is not None and other.need.how == VAULT and other.need.failure.reason is Unmet.STORE
        told = await refusal(world, other)  # known in vain from now on
        assert told.kind == "needs_auth" and "needs the vault" in str(told)
        (world.path / "away").rename(key)
        assert isinstance(other.home.safe, Vault)
        await other.home.safe.open()
        assert await world.calls(other) == 200
        assert other.need is None


async def test_a_vault_that_cannot_be_read_any_more(world: World) -> None:
    """What is in hand is used as long as it is good; without a look at what others did nothing is renewed."""
    await world.sign_in()
    file = world.path / "vault" / "vault"
    file.chmod(0o644)
    world.clock.at += world.auth.life - 30
    async with client(world.credential) as made:
        assert await call(made) == 200
        world.clock.at += 40
        with pytest.raises(TransportError, match="store_failed") as caught:
            await call(made)
        assert caught.value.kind == "unreachable" and world.auth.asked("refresh") == []
        assert world.credential.need is None and world.credential.ended is None
        assert world.credential.shown is not None
        assert world.credential.shown.failure.reason is RefreshFailure.STORE_FAILED
        file.chmod(0o600)
        world.clock.at += 11
        assert await call(made) == 200
        assert world.credential.shown is None


async def test_a_vault_that_cannot_be_made(world: World) -> None:
    """Nobody is sent to sign in where the tokens could not be kept: the place of the key comes first."""
    key = world.path / "vault.key"
    key.symlink_to(world.path / "elsewhere")
    assert await world.calls() == 401
    need = world.credential.need
    assert need is not None and (need.how, need.failure.reason) == (VAULT, Unmet.STORE)
    assert "[vault] key" in need.failure.detail
    assert (await refusal(world)).kind == "needs_auth" and world.credential.need == need
    key.unlink()
    assert (await refusal(world)).kind == "needs_auth"
    assert world.credential.need is not None and world.credential.need.how == BROWSER


async def test_a_sign_in_that_cannot_be_kept(world: World) -> None:
    """C118: the old tokens stay until the new ones are kept."""
    family = await world.sign_in()
    (world.path / "vault" / ".vault.new").mkdir()
    with pytest.raises(VaultUnavailable):
        await world.credential.take(tokens(world.auth, world.auth.signed_in(), world.clock))
    assert world.credential.tokens is not None and world.credential.tokens.access_token == family.access
    assert await world.kept() == family.refresh and await world.calls() == 200


async def test_one_look_for_all(world: World) -> None:
    """At the start the vault is read once for all servers, not once for each."""
    read = 0
    real = world.hub.vault.file.list

    def counted(kind: str) -> dict[str, Record]:
        nonlocal read
        read += 1
        return real(kind)

    world.hub.vault.file.list = counted  # type: ignore[method-assign]
    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(world.hub.of(server(f"{world.mcp.url}/{number}", name=f"s{number}")).ready)
    assert read <= 2


# -- what is known to be in vain


async def test_nothing_is_sent_in_vain(world: World) -> None:
    """C118: a server that wants a sign-in is not asked again by the next connection, nor after a restart, for a quarter
    of an hour."""
    assert await world.calls() == 401
    await eventually((world.path / "challenges.json").exists, timeout=5)
    before = len(world.mcp.requests)
    told = await refusal(world)
    assert str(told) == "needs a sign-in: mcphub login s" and told.kind == "needs_auth"
    async with world.restarted() as other:
        world.clock.at += 14 * 60
        assert (await refusal(world, other)).kind == "needs_auth"
        assert len(world.mcp.requests) == before
        assert world.auth.requests == []
        world.clock.at += 2 * 60
        assert await world.calls(other) == 401
        await other.take(tokens(world.auth, world.auth.signed_in(), world.clock))
        assert await world.calls(other) == 200


async def test_a_server_that_wants_a_sign_in_for_one_thing_alone(world: World) -> None:
    """C093: POST ok, tools/call 401: what needs none goes on, on the next connection too."""
    world.guarded.free = frozenset(["tools/list"])
    listing = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    for _ in range(2):
        async with client(world.credential) as made:
            for _ in range(2):
                async with made.exchange("POST", [(b"Content-Type", b"application/json")], listing) as answer:
                    assert answer.status == 200
                assert await call(made) == 401
    assert world.credential.need is not None and world.credential.ended is None


# -- scopes


async def test_a_missing_scope(world: World) -> None:
    """B86: a person is asked for all that was asked, given and named as missing; the tokens stay in use for the
    rest."""
    world.guarded.scopes = {"tools/call": "write"}
    await world.sign_in(scopes="read")
    assert await world.calls() == 403
    need = world.credential.need
    assert need is not None and need.failure.reason is Unmet.INSUFFICIENT_SCOPE and need.scopes == ("read", "write")
    assert world.auth.asked("refresh") == [] and world.credential.ended is None
    file = world.path / "challenges.json"
    await eventually(lambda: file.exists() and "write" in file.read_text("utf-8"), timeout=5)
    async with world.restarted() as other:
        await other.load()
        assert other.missing == ("read", "write")
    await world.sign_in(scopes="read write")
    assert await world.calls() == 200 and world.credential.need is None


async def test_a_server_that_always_wants_more(world: World) -> None:
    """B86: a person signs in three times within ten minutes, then not any more for that; what was given up, and
    what the server did not refuse, is not counted."""
    world.guarded.scopes = {"tools/call": "never"}
    for _ in range(3):
        for _ in range(5):
            world.credential.count_sign_in()  # begun, and cancelled
        await world.sign_in(scopes="read")
        assert await world.calls() == 403
    world.guarded.scopes = {"tools/call": "other"}
    assert await world.calls() == 403
    world.credential.count_sign_in()
    world.guarded.scopes = {"tools/call": "never"}
    assert await world.calls() == 403
    with pytest.raises(SignInFailed) as caught:
        world.credential.count_sign_in()
    assert caught.value.reason is FlowFailure.SCOPE_DENIED


# -- without a person


@pytest.fixture
async def machine(world: World) -> World:
    world.auth.secrets["robot"] = "s3cret"
    oauth = OAuthSpec(
        mode="client_credentials", client_id="robot", client_secret=Secret("s3cret"), issuer=world.auth.issuer
    )
    world.spec = server(world.mcp.url, oauth)
    world.credential = world.hub.of(world.spec)
    return world


async def test_client_credentials(machine: World) -> None:
    """Tokens are asked for when they are wanted, once, and anew when they are due."""
    async with client(machine.credential) as made:
        for _ in range(3):
            assert await call(made) == 200
        machine.clock.at += machine.auth.life
        assert await call(made) == 200
    assert len(machine.auth.asked("grant")) == 2


async def test_who_wants_a_refresh_token(world: World, machine: World) -> None:
    """C105: offline_access is asked for where a person signs in, and not by a client for itself."""
    machine.auth.document = {"scopes_supported": ["a", "offline_access"]}
    for mode, asked in (("oauth", ("a", "offline_access")), ("client_credentials", ("a",))):
        oauth = msgspec.structs.replace(machine.credential.account.oauth, mode=mode, scopes=("a",))
        credential = machine.hub.of(server(machine.mcp.url, oauth, name=mode))
        assert credential.wanted_scopes(await credential.discovered()) == asked


async def test_client_credentials_that_are_wrong(machine: World) -> None:
    """One question, not one for each call; the next connection asks once more. A correction of the entry is enough."""
    machine.auth.secrets["robot"] = "other"
    async with client(machine.credential) as made:
        for _ in range(3):
            assert await call(made) == 401
    assert len(machine.auth.asked("grant")) == 1
    assert machine.credential.need is not None and machine.credential.need.how == CONFIG
    assert machine.credential.need.failure.reason is RefreshFailure.CLIENT_REJECTED
    oauth = machine.credential.account.oauth
    right = OAuthSpec(
        mode=oauth.mode, client_id=oauth.client_id, client_secret=Secret("other"), issuer=oauth.issuer
    )
    assert machine.hub.of(server(machine.mcp.url, right)) is machine.credential
    assert await machine.calls() == 200


WRONG = {
    "another issuer in its own document": {"issuer": "http://127.0.0.1:9"},
    "its issuer with a path": {"issuer": "/t"},
    "a token endpoint elsewhere": {"token_endpoint": "http://example.com/token"},
    "no token endpoint": {"token_endpoint": None},
    "a token endpoint in a private network": {"token_endpoint": "https://10.0.0.5/token"},
    "a registration in a private network": {"registration_endpoint": "https://[fd00::5]/register"},
}


@pytest.mark.parametrize("document", WRONG.values(), ids=WRONG)
async def test_metadata_that_is_wrong(machine: World, document: dict[str, Any]) -> None:
    """No secret is sent, nor asked again for each call."""
    machine.auth.document = document
    async with client(machine.credential) as made:
        assert await call(made) == 401
        asked = len(machine.auth.requests)
        assert await call(made) == 401
        assert len(machine.auth.requests) == asked
    assert machine.auth.asked("grant") == [] and machine.auth.asked("token") == []
    assert machine.credential.need is not None and machine.credential.need.how == CONFIG


async def test_another_issuer_of_the_server(machine: World) -> None:
    """The server names one of its own: the secret is for the one that the entry names."""
    async with RudeAs(machine.clock) as other:
        machine.guarded.server = other
        assert await machine.calls() == 401
        assert other.requests == [] and machine.auth.asked("grant") == []
    need = machine.credential.need
    assert need is not None and need.failure.reason is FlowFailure.CLIENT_UNUSABLE


async def test_client_credentials_and_more_scopes(machine: World) -> None:
    """One more request with all that is wanted, then the call fails; a second call asks for nothing more."""
    machine.guarded.scopes = {"tools/call": "never"}
    machine.auth.on("grant", lambda request: _without_scope(machine, request), times=None)
    async with client(machine.credential) as made:
        assert await call(made) == 403
        assert await call(made) == 403
    assert len(machine.auth.asked("grant")) == 2


def _without_scope(machine: World, request: Request) -> Reply:
    made = machine.auth._ordinary(request)
    machine.auth.families[-1].scopes = ""
    return made


# -- secrets


async def test_what_a_server_repeats_is_not_shown(world: World) -> None:
    """S12: a refresh token in the text of an error is in no message, need or log."""
    family = await world.sign_in()
    used = family.refresh
    world.clock.at += world.auth.life
    family.used.add(family.refresh)
    family.refresh = "other"
    told = await refusal(world)
    seen = f"{told} {world.credential.need!r} {world.credential.ended!r} {world.hub.log} {world.credential.tokens!r}"
    assert used not in seen and "***" in seen
    assert {used, *world.hub.hidden} & set(world.hub.hidden)


async def test_whose_credentials_they_are(world: World) -> None:
    """B59: not known before the vault was read; then of nobody, or of one sign-in, over renewals and daemons. An entry
    that needs no person is nobody's but its own."""
    of = world.hub.credentials
    assert of.principal(world.spec) is None
    assert await of.principal_kept(world.spec) == of.principal(world.spec) == ""
    await world.sign_in()
    mine = of.principal(world.spec)
    assert mine
    world.clock.at += world.auth.life
    assert await world.calls() == 200 and len(world.auth.asked("refresh")) == 1
    assert of.principal(world.spec) == mine
    async with world.restarted() as other:
        before = other.principal
        await other.look()
        assert (before, other.principal) == (None, mine)
    await world.sign_in()
    assert of.principal(world.spec) not in (mine, "", None)
    silent = OAuthSpec(client_id="c", client_secret=Secret("s3cret"), mode="client_credentials")
    assert of.principal(server(world.mcp.url, silent)) == ""
    transport = msgspec.structs.replace(world.spec.transport, headers={"Authorization": Secret("Bearer x")})
    assert of.principal(msgspec.structs.replace(world.spec, transport=transport)) == ""
