"""Several calls of one tool that come in one read, and their results."""

from __future__ import annotations

import gc
import json
import random
import re
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphub.config.settings import LimitsSettings
from mcphub.gateway.lane import ALONE
from mcphub.store.call_record import OUTCOMES
from tests.gateway.bench import Agent, Bench, Message, Server, call, gateway

pytestmark = pytest.mark.anyio

SAYS_TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS: dict[str, Message] = {
    "t": {"inputSchema": SAYS_TEXT},
    "open": {"inputSchema": {"type": "object"}},
    "read": {"inputSchema": SAYS_TEXT, "annotations": {"readOnlyHint": True}},
    "again": {"inputSchema": SAYS_TEXT, "annotations": {"idempotentHint": True}},
    "careful": {"inputSchema": {**SAYS_TEXT, "not": {"required": ["no"]}}},
    "shaped": {"inputSchema": SAYS_TEXT, "outputSchema": SAYS_TEXT},
}
TEXT = {"content": [{"type": "text", "text": "x"}]}


class Stream(Server):
    """A server behind a stream, whose tools are TOOLS."""

    stream = True

    def __init__(self, name: str, *, era: str = "legacy") -> None:
        super().__init__(name, era=era)
        self.offers = dict(TOOLS)

    def _answer(self, message: Message) -> None:
        if message.get("method") == "tools/list":
            kind = {"resultType": "complete"} if self._era == "modern" else {}
            tools = [{"name": name, **more} for name, more in self.offers.items()]
            self.result(message["id"], {**kind, "tools": tools})
        elif "method" in message:
            super()._answer(message)

    def complete(self, result: Message) -> Message:
        return {**result, "resultType": "complete"} if self._era == "modern" else result

    @property
    def open_calls(self) -> list[int]:
        """Ids of calls in flight, as this server numbers them."""
        return [message["id"] for message in self.of("tools/call")]


def calls(first: int, count: int, tool: str = "t", **more: Any) -> list[Message]:
    """Requests with ids from this one on."""
    params = {"name": f"mcp__s__{tool}", "arguments": {"text": "x"}, **more}
    return [{"jsonrpc": "2.0", "id": first + n, "method": "tools/call", "params": params} for n in range(count)]


def attached(bench: Bench) -> Agent:
    """A legacy agent whose bursts are looked at."""
    agent = bench.agent()
    agent.session.paths = {}
    return agent.initialize()


async def up(bench: Bench, era: str = "legacy") -> tuple[Stream, Agent]:
    """A server, and the one agent, which has called a tool before: then it is known to be alone."""
    server = Stream("s", era=era)
    await bench.up(server)
    agent = attached(bench)
    agent.ask("tools/call", call("mcp__s__t", arguments={"text": "first"}), id=0)
    server.say_all([{"jsonrpc": "2.0", "id": server.open_calls[0], "result": server.complete(TEXT)}])
    agent.got.clear()
    server.messages.clear()
    return server, agent


@pytest.fixture(autouse=True)
async def journal(bench: Bench, tmp_path: Path) -> AsyncIterator[None]:
    """The outcome journal, without which calls are not sent together."""
    bench.gateway.outcomes.open(str(tmp_path / "calls"))
    yield
    bench.gateway.outcomes.end()


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("tool", ["t", "open", "read", "again"])
async def test_sent_and_answered_together(bench: Bench, era: str, tool: str) -> None:
    """Plain calls go out together, each under an id of mcphub's and recorded, and their results come back together,
    each to its own id, without what only its server's era knows."""
    server, agent = await up(bench, era)
    assert agent.write_all(calls(10, 5, tool))
    ids = server.open_calls
    assert len(set(ids)) == 5
    assert all(m["params"]["arguments"] == {"text": "x"} for m in server.of("tools/call"))
    assert {m["params"]["name"] for m in server.of("tools/call")} == {tool}
    assert all(("_meta" in m["params"]) == (era == "modern") for m in server.of("tools/call"))
    assert list(agent.session.calls) == [b"%d" % n for n in range(10, 15)]
    recorded = [] if tool == "read" else ["open"] * 5
    assert outcomes(bench)[:-1] == recorded  # the newest come first; the last is of `up`
    texts = [{"content": [{"type": "text", "text": f"{mid}"}]} for mid in ids]
    replies = [{"jsonrpc": "2.0", "id": m, "result": server.complete(t)} for m, t in zip(ids, texts, strict=True)]
    assert server.say_all(replies[::-1])
    assert [m["id"] for m in agent.got] == [14, 13, 12, 11, 10]
    assert [m["result"] for m in agent.got[::-1]] == texts
    assert agent.session.calls == {}
    assert outcomes(bench)[:-1] == ["answered" for _ in recorded]


