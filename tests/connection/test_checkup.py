"""Finding out soon whether an open connection still leads anywhere."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from mcphub.connection import checkup
from mcphub.connection.checkup import Checkup
from mcphub.connection.client import Client
from mcphub.connection.faults import FaultKind
from mcphub.connection.machine import Connected
from mcphub.protocol.versions import Era
from mcphub.transport.link import Surroundings
from tests.connection.workers import Bench, outcome, remote, start_call, working
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
    checking = Checkup(client, asyncio.get_running_loop().time)
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
    Checkup(client, asyncio.get_running_loop().time).begin()
    assert channel.sent == []


async def test_a_connection_of_the_past(around: Surroundings) -> None:
    """What was to be looked at and was opened anew meanwhile is left alone."""
    async with RudeHttp(OrdinaryMcp()) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        bench.worker.check_up(generation=0)
        with anyio.move_on_after(0.3):
            await bench.lost()
        assert server.sent("ping") == []
