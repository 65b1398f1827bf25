"""What the outcome journal is told of calls."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from zlib import crc32

import anyio
import msgspec
import pytest

from mcphub.errors import ConfigError
from mcphub.gateway import outcomes as module
from mcphub.gateway.outcomes import Outcomes, Record
from mcphub.protocol.envelope import COMPLETE_TAIL, is_text_result
from mcphub.protocol.jsonrpc import Raw
from mcphub.store import call_journal
from mcphub.store.call_journal import CALLS, CallJournal
from mcphub.store.call_record import ANSWERED, ERROR, INPUT, NOT_ACTED_ON, OPEN, TOOL_ERROR, UNKNOWN
from tests.gateway.bench import Bench, Message, Server, call
from tests.store.calls import begin

pytestmark = pytest.mark.anyio

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "calls")


@pytest.fixture
async def outcomes(bench: Bench, path: str) -> AsyncIterator[Outcomes]:
    """The journal of the gateway."""
    bench.gateway.outcomes.open(path)
    yield bench.gateway.outcomes
    bench.gateway.outcomes.end()


@pytest.fixture
async def server(bench: Bench, outcomes: Outcomes) -> Server:
    """A server that is connected to a gateway with a journal."""
    server = Server("s")
    await bench.up(server)
    return server


def kept(bench: Bench) -> list[tuple[int, str]]:
    """Outcome and reason of all that is recorded, oldest first."""
    return [(one.outcome, one.reason) for one in reversed(bench.gateway.outcomes.records()())]


def operation(answer: dict[str, Any]) -> str:
    return str(answer["error"]["data"]["dev.mcphub/error"]["operationId"])


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ({"content": []}, ANSWERED),
        ({"content": [], "isError": False}, ANSWERED),
        ({"content": [], "isError": True}, TOOL_ERROR),
        ({"content": [{"type": "text", "text": "x" * 100_000}], "isError": True}, TOOL_ERROR),
        ({"content": [{"type": "text", "text": '"isError": true'}]}, ANSWERED),
        ({"content": [], "isError": False, "_meta": {"last": {"isError": True}}}, ANSWERED),
        ({"content": [], "structuredContent": {"isError": True}, "isError": False}, ANSWERED),
        ({"content": [], "structuredContent": {"steps": [{"isError": True}]}}, ANSWERED),
        ({"structuredContent": {"x": "y" * 5000, "isError": True}}, ANSWERED),
        ({"content": [], 'is"isError': True, "x": "y" * 5000, ',"isError': True}, ANSWERED),
        ({"isError": True, "content": [{"type": "text", "text": "x" * 160}]}, TOOL_ERROR),
        ({"isError": True, "content": [{"type": "text", "text": "x" * 100_000}]}, TOOL_ERROR),
        ({"content": [], "isError": True, "structuredContent": {"x": "y" * 120}}, TOOL_ERROR),
        ({"content": [], "isError": "true"}, ANSWERED),
        ({"content": [{"type": "text", "text": "x" * 100_000}], "isError": False}, ANSWERED),
    ],
)
async def test_answers(bench: Bench, server: Server, result: Any, outcome: int) -> None:
    """It is recorded before it is sent, and closed by what the server said, under the names of both."""
    agent = bench.agent("/w").initialize()
    agent.ask("tools/call", call(arguments={"a": 1}, _meta={"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}))
    [one] = bench.gateway.outcomes.records()()
    assert (one.server, one.tool, one.agent, one.workspace, one.trace) == ("s", "t", "test", "/w", TRACE)
    assert (one.outcome, one.size) == (OPEN, 8)
    server.result((await server.call())["id"], result)
    assert kept(bench) == [(outcome, "")]


@pytest.mark.parametrize(
    ("result", "modern", "outcome"),
    [
        (b'{"content":[],"isError" : true}', False, TOOL_ERROR),
        (b'{"content":[],"isError"\n:\ttrue }', False, TOOL_ERROR),
        (b'{"x":"%b","isError":true}' % (b"x" * 5000), False, TOOL_ERROR),
        (b'{"x":"%b", "isError": false}' % (b"x" * 5000), False, ANSWERED),
        (b'{"x":"%b","y,\\"isError":true}' % (b"x" * 5000), False, ANSWERED),
        (b'{"resultType" : "input_required"}', True, INPUT),
        (b'{"resultType":"input_required"}', False, ANSWERED),
        (b'{"resultType":"complete","structuredContent":{"resultType":"input_required"}}', True, ANSWERED),
        (b'{"content":[{"text":"%b"}],"resultType":"input_required"}' % (b"x" * 9000), True, INPUT),
        (b'{"a":' + b"[" * 3000 + b"]" * 3000 + b"}", False, ANSWERED),
        (b"7", True, UNKNOWN),
        (b'[{"isError":true}]', False, UNKNOWN),
        (b'{"resultType":"c\\u006fmplete","isError":true}', True, TOOL_ERROR),
        (b'{"resultType":"weird"}', True, UNKNOWN),
        (b'{"resultType":{"a":1}}', True, UNKNOWN),
    ],
)
def test_what_a_result_says(result: bytes, modern: bool, outcome: int) -> None:
    """Only its own members count, wherever they stand in it and however they are written."""
    assert module.outcome_of(Raw(result), modern) == outcome
    if result[:1] == b"{" and outcome == TOOL_ERROR:
        assert not module.is_fine(result)


@pytest.mark.parametrize(
    ("result", "fine"),
    [
        (b'{"content":[],"isError":false}', True),
        (b'{"content":[], "isError": false}', True),
        (b'{"content":[]}', True),
        (b'{"isError":true,"content":[]}', False),
        (b'{"is\\u0045rror":true,"content":[]}', False),
        (b'{"isError":true,"x":{"a":1,"isError":false}}', False),
        (b'{"isError":true,"text":",\\"isError\\":false}"}', False),
        (b'{"isError":true,"notisError":false}', False),
    ],
)
def test_what_is_certainly_no_error(result: bytes, fine: bool) -> None:
    """What is seen without reading it is what reading it says."""
    assert module.is_fine(result) == fine
    assert not fine or module.outcome_of(Raw(result), False) == ANSWERED


@pytest.mark.parametrize(
    ("result", "texts"),
    [
        (b'{"content":[]}', True),
        (b'{"content":[{"type":"text","text":"x"}],"isError":false}', True),
        (b'{"content":[{"type":"text","text":"\\"isError\\":true}"}]}', True),
        (b'{"content":[{"type":"text","text":"isError\\u0022:true"}],"is\\u0045rror":false}', True),
        (b'{"content":[{"type":"text","text":"resultType"}]}', True),
        (b'{"content":[{"type":"text","text":"%b"}]}' % (b"x" * 9000), True),
        (b'{"content":[],"isError":true}', False),
        (b'{"content":[],"is\\u0045rror":true}', False),
        (b'{"content":[],"isError":true,"isError":false}', False),
        (b'{"content":[],"isError":false,"isError":true}', False),
        (b'{"content":[],"isError":"true"}', False),
        (b'{"content":[],"resultType":"input_required"}', False),
        (b"[]", False),
    ],
)
def test_results_of_texts_alone(result: bytes, texts: bool) -> None:
    """A result that goes to its agent as one of texts alone is an answer, and so it is read by itself."""
    try:
        is_text_result(result)
    except msgspec.DecodeError:
        assert not texts
    else:
        assert texts
        assert module.outcome_of(Raw(result), False) == ANSWERED
        assert module.outcome_of(Raw(result[:-1] + COMPLETE_TAIL), True) == ANSWERED


async def test_no_result(bench: Bench, outcomes: Outcomes) -> None:
    """What is none, or none that was agreed on, leaves the outcome unknown; the agent is told the id."""
    server = Server("s", era="modern")
    await bench.up(server)
    agent = bench.agent().initialize()
    for mid, result in ((1, [1]), (2, {"resultType": "task", "taskId": "x"})):
        agent.ask("tools/call", call(), id=mid)
        server.say({"jsonrpc": "2.0", "id": (await server.call(mid))["id"], "result": result})
        assert operation(agent.answers(mid)[0]) == outcomes.records()()[0].id
    assert kept(bench) == [(UNKNOWN, "unreadable")] * 2


async def test_refusals(bench: Bench, server: Server) -> None:
    """A JSON-RPC error is an answer; one that is none leaves the outcome unknown, as the agent is told."""
    agent = bench.agent().initialize()
    for mid, error in ((1, {"code": -32000, "message": "no"}), (2, "rubbish")):
        agent.ask("tools/call", call(), id=mid)
        server.say({"jsonrpc": "2.0", "id": (await server.call(mid))["id"], "error": error})
    assert kept(bench) == [(ERROR, ""), (UNKNOWN, "unreadable")]
    [answer] = agent.answers(2)
    assert f"mcphub calls {operation(answer)}" in answer["error"]["message"]


async def test_digests(bench: Bench, server: Server) -> None:
    """They tell arguments apart, also large ones by their ends and their length, and hold nothing of them."""
    agent = bench.agent().initialize()
    large = "x" * 100_000
    different: list[Any] = [{}, {"a": 1}, {"a": 2}, {"a": large}, {"a": large + "x"}, {"a": "y" + large[1:]}]
    for mid, arguments in enumerate([*different, {"a": 1}]):
        agent.ask("tools/call", call(arguments=arguments), id=mid)
    found = [one.digest for one in reversed(bench.gateway.outcomes.records()())]
    assert len(set(found)) == len(different) and found[-1] == found[1]


async def test_lost(bench: Bench, server: Server, path: str) -> None:
    """What was in flight when its connection was lost is unknown, and each agent gets the id of its own."""
    agent = bench.agent().initialize()
    for mid in (1, 2):
        agent.ask("tools/call", call(), id=mid)
    await server.call(2)
    server.lose("it broke")
    await anyio.lowlevel.checkpoint()
    assert kept(bench) == [(UNKNOWN, "lost")] * 2
    ids = [operation(agent.answers(mid)[0]) for mid in (1, 2)]
    assert ids == [one.id for one in reversed(bench.gateway.outcomes.records()())]


async def test_cancelled(bench: Bench, server: Server) -> None:
    """By its agent, or since that left: what came of it is not known."""
    agent = bench.agent().initialize()
    agent.ask("tools/call", call(), id=1)
    agent.notify("notifications/cancelled", {"requestId": 1})
    agent.ask("tools/call", call(), id=2)
    agent.leave()
    assert kept(bench) == [(UNKNOWN, "cancelled")] * 2
    assert agent.answers(1) == agent.answers(2) == []


async def test_the_end(bench: Bench, server: Server, path: str) -> None:
    """What mcphub's own end cuts short is told as stopped; what another daemon goes on with is found by it."""
    agent, spared = bench.agent().initialize(), bench.agent().initialize()
    agent.ask("tools/call", call(), id=1)
    spared.ask("tools/call", call(), id=7)
    bench.gateway.end([spared.session])
    assert kept(bench) == [(UNKNOWN, "stopped"), (OPEN, "")]
    [answer] = agent.answers(1)
    assert operation(answer).endswith("1")
    bench.gateway.outcomes.end()
    assert [one.number for one in bench.gateway.outcomes.records()()] == [2, 1]  # read from the file
    said: list[str] = []
    after = Outcomes(b"key", lambda level, text: said.append(text))
    after.open(path)
    assert after.left(b"7", None).endswith("2")
    assert after.left(b"7", 5) == after.left(b"1", None) == ""
    assert said == ["1 calls were in flight when the daemon before ended; what came of them is unknown: "
                    "mcphub calls --unknown"]  # fmt: skip
    after.end()