def outcomes(bench: Bench) -> list[str]:
    return [OUTCOMES[record.outcome] for record in bench.gateway.outcomes.records()()]


def wrong(number: int, change: Callable[[Message], object]) -> list[Message]:
    """Six calls, of which this one is changed."""
    found = [{**m, "params": dict(m["params"])} for m in calls(10, 6)]
    change(found[number])
    return found


@pytest.mark.parametrize(
    "messages",
    [
        wrong(2, lambda m: m["params"].update(name="mcp__s__open")),
        wrong(2, lambda m: m["params"].update(arguments={"text": 7})),
        wrong(2, lambda m: m["params"].update(arguments={"text": "\u00e4"})),
        wrong(0, lambda m: m["params"].update(arguments=[])),
        wrong(5, lambda m: m["params"].update(_meta={"progressToken": 1})),
        wrong(5, lambda m: m["params"].update(arguments={"text": "x" * 5000})),
        wrong(3, lambda m: m.update(id="a")),
        wrong(3, lambda m: m.update(id=11)),
        wrong(3, lambda m: m.update(method="tools/list")),
        calls(10, 6, "careful"),
        calls(10, 6, "shaped"),
        calls(10, 6, "nobody"),
        calls(10, ALONE + 1),
    ],
)
async def test_one_that_is_not_plain(bench: Bench, messages: list[Message]) -> None:
    """Where one of them wants more than to be sent, or may not be, nothing is done with them together."""
    server, agent = await up(bench)
    lines = [m for m in messages if m["id"] != "never"]
    assert not agent.write_all(lines)
    assert len(server.open_calls) + len(agent.got) == len(lines)


@pytest.mark.parametrize(
    "what", ["log level", "asks", "failed", "circuit", "other agent", "stops", "traces", "full", "gone", "held", "left"]
)
async def test_something_is_going_on(bench: Bench, what: str) -> None:
    """While anything special is on that calls must be looked at for, none are sent together; before it they are."""
    server, agent = await up(bench)
    worker, gate = bench.worker(server), bench.gateway
    assert agent.write_all(calls(10, 4))
    server.say_all([{"jsonrpc": "2.0", "id": mid, "result": TEXT} for mid in server.open_calls])
    client = worker.client
    assert client is not None
    if what == "log level":
        agent.ask("logging/setLevel", {"level": "debug"})
    elif what == "asks":
        gate._turns.asked.add(worker.key)
    elif what == "failed":
        gate._repeats.failed(agent.session, "s t", b"{}", "isError")
        assert agent.write_all(calls(100, 4, "open"))  # another tool
    elif what == "circuit":
        gate.circuits.known[worker.key] = {}
    elif what == "other agent":
        other = attached(bench)
        assert not other.write_all(calls(0, 4))  # it is not known to be alone
        other.write_all(calls(10, 10))
        agent.write_all(calls(30, 10))
    elif what == "stops":
        await gate.drain(0.0)
    elif what == "traces":
        gate.begins_traces = True
    elif what == "full":
        server.full = True
    elif what == "gone":
        server.lose("gone")
    elif what == "held":
        gate._awakening.held[other_session(bench), b"1"] = None  # type: ignore[assignment]
    elif what == "left":
        agent.leave()
        assert agent.session.paths == {}
    agent.got.clear()
    assert not agent.write_all(calls(50, 4))
    if what == "held":
        gate._awakening.held.clear()
        assert agent.write_all(calls(60, 4))


