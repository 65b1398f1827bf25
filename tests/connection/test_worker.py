"""One instance on real processes: what it becomes, and what is left of it, whatever happens at whatever moment."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from msgspec.structs import replace

from mcphub.connection import handshake
from mcphub.connection import worker as module
from mcphub.connection.backoff import Backoff
from mcphub.connection.faults import FaultKind
from mcphub.connection.handshake import Ignored
from mcphub.connection.machine import Asked, Connected, Disabled, Failed, NeedsAuth, Pending, TurnedOff
from mcphub.connection.worker import Worker
from mcphub.errors import JSONRPCError
from mcphub.protocol.envelope import HUB_META_MEMBER
from mcphub.spec import HttpSpec, InProcessSpec, Origin, Scope, Secret, ServerSpec, SseSpec
from mcphub.transport import http_sse
from mcphub.transport.link import Surroundings
from tests.connection.workers import Bench, eventually, fake, methods, received, starts, surroundings, working
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import CLOSE, NEVER, Reply, RudeHttp, body, comment, empty, event, raw, stream
from tests.transport.peers import clean, descriptors

pytestmark = pytest.mark.anyio

HANGS: dict[str, Any] = {"on": {"server/discover": [], "initialize": []}}
STUBBORN = {"eof": "ignore", "term": "ignore"}
MESSAGE = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n'


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    async with clean():
        yield


@pytest.fixture
async def around(nothing_is_left: None) -> AsyncIterator[Surroundings]:
    async with surroundings() as around:
        yield around


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


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
        assert await bench.failed() == "cannot open the in-process server x: the daemon has none"
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


# --- faults of an opening ---------------------------------------------------------------------------------------------


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
            "the server writes non-protocol data to stdout",
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


async def test_a_server_that_shakes_hands_and_exits_for_ever(around: Surroundings, log: Path) -> None:
    """A success does not forgive the loss that follows at once: after the attempts it has failed."""
    script = {"on": {"tools/list": [{"default": 1}, {"exit": 7}]}}
    async with working(Bench(fake(script, log=log), around)) as bench:
        assert await bench.failed() == "the server exited with code 7"
        assert starts(log) == 4
        assert bench.worker.listed == 1


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


# --- the era ----------------------------------------------------------------------------------------------------------


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
    """C068: it is started again once, begins with initialize, and the era is remembered."""
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
        await bench.failed()
        assert methods(log)[before:] == [first]
        assert starts(log) == 2


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


async def test_turned_off_while_it_waits_for_its_turn(around: Surroundings, log: Path) -> None:
    """The start-up limiter is nobody's business any more, and whoever holds the slot keeps it."""
    limiter = anyio.CapacityLimiter(1)
    other = object()
    limiter.acquire_on_behalf_of_nowait(other)
    bench = Bench(fake({}, log=log), around, limiter)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.worker.run)
        await eventually(lambda: limiter.statistics().tasks_waiting == 1)
        bench.worker.post(TurnedOff("stopping"))
    assert limiter.borrowed_tokens == 1
    assert starts(log) == 0
    limiter.release_on_behalf_of(other)


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


CHANGED = {"notify": "notifications/tools/list_changed"}


def poke(bench: Bench) -> None:
    """Let a server that is connected do what its script has for `ping`."""
    assert bench.worker.client is not None
    bench.worker.client.start(Ignored(float("inf")), "ping")


async def test_a_changed_list(around: Surroundings, log: Path) -> None:
    """It is listed again, soon; a change that changes nothing is not news."""
    script = {"on": {"ping": [{"tools": ["a", "b"]}, {"tools": ["a", "b"]}]}, "tools": ["a"]}
    async with working(Bench(fake(script, log=log), around)) as bench:
        await bench.connected()
        poke(bench)
        await bench.until(lambda w: len(w.tools) == 2, timeout=1)
        assert bench.worker.listed == 2
        assert methods(log).count("tools/list") == 2
        poke(bench)
        await eventually(lambda: methods(log).count("tools/list") == 3)
        assert bench.worker.listed == 2


