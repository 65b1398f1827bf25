"""Finding out soon whether an open connection still leads anywhere."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from mcphub.connection import checkup
from mcphub.connection.capability_sets import WITH_SAMPLING
from mcphub.connection.checkup import Checkup
from mcphub.connection.client import Client
from mcphub.connection.faults import FaultKind
from mcphub.connection.handshake import Ignored
from mcphub.connection.machine import Connected
from mcphub.connection.pulse import Health
from mcphub.protocol.versions import Era
from mcphub.transport.link import Surroundings
from mcphub.transport.streamable_http import HttpChannel
from tests.connection.workers import Bench, eventually, outcome, remote, start_call, working
from tests.fakes.channel import Heard, KeptChannel
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import CLOSE, NEVER, RudeHttp, raw

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "PATIENCE", 0.2)


@pytest.mark.parametrize(("era", "method"), [("legacy", "ping"), ("modern", "server/discover")])
async def test_a_server_that_answers(around: Surroundings, era: str, method: str) -> None:
    """It stays connected, and was asked the least that its era allows, once."""
    async with RudeHttp(OrdinaryMcp(era)) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        before = len(server.sent(method))
        bench.worker.check_up()
        await server.until(lambda: len(server.sent(method)) == before + 1)
        with anyio.move_on_after(0.4):
            await bench.lost()
        assert isinstance(bench.worker.state, Connected) and bench.states == ["Pending", "Connected"]
        assert len(server.sent(method)) == before + 1


async def test_a_server_that_is_not_there_any_more(around: Surroundings) -> None:
    """What stays unanswered ends the connection, and the next one is opened."""
    async with RudeHttp(OrdinaryMcp()) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        server.on("ping", raw(NEVER))
        bench.worker.check_up()
        await bench.lost()
        fault = bench.worker.last_fault
        assert fault is not None and fault.kind is FaultKind.LOST
        assert "it does not answer any more" in fault.message
        await bench.connected()


async def test_a_way_that_is_gone_again(around: Surroundings) -> None:
    """C085: what was asked while there was one says nothing then; it is asked again when there is one."""
    async with RudeHttp(OrdinaryMcp()) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        server.on("ping", raw(NEVER))
        bench.worker.check_up()
        bench.worker.sever()
        with anyio.move_on_after(1.0):
            await bench.lost()
        assert bench.states == ["Pending", "Connected"]
        asked = len(server.sent("ping"))
        bench.worker.restore(0.0)
        await server.until(lambda: len(server.sent("ping")) == asked + 1)
        assert bench.states == ["Pending", "Connected"]


async def test_a_server_that_is_at_a_call(around: Surroundings) -> None:
    """Silence during a call ends nothing; when the call is over, it counts."""
    async with RudeHttp(OrdinaryMcp()) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        server.on("ping", raw(NEVER), times=None)
        server.on("tools/call", raw(0.7, CLOSE))
        call = start_call(bench)
        bench.worker.check_up()
        assert await outcome(call) == ["lost"]
        assert len(server.sent("ping")) >= 2
        assert bench.states == ["Pending", "Connected"]
        await bench.lost()


@pytest.mark.parametrize(
    ("kind", "ends"),
    [
        ("unreachable", True),
        ("no_response", True),
        ("timeout", True),
        # somebody answered, if not well
        ("status", False),
        ("refused", False),
        ("rate_limited", False),
        ("needs_auth", False),
        ("unreadable", False),
        # it is known already
        ("lost", False),
    ],
)
async def test_what_ends_it(kind: str, ends: bool) -> None:
    """Only that nothing comes back, or nothing can be sent."""
    client, channel = Client(Heard()), KeptChannel()
    client.use(channel)
    client.ready = True
    checking = Checkup(client, "ping", asyncio.get_running_loop().time)
    checking.begin()
    assert [one["method"] for one in channel.sent] == ["ping"]
    client.unanswered(channel.sent[0]["id"], kind, "x") if kind != "timeout" else checking.unanswered(kind, "x")
    assert channel.aborted is ends
    assert client.counters["failed_checkup"] == ends


@pytest.mark.parametrize(("era", "ready", "gone"), [("legacy", False, ""), ("modern", True, "it was removed")])
async def test_what_is_not_asked(era: Era, ready: bool, gone: str) -> None:
    """A connection that is not open yet has its own time; one that is ended needs no finding out."""
    client, channel = Client(Heard()), KeptChannel()
    client.use(channel)
    client.era, client.ready, client.gone = era, ready, gone
    Checkup(client, "ping", asyncio.get_running_loop().time).begin()
    assert channel.sent == []


async def test_a_server_that_ignores_ping(around: Surroundings) -> None:
    """It is asked for its tools, once that is known of it: its silence on a ping says nothing."""
    async with RudeHttp(OrdinaryMcp()) as server:
        server.on("ping", raw(NEVER), times=None)
        async with working(Bench(remote(server.url), around, health=Health(0.1, 0.2))) as bench:
            await bench.connected()
            probing = bench.worker._probing
            assert probing is not None
            with anyio.fail_after(10):
                await eventually(lambda: probing.ignores)
            pings, lists = len(server.sent("ping")), len(server.sent("tools/list"))
            bench.worker.check_up()
            await server.until(lambda: len(server.sent("tools/list")) > lists)
            with anyio.move_on_after(0.4):
                await bench.lost()
            assert bench.states == ["Pending", "Connected"] and len(server.sent("ping")) == pings


def at_rest(client: Client) -> bool:
    """Nothing is asked of its server: all that it has are idle connections."""
    assert isinstance(client.channel, HttpChannel)
    return not any(line._busy for line in client.channel._client._pool._lines)


async def test_another_way(around: Surroundings) -> None:
    """C167: connections that were idle when the way changed are used for nothing more, the probe the first; those of
    sessions beside the worker's own neither."""
    async with RudeHttp(OrdinaryMcp()) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        await server.until(lambda: len(server.sent("notifications/initialized")) == 1)
        own = bench.worker.client
        assert own is not None and bench.worker.sessions is not None
        session = bench.worker.sessions.client_for(own, False, WITH_SAMPLING)
        assert session is not own
        with anyio.fail_after(10):
            # What is under way at that moment may be used again: its answer comes by the way that there is.
            await eventually(lambda: session.ready and at_rest(own) and at_rest(session))
        before = server.connections
        bench.worker.restore(0.0)
        await server.until(lambda: len(server.sent("ping")) == 1)
        asyncio.get_running_loop().call_soon(session.start, Ignored(float("inf")), "ping")
        await server.until(lambda: len(server.sent("ping")) == 2)
        if not all(request.connection >= before for request in server.requests if request.key == "ping"):
            raise RuntimeError(str((before, [(r.key, r.connection) for r in server.requests])))
        assert isinstance(bench.worker.state, Connected) and bench.states == ["Pending", "Connected"]


async def test_a_connection_of_the_past(around: Surroundings) -> None:
    """What was to be looked at and was opened anew meanwhile is left alone."""
    async with RudeHttp(OrdinaryMcp()) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        bench.worker.check_up(generation=0)
        with anyio.move_on_after(0.3):
            await bench.lost()
        assert server.sent("ping") == []
