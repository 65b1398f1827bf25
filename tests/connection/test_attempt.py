"""Attempts to open real servers: what is found out, which way is tried next, and what is said where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from mcphub.connection.backoff import Backoff
from mcphub.connection.faults import FaultKind
from mcphub.connection.machine import Asked, Connected, Failed, NeedsAuth
from mcphub.spec import HttpSpec, Secret, ServerSpec, SseSpec, WsSpec
from mcphub.transport import http_sse
from mcphub.transport.link import Surroundings
from tests.connection.workers import (
    HANGS,
    MESSAGE,
    STUBBORN,
    Bench,
    eventually,
    fake,
    methods,
    outcome,
    remote,
    start_call,
    starts,
    working,
)
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import NEVER, Reply, RudeHttp, body, comment, empty, event, stream

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


@pytest.mark.parametrize(
    ("script", "kind", "phase", "said"),
    [
        (
            {"before": [{"stderr": "API_KEY missing\n"}, {"exit": 1}]},
            FaultKind.EXITED,
            "handshake",
            "the server exited with code 1 before the handshake ended; stderr: API_KEY missing",
        ),
        (
            {"on": {"server/discover": [{"exit": 0}], "initialize": [{"exit": 5}]}},
            FaultKind.EXITED,
            "handshake",
            "the server exited with code 5 before the handshake ended",
        ),
        (
            {"on": {"tools/list": [{"kill": 11}]}},
            FaultKind.EXITED,
            "list",
            "the server was ended by signal 11 before it listed its tools",
        ),
        (
            {"before": [{"close_stdout": 1}, {"hang": 1}]},
            FaultKind.LOST,
            "handshake",
            "the server closed its stdout before the handshake ended",
        ),
        (HANGS, FaultKind.NO_ANSWER, "handshake", "no answer to server/discover and initialize in 0.5 s"),
        (
            {**HANGS, "before": [{"write": MESSAGE, "chunk": 20, "pause": 0.02}] * 100},
            FaultKind.NO_ANSWER,
            "handshake",
            "no answer to server/discover and initialize in 0.5 s",
        ),
        ({"on": {"tools/list": []}}, FaultKind.NO_ANSWER, "list", "no answer to tools/list in 0.5 s"),
        (
            {"on": {"tools/list": [{"error": {"code": -32603, "message": "no"}}]}},
            FaultKind.LIST_FAILED,
            "list",
            "the server answered list with an error: no (-32603)",
        ),
        (
            {"before": [{"write": "noise\n" * 1001}]},
            FaultKind.NOT_PROTOCOL,
            "handshake",
            "the server writes non-protocol data to stdout; stdout: noise",
        ),
        (
            {"before": [{"write": "a banner\nError: set API_KEY\n"}, {"exit": 1}]},
            FaultKind.EXITED,
            "handshake",
            "the server exited with code 1 before the handshake ended; stdout: Error: set API_KEY",
        ),
        (
            {"before": [{"write": "out, unfinished"}, {"stderr": "err\n"}, {"exit": 1}]},
            FaultKind.EXITED,
            "handshake",
            "the server exited with code 1 before the handshake ended; stderr: err; stdout: out, unfinished",
        ),
        (
            {**HANGS, "before": [{"write": "Welcome!\nPassword: "}]},
            FaultKind.NO_ANSWER,
            "handshake",
            "no answer to server/discover and initialize in 0.5 s; stdout: Password: ",
        ),
        (
            {"before": [{"write": "Content-Length: 2\r\n\r\n{}"}]},
            FaultKind.CONTENT_LENGTH,
            "handshake",
            "the peer speaks Content-Length framing, not MCP stdio",
        ),
    ],
)
async def test_an_opening_that_fails(
    around: Surroundings, script: dict[str, Any], kind: FaultKind, phase: str, said: str
) -> None:
    """C033, C034, C045, C056: the fault is named, in time, with what the program said; the process is gone."""
    once = Backoff(attempts=0)
    async with working(Bench(fake(script, startup_timeout=0.5), around, backoff=once)) as bench:
        await bench.failed(2)
        fault = bench.worker.last_fault
        assert fault is not None
        assert (fault.kind, fault.phase, fault.message) == (kind, phase, said)
        await bench.until(lambda w: w.pid is None)
        assert bench.limiter.borrowed_tokens == 0


async def test_a_process_locked_to_its_first_message(around: Surroundings, log: Path) -> None:
    """Refused both ways it is started again, and spoken to in the other era from the first byte."""
    no = {"error": {"code": -32600, "message": "no"}}
    script = {"starts": [{"on": {"server/discover": [no], "initialize": [no]}}, {}]}
    async with working(Bench(fake(script, log=log), around)) as bench:
        await bench.connected()
        assert methods(log) == [
            "server/discover",
            "initialize",
            "initialize",
            "notifications/initialized",
            "tools/list",
        ]
        assert starts(log) == 2
        assert isinstance(bench.worker.state, Connected) and bench.worker.state.attempt == 0
        bench.worker.post(Asked())
        await bench.connected()
        assert methods(log)[5] == "initialize", "the era is remembered"


async def test_a_process_that_ends_at_any_first_message_but_initialize(around: Surroundings, log: Path) -> None:
    """C068, K2.1: it is started again once, begins with initialize, and the era is remembered."""
    async with working(Bench(fake({"on": {"server/discover": [{"exit": 1}]}}, log=log), around)) as bench:
        await bench.connected()
        assert methods(log)[:2] == ["server/discover", "initialize"]
        assert starts(log) == 2
        assert bench.worker.last_fault is None
        bench.worker.post(Asked())
        await bench.connected()
        assert starts(log) == 3


async def test_a_process_that_ends_at_any_message(around: Surroundings, log: Path) -> None:
    """C068: it is started once more at the first attempt, and not at the others."""
    script = {"on": {"server/discover": [{"exit": 1}], "initialize": [{"exit": 1}]}}
    bench = Bench(fake(script, log=log), around, backoff=Backoff(attempts=2, first=0.01))
    async with working(bench):
        assert "exited with code 1" in await bench.failed()
        assert methods(log) == ["server/discover", "initialize", "server/discover", "server/discover"]


async def test_a_server_that_refuses_everything(around: Surroundings, log: Path) -> None:
    """One restart, then it has failed for good: no attempt more would change it."""
    no = {"error": {"code": -32600, "message": "no"}}
    async with working(Bench(fake({"on": {"server/discover": [no], "initialize": [no]}}, log=log), around)) as bench:
        assert "the server refuses initialize: no (-32600)" in await bench.failed()
        assert starts(log) == 2


@pytest.mark.parametrize(("pin", "first"), [("legacy", "initialize"), ("modern", "server/discover")])
async def test_a_pinned_era(around: Surroundings, log: Path, pin: str, first: str) -> None:
    """Nothing else is tried: the first message is of that era, and a refusal is final."""
    async with working(Bench(fake({"era": pin}, log=log, era=pin), around)) as bench:
        await bench.connected()
        assert methods(log)[0] == first
    before = len(methods(log))
    other = "modern" if pin == "legacy" else "legacy"
    async with working(Bench(fake({"era": other}, log=log, era=pin), around)) as bench:
        said = await bench.failed()
        assert said.count("refuses") == 1 and f'the entry has "era": "{pin}"' in said
        fault = bench.worker.last_fault
        assert fault is not None and fault.kind is FaultKind.PINNED_ERA
        assert "take `era` out of the entry" in fault.remedy("x")
        assert methods(log)[before:] == [first]
        assert starts(log) == 2


async def test_a_stubborn_process_does_not_hold_up_the_others(around: Surroundings, log: Path, tmp_path: Path) -> None:
    """The slot is given back when the attempt has failed, not when the process is dead at last."""
    around = replace(around, grace=0.4)
    limiter = anyio.CapacityLimiter(1)
    first = Bench(fake({**HANGS, **STUBBORN}, log=log, startup_timeout=0.3), around, limiter, Backoff(attempts=0))
    second = Bench(fake({}, log=tmp_path / "second"), around, limiter)
    async with working(first):
        await eventually(lambda: starts(log) == 1)
        async with working(second):
            await second.connected()
            assert first.worker.pid is not None, "the other is still being ended"


@pytest.mark.parametrize("era", ["legacy", "modern", "both"])
async def test_a_remote_server(around: Surroundings, era: str) -> None:
    """C068: found out, listed and called in its era; one of both eras in the modern one; its slot is free."""
    async with RudeHttp(OrdinaryMcp(era=era)) as server:
        async with working(Bench(remote(server.url), around)) as bench:
            await bench.connected()
            assert bench.worker.facts is not None
            assert bench.worker.facts.era == ("legacy" if era == "legacy" else "modern")
            assert len(bench.worker.tools) == 1
            assert bench.worker.pid is None
            assert bench.limiter.borrowed_tokens == 0
            assert await outcome(start_call(bench)) == ["answered"]
        await server.until(lambda: server.open == 0)


async def test_a_version_that_the_server_does_not_know(around: Surroundings) -> None:
    """C067, K1.2: of versions named in a refusal, in words or as data, the best common one is asked for once."""
    mcp = OrdinaryMcp(era="legacy")
    async with RudeHttp(mcp) as server:
        refusal = "Unsupported protocol version (supported versions: 2025-06-18, 2025-03-26)"
        server.on("initialize", lambda r: body(r.error(-32000, refusal), status=400))
        async with working(Bench(remote(server.url), around)) as bench:
            await bench.connected()
            assert bench.worker.facts is not None
            assert bench.worker.facts.version == "2025-06-18"
            asked = [request.params["protocolVersion"] for request in server.sent("initialize")]
            assert asked == ["2025-11-25", "2025-06-18"]


async def test_a_version_that_nobody_knows(around: Surroundings) -> None:
    """C067: a server that agrees to a version out of the blue has failed, by name, and is left."""
    mcp = OrdinaryMcp(era="legacy")
    async with RudeHttp(mcp) as server:
        made = {"protocolVersion": "1999-01-01", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
        server.on("initialize", lambda r: body(r.result(made)), times=None)
        async with working(Bench(remote(server.url), around)) as bench:
            assert "1999-01-01" in await bench.failed()
            assert len(server.sent("initialize")) == 1
            await server.until(lambda: server.open == 0)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (empty(404), FaultKind.HTTP_STATUS),
        (empty(405), FaultKind.HTTP_STATUS),
        (body(b"<html>", "text/html"), FaultKind.NOT_PROTOCOL),
        (Reply(302, (("Location", "https://login.example/x?t=s3cret"),)), FaultKind.HTTP_STATUS),
    ],
    ids=range(4),
)
async def test_what_is_no_server(around: Surroundings, reply: Reply, kind: FaultKind) -> None:
    """C086: what another try cannot help is given up at once, and the row says what came."""
    async with RudeHttp(lambda request: reply) as server:
        bench = Bench(remote(server.url), around, backoff=Backoff(attempts=0))
        async with working(bench):
            said = await bench.failed()
            assert isinstance(bench.worker.state, Failed)
            assert bench.worker.state.fault.kind is kind
            assert "initialize" in said
            assert "s3cret" not in said
            assert len(server.sent("initialize")) == 1


@pytest.mark.parametrize("refused", [None, empty(400), empty(404), empty(405)], ids=["ordinary", "400", "404", "405"])
async def test_a_server_of_the_older_transport(around: Surroundings, refused: Reply | None) -> None:
    """C082: a server that has nothing to POST `initialize` to is spoken to by HTTP+SSE, in the legacy era, which the
    row says; the next connection begins so, with another stream, another endpoint and another handshake."""
    mcp = OrdinaryMcp(era="sse")
    async with RudeHttp(mcp) as server:
        if refused is not None:
            server.on("server/discover", refused)
            server.on("initialize", refused)
        async with working(Bench(remote(server.url), around)) as bench:
            await bench.connected()
            assert bench.worker.facts is not None
            assert bench.worker.facts.era == "legacy"
            assert any("HTTP+SSE" in warning for warning in bench.worker.facts.warnings)
            assert bench.limiter.borrowed_tokens == 0
            assert await outcome(start_call(bench)) == ["answered"]
            server.on("tools/call", body(b"Accepted", "text/plain", status=202))
            running = start_call(bench)
            await server.until(lambda: len(server.sent("tools/call")) == 2)
            asked = [request.key for request in server.requests]
            assert asked[:4] == ["server/discover", "initialize", "GET", "initialize"]
            mcp.endpoint = "/messages?s=2"
            mcp.feeds[-1].end()
            assert await outcome(running) == ["lost"]
            await bench.until(lambda w: not isinstance(w.state, Connected))
            await bench.connected()
            assert await outcome(start_call(bench)) == ["answered"]
            again = server.requests[len(asked) :]
            assert [request.key for request in again][:3] == ["GET", "initialize", "notifications/initialized"]
            assert {request.target for request in again if request.method == "POST"} == {"/messages?s=2"}
        await server.until(lambda: server.open == 0)


async def test_a_server_that_moves_to_the_newer_transport(around: Surroundings) -> None:
    """C082: what was found out of the transport is a memory: where it fails, the next attempt begins from the start."""
    mcp = OrdinaryMcp(era="sse")
    async with RudeHttp(mcp) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        mcp.era = "modern"
        mcp.feeds[-1].end()
        await bench.until(lambda w: not isinstance(w.state, Connected))
        await bench.connected()
        assert bench.worker.facts is not None
        assert bench.worker.facts.era == "modern"
        assert bench.worker.facts.warnings == ()


@pytest.mark.parametrize(
    ("stream_", "part"),
    [
        (empty(405), "HTTP 405"),
        (stream(comment("a stream for something else"), NEVER), "named no endpoint"),
        (stream(event("http://localhost:1/s3cret", name="endpoint"), NEVER), "nothing is sent there"),
    ],
)
async def test_a_server_of_neither_transport(
    around: Surroundings, stream_: Reply, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C082: it fails at once, and the message says what either transport heard."""
    monkeypatch.setattr(http_sse, "OPENING_UNASKED", 0.1)
    async with RudeHttp(lambda request: empty(404) if request.method == "POST" else stream_) as server:
        bench = Bench(remote(server.url), around, backoff=Backoff(attempts=0))
        async with working(bench):
            said = await bench.failed()
            assert isinstance(bench.worker.state, Failed)
            assert bench.worker.state.fault.kind is FaultKind.HTTP_STATUS
            assert said.startswith("initialize: HTTP 404 Not Found; by HTTP+SSE: ")
            assert part in said
            assert "s3cret" not in said