def other_session(bench: Bench) -> Any:
    return bench.agent().session


async def test_a_tool_that_has_changed(bench: Bench) -> None:
    """What was found out of a tool is forgotten with the list it stood in."""
    server, agent = await up(bench)
    assert agent.write_all(calls(10, 4))
    bench.gateway.refresh()
    assert agent.session.paths == {}
    before = agent.session.toolset.routes["mcp__s__t"].definition
    server.offers["t"] = {"inputSchema": {"type": "object", "properties": {"text": {"type": "integer"}}}}
    server.notify("notifications/tools/list_changed", {})
    await bench.until(lambda: agent.session.toolset.routes["mcp__s__t"].definition is not before)
    assert not agent.write_all(calls(20, 4))
    assert len(agent.got) == 4  # each was told what is wrong with its arguments


REPLIES: list[Callable[[int], Message]] = [
    lambda mid: {"id": mid, "result": {**TEXT, "isError": True}},
    lambda mid: {"id": mid, "result": {**TEXT, "_meta": {"a": 1}}},
    lambda mid: {"id": mid, "result": {**TEXT, "structuredContent": {"a": 1}}},
    lambda mid: {"id": mid, "result": {"content": [{"type": "text", "text": "\u00e4"}]}},
    lambda mid: {"id": mid, "result": {"content": [{"type": "resource_link", "name": "x", "uri": "file:///x"}]}},
    lambda mid: {"id": mid, "result": {"content": [{"type": "text", "text": "x" * 5000}]}},
    lambda mid: {"id": mid, "result": {}},
    lambda mid: {"id": mid, "error": {"code": -32603, "message": "no"}},
    lambda mid: {"id": f"{mid}", "result": TEXT},
    lambda mid: {"id": mid + 1000, "result": TEXT},
    lambda mid: {"method": "notifications/message", "params": {"level": "info", "data": 1}},
    lambda mid: {"id": 1, "method": "ping"},
]


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("reply", REPLIES)
async def test_a_result_that_is_not_plain(bench: Bench, reply: Callable[[int], Message], era: str) -> None:
    """Where one of several messages of a server is not what most are, each is taken by itself, and none is lost."""
    server, agent = await up(bench, era)
    assert agent.write_all(calls(10, 5))
    ids = server.open_calls
    said: list[Message] = [{"jsonrpc": "2.0", "id": mid, "result": server.complete(TEXT)} for mid in ids]
    odd = {"jsonrpc": "2.0", **reply(ids[2])}
    if "result" in odd:
        odd["result"] = server.complete(odd["result"])
    said[2] = odd
    assert not server.say_all(said)
    own = odd.get("id") in (ids[2], str(ids[2]))
    assert sorted(m["id"] for m in agent.got if "id" in m) == ([10, 11, 12, 13, 14] if own else [10, 11, 13, 14])
    assert len(agent.session.calls) == (0 if own else 1)


@pytest.mark.parametrize("what", ["cancelled", "counted", "asked"])
async def test_something_happened_to_a_call(bench: Bench, what: str) -> None:
    """A call to which something happened after it was sent ends by itself."""
    server, agent = await up(bench)
    assert agent.write_all(calls(10, 5))
    ids = server.open_calls
    if what == "cancelled":
        agent.notify("notifications/cancelled", {"requestId": 12})
    elif what == "counted":
        bench.gateway.lanes._count()
    elif what == "asked":
        agent.session.calls[b"12"].questions = bench.gateway._questions
    assert not server.say_all([{"jsonrpc": "2.0", "id": mid, "result": TEXT} for mid in ids])
    got = [m["id"] for m in agent.got if "result" in m]
    assert got == [10, 11, 13, 14] if what == "cancelled" else got == [10, 11, 12, 13, 14]
    assert agent.session.calls == {}


