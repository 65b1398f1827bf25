"""One instance on real processes: what it becomes, and what is left of it, whatever happens at whatever moment."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from msgspec.structs import replace
from websockets.asyncio.server import ServerConnection

from mcphub.connection import handshake
from mcphub.connection import worker as module
from mcphub.connection.backoff import Backoff
from mcphub.connection.capability_sets import SHARED
from mcphub.connection.doubts import MOST
from mcphub.connection.faults import FaultKind
from mcphub.connection.handshake import Facts, Ignored
from mcphub.connection.machine import IDLE, Asked, Connected, Disabled, Failed, NeedsAuth, Pending, TurnedOff
from mcphub.connection.rest import Known
from mcphub.connection.source import Source
from mcphub.connection.worker import Worker
from mcphub.errors import JSONRPCError
from mcphub.spec import (
    HelperSpec,
    HttpSpec,
    InProcessSpec,
    Origin,
    Scope,
    Secret,
    ServerSpec,
    SseSpec,
    StdioSpec,
    WsSpec,
)
from mcphub.transport.link import Surroundings
from tests.connection.workers import (
    HANGS,
    MESSAGE,
    STUBBORN,
    Bench,
    Call,
    eventually,
    fake,
    methods,
    outcome,
    poke,
    received,
    remote,
    start_call,
    starts,
    surroundings,
    working,
)
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import (
    CLOSE,
    NEVER,
    RESET,
    Reply,
    Request,
    RudeHttp,
    body,
    comment,
    empty,
    event,
    raw,
    stream,
)
from tests.fakes.rude_websocket import RudeWebSocket
from tests.fakes.scripted import dumped
from tests.transport.peers import descriptors

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


# --- the usual life ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_server_comes_and_goes(around: Surroundings, log: Path, era: str) -> None:
    """Connected means listed; the process ends on the end of its input, without a signal."""
    async with working(Bench(fake({"era": era, "tools": ["echo", "do"]}, log=log), around)) as bench:
        await bench.connected()
        worker = bench.worker
        assert worker.facts is not None and worker.facts.era == era
        assert [b'"echo"' in worker.tools[0], b'"do"' in worker.tools[1]] == [True, True]
        assert worker.pid is not None and worker.view().pid == worker.pid
        assert worker.view().listed == 1
        assert bench.limiter.borrowed_tokens == 0
    assert bench.states == ["Pending", "Connected", "Disabled"]
    assert received(log)[-1] == "#eof"


async def test_a_server_inside_the_daemon() -> None:
    """It has no process, and the same states."""

    def handler(method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
        if method == "tools/list":
            return {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
        raise JSONRPCError(-32601, "Method not found")

    spec = ServerSpec("in", Origin(Scope.EMBEDDED, "", "in"), InProcessSpec("x"))
    async with surroundings(in_process={"x": handler}) as around, working(Bench(spec, around)) as bench:
        await bench.connected()
        assert len(bench.worker.tools) == 1
        assert bench.worker.pid is None
    async with surroundings() as around, working(Bench(spec, around)) as bench:
        assert await bench.failed() == (
            "cannot open the in-process server x: the daemon was given none of this name "
            "(mcphub serve --embed x=MODULE:OBJECT)"
        )
        assert bench.worker.last_fault is not None and bench.worker.last_fault.kind is FaultKind.NOT_FOUND


async def test_a_lost_server_comes_back(around: Surroundings, log: Path) -> None:
    """C090: what it was stays visible while it is away; its tools are listed again before it counts as connected."""
    script = {"starts": [{"tools": ["x", "y"]}, {"tools": ["x", "z"]}]}
    async with working(Bench(fake(script, log=log), around)) as bench:
        await bench.connected()
        before = bench.worker.view()
        assert before.pid is not None
        os.kill(before.pid, signal.SIGKILL)
        await bench.lost()
        assert isinstance(bench.worker.state, Pending)
        assert bench.worker.state.fault is not None
        assert bench.worker.state.fault.message == "the server was ended by signal 9"
        assert bench.worker.view().tools is before.tools
        assert bench.worker.facts is before.facts
        await bench.connected()
        assert [b'"x"' in bench.worker.tools[0], b'"z"' in bench.worker.tools[1]] == [True, True]
        assert bench.worker.listed == 2


async def test_fifty_reconnects(around: Surroundings) -> None:
    """C090: no descriptor, task or process stays of any of them."""
    async with working(Bench(fake({}), around)) as bench:
        await bench.connected()
        before, pids = descriptors(), {bench.worker.pid}
        for _ in range(50):
            bench.worker.post(Asked())
            assert isinstance(bench.worker.state, Pending)
            await bench.connected()
            pids.add(bench.worker.pid)
        assert descriptors() == before
        assert len(pids) == 51
        assert bench.worker.totals == {}


async def test_a_server_that_shakes_hands_and_exits_for_ever(around: Surroundings, log: Path) -> None:
    """A success does not forgive the loss that follows at once: after five more attempts it has failed, and its
    stderr is kept with the fault."""
    script = {"on": {"tools/list": [{"stderr": "no licence\n"}, {"default": 1}, {"exit": 7}]}}
    backoff = Backoff(attempts=5, first=0.02, most=0.05)
    async with working(Bench(fake(script, log=log), around, backoff=backoff)) as bench:
        assert (await bench.failed()).startswith("the server exited with code 7")
        assert starts(log) == 6
        assert bench.worker.listed == 1
        assert isinstance(bench.worker.state, Failed)
        assert (bench.worker.state.attempts, bench.worker.state.fault.stderr[-1]) == (5, "no licence")


async def test_a_failed_server_is_tried_when_asked(around: Surroundings, log: Path) -> None:
    """A call wakes it, but not each call; a person always does."""
    async with working(Bench(fake({"before": [{"exit": 1}]}, log=log), around, backoff=Backoff(attempts=0))) as bench:
        await bench.failed()
        bench.worker.wake_failed()
        await bench.until(lambda w: isinstance(w.state, Pending))
        await bench.failed()
        assert starts(log) == 4  # each time once in either era
        bench.worker.wake_failed()
        assert bench.states[-1] == "Failed"
        bench.worker.post(Asked())
        assert bench.states[-1] == "Pending"
        await bench.failed()
        assert starts(log) == 6


async def test_a_call_is_worth_one_attempt(around: Surroundings, log: Path) -> None:
    """What was given up after all its attempts gets one more for a call, all of them again for a person."""
    async with working(Bench(fake({"before": [{"exit": 1}]}, log=log), around)) as bench:
        await bench.failed()
        whole = starts(log)
        assert whole == 5  # the first attempt in either era, and three more
        bench.worker.wake_failed()
        await bench.until(lambda w: isinstance(w.state, Pending))
        await bench.failed()
        assert starts(log) == whole + 2
        bench.worker.post(Asked())
        await bench.failed()
        assert starts(log) == 2 * whole + 2


# --- events at bad moments --------------------------------------------------------------------------------------------

MOMENTS = [0, 0.001, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15]


@pytest.mark.parametrize("script", [{}, {"era": "modern"}, HANGS, STUBBORN], ids=["old", "new", "hangs", "stubborn"])
async def test_turned_off_at_any_moment(around: Surroundings, script: dict[str, Any]) -> None:
    """Waiting, starting, shaking hands, listing or serving: it ends, and nothing is left."""
    before = descriptors()
    async with anyio.create_task_group() as tasks:
        for moment in MOMENTS:

            async def life(moment: float) -> None:
                bench = Bench(fake(script), around)
                async with working(bench):
                    await anyio.sleep(moment)
                assert bench.states[-1] == "Disabled"

            tasks.start_soon(life, moment)
    assert descriptors() == before


async def test_cancelled_at_any_moment(around: Surroundings) -> None:
    """The daemon's own end is a cancellation: the slot is given back and the process ended all the same."""
    before, limiter = descriptors(), anyio.CapacityLimiter(20)
    benches: list[Bench] = []
    async with anyio.create_task_group() as tasks:
        for moment in MOMENTS:

            async def life(moment: float) -> None:
                bench = Bench(fake({}), around, limiter)
                benches.append(bench)
                with anyio.move_on_after(moment):
                    await bench.worker.run()

            tasks.start_soon(life, moment)
    assert descriptors() == before
    assert limiter.borrowed_tokens == 0
    assert [bench.worker.client for bench in benches] == [None] * len(MOMENTS)


