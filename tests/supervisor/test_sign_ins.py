"""What signing in and out does to the workers of real servers behind a real authorization server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from mcphub.auth.failures import RefreshFailure, Unmet
from mcphub.auth.sign_out import sign_out
from mcphub.connection.machine import Connected, Failed, NeedsAuth
from mcphub.connection.worker import Worker
from mcphub.protocol.envelope import HUB_META_MEMBER
from mcphub.spec import IdpSpec, OAuthSpec, ServerSpec
from mcphub.supervisor.sign_ins import SignIns
from mcphub.supervisor.supervisor import Supervisor
from mcphub.transport.link import Surroundings
from tests.auth.homes import Clock, Hub, hub, server, tokens
from tests.connection.workers import Call, outcome, surroundings
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_as import Family, Guarded, RudeAs, error
from tests.fakes.rude_http import RudeHttp, empty
from tests.supervisor.test_supervisor import running, until, wanted
from tests.transport.peers import clean

pytestmark = pytest.mark.anyio


class World:
    def __init__(self, auth: RudeAs, guarded: Guarded, mcp: RudeHttp, home: Hub, supervisor: Supervisor) -> None:
        self.auth, self.guarded, self.mcp, self.hub, self.supervisor = auth, guarded, mcp, home, supervisor
        self.sign_ins = SignIns(supervisor, home.credentials)
        self.spec = server(mcp.url)

    def worker(self, spec: ServerSpec | None = None) -> Worker:
        return self.supervisor.workers[(spec or self.spec).key()]

    async def becomes(self, state: type, *specs: ServerSpec) -> None:
        found = [self.worker(spec) for spec in specs or (self.spec,)]
        await until(self.supervisor, lambda: all(isinstance(worker.state, state) for worker in found))

    async def sign_in(self, spec: ServerSpec | None = None, scopes: str = "") -> Family:
        family = self.auth.signed_in(scopes=scopes)
        clock = self.auth.clock
        assert isinstance(clock, Clock)
        await self.hub.of(spec or self.spec).take(tokens(self.auth, family, clock))
        return family

    async def call(self, spec: ServerSpec | None = None) -> list[str]:
        client = self.worker(spec).client
        assert client is not None
        call = Call()
        tail = HUB_META_MEMBER if client.era == "modern" else b""
        client.call_tool(call, b'"echo"', b'{"text":"x"}', tail)
        return await outcome(call)


@pytest.fixture
async def around() -> AsyncIterator[Surroundings]:
    async with clean(), surroundings() as around:
        yield around


@pytest.fixture(params=["legacy", "modern"])
async def world(around: Surroundings, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    clock = Clock()
    async with RudeAs(clock) as auth:
        guarded = Guarded(auth, OrdinaryMcp(era=request.param))
        async with RudeHttp(guarded) as mcp, hub(tmp_path, clock) as home:
            auth.protects(mcp.url)
            async with running(replace(around, credentials=home.credentials)) as supervisor:
                yield World(auth, guarded, mcp, home, supervisor)


def told(worker: Worker) -> str:
    assert isinstance(worker.state, NeedsAuth), worker.state
    return worker.state.challenge


async def test_a_sign_in_wakes_every_server_that_it_serves(world: World) -> None:
    """The same server in two workspaces has one sign-in; one of the same name with another configuration has not."""
    one, two = (replace(world.spec, workspace=path) for path in ("/one", "/two"))
    other = replace(server(world.mcp.url, OAuthSpec(client_id="another")), workspace="/three")
    world.supervisor.want(wanted(one, two, other))
    await world.becomes(NeedsAuth, one, two, other)
    assert told(world.worker(one)).startswith("needs a sign-in: mcphub login s")
    before = len(world.mcp.requests)
    await world.sign_in(one)
    await world.becomes(Connected, one, two)
    assert isinstance(world.worker(other).state, NeedsAuth)
    assert len(world.mcp.requests) > before
    assert await world.call(one) == await world.call(two) == ["answered"]


async def test_tokens_that_are_dead(world: World) -> None:
    """What is open with them ends, with the reason and the next step; a sign-in opens it again. Another server goes on
    all the time."""
    async with RudeHttp(OrdinaryMcp(sessions=False)) as free:
        open_one = server(free.url, name="free")
        await world.sign_in()
        world.supervisor.want(wanted(world.spec, open_one))
        await world.becomes(Connected, world.spec, open_one)
        family = world.auth.families[-1]
        family.alive = False
        # The server's own streams may find out before the call does.
        assert await world.call() in (["needs_auth"], ["server_lost"], ["lost"], ["refused"], ["session_over"])
        await world.becomes(NeedsAuth)
        assert "grant_rejected" in told(world.worker()) and "mcphub login s" in told(world.worker())
        assert family.refresh not in told(world.worker())
        asked = len(world.mcp.requests)
        world.auth.clock.at += 1800  # type: ignore[attr-defined]
        world.worker().wake_failed()
        world.worker().restore(0.0)
        world.supervisor.want(wanted(world.spec, open_one))
        await anyio.wait_all_tasks_blocked()
        assert len(world.mcp.requests) == asked
        assert await world.call(open_one) == ["answered"]
        await world.sign_in()
        await world.becomes(Connected)
        assert await world.call() == ["answered"]


async def test_a_refusal_of_one_call(world: World) -> None:
    """C093: the fourth: what needs no sign-in goes on; that one is wanted for the rest is known."""
    world.guarded.free = frozenset(
        ["initialize", "notifications/initialized", "server/discover", "tools/list", "subscriptions/listen", "ping"]
        + ["GET", "DELETE"]
    )
    world.supervisor.want(wanted(world.spec))
    await world.becomes(Connected)
    assert await world.call() == ["needs_auth"]
    need = world.hub.of(world.spec).need
    assert need is not None and need.failure.reason is Unmet.LOGIN_REQUIRED
    await anyio.wait_all_tasks_blocked()
    assert isinstance(world.worker().state, Connected)
    await world.sign_in()
    assert await world.call() == ["answered"]
    assert world.hub.of(world.spec).need is None


async def test_a_server_that_says_hello_to_everybody(world: World) -> None:
    """C118: it wants a sign-in for its lists: that is remembered, though it answered before."""
    world.guarded.free = frozenset(["initialize", "notifications/initialized", "server/discover", "GET", "DELETE"])
    world.supervisor.want(wanted(world.spec))
    await world.becomes(NeedsAuth)
    asked = [request.key for request in world.mcp.requests]
    again = replace(world.spec, call_timeout=1.0)
    world.supervisor.want(wanted(again))
    await world.becomes(NeedsAuth, again)
    assert [request.key for request in world.mcp.requests if request.key not in ("DELETE", "GET")] == [
        key for key in asked if key not in ("DELETE", "GET")
    ]


async def test_a_missing_scope(world: World) -> None:
    """It moves no state: the call fails, with what is missing."""
    world.guarded.scopes = {"tools/call": "write"}
    await world.sign_in(scopes="read")
    world.supervisor.want(wanted(world.spec))
    await world.becomes(Connected)
    assert await world.call() == ["needs_auth"]
    await anyio.wait_all_tasks_blocked()
    assert isinstance(world.worker().state, Connected)
    need = world.hub.of(world.spec).need
    assert need is not None and need.scopes == ("read", "write")


async def test_trouble_that_passes(world: World) -> None:
    """C118: an authorization server that is away is no reason to sign in: the server fails as one that is away."""
    await world.sign_in()
    world.auth.clock.at += 3600  # type: ignore[attr-defined]
    world.auth.on("refresh", empty(503), times=None)
    world.supervisor.want(wanted(world.spec))
    await world.becomes(Failed)
    state = world.worker().state
    assert isinstance(state, Failed) and "transient_exhausted" in state.fault.message
    assert world.hub.of(world.spec).need is None
    assert [key for key in world.guarded.admitted if key == "tools/list"] == []
    world.auth.forget()
    world.worker().restore(0.0)  # the network is back: nothing is left alone for that
    await world.becomes(Connected)


async def test_what_a_person_must_mend(world: World) -> None:
    """Tokens that cannot be renewed any more end what is open as soon as they are over."""
    await world.sign_in()
    world.supervisor.want(wanted(world.spec))
    await world.becomes(Connected)
    world.auth.on("refresh", error("invalid_client", status=401), times=None)
    world.auth.clock.at += 3600  # type: ignore[attr-defined]
    await world.call()
    await world.becomes(NeedsAuth)
    assert RefreshFailure.CLIENT_REJECTED in told(world.worker())
    assert len(world.auth.asked("refresh")) == 1


async def test_signing_out(world: World) -> None:
    """C118: what is open with the tokens ends, in every workspace; nothing is tried without them."""
    one, two = (replace(world.spec, workspace=path) for path in ("/one", "/two"))
    await world.sign_in()
    world.supervisor.want(wanted(one, two))
    await world.becomes(Connected, one, two)
    await sign_out(world.hub.of(one))
    await world.becomes(NeedsAuth, one, two)
    assert told(world.worker(one)) == "needs a sign-in: mcphub login s"
    asked = len(world.mcp.requests)
    world.worker(one).signed_in()
    await world.becomes(NeedsAuth, one)
    await anyio.wait_all_tasks_blocked()
    left = world.mcp.requests[asked:]
    assert all(request.method == "DELETE" for request in left), left


async def test_wake_all(world: World) -> None:
    """Whoever waits for a person is tried again; whoever is connected is left alone."""
    await world.sign_in()
    other = server(world.mcp.url, name="other")
    world.supervisor.want(wanted(world.spec, other))
    await world.becomes(Connected)
    await world.becomes(NeedsAuth, other)
    client = world.worker().client
    world.hub.credentials.remember(world.hub.of(other).key, None)
    asked = len(world.mcp.requests)
    world.sign_ins.wake_all()
    await world.mcp.until(lambda: len(world.mcp.requests) > asked)
    await world.becomes(NeedsAuth, other)
    assert world.worker().client is client


async def test_another_identity_provider(world: World) -> None:
    """C119: who waits for the organisation's login is tried again when another provider is configured, not before."""
    world.supervisor.want(wanted(world.spec))
    await world.becomes(NeedsAuth)
    world.hub.credentials.remember(world.hub.of(world.spec).key, None)
    asked = len(world.mcp.requests)
    world.sign_ins.provided(None)
    assert isinstance(world.worker().state, NeedsAuth)
    world.sign_ins.provided(IdpSpec("https://login.example", "hub"))
    await world.mcp.until(lambda: len(world.mcp.requests) > asked)
    await world.becomes(NeedsAuth)


async def test_lists_of_another_sign_in(world: World) -> None:
    """B59: what was listed with tokens of one sign-in is listed anew, or gone, with those of another; renewed ones are
    the same. After a sign-out the tools stay, with what to do told by each call."""
    await world.sign_in()
    world.supervisor.want(wanted(world.spec))
    await world.becomes(Connected)
    worker = world.worker()

    def listings() -> int:
        return world.guarded.admitted.count("tools/list")

    first = worker.lists.source
    assert first is not None and first.principal and listings() == 1
    world.auth.clock.at += 3600  # type: ignore[attr-defined]
    assert await world.call() == ["answered"]
    assert len(world.auth.asked("refresh")) == 1 and worker.lists.source == first
    await world.sign_in()
    assert "tools/list" in worker.view().doubted
    await until(world.supervisor, lambda: not worker.view().doubted)
    second = worker.lists.source
    assert second is not None and second.principal not in ("", first.principal) and listings() == 2
    await sign_out(world.hub.of(world.spec))
    await world.becomes(NeedsAuth)
    assert worker.tools and worker.lists.source == second
    await world.sign_in()
    assert (worker.tools, worker.listed) == ((), 0)
    await world.becomes(Connected)
    assert worker.tools
