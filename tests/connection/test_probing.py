"""Probes on real connections: what is found out about a server that says nothing, and that nobody else suffers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace
from websockets.asyncio.server import ServerConnection

from mcphub.connection import pulse
from mcphub.connection.backoff import Backoff
from mcphub.connection.faults import FaultKind
from mcphub.connection.machine import Asked, Connected, Failed, Pending
from mcphub.connection.pulse import Health
from mcphub.connection.worker import Worker
from mcphub.spec import HttpSpec, Secret, ServerSpec, SseSpec, WsSpec
from mcphub.transport import streamable_http
from mcphub.transport.link import Surroundings
from tests.connection.test_worker import is_idle
from tests.connection.workers import (
    Bench,
    Call,
    eventually,
    fake,
    methods,
    outcome,
    remote,
    start_call,
    starts,
    working,
)
from tests.fakes.blackhole import blackhole
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import CLOSE, NEVER, RudeHttp, empty, raw
from tests.fakes.rude_websocket import RudeWebSocket

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]

#: Nothing here is silent for long, and every connection lasted long enough for its loss to be the first.
EAGER = Health(0.1, 0.2)
AT_ONCE = Backoff(attempts=3, first=0.02, most=0.05, stable_after=0.0)


def bench(spec: Any, around: Surroundings, health: Health = EAGER) -> Bench:
    return Bench(spec, around, backoff=AT_ONCE, health=health)


@pytest.mark.parametrize(("era", "method"), [("legacy", "ping"), ("modern", "server/discover")])
async def test_a_stopped_program(around: Surroundings, log: Path, era: str, method: str) -> None:
    """A server that is stopped, its pipes open, is found out by three probes in a row, and another takes its place."""
    async with working(bench(fake({"era": era}, log=log), around)) as one:
        await one.connected()
        await eventually(lambda: methods(log).count(method) >= 3)
        assert one.states == ["Pending", "Connected"]
        first = one.worker.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        await one.lost()
        assert isinstance(one.worker.state, Pending) and one.worker.state.attempt == 0
        fault = one.worker.state.fault
        assert fault is not None and fault.kind is FaultKind.UNRESPONSIVE
        assert fault.message.startswith(f"the server answers nothing, and {method} not since 0.6")
        await one.connected()
        assert one.worker.pid != first
        assert one.worker.counters()["missed_probes"] == 3
        assert methods(log).count("initialize") == (2 if era == "legacy" else 0)


async def test_a_server_without_ping(around: Surroundings, log: Path) -> None:
    """An error is an answer: who does not know the method is alive."""
    script = {"on": {"ping": [{"error": {"code": -32601, "message": "Method not found"}}]}}
    async with working(bench(fake(script, log=log), around)) as one:
        await one.connected()
        await eventually(lambda: methods(log).count("ping") >= 8)
        assert (one.states, one.worker.slow) == (["Pending", "Connected"], "")
        assert "missed_probes" not in one.worker.counters()


async def test_a_server_that_ignores_ping(around: Surroundings, log: Path) -> None:
    """It is asked for its tools before it is given up, and from then on at once, in its next connection too."""
    async with working(bench(fake({"on": {"ping": []}}, log=log), around)) as one:
        await one.connected()
        await eventually(lambda: methods(log).count("tools/list") >= 5)
        assert (one.states, methods(log).count("ping")) == (["Pending", "Connected"], 2)
        await eventually(lambda: one.worker.slow == "")
        one.worker.post(Asked())
        await one.connected()
        await eventually(lambda: methods(log).count("tools/list") >= 9)
        assert (starts(log), methods(log).count("ping")) == (2, 2)


async def test_a_slow_server(around: Surroundings, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays connected, is called slow while it is, and no more once it answers quickly again."""
    monkeypatch.setattr(pulse, "SLOW_EVERY", 0.1)
    late = [{"pause": 0.3}, {"default": 1}]
    script = {"on": {"ping": [late, late, late, [{"default": 1}]]}}
    async with working(bench(fake(script, log=log), around)) as one:
        await one.connected()
        await one.until(lambda w: w.slow != "")
        assert one.worker.slow.startswith("slow: it ")
        await one.until(lambda w: w.slow == "")
        assert one.states == ["Pending", "Connected"]
        assert one.worker.last_fault is None