async def test_asked_at_any_moment(around: Surroundings, log: Path) -> None:
    """Each time it begins anew, at once, and ends up connected with one process."""
    async with working(Bench(fake({}, log=log), around)) as bench:
        for moment in MOMENTS:
            await anyio.sleep(moment)
            bench.worker.post(Asked())
            assert isinstance(bench.worker.state, Pending) and bench.worker.state.attempt == 0
        await bench.connected()
        assert bench.worker.client is not None and not bench.worker.client.over
        pids = [int(line.split()[1]) for line in received(log) if isinstance(line, str) and line.startswith("#start")]
        assert [pid for pid in pids if psutil.pid_exists(pid)] == [bench.worker.pid]


async def test_asked_in_the_moment_of_success(around: Surroundings, log: Path) -> None:
    """The answer that makes it connected and the wish for a fresh start come in one read: the wish counts."""
    listed = '{"jsonrpc":"2.0","id":$ID,"result":{"tools":[]}}\n' + MESSAGE
    first = {"on": {"tools/list": [{"write": listed}]}}

    def ask(worker: Worker, method: str) -> None:
        worker.post(Asked())

    async with working(Bench(fake({"starts": [first, {}]}, log=log), around, on_said=ask)) as bench:
        await bench.until(lambda w: isinstance(w.state, Connected) and w.client is not None and starts(log) == 2)
        assert bench.worker.client is not None and not bench.worker.client.over


