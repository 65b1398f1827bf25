"""Calls that are sent again after their answer was lost, with real workers whose channels the test speaks for."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from mcphub.connection.backoff import Backoff
from mcphub.gateway import again as module
from mcphub.gateway import retry, telling
from mcphub.spec import ServerSpec
from tests.gateway.bench import Agent, Bench, Message, Server, call, gateway
from tests.gateway.shelves import Shelves

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]

#: Members of its spec that a test may set.
SPEC = frozenset(ServerSpec.__struct_fields__) - {"era"}
READS: Message = {"readOnlyHint": True}
ANNOTATED: Message = {
    "get": READS,
    "put": {"idempotentHint": True},
    "post": {},
    "odd": {"readOnlyHint": True, "destructiveHint": True, "idempotentHint": True},
}


class Hinting(Server):
    """Its tools are annotated by their names, or by `hints`; `more` are further members of its spec."""

    def __init__(self, name: str = "s", *, schema: Message | None = None, **more: Any) -> None:
        self.more = {key: more.pop(key) for key in list(more) if key in SPEC}
        super().__init__(name, tools=more.pop("tools", tuple(ANNOTATED)), **more)
        self.hints = ANNOTATED
        self.schema = schema or {"type": "object"}

    @property
    def spec(self) -> ServerSpec:
        return replace(super().spec, **self.more)

    def _answer(self, message: Message) -> None:
        if message["method"] != "tools/list":
            super()._answer(message)
            return
        tools = [{"name": t, "inputSchema": self.schema, "annotations": self.hints.get(t, {})} for t in self.tools]
        modern = {"resultType": "complete"} if self._era == "modern" else {}
        self.result(message["id"], {**modern, "tools": tools})


@pytest.fixture
async def quick(nothing_is_left: None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """A gateway that tries again soon, and whose servers are connected again soon."""
    monkeypatch.setattr(telling, "DEBOUNCE", 0.02)
    monkeypatch.setattr(retry, "FIRST", 0.01)
    async with gateway(monkeypatch, backoff=Backoff(attempts=3, first=0.02, most=0.02)) as bench:
        yield bench


async def answer_to(agent: Agent, mid: Any) -> Message:
    while not agent.answers(mid):
        await anyio.lowlevel.checkpoint()
    [found] = agent.answers(mid)
    return found


def kind_of(answer: Message) -> str:
    return str(answer["error"]["data"]["dev.mcphub/error"]["kind"])


@pytest.mark.parametrize("server_era", ["legacy", "modern"])
@pytest.mark.parametrize("agent_era", ["legacy", "modern"])
async def test_what_may_be_sent_again_is(quick: Bench, server_era: str, agent_era: str) -> None:
    """C089: reads, and what is idempotent, get the answer of the next connection; what may have done something is sent
    once, and its agent is told that nobody knows."""
    await quick.up(server := Hinting(era=server_era))
    agent = quick.agent().initialize()
    for mid, tool in enumerate(ANNOTATED):
        ask = agent.modern if agent_era == "modern" else agent.ask
        ask("tools/call", call(f"mcp__s__{tool}", arguments={"a": [1]}), id=mid)
    await server.call(4)
    server.lose("killed")
    assert [kind_of(agent.answers(mid)[0]) for mid in (2, 3)] == ["outcome_unknown"] * 2
    assert agent.answers(0) == agent.answers(1) == [] and set(agent.session.calls) == {b"0", b"1"}
    for number in (5, 6):
        again = await server.call(number)
        assert again["params"]["arguments"] == {"a": [1]}
        server.text(again, again["params"]["name"])
    for mid, tool in ((0, "get"), (1, "put")):
        assert (await answer_to(agent, mid))["result"]["content"][0]["text"] == tool
    names = [message["params"]["name"] for message in server.of("tools/call")]
    assert [names.count(tool) for tool in ANNOTATED] == [2, 2, 1, 1]
    assert quick.worker(server).counters()["retried"] == 2
    assert agent.session.calls == {}


async def test_reads_of_resources_and_prompts(shelves: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What only reads by its method is sent again, whoever's server it is."""
    monkeypatch.setattr(retry, "FIRST", 0.01)
    await shelves.up(server := Shelves("s"))
    agent = shelves.agent().initialize()
    agent.ask("resources/read", {"uri": "x:1"}, id=1)
    agent.ask("prompts/get", {"name": "mcp__s__p", "arguments": {"a": "b"}}, id=2)
    ref = {"type": "ref/prompt", "name": "mcp__s__p"}
    agent.ask("completion/complete", {"ref": ref, "argument": {"name": "a"}}, id=3)
    await server.got("completion/complete")
    server.lose("killed")
    for mid, method in ((1, "resources/read"), (2, "prompts/get"), (3, "completion/complete")):
        message = await server.got(method, 2)
        assert message["params"] == server.of(method)[0]["params"]
        server.result(message["id"], {"contents": [], "messages": [], "completion": {"values": []}})
        assert "result" in await answer_to(agent, mid)