async def test_a_call_that_makes_progress(around: Surroundings, log: Path) -> None:
    """C086: a server that does one thing at a time answers no probe meanwhile; nothing ends, and none is sent."""
    step = [{"progress": 1}, {"pause": 0.1}]
    script = {"tools": [{"name": "echo", "actions": [*step * 12, {"text": "done"}]}]}
    async with working(bench(fake(script, log=log), around)) as one:
        await one.connected()
        call = start_call(one)
        assert await outcome(call) == ["answered"]
        assert one.states == ["Pending", "Connected"]
        assert methods(log)[-1] == "tools/call"
        assert "missed_probes" not in one.worker.counters()


async def test_a_call_without_any_sign(around: Surroundings, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is stuck at a call says so in its row, stays connected, and is asked once; when it goes on it is a
    server like any other."""
    monkeypatch.setattr(pulse, "MUTE", 0.2)
    usual = replace(EAGER, idle=60.0)
    done = log.with_suffix(".done")
    stuck = {"wait": str(done)}
    script = {
        "tools": [{"name": "echo", "actions": [stuck, {"text": "done"}]}],
        "on": {"ping": [[stuck, {"default": 1}]]},
    }
    async with working(bench(fake(script, log=log), around, usual)) as one:
        await one.connected()
        call = start_call(one)
        await one.until(lambda w: w.slow != "")
        assert re.fullmatch(r"slow: it has not answered anything for \d s, ping neither", one.worker.slow)
        with anyio.move_on_after(0.8):
            await one.lost()
        done.touch()
        assert await outcome(call) == ["answered"]
        await one.until(lambda w: w.slow == "")
        assert one.states == ["Pending", "Connected"]
        assert methods(log).count("ping") == 1
        assert "missed_probes" not in one.worker.counters()


async def test_calls_that_run_while_their_server_takes_no_request(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probe beside a call that is lost on the way is no strike: however many are, the call goes on."""
    monkeypatch.setattr(pulse, "MUTE", 0.1)
    async with RudeHttp(OrdinaryMcp()) as server:
        server.on("tools/call", raw(NEVER))
        server.on("ping", raw(CLOSE), times=None)
        async with working(bench(remote(server.url), around, Health(60.0, 0.1))) as one:
            await one.connected()
            start_call(one)
            await server.until(lambda: len(server.sent("ping")) >= 5)
            assert one.states == ["Pending", "Connected"]


@pytest.mark.parametrize("where", ["own", "session"])
async def test_a_server_that_cannot_be_reached_beside_a_call(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Its row says so, with what failed, however often that is asked, and in whichever session the call is; the call is
    not cut, and its answer ends all that."""
    monkeypatch.setattr(pulse, "MUTE", 0.1)
    monkeypatch.setattr(pulse, "SLOW_EVERY", 0.1)
    mcp, gate = OrdinaryMcp(), asyncio.Event()
    async with RudeHttp(mcp) as server, working(bench(remote(server.url), around, Health(60.0, 0.1))) as one:
        await one.connected()
        assert one.worker.unreachable == ""
        server.on("tools/call", lambda request: mcp(request).after(gate))
        call = Call()
        own = one.worker.client
        assert own is not None and one.worker.sessions is not None
        client = own if where == "own" else one.worker.sessions.client_for(own, False, b'{"elicitation":{}}')
        client.call_tool(call, b'"echo"', b'{"text":"x"}', b"")
        await server.until(lambda: server.sent("tools/call"))
        server.on("ping", raw(CLOSE), times=None)
        await one.until(lambda w: w.unreachable != "")
        await server.until(lambda: len(server.sent("ping")) >= 5)
        said = one.worker.unreachable
        assert re.fullmatch(
            r"unreachable now: \S+ closed the connection without an answer; "
            r"a call waits, and nothing has come for \d+ s",
            said,
        ), said
        assert one.states == ["Pending", "Connected"] and call.told == []
        gate.set()
        assert await outcome(call) == ["answered"]
        server.rules.clear()
        await one.until(lambda w: w.unreachable == "")
        assert one.states == ["Pending", "Connected"]


async def test_a_server_that_is_gone_once_nobody_waits(around: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that was given up keeps no connection to a server that cannot be reached: probes count from then on."""
    monkeypatch.setattr(pulse, "MUTE", 0.1)
    monkeypatch.setattr(pulse, "SLOW_EVERY", 0.1)
    async with RudeHttp(OrdinaryMcp()) as server, working(bench(remote(server.url), around, Health(60.0, 0.1))) as one:
        await one.connected()
        server.on("tools/call", raw(NEVER))
        server.on("ping", raw(CLOSE), times=None)
        call, client = Call(), one.worker.client
        assert client is not None
        mid = client.call_tool(call, b'"echo"', b'{"text":"x"}', b"")
        await one.until(lambda w: w.unreachable != "")
        await server.until(lambda: len(server.sent("ping")) >= 3)
        client.withdraw(mid, "")
        await one.lost()
        fault = one.worker.last_fault
        assert fault is not None and fault.kind is FaultKind.LOST


async def test_a_server_that_answers_after_it_was_slow(
    around: Surroundings, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is still called slow, the reason is what made it so: no quick answer is given for one."""
    monkeypatch.setattr(pulse, "RECOVERED", 1000)
    async with working(bench(fake({"on": {"ping": []}}, log=log), around)) as one:
        await one.connected()
        await eventually(lambda: methods(log).count("tools/list") >= 4)
        await eventually(lambda: "the last time" in one.worker.slow)
        found = re.fullmatch(
            r"slow: it (?:did not answer ping for|took) (\d+\.\d) s(?: to answer tools/list)?, "
            r"and (?:answered after )?\d+\.\d s the last time",
            one.worker.slow,
        )
        assert found is not None and float(found[1]) > 0, one.worker.slow


async def test_what_is_never_probed(around: Surroundings, log: Path) -> None:
    """An entry can switch it off; a server that may sleep is not kept awake, and one that sleeps is not probed."""
    async with working(bench(fake({}, log=log, health_idle=0.0), around)) as one:
        await one.connected()
        with anyio.move_on_after(0.5):
            await one.lost()
        assert isinstance(one.worker.state, Connected)
        assert "ping" not in methods(log)
    async with working(bench(fake({}, log=log, idle_timeout=0.5), around)) as one:
        await one.connected()
        await one.until(is_idle)
        sent = methods(log)
        assert sent.count("ping") >= 2
        with anyio.move_on_after(0.4):
            await one.connected()
        assert is_idle(one.worker)
        assert (methods(log), starts(log)) == (sent, 2)


async def mcp(connection: ServerConnection, message: str) -> None:
    """An ordinary server over a WebSocket."""
    request = json.loads(message)
    results: dict[str, Any] = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "w"}},
        "tools/list": {"tools": []},
        "ping": {},
    }
    if "id" in request:
        error = {"code": -32601, "message": "Method not found"}
        said = {"result": results[request["method"]]} if request["method"] in results else {"error": error}
        await connection.send(json.dumps({"jsonrpc": "2.0", "id": request["id"], **said}))


@asynccontextmanager
async def served(kind: str) -> AsyncIterator[ServerSpec]:
    """A server of this kind at a port of its own."""
    if kind == "ws":
        async with RudeWebSocket(mcp) as socket:
            spec = remote(socket.url)
            assert isinstance(spec.transport, HttpSpec)
            yield replace(spec, transport=WsSpec(spec.transport.url, {}, socket.url))
        return
    async with RudeHttp(OrdinaryMcp(era=kind, standing=True)) as server:
        spec = remote(server.url)
        assert isinstance(spec.transport, HttpSpec)
        yield replace(spec, transport=SseSpec(Secret(server.url), {}, server.url)) if kind == "sse" else spec


def through(spec: ServerSpec, port: int) -> ServerSpec:
    """The same server by way of this port."""
    assert isinstance(spec.transport, HttpSpec)
    url = re.sub(r":\d+", f":{port}", spec.transport.url, count=1)
    return replace(spec, transport=replace(spec.transport, url=Secret(url), shown=url), startup_timeout=0.5)


@pytest.mark.parametrize("kind", ["legacy", "modern", "sse", "ws"])
async def test_a_peer_that_vanished_without_a_word(around: Surroundings, kind: str) -> None:
    """C183: nothing comes any more, no connection ends: found out, and another is made; while that leads nowhere it is
    tried as any that fails, and comes back once there is a way."""
    async with served(kind) as spec:
        port = int(re.findall(r":(\d+)", str(spec.transport.url))[0])  # type: ignore[union-attr]
        async with blackhole(port) as hole, working(bench(through(spec, hole.port), around)) as one:
            await one.connected()
            hole.swallow()
            await one.lost()
            fault = one.worker.last_fault
            assert fault is not None and fault.kind is FaultKind.UNRESPONSIVE, fault
            await eventually(lambda: hole.swallowed > 0)
            hole.restore()
            await one.until(lambda w: isinstance(w.state, Connected | Failed))
            one.worker.post(Asked())
            await one.connected()


@pytest.mark.parametrize(("era", "method"), [("legacy", "ping"), ("modern", "server/discover")])
async def test_a_remote_server_that_says_nothing(around: Surroundings, era: str, method: str) -> None:
    """A blackhole on the way, which takes what is sent and answers nothing: found out, and reconnected."""
    async with RudeHttp(OrdinaryMcp(era=era)) as server, working(bench(remote(server.url), around)) as one:
        await one.connected()
        before = len(server.sent(method))
        await eventually(lambda: len(server.sent(method)) > before + 1)
        for asked in (method, method, "tools/list" if era == "legacy" else method):
            server.on(asked, raw(NEVER), times=1)
        await one.lost()
        fault = one.worker.last_fault
        assert fault is not None and fault.kind is FaultKind.UNRESPONSIVE
        await one.connected()
        assert one.states == ["Pending", "Connected"] * 2


async def test_a_probe_that_is_missed_and_then_given_up(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One probe is one strike, also where it is given up after its silence was counted: it takes three of them."""
    monkeypatch.setattr(streamable_http, "BEGIN", 0.3)
    async with RudeHttp(OrdinaryMcp()) as server, working(bench(remote(server.url), around)) as one:
        await one.connected()
        for method in ("ping", "ping", "tools/list"):
            server.on(method, raw(NEVER), times=1)
        await one.lost()
        fault = one.worker.last_fault
        assert fault is not None and fault.kind is FaultKind.UNRESPONSIVE
        assert len(server.sent("ping")) >= 2
        assert "missed_probes" in one.worker.counters() and one.worker.counters()["missed_probes"] == 3


async def test_a_remote_server_that_is_gone(around: Surroundings) -> None:
    """Probes that fail are strikes like all requests: the row does not say connected of what is not there."""
    async with RudeHttp(OrdinaryMcp()) as server, working(bench(remote(server.url), around)) as one:
        await one.connected()
        server.on("ping", raw(CLOSE), times=3)
        await one.lost()
        fault = one.worker.last_fault
        assert fault is not None and fault.kind is FaultKind.LOST
        await one.connected()


async def test_a_session_that_is_over(around: Surroundings) -> None:
    """C065: the probe of a server that forgot its session finds it out, and the next one is begun at once."""
    ordinary = OrdinaryMcp()
    async with RudeHttp(ordinary) as server, working(bench(remote(server.url), around)) as one:
        await one.connected()
        ordinary.known.clear()
        said: set[str] = set()

        def over(worker: Worker) -> bool:
            said.add(worker.unreachable)
            return not isinstance(worker.state, Connected)

        await one.until(over)
        assert said == {""}, "it was reached, and has answered"
        assert isinstance(one.worker.state, Pending) and one.worker.state.attempt == 0
        await one.connected()
        assert len(server.sent("initialize")) == 2
        fault = one.worker.last_fault
        assert fault is not None and fault.kind is FaultKind.SESSION_EXPIRED


@pytest.mark.parametrize("status", [429, 503])
async def test_a_websocket_that_wants_to_be_left_alone(around: Surroundings, status: int) -> None:
    """C075, C183: what a refused handshake asks for is waited at least, as with HTTP."""
    refusals = [(status, {"Retry-After": "1"})]
    async with RudeWebSocket(mcp, refuse=lambda request: refusals.pop() if refusals else None) as socket:
        spec = replace(remote(socket.url), transport=WsSpec(Secret(socket.url), {}, socket.url))
        async with working(bench(spec, around)) as one:
            await one.until(lambda w: isinstance(w.state, Pending) and w.state.attempt == 1)
            begun = anyio.current_time()
            await one.connected()
            assert anyio.current_time() - begun > 0.8
            assert one.worker.last_fault is not None and one.worker.last_fault.kind is FaultKind.HTTP_UNAVAILABLE


@pytest.mark.parametrize("status", [404, 401, 429])
async def test_a_refused_probe(around: Surroundings, status: int) -> None:
    """C086: a refusal is an answer too, whatever its status; a session that is over is found by the way."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, working(bench(remote(server.url), around)) as one:
        await one.connected()
        server.on("server/discover", empty(status))
        before = len(server.sent("server/discover"))
        await eventually(lambda: len(server.sent("server/discover")) > before + 4)
        assert one.states == ["Pending", "Connected"]