async def test_turned_off_in_the_moment_of_success(around: Surroundings) -> None:
    """The same for its end."""
    listed = '{"jsonrpc":"2.0","id":$ID,"result":{"tools":[]}}\n' + MESSAGE

    def turn_off(worker: Worker, method: str) -> None:
        worker.post(TurnedOff("stopping"))

    script = {"on": {"tools/list": [{"write": listed}]}}
    async with working(Bench(fake(script), around, on_said=turn_off)) as bench:
        await bench.until(lambda w: isinstance(w.state, Disabled))


async def test_no_call_is_for_a_process_that_is_being_ended(around: Surroundings, log: Path) -> None:
    """From the moment it shall end there is no connection to send on, however long the end takes."""
    async with working(Bench(fake({"starts": [STUBBORN, {}]}, log=log), replace(around, grace=0.3))) as bench:
        await bench.connected()
        client = bench.worker.client
        assert client is not None
        ended = anyio.Event()
        client.start(Ignored(float("inf"), ended.set), "ping")
        bench.worker.post(Asked())
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        assert bench.worker.client is None
        assert bench.worker.pid is not None
        assert client.gone == "it was reconnected on request"
        await bench.connected()
        assert bench.worker.client is not client


# --- serving ----------------------------------------------------------------------------------------------------------


async def test_the_log_level(around: Surroundings, log: Path) -> None:
    """A level that was wanted before the connection is set after it, each other one once; "" sets nothing."""
    script = {"capabilities": {"logging": {}}, "on": {"logging/setLevel": [{"answer": {}}]}}
    async with working(Bench(fake(script, log=log), around)) as bench:
        bench.worker.want_log_level("debug")
        await bench.connected()
        for level in ("debug", "error", "error", "", "info"):
            bench.worker.want_log_level(level)
        await eventually(lambda: len(received(log)) > 5 and "info" in str(received(log)[-1]))
        levels = [m["params"]["level"] for m in received(log) if isinstance(m, dict) and "setLevel" in m["method"]]
        assert levels == ["debug", "error", "info"]


async def test_a_fault_of_ours(around: Surroundings, log: Path) -> None:
    """What we do wrong with one message of a server costs that connection, is reported, and is no end of the worker."""
    reported: list[BaseException] = []

    def fault(worker: Worker, method: str) -> None:
        if not reported:
            raise KeyError("boom")

    script = {"on": {"ping": [{"write": MESSAGE}]}}
    bench = Bench(fake(script, log=log), replace(around, report=reported.append), on_said=fault)
    async with working(bench):
        await bench.connected()
        poke(bench)
        await bench.lost()
        assert bench.worker.last_fault is not None
        assert "internal error: KeyError: 'boom'" in bench.worker.last_fault.message
        await bench.connected()
    assert [repr(e) for e in reported] == ["KeyError('boom')"]