@pytest.mark.parametrize(("trusted", "count"), [(False, 1), (True, 2)])
async def test_whose_annotations_are_believed(quick: Bench, trusted: bool, count: int) -> None:
    """Those of a server whose entry came from elsewhere only where it says so."""
    server = Hinting(trust_annotations=trusted)
    server.more["origin"] = replace(server.spec.origin, scope="project")
    await quick.up(server)
    agent = quick.agent().initialize()
    agent.ask("tools/call", call("mcp__s__get"), id=1)
    await server.call()
    server.lose("killed")
    if trusted:
        server.text(await server.call(2), "again")
    answer = await answer_to(agent, 1)
    assert ("result" in answer) == trusted
    if not trusted:
        assert kind_of(answer) == "outcome_unknown" and "only reads" not in answer["error"]["message"]
    assert len(server.of("tools/call")) == count


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("own", [None, "mine"])
async def test_an_idempotency_argument(quick: Bench, era: str, own: str | None) -> None:
    """mcphub fills it where the agent does not, which counts for the tool's schema, and sends the same each time."""
    schema = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key", "a"]}
    server = Hinting(tools=("post", "other"), schema=schema, idempotency_arguments={"post": "key"}, era=era)
    await quick.up(server)
    agent = quick.agent().initialize()
    given = {"a": 1, **({"key": own} if own else {})}
    agent.ask("tools/call", call("mcp__s__post", arguments=given), id=1)
    first = await server.call()
    assert first["params"]["arguments"]["key"] == own or (own is None and first["params"]["arguments"]["key"])
    server.lose("killed")
    second = await server.call(2)
    assert second["params"]["arguments"] == first["params"]["arguments"]
    server.text(second, "done")
    assert "result" in await answer_to(agent, 1)
    agent.ask("tools/call", call("mcp__s__post", arguments={"a": 1, "key": None}), id=2)
    third = await server.call(3)
    assert third["params"]["arguments"]["key"] not in (None, first["params"]["arguments"]["key"])
    answer = agent.one("tools/call", call("mcp__s__other", arguments={"a": 1}), id=3)
    assert answer["result"]["isError"]


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"properties": {"key": {"type": "string", "pattern": "^.{1,8}$"}}}, True),
        ({"allOf": [{"properties": {"key": {"type": "integer"}}}]}, True),
        ({"not": {"required": ["key"]}}, True),
        ({"maxProperties": 1}, True),
        ({"propertyNames": {"enum": ["a"]}}, True),
        ({"properties": {"key": {"pattern": "^.{1,8}$"}}, "required": ["key"]}, False),
    ],
)
async def test_an_argument_that_there_is_no_room_for(quick: Bench, schema: Message, sent: bool) -> None:
    """A call that mcphub's own value alone makes wrong is sent without it, once, and a person is told once; the agent
    is never told of a value that it did not give."""
    schema = {"type": "object", **schema}
    server = Hinting(tools=("put",), schema=schema, idempotency_arguments={"put": "key"}, trust_annotations=True)
    await quick.up(server)
    agent = quick.agent().initialize()
    if not sent:
        text = agent.one("tools/call", call("mcp__s__put", arguments={"a": 1}), id=1)["result"]["content"][0]["text"]
        assert text == "The arguments do not fit the schema of put: key is missing. Nothing was sent; correct them."
        return
    for mid in (1, 2):
        agent.ask("tools/call", call("mcp__s__put", arguments={"a": 1}), id=mid)
        assert (await server.call(mid))["params"]["arguments"] == {"a": 1}
    [warning] = quick.gateway._catalog.definitions(quick.worker(server).view())[1]
    assert warning.startswith("tools.put.idempotencyArgument is not used in all calls: ")
    server.lose("killed")
    # Nothing knows it again: the tool's own word is not asked where a person named an argument.
    assert [kind_of(await answer_to(agent, mid)) for mid in (1, 2)] == ["outcome_unknown"] * 2
    assert len(server.of("tools/call")) == 2