async def test_a_call_that_was_sent_twice(bench: Bench) -> None:
    """A call that its server wanted once more counts as sent twice, whoever's result comes with it."""
    server, agent = await up(bench, "modern")
    assert agent.write_all(calls(10, 4))
    for mid in server.open_calls:
        server.say({"jsonrpc": "2.0", "id": mid, "result": {"resultType": "input_required", "requestState": "s"}})
    with anyio.fail_after(5):
        await server.call(8)
    again = server.open_calls[4:]
    assert not server.say_all([{"jsonrpc": "2.0", "id": mid, "result": server.complete(TEXT)} for mid in again])
    assert [m["id"] for m in agent.got] == [10, 11, 12, 13]
    assert [record.attempts for record in bench.gateway.outcomes.records()()] == [2, 2, 2, 2, 1]


async def test_nothing_outlives_an_agent_or_a_list(bench: Bench) -> None:
    """What an agent's bursts were made for goes with it, with its connection, and with the list that it had seen."""
    server, agent = await up(bench)
    found = []
    for number in range(3):
        assert agent.write_all(calls(10, 4))
        assert server.say_all([{"jsonrpc": "2.0", "id": mid, "result": TEXT} for mid in server.open_calls[-4:]])
        found.append(weakref.ref(agent.session.paths["mcp__s__t"]))  # type: ignore[index]
        bench.gateway.refresh()
        assert found[number]() is None
    assert agent.write_all(calls(10, 4))
    session = weakref.ref(agent.session)
    agent.leave()
    del agent
    server.say_all([{"jsonrpc": "2.0", "id": mid, "result": TEXT} for mid in server.open_calls[-4:]])
    await anyio.wait_all_tasks_blocked()
    gc.collect()
    assert session() is None


async def test_calls_that_came_singly_are_answered_together(bench: Bench) -> None:
    """How a call came does not matter to how its result goes back."""
    server, agent = await up(bench)
    assert agent.write_all(calls(10, 4))
    for message in calls(20, 2):
        agent.write_all([message])
    assert server.say_all([{"jsonrpc": "2.0", "id": mid, "result": TEXT} for mid in server.open_calls])
    assert [m["id"] for m in agent.got] == [10, 11, 12, 13, 20, 21]


async def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an agent's own limit can be reached, its calls are counted one by one."""
    async with gateway(monkeypatch, limits=LimitsSettings(agent=3)) as bench:
        server, agent = await up(bench)
        assert not agent.write_all(calls(10, 6))
        assert len(server.open_calls) == 3


# --- the same as singly ----------------------------------------------------------------------------------------------