async def test_a_list_that_never_comes(around: Surroundings, log: Path) -> None:
    """A server that does not answer for prompts or resources is worth having for its tools."""
    script = {"capabilities": {"tools": {}, "prompts": {}}, "on": {"prompts/list": []}}
    async with working(Bench(fake(script, log=log, startup_timeout=2.4), around)) as bench:
        await bench.connected()
        assert len(bench.worker.tools) == 3
        assert bench.worker.facts is not None
        assert bench.worker.facts.warnings == ("prompts/list was not answered within 0.4 s",)


async def test_a_storm_of_changes(around: Surroundings, log: Path) -> None:
    """A server that says without end that its list has changed is asked less and less often; the last change counts."""
    script = {"on": {"ping": [CHANGED], "logging/setLevel": [{"tools": ["last"]}]}, "capabilities": {"tools": {}}}
    async with working(Bench(fake(script, log=log), around)) as bench:
        await bench.connected()
        for _ in range(60):
            poke(bench)
            await anyio.sleep(0.005)
        assert bench.worker.client is not None
        bench.worker.client.start(Ignored(float("inf")), "logging/setLevel")
        await bench.until(lambda w: len(w.tools) == 1 and b'"last"' in w.tools[0], timeout=5)
        assert methods(log).count("tools/list") <= 6


async def test_a_list_that_is_cut_short_does_not_replace_a_whole_one(around: Surroundings, log: Path) -> None:
    """The server's pages do not end: the old complete list is kept, and the log says why."""
    page = {"answer": {"tools": [{"name": "x", "inputSchema": {}}], "nextCursor": "again"}}
    script = {
        "on": {"tools/list": [[{"default": 1}], [page]], "ping": [CHANGED]},
    }
    async with working(Bench(fake(script, log=log), around)) as bench:
        await bench.connected()
        poke(bench)
        before = bench.worker.tools
        await eventually(lambda: any("the old list is kept" in text for text in bench.logged))
        assert bench.worker.tools is before
        assert isinstance(bench.worker.state, Connected)


FIRST_PAGE = {"answer": {"tools": [{"name": "p", "inputSchema": {"type": "object"}}], "nextCursor": "2"}}
NO_PAGE = {"error": {"code": -32603, "message": "out of order"}}


async def test_a_later_page_that_fails(around: Surroundings, log: Path) -> None:
    """C146: at first there is what came, marked as partial; once there was a whole list, that one is kept, also over a
    new connection."""
    script = {
        "capabilities": {"tools": {}},
        "on": {"tools/list": [[FIRST_PAGE], [NO_PAGE], [{"default": 1}], [FIRST_PAGE], [NO_PAGE]], "ping": [CHANGED]},
        "starts": [{}, {"on": {"tools/list": [[FIRST_PAGE], [NO_PAGE]]}}],
    }
    async with working(Bench(fake(script, log=log), around)) as bench:
        await bench.connected()
        worker = bench.worker
        assert worker.facts is not None and len(worker.tools) == 1
        assert worker.facts.warnings == ("tools/list was cut short: page 2: out of order",)
        poke(bench)
        await bench.until(lambda w: len(w.tools) == 3)
        whole = worker.tools
        poke(bench)
        await eventually(lambda: any("page 2: out of order; the old list is kept" in text for text in bench.logged))
        worker.post(Asked())
        await bench.lost()
        await bench.connected()
        assert worker.tools == whole
        assert worker.facts.warnings == ("tools/list was cut short: page 2: out of order; the old list is kept",)


async def test_pages_without_end(around: Surroundings, log: Path) -> None:
    """C146: a server whose pages are slow and do not end is connected within its time, with those that came."""
    page = {"tools": [{"name": "p", "inputSchema": {"type": "object"}}]}
    slow = [[{"pause": 0.1}, {"answer": {**page, "nextCursor": f"{number}"}}] for number in range(100)]
    script = {"capabilities": {"tools": {}}, "on": {"tools/list": slow}}
    async with working(Bench(fake(script, log=log, startup_timeout=2.0), around)) as bench:
        await bench.connected()
        assert bench.worker.facts is not None and bench.worker.tools
        [warning] = bench.worker.facts.warnings
        assert warning.startswith("tools/list was cut short: ")