async def test_what_is_wrong_beside_an_argument_that_is_filled(quick: Bench) -> None:
    """The agent reads of its own mistake alone."""
    schema = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key", "a"]}
    await quick.up(Hinting(tools=("post",), schema=schema, idempotency_arguments={"post": "key"}))
    agent = quick.agent().initialize()
    [text] = [c["text"] for c in agent.one("tools/call", call("mcp__s__post"), id=1)["result"]["content"]]
    assert text == "The arguments do not fit the schema of post: a is missing. Nothing was sent; correct them."


async def test_an_empty_argument_is_none(quick: Bench) -> None:
    """Two calls of a model that gives "" for what it leaves out are two calls."""
    schema = {"type": "object", "properties": {"key": {"type": "string"}}}
    server = Hinting(tools=("post",), schema=schema, idempotency_arguments={"post": "key"})
    await quick.up(server)
    agent = quick.agent().initialize()
    for mid in (1, 2):
        agent.ask("tools/call", call("mcp__s__post", arguments={"key": "", "b": mid}), id=mid)
    found = [(await server.call(mid))["params"]["arguments"] for mid in (1, 2)]
    assert [len(one["key"]) for one in found] == [36, 36] and found[0]["key"] != found[1]["key"]
    assert [one["b"] for one in found] == [1, 2]


async def test_a_filled_argument_stays_in_later_rounds(quick: Bench) -> None:
    """A modern agent, which does not know the value, brings back a state; the server gets the same again."""
    server = Hinting(tools=("post",), era="modern", idempotency_arguments={"post": "key"})
    await quick.up(server)
    agent = quick.agent()
    agent.modern("tools/call", call("mcp__s__post"), id=1)
    first = await server.call()
    server.result(first["id"], {"resultType": "input_required", "requestState": "theirs"})
    state = agent.answers(1)[0]["result"]["requestState"]
    agent.modern("tools/call", call("mcp__s__post", requestState=state), id=2)
    second = await server.call(2)
    assert second["params"]["arguments"] == first["params"]["arguments"]
    assert second["params"]["requestState"] == "theirs"


@pytest.mark.parametrize("how", ["cancelled", "left"])
async def test_an_agent_that_does_not_want_it_any_more(quick: Bench, how: str) -> None:
    """K3.3: a call that waits to be sent again ends at once, and is not sent."""
    await quick.up(server := Hinting())
    agent = quick.agent().initialize()
    agent.ask("tools/call", call("mcp__s__get"), id=1)
    await server.call()
    server.lose("killed")
    if how == "cancelled":
        agent.notify("notifications/cancelled", {"requestId": 1})
    else:
        agent.leave()
    assert not quick.gateway._again.waiting and agent.session.calls == {}
    await quick.until(lambda: quick.worker(server).client is not None)
    await anyio.sleep(0.05)
    assert len(server.of("tools/call")) == 1 and agent.answers(1) == []