def test_two_daemons_that_are_killed(path: str) -> None:
    """An agent whose daemon was killed, and the next one before it had come back, is told the id by the third; one that
    cannot be told from others is told none."""
    journal = CallJournal(path)
    begin(journal, request=crc32(b"7", 5))
    begin(journal, request=crc32(b"8"))
    id = journal.id_of(1)
    for _ in range(2):
        killed = Path(path).read_bytes()
        journal.end()
        Path(path).write_bytes(killed)
        outcomes = Outcomes(b"key")
        outcomes.open(path)
        journal = outcomes._journal  # type: ignore[assignment]
        assert outcomes.left(b"7", 5) == id and outcomes.left(b"7", 6) == ""
    assert outcomes.left(b"8", None) == ""
    outcomes.end()


async def test_a_request_that_waits(bench: Bench, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is cancelled while its request waits at the transport, not yet sent or to be sent again since the server
    wanted fewer, was certainly not acted on."""
    agent = bench.agent().initialize()
    for mid in (1, 2):
        agent.ask("tools/call", call(), id=mid)
    waits = {agent.session.calls[b"1"].up_id}
    monkeypatch.setattr(server, "untouched", waits.__contains__, raising=False)
    for mid in (1, 2):
        agent.notify("notifications/cancelled", {"requestId": mid})
    assert kept(bench) == [(NOT_ACTED_ON, "cancelled"), (UNKNOWN, "cancelled")]


@pytest.mark.parametrize(("kind", "reason"), [("unsent", "lost"), ("overdue", "timeout")])
async def test_a_request_that_waits_too_long(bench: Bench, server: Server, kind: str, reason: str) -> None:
    """What has not left mcphub when its time is over, or its connection, was certainly not acted on."""
    agent = bench.agent().initialize()
    agent.ask("tools/call", call(), id=1)
    agent.session.calls[b"1"].keeps = False
    agent.session.calls[b"1"].unanswered(kind, "it waited")
    assert kept(bench) == [(NOT_ACTED_ON, reason)]
    assert agent.answers(1)[0]["result"]["isError"]


async def test_sessions_that_are_over(bench: Bench, server: Server) -> None:
    """A call that its server certainly did not act on is closed so."""
    agent = bench.agent().initialize()
    agent.ask("tools/call", call(), id=1)
    message = await server.call()
    assert server._receiver is not None
    server._receiver.unanswered(message["id"], "tls", "no")
    assert kept(bench) == [(NOT_ACTED_ON, "tls")]
    assert agent.answers(1)[0]["result"]["isError"]


async def test_rounds(bench: Bench, outcomes: Outcomes) -> None:
    """A modern agent's round is an answer of its own: what its server waits for is not unknown."""
    server = Server("s", era="modern")
    await bench.up(server)
    agent = bench.agent()
    asked = {"q": {"method": "roots/list"}}
    agent.modern("tools/call", call(), meta={"io.modelcontextprotocol/clientCapabilities": {"roots": {}}})
    message = await server.call()
    server.result(message["id"], {"resultType": "input_required", "requestState": "s", "inputRequests": asked})
    assert kept(bench) == [(INPUT, "")]
    agent.leave()
    assert kept(bench) == [(INPUT, "")]


class Asker(Server):
    """It may be answered."""

    def _answer(self, message: Message) -> None:
        if "method" in message:
            super()._answer(message)


async def test_parked(bench: Bench, outcomes: Outcomes) -> None:
    """A call that waits at a legacy server for a modern agent's answer is one record, whose id each request of the
    agent's is told that waits for it."""
    server = Asker("s")
    await bench.up(server)
    agent = bench.agent()
    able: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
    agent.modern("tools/call", call(), meta=able)
    await server.call()
    asked = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    server.say({"jsonrpc": "2.0", "id": 5, "method": "elicitation/create", "params": asked})
    with anyio.fail_after(5):
        while not agent.answers(1):  # noqa: ASYNC110
            await anyio.sleep(0.01)
    given = agent.answers(1)[0]["result"]
    assert kept(bench) == [(OPEN, "")]
    answers = {key: {"action": "accept", "content": {}} for key in given["inputRequests"]}
    more = {"requestState": given["requestState"], "inputResponses": answers}
    assert agent.modern("tools/call", call(**more), id=2, meta=able) == []
    bench.gateway.end()
    [one] = bench.gateway.outcomes.records()()
    assert (one.outcome, one.reason, one.agent_era) == (UNKNOWN, "stopped", "modern")
    assert operation(agent.answers(2)[0]) == one.id


async def test_attempts(bench: Bench, server: Server) -> None:
    """All attempts are one record; what an earlier one may have done is not forgotten, what none has done is said."""
    journal = bench.gateway.outcomes
    agent = bench.agent().initialize()
    for mid in range(1, 6):
        agent.ask("tools/call", call(), id=mid)
    calls = [agent.session.calls[b"%d" % mid] for mid in range(1, 6)]
    for one, kind in zip(calls, ("lost", "unreachable", "unreachable", "lost", "lost"), strict=True):
        journal.tried(one, kind)
    for one in (calls[0], calls[2], calls[3]):
        one.attempts = 2
        journal.sends(one, b"{}")
    journal.unanswered(calls[0], "unreachable")  # the first attempt may have been acted on
    journal.ended(calls[1], "cancelled")  # while it waited for its second one
    journal.ended(calls[2], "cancelled")
    journal.answered(calls[3], False, Raw(b"{}"))
    journal.ended(calls[4], "local")
    assert kept(bench) == [
        (UNKNOWN, "lost"), (NOT_ACTED_ON, "cancelled"), (UNKNOWN, "cancelled"), (ANSWERED, ""), (UNKNOWN, "given_up"),
    ]  # fmt: skip
    assert [one.attempts for one in bench.gateway.outcomes.records()()] == [1, 2, 2, 1, 2]
    assert journal._tried == {}


async def test_a_disk_that_is_full(bench: Bench, server: Server, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls go on, the status says why they are not recorded, and that they are again when they are."""
    said: list[str] = []
    monkeypatch.setattr(module, "SYNC_AFTER", 0.01)
    outcomes = bench.gateway.outcomes
    outcomes._log = lambda level, text: said.append(text)

    def full(*args: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    agent = bench.agent().initialize()
    with monkeypatch.context() as patch:
        patch.setattr(CallJournal, "begin", full)
        patch.setattr(CallJournal, "close", full)
        for mid in (1, 2):
            agent.ask("tools/call", call(), id=mid)
            server.text(await server.call(mid), "x")
            assert "result" in agent.answers(mid)[0]
        problem = f"calls are not recorded: cannot write {path}: {os.strerror(errno.ENOSPC)}"
        assert outcomes.problems() == [problem] and said == [problem]
    agent.ask("tools/call", call(), id=3)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outcomes.run)
        with anyio.fail_after(5):
            while outcomes.problem:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert said[1:] == ["calls are recorded again"]
        tasks.cancel_scope.cancel()


async def test_no_journal(bench: Bench, tmp_path: Path) -> None:
    """Where there can be none, it is said once, and every call goes as if there were."""
    said: list[str] = []
    outcomes = Outcomes(b"", lambda level, text: said.append(text))
    outcomes.open(str(tmp_path))
    assert len(said) == 1 and outcomes.problems() == said and said[0].startswith("calls are not recorded: cannot keep")
    server = Server("s")
    await bench.up(server)
    agent = bench.agent().initialize()
    agent.ask("tools/call", call(), id=1)
    agent.ask("tools/call", call(), id=2)
    server.text(await server.call(), "x")
    server.lose("it broke")
    await anyio.lowlevel.checkpoint()
    assert "operationId" not in agent.answers(2)[0]["error"]["data"]["dev.mcphub/error"]
    assert bench.gateway.outcomes.records()() == []


async def test_too_many(bench: Bench, server: Server, path: str) -> None:
    """Calls that find no place go on; how many they were is a problem that people are told."""
    journal = bench.gateway.outcomes._journal
    assert journal is not None
    for _ in range(CALLS):
        begin(journal)
    agent = bench.agent().initialize()
    agent.ask("tools/call", call(), id=1)
    server.text(await server.call(), "x")
    assert "result" in agent.answers(1)[0]
    assert bench.gateway.outcomes.problems() == ["1 calls were not recorded, since too many were in flight at once"]


def test_what_a_daemon_before_recorded(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call is certainly not in there only where that very daemon recorded all, and nothing has made place since."""
    journal = CallJournal(path)
    begin(journal, request=crc32(b"7", 5))
    epoch = journal.epoch
    journal.end()
    outcomes = Outcomes(b"key")
    assert outcomes.epoch == 0 and outcomes.record(b"7", 5, epoch) is Record.UNSURE
    outcomes.open(path)
    assert outcomes.epoch not in (0, epoch)
    assert outcomes.record(b"7", 5, epoch) is Record.THERE
    assert outcomes.record(b"8", 5, epoch) is Record.NONE
    for pid, of in ((None, epoch), (5, 0), (5, epoch ^ 1), (5, outcomes.epoch)):
        assert outcomes.record(b"8", pid, of) is Record.UNSURE
    monkeypatch.setattr(outcomes, "_requests", (frozenset([crc32(b"7", 5)]), True))
    assert outcomes.record(b"7", 5, epoch) is Record.THERE and outcomes.record(b"8", 5, epoch) is Record.GONE
    outcomes.end()


def test_it_can_be_read_where_it_cannot_be_written(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What daemons before have recorded is still shown, beside why nothing is added; a file that cannot be read is an
    error."""
    monkeypatch.setattr(call_journal, "LOCK_SECONDS", 0.0)
    journal = CallJournal(path)
    begin(journal, "kept")
    outcomes = Outcomes(b"key")
    outcomes.open(path)
    assert len(outcomes.problems()) == 1 and [one.tool for one in outcomes.records()()] == ["kept"]
    journal.end()
    Path(path).unlink()
    assert outcomes.records()() == []
    Path(path).mkdir()
    with pytest.raises(ConfigError, match="cannot read"):
        outcomes.records()()