class Script:
    """What a server and one or two agents do, by chance; the same for the same seed."""

    def __init__(self, seed: int, era: str) -> None:
        self._random = random.Random(seed)
        self._era = era
        self._next = 100

    def requests(self) -> list[Message]:
        draw = self._random
        tool = draw.choice(["t", "t", "t", "open", "read", "again", "careful", "shaped"])
        found = calls(self._next, draw.choice([1, 3, 4, 5, 8, 20]), tool)
        self._next += len(found)
        for number, message in enumerate(found):
            message["params"] = {**message["params"], "arguments": {"text": "x" * draw.randrange(80)}}
            if draw.random() < 0.02:
                found[number] = self._odd(message)
        return found

    def _odd(self, message: Message) -> Message:
        draw, params = self._random, message["params"]
        return draw.choice(
            [
                {**message, "params": {**params, "arguments": {"text": 7}}},
                {**message, "params": {**params, "name": "mcp__s__open"}},
                {**message, "params": {**params, "_meta": {"progressToken": 3}}},
                {**message, "id": f"s{message['id']}"},
                {**message, "id": message["id"] - 1},
                {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": message["id"] - 2}},
                {"jsonrpc": "2.0", "id": f"p{message['id']}", "method": "ping"},
            ]
        )

    def replies(self, open_: Sequence[int]) -> list[Message]:
        draw = self._random
        chosen = [mid for mid in open_ if draw.random() < 0.9]
        if draw.random() < 0.3:
            draw.shuffle(chosen)
        out: list[Message] = []
        for mid in chosen:
            odd = draw.choice(REPLIES) if draw.random() < 0.01 else None
            message = {"jsonrpc": "2.0", **(odd(mid) if odd is not None else {"id": mid, "result": TEXT})}
            if "result" in message and self._era == "modern":
                message["result"] = {**message["result"], "resultType": "complete"}
            out.append(message)
        return out

    def event(self, late: bool) -> str:
        """What ends bursts for good comes late; what depends on the time, as limits do, not at all."""
        return self._random.choices(["none", "cancel", "clear", "level"], [90, 5, 4, 8 * late])[0]


def without_epoch(message: Message) -> str:
    """As text; an operation's id begins with what tells journals apart."""
    return re.sub("op_[0-9a-f]{8}", "op_", json.dumps(message))


async def played(path: Path, seed: int, era: str, together: bool) -> tuple[dict[str, Any], int]:
    """What everybody has seen in the end, and how many bursts were taken."""
    monkeypatch = pytest.MonkeyPatch()
    taken = 0
    async with gateway(monkeypatch) as bench:
        bench.gateway.outcomes.open(str(path / f"calls-{together}"))
        server, agent = await up(bench, era)
        if not together:
            agent.session.paths = None
        script = Script(seed, era)
        done: set[int] = set()
        for turn in range(40):
            taken += agent.write_all(script.requests())
            event = script.event(turn > 30)
            if event == "cancel":
                for mid in list(agent.session.calls)[:2]:
                    agent.write(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}' % mid)
            elif event == "level":
                agent.ask("logging/setLevel", {"level": "info"}, id=f"l{len(done)}")
            elif event == "clear":
                bench.gateway.refresh()
            open_ = [mid for mid in server.open_calls if mid not in done]
            replies = script.replies(open_)
            done |= {mid for mid in open_ if any(str(r.get("id")) == str(mid) for r in replies)}
            if replies:
                taken += server.say_all(replies)
        client = bench.worker(server).client
        assert client is not None
        seen = {
            "agent": [without_epoch(m) for m in agent.got if m.get("method") != "notifications/tools/list_changed"],
            "server": server.messages,
            "open": [(mid, call_.up_id, call_.arguments, call_.keeps) for mid, call_ in agent.session.calls.items()],
            "waiting": list(client.waiting()),
            "signs": client.signs,
            "counters": (Counter(bench.gateway.counters), Counter(client.counters)),
            "journal": [
                (r.number, r.server, r.tool, r.agent, r.digest, r.size, r.outcome, r.reason, r.attempts, r.request)
                for r in bench.gateway.outcomes.records()()
            ],
            "eras": {(r.agent_era, r.server_era) for r in bench.gateway.outcomes.records()()},
        }
        bench.gateway.outcomes.end()
    monkeypatch.undo()
    return seen, taken


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("seed", range(20))
async def test_as_one_by_one(tmp_path: Path, seed: int, era: str) -> None:
    """Whatever agents and servers do, in whatever portions: all that anybody sees, and all that is recorded, is as if
    each message had been taken by itself."""
    one_by_one, _ = await played(tmp_path, seed, era, together=False)
    together, taken = await played(tmp_path, seed, era, together=True)
    assert taken > 5
    for what, seen in one_by_one.items():
        assert together[what] == seen, what