async def test_a_late_answer_is_nobodys(quick: Bench) -> None:
    """What an earlier connection still says changes nothing, and the agent gets one answer."""
    await quick.up(server := Hinting())
    agent = quick.agent().initialize()
    agent.ask("tools/call", call("mcp__s__get"), id=1)
    first = await server.call()
    before = quick.worker(server).client
    assert before is not None
    server.lose("killed")
    second = await server.call(2)
    before.frame(memoryview(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}' % first["id"]))
    assert before.counters["unknown_replies"] == 1 and agent.answers(1) == []
    server.text(second, "second")
    assert (await answer_to(agent, 1))["result"]["content"][0]["text"] == "second"


async def test_three_attempts_in_all(quick: Bench) -> None:
    """A server that dies each time gets it three times; the agent is told how often, and when to give up."""
    await quick.up(server := Hinting())
    agent = quick.agent().initialize()
    agent.ask("tools/call", call("mcp__s__get"), id=1)
    for number in (1, 2, 3):
        await server.call(number)
        server.lose(f"killed {number}")
    answer = await answer_to(agent, 1)
    assert kind_of(answer) == "lost" and "killed 3 (sent 3 times); the tool only reads" in answer["error"]["message"]
    assert answer["error"]["data"]["dev.mcphub/error"]["attempts"] == 3


@pytest.mark.parametrize("why", ["refuses", "removed", "changed", "slow", "stopping"])
async def test_what_cannot_be_sent_again(quick: Bench, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """A server that does not come back, is taken away, comes back with another tool, or not in time: the agent is told
    of the loss, with why it was not sent again."""
    await quick.up(server := Hinting(tools=("get",)))
    agent = quick.agent().initialize()
    agent.ask("tools/call", call("mcp__s__get"), id=1)
    await server.call()
    says = {
        "refuses": "could not be connected again",
        "removed": "was removed",
        "changed": "another one",
        "slow": "in time",
    }
    if why == "refuses":
        server.refuses = True
    elif why == "changed":
        server.hints = {"get": {}}
    elif why == "slow":
        monkeypatch.setattr(module, "CONNECTION_WAIT", 0.05)
        server._hold = True
    server.lose("killed")
    if why == "removed":
        quick.want()
    elif why == "stopping":
        await quick.gateway.drain(0.01)
    answer = await answer_to(agent, 1)
    assert kind_of(answer) == "lost" and says.get(why, "mcphub is stopping") in answer["error"]["message"]
    # What is known of the tool that was called says nothing of the one that has its name now.
    again = answer["error"]["data"]["dev.mcphub/error"]["retryable"]
    assert again is (why not in ("changed", "removed")) is ("can be called again" in answer["error"]["message"])
    assert len(server.of("tools/call")) == 1 and not quick.gateway._again.waiting
    server._hold = False


async def test_no_time_is_left(quick: Bench) -> None:
    """The deadline is one for all attempts: what cannot be done before it is not begun."""
    await quick.up(server := Hinting(call_timeout=0.005))
    agent = quick.agent().initialize()
    agent.ask("tools/call", call("mcp__s__get"), id=1)
    await server.call()
    server.lose("killed")
    assert kind_of(agent.answers(1)[0]) == "lost"


async def test_large_arguments_are_not_kept(quick: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too large to be kept is sent once, and so is what cannot be repeated: of that nothing is kept."""
    monkeypatch.setattr(module, "MAX_KEPT", 100)
    await quick.up(server := Hinting(tools=("get", "post")))
    agent = quick.agent().initialize()
    agent.ask("tools/call", call("mcp__s__get", arguments={"a": "x" * 100}), id=1)
    agent.ask("tools/call", call("mcp__s__post"), id=2)
    await server.call(2)
    server.lose("killed")
    assert kind_of(agent.answers(1)[0]) == "lost" and kind_of(agent.answers(2)[0]) == "outcome_unknown"


async def test_progress_never_falls(quick: Bench) -> None:
    """C156: the second attempt has a token of its own, and begins anew; its agent hears of it once there is more."""
    await quick.up(server := Hinting())
    agent = quick.agent().initialize()
    agent.ask("tools/call", call("mcp__s__get", _meta={"progressToken": "p"}), id=1)

    def report(message: Message, *values: int) -> None:
        for value in values:
            token = message["params"]["_meta"]["progressToken"]
            server.notify("notifications/progress", {"progressToken": token, "progress": value})

    report(await server.call(), 1, 2, 2)
    server.lose("killed")
    second = await server.call(2)
    report(second, 1, 2, 3)
    server.text(second, "done")
    await answer_to(agent, 1)
    assert [m["params"]["progress"] for m in agent.of("notifications/progress")] == [1, 2, 2, 3]
    assert {m["params"]["progressToken"] for m in agent.of("notifications/progress")} == {"p"}


async def test_a_call_whose_agent_was_asked(shelves: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person has answered, or was to: the question is not put to anybody twice."""
    monkeypatch.setattr(retry, "FIRST", 0.01)
    await shelves.up(server := Shelves("s"))
    agent = shelves.agent()
    agent.ask(
        "initialize",
        {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t"}},
        id="init",
    )
    agent.ask("resources/read", {"uri": "x:1"}, id=1)
    await server.got("resources/read")
    form = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}
    server.say({"jsonrpc": "2.0", "id": 9, "method": "elicitation/create", "params": form})
    server.lose("killed")
    assert kind_of(await answer_to(agent, 1)) == "lost"


async def test_the_era_may_be_another_one(quick: Bench) -> None:
    """A server that was updated meanwhile gets the call as its era has it, and may have rounds with a modern agent."""
    await quick.up(server := Hinting(era="legacy"))
    old, new = quick.agent().initialize(), quick.agent()
    old.ask("tools/call", call("mcp__s__get"), id=1)
    new.modern("tools/call", call("mcp__s__get"), id=2)
    await server.call(2)
    server._era, quick.worker(server)._opening._era = "modern", None
    server.lose("killed")
    third, fourth = await server.call(3), await server.call(4)
    assert all("io.modelcontextprotocol/protocolVersion" in m["params"]["_meta"] for m in (third, fourth))
    server.text(third, "old")
    server.result(fourth["id"], {"resultType": "input_required", "requestState": "x"})
    assert "resultType" not in (await answer_to(old, 1))["result"]
    assert (await answer_to(new, 2))["result"]["resultType"] == "input_required"


async def test_a_request_that_failed_by_itself(quick: Bench) -> None:
    """Where each request travels by itself, one that never reached its server is sent again even if it writes, one
    that was refused is not, and one that may have been acted on only if it reads."""
    await quick.up(server := Hinting())
    agent = quick.agent().initialize()
    worker = quick.worker(server)
    cases = [
        ("post", "unreachable", True),
        ("post", "refused", False),
        ("post", "status", False),
        ("get", "status", True),
    ]
    for mid, (tool, kind, again) in enumerate(cases):
        client = worker.client
        assert client is not None
        client.stdout = False
        before = len(server.of("tools/call"))
        agent.ask("tools/call", call(f"mcp__s__{tool}"), id=mid)
        sent = await server.call(before + 1)
        client.unanswered(sent["id"], kind, "HTTP 503")
        assert bool(agent.answers(mid)) != again
        if again:
            server.text(await server.call(before + 2), "second")
            assert (await answer_to(agent, mid))["result"]["content"][0]["text"] == "second"


@pytest.mark.parametrize("tool", ["put", "get"])
async def test_a_doubt_stays(quick: Bench, tool: str) -> None:
    """An attempt that may have been acted on is not undone by the next one, which was not: nobody knows what came of
    the call. Of one that only reads nobody need know."""
    await quick.up(server := Hinting())
    agent = quick.agent().initialize()
    client = quick.worker(server).client
    assert client is not None
    client.stdout = False
    agent.ask("tools/call", call(f"mcp__s__{tool}"), id=1)
    for number, kind in enumerate(("status", "refused"), 1):
        sent = await server.call(number)
        client.unanswered(sent["id"], kind, "HTTP 403")
    answer = await answer_to(agent, 1)
    if tool == "put":
        assert kind_of(answer) == "outcome_unknown"
    else:
        assert answer["result"]["isError"] is True


async def test_the_turn_of_a_call_that_waits(quick: Bench) -> None:
    """Where agents take turns, a call that is to be sent again is in nobody's way, and takes its turn again."""
    await quick.up(server := Hinting())
    one, two = quick.agent().initialize(), quick.agent().initialize()
    client = quick.worker(server).client
    assert client is not None
    quick.gateway._turns.has_asked(quick.worker(server).key, client)
    one.ask("tools/call", call("mcp__s__get"), id=1)
    two.ask("tools/call", call("mcp__s__get"), id=1)
    first = await server.call()
    assert len(server.of("tools/call")) == 1
    client.unanswered(first["id"], "status", "HTTP 503")
    for number in (2, 3):
        server.text(await server.call(number), str(number))
    assert {(await answer_to(agent, 1))["result"]["content"][0]["text"] for agent in (one, two)} == {"2", "3"}


async def test_the_deadline_of_its_task_passes_before_its_turn(quick: Bench) -> None:
    """A call that was sent, and waits for its turn to be sent again, is never told as one that was not."""
    await quick.up(server := Hinting())
    one, two = quick.agent().initialize(), quick.agent().initialize()
    client = quick.worker(server).client
    assert client is not None
    quick.gateway._turns.has_asked(quick.worker(server).key, client)
    task = {"dev.mcphub/task": {"id": "T", "deadline": time.time_ns() / 1e6 + 500}}
    one.ask("tools/call", call("mcp__s__put", _meta=task), id=1)
    client.unanswered((await server.call())["id"], "status", "HTTP 503")
    two.ask("tools/call", call("mcp__s__get"), id=2)
    await server.call(2)
    with anyio.fail_after(5):
        answer = await answer_to(one, 1)
    assert kind_of(answer) == "outcome_unknown"
    assert "deadline of its task" in answer["error"]["message"] and "not sent" not in answer["error"]["message"]
    assert [m["params"]["name"] for m in server.of("tools/call")] == ["put", "get"]


async def test_the_log_says_it_once(quick: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many calls were lost with one connection, a person finds one line."""
    said: list[str] = []
    await quick.up(server := Hinting())
    monkeypatch.setattr(quick.worker(server), "_log", lambda level, text: said.append(text))
    agent = quick.agent().initialize()
    for mid in range(20):
        agent.ask("tools/call", call("mcp__s__get"), id=mid)
    await server.call(20)
    server.lose("killed")
    [line] = [text for text in said if "sent again" in text]
    assert line.startswith("s: get is sent again in 0.0 s, attempt 2 of 3, since sending it twice does no harm: killed")
    for number in range(21, 41):
        server.text(await server.call(number), "x")
    for mid in range(20):
        await answer_to(agent, mid)