async def test_another_list_that_fails_later(around: Surroundings, log: Path) -> None:
    """C146: resources that cannot be listed again are those of before."""
    found = {"answer": {"resources": [{"uri": "x:1", "name": "n"}]}}
    script = {
        "capabilities": {"resources": {"listChanged": True}},
        "on": {
            "resources/list": [[found], [NO_PAGE]],
            "resources/templates/list": [{"answer": {"resourceTemplates": []}}],
            "ping": [{"notify": "notifications/resources/list_changed"}],
        },
    }
    async with working(Bench(fake(script, log=log), around)) as bench:
        await bench.connected()
        poke(bench)
        await eventually(lambda: any("resources/list was refused: out of order" in text for text in bench.logged))
        assert len(bench.worker.shelf["resources/list"]) == 1
        assert bench.worker.shelved == 1


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_list_that_nobody_tells_of(
    around: Surroundings, log: Path, monkeypatch: pytest.MonkeyPatch, era: str
) -> None:
    """Obligation 69 and its like: where the server tells of no changes, an agent that asks makes the list be looked at
    again, once its time is over, and not more often than may be."""
    monkeypatch.setattr(module, "UNTOLD_LEAST" if era == "modern" else "UNTOLD_LEGACY", 0.0)
    tools = {"capabilities": {"tools": {}}, "on": {"ping": [{"tools": ["a", "b"], "quiet": 1}]}, "tools": ["a"]}
    async with working(Bench(fake({"era": era, **tools}, log=log), around)) as bench:
        await bench.connected()
        worker = bench.worker
        monkeypatch.setattr(module, "UNTOLD_LEAST", 60.0)
        monkeypatch.setattr(module, "UNTOLD_LEGACY", 60.0)
        poke(bench)
        await eventually(lambda: "ping" in methods(log))
        worker.list_wanted("tools/list")
        await bench.until(lambda w: len(w.tools) == 2)
        assert worker.view().fresh["tools/list"].public is (era == "modern")
        for _ in range(5):
            worker.list_wanted("tools/list")
            worker.list_wanted("prompts/list")
        poke(bench)
        await eventually(lambda: methods(log).count("ping") == 2)
        assert methods(log).count("tools/list") == 2
        assert "prompts/list" not in methods(log)