async def test_a_sign_in_to_the_older_transport(around: Surroundings) -> None:
    """C082: where the stream wants a sign-in, that is what the server needs."""
    http = RudeHttp(lambda request: empty(404 if request.method == "POST" else 401))
    async with http as server, working(Bench(remote(server.url), around)) as bench:
        await bench.until(lambda w: isinstance(w.state, NeedsAuth))


async def test_an_entry_of_the_older_transport(around: Surroundings) -> None:
    """C065: it is asked for its stream at once; when the server forgets its session while the stream stays open, the
    call is sent again in the next one."""
    mcp = OrdinaryMcp(era="sse")
    async with RudeHttp(mcp, path="/sse") as server:
        spec = ServerSpec("far", remote("").origin, SseSpec(Secret(server.url), {}, server.url), era="legacy")
        async with working(Bench(spec, around)) as bench:
            await bench.connected()
            asked = [request.key for request in server.requests]
            assert asked[:3] == ["GET", "initialize", "notifications/initialized"]
            server.on("tools/call", body(b"Could not find session", "text/plain", status=404))
            assert await outcome(start_call(bench)) == ["moved", "answered"]
            assert len(server.sent("GET")) == len(server.sent("initialize")) == 2


async def test_a_remote_server_that_never_answers(around: Surroundings) -> None:
    """C034: the time for a start is all it has, and its slot is free again."""
    async with RudeHttp(lambda request: stream(NEVER)) as server:
        spec = remote(server.url, startup_timeout=0.5)
        async with working(Bench(spec, around, backoff=Backoff(attempts=0))) as bench:
            assert await bench.failed() == "no answer to server/discover and initialize in 0.5 s"
            assert bench.limiter.borrowed_tokens == 0
        await server.until(lambda: server.open == 0)


@pytest.mark.parametrize("kind", ["http", "sse", "ws"])
async def test_a_start_without_a_connection(around: Surroundings, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """C073: where nobody took the connection in the time for a start, nothing is said to have stayed unanswered."""

    async def nowhere(host: str, port: int, guard: object = None) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr("mcphub.outbound.pool.dial", nowhere)
    monkeypatch.setattr("mcphub.outbound.websocket.dial", nowhere)
    types = {"http": HttpSpec, "sse": SseSpec, "ws": WsSpec}
    url = f"{'ws' if kind == 'ws' else 'http'}://127.0.0.1:9/"
    transport = types[kind](Secret(url), {}, url)
    spec = replace(remote(url, startup_timeout=0.3), transport=transport)
    async with working(Bench(spec, around)) as bench:
        said = "no connection within 0.27 s" if kind == "sse" else "no connection in 0.3 s"
        assert said in await bench.failed()
        assert bench.worker.last_fault is not None and bench.worker.last_fault.kind is FaultKind.UNREACHABLE