async def test_a_fault_of_ours_in_the_task(around: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in the worker's own steps: named by its cause, not by the task group it passed through."""
    reported: list[BaseException] = []

    def fault(*args: Any) -> None:
        raise KeyError("boom")

    monkeypatch.setattr(handshake, "facts", fault)
    bench = Bench(fake({}), replace(around, report=reported.append), backoff=Backoff(attempts=0))
    async with working(bench):
        assert await bench.failed() == "KeyError: 'boom'"
        assert bench.worker.last_fault is not None and bench.worker.last_fault.kind is FaultKind.INTERNAL
    assert [repr(e) for e in reported] == ["KeyError('boom')"]


async def test_what_is_odd_is_counted_over_all_connections(around: Surroundings) -> None:
    """Also of attempts that failed."""
    script = {"before": [{"write": "noise\n"}], "on": {"initialize": [{"exit": 1}]}}
    async with working(Bench(fake(script), around)) as bench:
        await bench.failed()
        await bench.until(lambda w: w.pid is None)
        assert bench.worker.counters()["noise"] == 4


@pytest.mark.parametrize(
    ("last", "how"),
    [
        ([{"stderr": "no memory\n"}, {"exit": 3}], "the server exited with code 3; stderr: no memory; see `mcphub"),
        ([{"write": "fatal: gone\n"}, {"exit": 3}], "the server exited with code 3; stdout: fatal: gone; see `mcphub"),
        ([{"kill": 11}], "the server was ended by signal 11"),
        ([{"grandchild": {"hold": True}}, {"exit": 4}], "the server exited with code 4"),
        ([{"close_stdout": 1}, {"hang": 1}], "the server closed its stdout; see `mcphub logs fake`"),
    ],
)
async def test_a_call_in_flight_when_its_program_ends(around: Surroundings, last: list[Any], how: str) -> None:
    """The agent is told how it ended and what it said last, or where to look; nothing waits for that for long."""
    async with working(Bench(fake({"on": {"tools/call": last}, "eof": "ignore"}), around)) as bench:
        await bench.connected()
        call = start_call(bench)
        assert await outcome(call) == ["lost"]
        assert call.message.startswith(how)


async def test_what_a_program_writes_to_its_stdout(around: Surroundings) -> None:
    """Lines that are no messages are in the reason, in the log of its stderr, marked, and in the daemon's: without the
    secrets of its entry, wherever a line is cut."""
    secret = "hunter2-hunter2-hunter2"
    spec = fake({"before": [{"write": f"{'x' * 110} {secret}\n"}, {"write": f"bad key {secret}\n"}, {"exit": 1}]})
    transport = replace(spec.transport, env={"API_KEY": Secret(secret)})
    bench = Bench(replace(spec, transport=transport), around, backoff=Backoff(attempts=0))
    async with working(bench):
        assert await bench.failed() == "the server exited with code 1 before the handshake ended; stdout: bad key ***"
        assert bench.worker.log_tail(1) == ["[stdout] bad key ***"]
        assert bench.worker.stderr_tail(9) == []
        assert bench.worker.last_fault is not None and bench.worker.last_fault.stdout[-1] == "bad key ***"
    assert any("bad key ***" in line for line in bench.logged)
    assert "hunter2" not in "".join(bench.logged)


async def test_binary_messages_are_counted(around: Surroundings) -> None:
    """C183: what comes in a binary message is not read, and counted where the status shows it; the text that follows
    is the answer."""
    results: dict[str, Any] = {
        "initialize": {
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": []},
    }  # fmt: skip

    async def answer(connection: ServerConnection, message: str) -> None:
        asked = json.loads(message)
        if "id" not in asked:
            return
        found = results.get(asked["method"])
        said = {"result": found} if found is not None else {"error": {"code": -32601, "message": "no"}}
        text = dumped({"jsonrpc": "2.0", "id": asked["id"], **said})
        if asked["method"] == "tools/call":
            await connection.send(text)
        await connection.send(text, text=True)

    async with RudeWebSocket(answer) as server:
        spec = replace(remote(server.url), transport=WsSpec(Secret(server.url), {}, server.url))
        async with working(Bench(spec, around)) as bench:
            await bench.connected()
            assert "binary_messages" not in bench.worker.counters()
            for _ in range(5):
                assert await outcome(start_call(bench)) == ["answered"]
            assert bench.worker.counters()["binary_messages"] == 5


async def test_what_a_transport_sees_is_counted_once(around: Surroundings) -> None:
    """Odd things of a transport are in the counters as those of messages are, in sessions too, and once each however
    often its server is connected again."""
    mcp = OrdinaryMcp()
    async with RudeHttp(mcp) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        assert bench.worker.client is not None and bench.worker.sessions is not None
        odd = lambda request: body(request.result({"content": []}), "text/plain")  # noqa: E731
        server.on("tools/call", odd, times=2)
        assert await outcome(start_call(bench)) == ["answered"]
        session = bench.worker.sessions.client_for(bench.worker.client, False, b"{}")
        one = Call()
        session.call_tool(one, b'"echo"', b"{}", b"")
        assert await outcome(one) == ["answered"]
        session.note("seen", "something")
        for _ in range(2):
            bench.worker.post(Asked())
            await bench.until(lambda w: not isinstance(w.state, Connected))
            await bench.connected()
        assert {name: bench.worker.counters()[name] for name in ("content_type", "seen")} == {
            "content_type": 2, "seen": 1
        }  # fmt: skip


# --- remote servers ---------------------------------------------------------------------------------------------------


async def test_a_server_that_is_not_there(around: Surroundings) -> None:
    """C085: tried as often as set, then failed with the reason; asked, it is tried at once, and found."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server:
        url, port = server.url, server.port
    async with working(Bench(remote(url), around)) as bench:
        assert await bench.failed() == f"nothing listens at 127.0.0.1:{port}"
        assert bench.states.count("Pending") == 1
        assert isinstance(bench.worker.state, Failed)
        assert bench.worker.state.attempts == 3
        async with RudeHttp(OrdinaryMcp(era="modern"), port=port):
            bench.worker.post(Asked())
            await bench.connected()


async def test_a_failed_server_is_tried_again_by_itself(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C085: a remote server that has failed is tried again after a while, without anybody asking."""
    monkeypatch.setattr(module, "TRY_REMOTE_EVERY", 0.2)
    async with RudeHttp(OrdinaryMcp(era="modern")) as server:
        server.on("server/discover", empty(503), times=4)
        async with working(Bench(remote(server.url), around)) as bench:
            await bench.failed()
            await bench.connected()
            assert len(server.sent("server/discover")) == 5


async def test_a_program_that_is_mended(
    around: Surroundings, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that has failed is tried again once its file is another one, and not because time passed."""
    monkeypatch.setattr(module, "LOOK_AT_FILES", 0.05)
    program = tmp_path / "server"
    spec = fake({}, log=log)
    assert isinstance(spec.transport, StdioSpec)
    missing = replace(spec, transport=replace(spec.transport, command=str(program)))
    async with working(Bench(missing, around)) as bench:
        assert "does not exist" in await bench.failed()
        with anyio.move_on_after(0.3):
            await bench.until(lambda w: not isinstance(w.state, Failed))
        assert bench.states[-1:] == ["Failed"]
        program.symlink_to(spec.transport.command)
        await bench.connected()


async def test_a_busy_server(around: Surroundings) -> None:
    """C075: 503 while it starts means pending, and the time it asks for is waited at least."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server:
        server.on("server/discover", empty(503, ("Retry-After", "1")))
        async with working(Bench(remote(server.url), around)) as bench:
            await bench.until(lambda w: isinstance(w.state, Pending) and w.state.attempt == 1)
            begun = anyio.current_time()
            await bench.connected()
            assert anyio.current_time() - begun > 0.8
            assert bench.worker.last_fault is None or bench.worker.last_fault.kind is FaultKind.HTTP_UNAVAILABLE


async def test_a_server_that_forbids(around: Surroundings) -> None:
    """A bare 403 is a failure that a later try may mend, without a person (auth, 1.1)."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server:
        server.on("server/discover", empty(403))
        async with working(Bench(remote(server.url, {"Authorization": "Bearer s3cret"}), around)) as bench:
            await bench.until(lambda w: isinstance(w.state, Failed))
            assert bench.worker.last_fault is not None and bench.worker.last_fault.kind is FaultKind.HTTP_STATUS
            assert "HTTP 403" in bench.worker.last_fault.message
            bench.worker.wake_failed()  # as a call does
            await bench.connected()


_MORE = ("WWW-Authenticate", 'Bearer error="insufficient_scope", scope="more"')


@pytest.mark.parametrize("reply", [empty(401), empty(403, _MORE)], ids=[401, 403])
async def test_a_server_that_wants_a_sign_in(around: Surroundings, reply: Reply) -> None:
    """A person is needed: nothing is tried again until one asks; no credential is shown."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server:
        server.on("server/discover", reply)
        async with working(Bench(remote(server.url, {"Authorization": "Bearer s3cret"}), around)) as bench:
            await bench.until(lambda w: isinstance(w.state, NeedsAuth))
            assert isinstance(bench.worker.state, NeedsAuth)
            assert "refuses the credentials" in bench.worker.state.challenge
            assert "s3cret" not in " ".join(bench.logged)
            assert len(server.requests) == 1
            bench.worker.post(Asked())
            await bench.connected()


async def test_401_to_one_call(around: Surroundings) -> None:
    """A call that is refused for want of a sign-in moves nothing: the connection stays."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        server.on("tools/call", empty(401))
        assert await outcome(start_call(bench)) == ["needs_auth"]
        assert "wants credentials" in bench.worker.admission.refusal
        assert await outcome(start_call(bench)) == ["answered"]
        assert bench.states == ["Pending", "Connected"] and not bench.worker.admission.refusal


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_helper_that_is_refused_again_and_again(around: Surroundings, tmp_path: Path, kind: str) -> None:
    """C116: a server that refuses what its helper prints stays connected, and says so for as long as it does: until it
    lets a request in again, of whichever agent."""
    token = tmp_path / "token"
    token.write_text("good")
    code = "import json, sys; print(json.dumps({'X-Key': open(sys.argv[1]).read()}))"
    words = tuple(map(Secret, (sys.executable, "-I", "-S", "-c", code, str(token))))
    mcp, valid = OrdinaryMcp(era="sse" if kind == "sse" else "legacy"), ["good"]

    def guarded(request: Request) -> Reply:
        return mcp(request) if request.header("X-Key") in valid else empty(401)

    async with RudeHttp(guarded) as server:
        transport = (SseSpec if kind == "sse" else HttpSpec)(
            Secret(server.url), {}, server.url, helper=HelperSpec(words, "python", "/")
        )
        spec = replace(remote(server.url), transport=transport)
        async with working(Bench(spec, around)) as bench:
            await bench.connected()
            assert bench.worker.admission.refusal == ""
            valid[:] = ["another"]
            token.write_text("wrong")
            for _ in range(4):
                assert await outcome(start_call(bench)) == ["refused"]
            said = "refuses the credentials that headersHelper printed (HTTP 401 Unauthorized); correct the helper"
            assert bench.worker.admission.refusal == said
            valid[:] = ["wrong"]
            assert await outcome(start_call(bench)) == ["answered"]
            assert bench.worker.admission.refusal == ""
            assert bench.states == ["Pending", "Connected"]


async def test_three_in_a_row(around: Surroundings) -> None:
    """C086, K1.4: one lost call ends nothing, three in a row the connection, which then comes back."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        server.on("tools/call", raw(CLOSE), times=2)
        for _ in range(2):
            assert await outcome(start_call(bench)) == ["lost"]
        assert await outcome(start_call(bench)) == ["answered"]
        assert bench.states == ["Pending", "Connected"]
        server.on("tools/call", raw(CLOSE), times=3)
        for _ in range(3):
            assert await outcome(start_call(bench)) == ["lost"]
        await bench.until(lambda w: bench.states == ["Pending", "Connected"] * 2)
        assert any("too many requests in a row failed" in text for text in bench.logged)


SIGNALS = {
    "ECONNRESET": raw(RESET),
    "EPIPE": raw(CLOSE),
    "terminated": Reply(200, (("Content-Type", "application/json"), ("Content-Length", "99")), (b"{", CLOSE)),
    "SSE stream disconnected": stream(comment("here")),
    "Failed to reconnect SSE stream": stream(event("", id="1", retry=1)),
    "Body Timeout Error": empty(504),
}


@pytest.mark.parametrize("signal", SIGNALS)
async def test_signals_of_a_connection_that_is_over(around: Surroundings, signal: str) -> None:
    """C086: as real servers, and what stands in front of them, give them: two and an answer end nothing, three do."""
    async with RudeHttp(OrdinaryMcp()) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        server.on("GET", empty(404))
        for times, states in ((2, 1), (3, 2)):
            server.on("tools/call", SIGNALS[signal], times=times)
            for _ in range(times):
                assert await outcome(start_call(bench)) in (["lost"], ["status"])
            if times == 2:
                assert await outcome(start_call(bench)) == ["answered"]
            await bench.until(lambda w, want=states: bench.states == ["Pending", "Connected"] * want)  # type: ignore[misc]


# --- what nobody uses -------------------------------------------------------------------------------------------------


def is_idle(worker: Worker) -> bool:
    """It sleeps, and nothing of it runs."""
    return worker.state == IDLE and worker.pid is None


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_lazy_server(around: Surroundings, log: Path, monkeypatch: pytest.MonkeyPatch, era: str) -> None:
    """It is started for its lists, sleeps, is started by use, and stays then."""
    monkeypatch.setattr(module, "LEARNED", 0.3)
    async with working(Bench(fake({"era": era}, log=log, lazy=True), around)) as bench:
        worker = bench.worker
        waking = [worker.waking]
        await bench.until(is_idle)
        waking.append(worker.waking)
        assert (worker.listed, worker.last_fault) == (1, None)
        worker.wake_idle()
        waking.append(worker.waking)
        await bench.connected()
        assert await outcome(start_call(bench)) == ["answered"]
        waking.append(worker.waking)
        assert waking == [True, False, True, False]
        assert starts(log) == 2
        worker.wake_idle()
        assert isinstance(worker.state, Connected)


async def test_a_lazy_server_that_is_known(around: Surroundings, log: Path) -> None:
    """What it said before is there without a start; a reconnect by a person starts it."""
    async with working(Bench(fake({}, log=log), around)) as before:
        await before.connected()
        known = before.worker.known
        assert known is not None
    spec = fake({}, log=log, lazy=True)
    async with working(Bench(spec, around, known=known)) as bench:
        worker = bench.worker
        assert is_idle(worker)
        assert (worker.tools, worker.listed, worker.facts) == (known.tools, 1, known.facts)
        assert starts(log) == 1
        worker.post(Asked())
        await bench.connected()
        assert (starts(log), worker.listed) == (2, 1)
        worker.learn()
        assert isinstance(worker.state, Connected)


async def test_a_lazy_server_that_is_not_as_it_is_known(
    around: Surroundings, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is started for its lists alone, with the old ones shown, and sleeps again."""
    monkeypatch.setattr(module, "LEARNED", 0.3)
    async with working(Bench(fake({}), around)) as before:
        await before.connected()
        known = before.worker.known
        assert known is not None
    old = Known(known.facts, (b'{"name":"old"}',), known.shelf)
    async with working(Bench(fake({}, log=log, lazy=True), around, known=old)) as bench:
        worker = bench.worker
        worker.learn()
        assert worker.waking and worker.tools == old.tools
        await bench.connected()
        await bench.until(is_idle)
        assert (starts(log), worker.tools, worker.listed) == (1, known.tools, 2)


async def test_a_server_of_one_agent(around: Surroundings, log: Path) -> None:
    """It is started once its agent has said what it can do, and is told just that; what the agent says anew counts at
    once, unless a call is in flight."""

    def told() -> list[Any]:
        found = [line for line in received(log) if isinstance(line, dict) and line.get("method") == "initialize"]
        return [line["params"]["capabilities"] for line in found]

    spec = fake({}, log=log, agent="7", sampling=True)
    async with working(Bench(spec, around)) as bench:
        worker = bench.worker

        def is_up() -> bool:
            return isinstance(worker.state, Connected)

        await anyio.wait_all_tasks_blocked()
        assert (worker.awaits_agent, starts(log)) == (True, 0)
        worker.introduce(b'{"elicitation":{}}')
        assert not worker.awaits_agent
        await bench.connected()
        assert told() == [{"elicitation": {}}]
        worker.introduce(b'{"elicitation":{}}')
        assert is_up()
        worker.introduce(b"{}")
        assert not is_up()
        await bench.connected()
        assert told() == [{"elicitation": {}}, {}]
        call = start_call(bench)
        worker.introduce(b'{"roots":{}}')
        assert is_up()
        assert await outcome(call) == ["answered"]
    assert (starts(log), len(told())) == (2, 2)


async def test_a_server_of_one_agent_that_says_nothing(around: Surroundings, log: Path) -> None:
    """It is never started, and ends in order."""
    async with working(Bench(fake({}, log=log, agent="7"), around)) as bench:
        bench.worker.post(Asked())
        await anyio.wait_all_tasks_blocked()
        assert bench.worker.awaits_agent
    assert starts(log) == 0


async def test_use_while_it_ends(around: Surroundings, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose process does not want to end is started again once it has ended, never beside it."""
    monkeypatch.setattr(module, "LEARNED", 0.3)
    async with working(Bench(fake(STUBBORN, log=log, lazy=True), around)) as bench:
        worker = bench.worker
        await bench.until(lambda w: w.state == IDLE)
        first = worker.pid
        assert first is not None
        worker.wake_idle()
        await bench.connected()
        assert worker.pid != first
        assert not psutil.pid_exists(first)
        assert worker.last_fault is None


async def test_what_counts_as_use(around: Surroundings, log: Path) -> None:
    """A call that is being answered, and a resource that is watched, keep an unused server; then its time begins."""
    slow = {"on": {"tools/call": [{"pause": 1.0}, {"default": 1}]}}
    async with working(Bench(fake(slow, log=log, idle_timeout=0.4), around)) as bench:
        await bench.connected()
        assert await outcome(start_call(bench)) == ["answered"]
        bench.worker.watched = True
        with anyio.move_on_after(0.8):
            await bench.lost()
        assert isinstance(bench.worker.state, Connected)
        bench.worker.watched = False
        await bench.until(is_idle)
        assert starts(log) == 1


async def test_a_way_that_is_lost_and_found(around: Surroundings) -> None:
    """C085: an attempt that is on its way ends and is not counted, none is made meanwhile, whoever asks; a connection
    stays; when the way is there again, it is tried after the delay that was given."""
    async with RudeHttp(OrdinaryMcp()) as server, working(Bench(remote(server.url), around)) as bench:
        server.on("*", raw(NEVER))
        await server.until(lambda: server.requests)
        worker = bench.worker
        worker.sever()
        assert worker.state == Pending(0, float("inf"), None, offline=True)
        assert worker.view().tried and not worker.waking
        await server.until(lambda: not server.open)
        worker.post(Asked())
        await bench.until(lambda w: isinstance(w.state, Pending) and w.state.offline)
        assert len(server.requests) == 1
        worker.restore(0.1)
        assert isinstance(worker.state, Pending) and worker.state.retry_at > anyio.current_time()
        await bench.connected()
        worker.sever()
        assert isinstance(worker.state, Connected) and worker.severed
        worker.post(Asked())
        await bench.until(lambda w: isinstance(w.state, Pending) and w.state.offline)
        worker.restore(0)
        await bench.connected()
        assert worker.last_fault is None


async def test_one_that_parts(around: Surroundings, log: Path) -> None:
    """C016: it goes on as it is, but is not opened again where it is lost before its end; what is not open ends."""
    async with working(Bench(fake({"on": {"ping": [{"exit": 0}]}}, log=log), around)) as bench:
        await bench.connected()
        assert bench.worker.calls == 0
        bench.worker.part(TurnedOff("stopping"))
        assert isinstance(bench.worker.state, Connected)
        poke(bench)
        await bench.until(lambda w: isinstance(w.state, Disabled))
    assert starts(log) == 1
    async with working(Bench(fake(HANGS), around)) as bench:
        bench.worker.part(TurnedOff("stopping"))
        assert isinstance(bench.worker.state, Disabled)


def known(spec: ServerSpec, *tools: bytes, at: float = 0.0, **source: Any) -> Known:
    """What such a server said once."""
    facts = Facts("legacy", "2025-11-25", {}, {"tools": {}}, "say")
    return Known(facts, tools, {}, Source("legacy", "2025-11-25", declares=SHARED, **source), at)


async def test_what_another_daemon_knew(around: Surroundings, log: Path) -> None:
    """It is shown until the server has said something itself, and not after that."""
    spec = fake({"starts": [HANGS, {"tools": []}]}, log=log)
    async with working(Bench(spec, around)) as bench:
        worker = bench.worker
        worker.remember(known(spec, b"old"))
        await eventually(lambda: bool(methods(log)))
        assert (worker.tools, worker.unlisted, worker.facts is not None) == ((b"old",), True, True)
        worker.remember(known(spec, b"older"))
        assert worker.tools == (b"old",), "the first one counts"
        worker.post(Asked())
        await bench.connected()
        assert (list(worker.tools), worker.unlisted, worker.listed) == ([], False, 2)
        worker.remember(known(spec, b"old"))
        assert list(worker.tools) == []


async def test_what_was_offered_to_another_agent(around: Surroundings, log: Path) -> None:
    """A server of one agent alone was told what that one can do: what it offered then is not shown to one that can do
    other things."""
    spec = fake(HANGS, log=log, agent="1")
    for introduced_first in (True, False):
        async with working(Bench(spec, around)) as bench:
            if introduced_first:
                bench.worker.introduce(b"{}")
            bench.worker.remember(known(spec, b"old"))
            bench.worker.introduce(b"{}")
            assert (bench.worker.tools, bench.worker.listed) == ((), 0)
    async with working(Bench(spec, around)) as bench:
        bench.worker.introduce(SHARED)
        bench.worker.remember(known(spec, b"old"))
        assert bench.worker.tools == (b"old",)


async def test_lists_of_a_server_that_is_away_for_long(around: Surroundings, log: Path) -> None:
    """They are gone after their time; of one that sleeps they are shown still, but it is started for its lists as soon
    as somebody asks for one."""
    week_ago = time.time_ns() / 1e9 - MOST - 60
    away, sleeps = fake(HANGS, log=log), fake({"tools": ["new"]}, log=log, lazy=True)
    async with working(Bench(away, around)) as bench:
        bench.worker.remember(known(away, b"old", at=week_ago))
        await bench.until(lambda w: not w.listed)
        assert any("away for too long" in text for text in bench.logged)
        bench.worker.remember(known(away, b"old", at=week_ago + 3600))
        assert bench.worker.tools == (b"old",)
    async with working(Bench(sleeps, around, known=known(sleeps, b"old", at=week_ago))) as bench:
        await eventually(lambda: bench.worker.shelf_life.over)
        assert (bench.worker.tools, bench.worker.state) == ((b"old",), IDLE)
        bench.worker.list_wanted("tools/list")
        await bench.until(lambda w: b'"new"' in w.tools[0])
        await bench.connected()
        assert not bench.worker.shelf_life.over


async def test_lists_got_with_other_credentials(around: Surroundings, log: Path) -> None:
    """B59, H5, K2.2, K5.3: what a server listed for one principal is not shown once it is used as another one: it is
    listed anew where it is connected, and gone where it is not. A sign-out names no other one."""
    spec = fake({"tools": ["a"]}, log=log)
    async with working(Bench(spec, around)) as bench:
        worker = bench.worker
        await bench.connected()
        worker.used_as("")
        assert not worker.lists.due
        worker.used_as("somebody")
        assert "tools/list" in worker.view().doubted
        await bench.until(lambda w: not w.view().doubted)
        assert methods(log).count("tools/list") == 2
        worker.used_as("somebody")
        assert not worker.lists.due
        assert worker.known is not None and worker.known.source.principal == "somebody"
    away = fake(HANGS, log=log)
    async with working(Bench(away, around)) as bench:
        bench.worker.remember(known(away, b"old", principal="somebody"))
        for principal, left in (("somebody", 1), ("", 1), ("another", 0)):
            bench.worker.used_as(principal)
            assert len(bench.worker.tools) == left
        assert bench.worker.facts is None