async def test_a_list_that_the_server_tells_of(
    around: Surroundings, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that tells of changes is not asked because an agent asks, whatever it said of time."""
    monkeypatch.setattr(module, "UNTOLD_LEAST", 0.0)
    async with working(Bench(fake({"era": "modern"}, log=log), around)) as bench:
        await bench.connected()
        bench.worker.list_wanted("tools/list")
        poke(bench)
        await eventually(lambda: "ping" in methods(log))
        assert methods(log).count("tools/list") == 1


async def test_a_subscription_that_ends_at_once(around: Surroundings, log: Path) -> None:
    """It is asked for again less and less often."""
    script = {"era": "modern", "on": {"subscriptions/listen": [{"answer": {}}]}}
    async with working(Bench(fake(script, log=log), around)) as bench:
        await bench.connected()
        await anyio.sleep(0.7)
        assert 2 <= methods(log).count("subscriptions/listen") <= 5
        assert methods(log).count("tools/list") <= 5
        assert isinstance(bench.worker.state, Connected)


async def test_a_subscription_that_ends_is_taken_up_again(around: Surroundings, log: Path) -> None:
    """What was missed meanwhile is found by a new list."""
    script = {
        "era": "modern",
        "on": {"subscriptions/listen": [[{"tools": ["new"], "quiet": 1}, {"answer": {}}], [{"default": 1}]]},
    }
    async with working(Bench(fake(script, log=log), around)) as bench:
        await bench.connected()
        await bench.until(lambda w: len(w.tools) == 1 and b'"new"' in w.tools[0], timeout=2)
        assert methods(log).count("subscriptions/listen") == 2


async def test_a_subscription_that_is_refused(around: Surroundings, log: Path) -> None:
    """It is not asked for again."""
    no = {"error": {"code": -32601, "message": "no"}}
    script = {"era": "modern", "on": {"subscriptions/listen": [no]}, "after": [{"notify": "notifications/x"}]}
    async with working(Bench(fake(script, log=log), around)) as bench:
        await bench.connected()
        await eventually(lambda: "subscriptions/listen" in methods(log))
        await anyio.sleep(0.2)
        assert methods(log).count("subscriptions/listen") == 1


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


# --- remote servers ---------------------------------------------------------------------------------------------------


def remote(url: str, headers: dict[str, str] | None = None, **more: Any) -> ServerSpec:
    secrets = {name: Secret(value) for name, value in (headers or {}).items()}
    return ServerSpec("far", Origin(Scope.USER, "/mcp.json", "far"), HttpSpec(Secret(url), secrets, url), **more)


class Call:
    """A call of an agent, as far as a worker is concerned."""

    def __init__(self) -> None:
        self.deadline = self.hard = float("inf")
        self.idle = 600.0
        self.told: list[str] = []
        self.done = anyio.Event()

    def answered(self, env: Any) -> None:
        self.told.append("error" if env.error else "answered")
        self.done.set()

    def unanswered(self, kind: str, message: str) -> None:
        self.told.append(kind)
        self.done.set()

    def progressed(self, params: Any) -> None:
        pass

    def moved(self, client: Any) -> None:
        self.told.append("moved")


def start_call(bench: Bench) -> Call:
    call = Call()
    client = bench.worker.client
    assert client is not None
    tail = HUB_META_MEMBER if client.era == "modern" else b""
    client.call_tool(call, b'"echo"', b'{"text":"x"}', tail)
    return call


async def outcome(call: Call) -> list[str]:
    with anyio.fail_after(10):
        await call.done.wait()
    return call.told


@pytest.mark.parametrize("standing", [False, True])
async def test_a_remote_server_that_cannot_tell(
    around: Surroundings, monkeypatch: pytest.MonkeyPatch, standing: bool
) -> None:
    """C062: a legacy server that says it tells of changes, and has no stream to tell on, is asked like one that does
    not; one that has the stream is not."""
    monkeypatch.setattr(module, "UNTOLD_LEGACY", 0.0)
    mcp = OrdinaryMcp(era="legacy", standing=standing)
    async with RudeHttp(mcp) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        await server.until(lambda: server.sent("GET"))
        link = bench.worker._link
        assert link is not None
        if not standing:
            await eventually(lambda: link.deaf)
        mcp.tools = [*mcp.tools, {**mcp.tools[0], "name": "second"}]
        bench.worker.list_wanted("tools/list")
        assert bench.worker.view().deaf is not standing
        if standing:
            assert await outcome(start_call(bench)) == ["answered"]
            assert len(bench.worker.tools) == 1
        else:
            await bench.until(lambda w: len(w.tools) == 2)


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
    """C067: of versions named in a refusal, in words or as data, the best common one is asked for once."""
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


@pytest.mark.parametrize("status", [401, 403])
async def test_a_server_that_wants_a_sign_in(around: Surroundings, status: int) -> None:
    """A person is needed: nothing is tried again until one asks; no credential is shown."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server:
        server.on("server/discover", empty(status))
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
        assert await outcome(start_call(bench)) == ["answered"]
        assert bench.states == ["Pending", "Connected"]


async def test_three_in_a_row(around: Surroundings) -> None:
    """C086: one lost call ends nothing, three in a row the connection, which then comes back."""
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


async def test_a_session_that_expired(around: Surroundings) -> None:
    """C065: five calls at once are refused for it: one handshake without the old id, one list, and each call is sent
    again once under the new session; nobody but the agent's deadline knows."""
    mcp = OrdinaryMcp(era="legacy")
    async with RudeHttp(mcp) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        mcp.expire()
        calls = [start_call(bench) for _ in range(5)]
        assert [await outcome(call) for call in calls] == [["moved", "answered"]] * 5
        again = server.sent("initialize")[1:]
        assert len(again) == 1
        assert again[0].header("Mcp-Session-Id") is None
        assert len(server.sent("tools/list")) == 2
        sent = server.sent("tools/call")
        assert [request.header("Mcp-Session-Id") for request in sent] == ["session-1"] * 5 + ["session-2"] * 5
        assert bench.states == ["Pending", "Connected", "Pending", "Connected"]
        assert await outcome(start_call(bench)) == ["answered"]


async def test_a_session_that_expires_again(around: Surroundings) -> None:
    """C065: a call that is refused for it a second time is told, and the third session is not begun at once."""
    mcp = OrdinaryMcp(era="legacy")
    async with RudeHttp(mcp) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        server.on("tools/call", empty(404), times=None)
        call = start_call(bench)
        assert await outcome(call) == ["moved", "refused"]
        await bench.until(lambda w: isinstance(w.state, Connected) and len(server.sent("initialize")) == 3)
        assert len(server.sent("tools/call")) == 2


async def test_a_session_that_cannot_be_had_again(around: Surroundings) -> None:
    """C091: a call that waits for the next session ends when there is none."""
    mcp = OrdinaryMcp(era="legacy")
    async with RudeHttp(mcp) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        mcp.expire()
        server.on("server/discover", empty(401), times=None)
        server.on("initialize", empty(401), times=None)
        assert await outcome(start_call(bench)) == ["refused"]


async def test_a_call_that_is_withdrawn_between_two_sessions(around: Surroundings) -> None:
    """C065: what nobody wants any more is not sent again."""
    mcp = OrdinaryMcp(era="legacy")
    async with RudeHttp(mcp) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        mcp.expire()
        server.on("initialize", lambda r: mcp(r).after(0.3))
        old = bench.worker.client
        call = start_call(bench)
        await server.until(lambda: len(server.sent("initialize")) == 2)
        assert old is not None
        assert old.withdraw(old.next_id() - 1, "x")
        await bench.connected()
        assert await outcome(start_call(bench)) == ["answered"]
        assert call.told == []
        assert len(server.sent("tools/call")) == 2


async def test_a_broken_listen(around: Surroundings) -> None:
    """A modern server whose stream of news breaks is asked for it again, and listed: news may have been lost."""
    mcp = OrdinaryMcp(era="modern")
    async with RudeHttp(mcp) as server, working(Bench(remote(server.url), around)) as bench:
        await bench.connected()
        await server.until(lambda: len(mcp.feeds) == 1)
        mcp.feeds[0].end()
        await server.until(lambda: len(mcp.feeds) == 2)
        await server.until(lambda: len(server.sent("tools/list")) == 2)
        assert bench.states == ["Pending", "Connected"]


async def test_a_listen_that_is_refused(around: Surroundings) -> None:
    """A server that does not want to be listened to is not asked again."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server:
        server.on("subscriptions/listen", empty(404), times=None)
        async with working(Bench(remote(server.url), around)) as bench:
            await bench.connected()
            await server.until(lambda: server.sent("subscriptions/listen"))
            for _ in range(3):
                assert await outcome(start_call(bench)) == ["answered"]
            assert len(server.sent("subscriptions/listen")) == 1


async def test_a_remote_server_that_never_answers(around: Surroundings) -> None:
    """C034: the time for a start is all it has, and its slot is free again."""
    async with RudeHttp(lambda request: stream(NEVER)) as server:
        spec = remote(server.url, startup_timeout=0.5)
        async with working(Bench(spec, around, backoff=Backoff(attempts=0))) as bench:
            assert await bench.failed() == "no answer to server/discover and initialize in 0.5 s"
            assert bench.limiter.borrowed_tokens == 0
        await server.until(lambda: server.open == 0)
