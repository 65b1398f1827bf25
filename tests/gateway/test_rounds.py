"""The rounds of modern requests towards modern agents."""

from __future__ import annotations

import time
from typing import Any

import pytest

from mcphub.protocol import mrtr
from tests.gateway.bench import META, Agent, Bench, Message
from tests.gateway.shelves import CAPABLE, FORM, Shelves

pytestmark = pytest.mark.anyio

QUESTION = {"method": "elicitation/create", "params": FORM}
#: Who is asked: agents of different names are different agents.
ME = {**CAPABLE, META + "clientInfo": {"name": "me", "version": "1"}}
OTHER = {**CAPABLE, META + "clientInfo": {"name": "other", "version": "1"}}


@pytest.fixture
async def server(shelves: Bench) -> Shelves:
    await shelves.up(server := Shelves("s", era="modern", tools=("t", "u")))
    return server


def call(agent: Agent, id: int, meta: Message | None = None, *, tool: str = "t", **params: Any) -> list[Message]:
    found: list[Message] = agent.modern("tools/call", {"name": f"mcp__s__{tool}", **params}, id=id, meta=meta or ME)
    return found


async def asks(server: Shelves, agent: Agent, declared: Message | None = None, **result: Any) -> Message:
    """A first round: what the agent got."""
    meta = ME if declared is None else {META + "clientCapabilities": declared}
    call(agent, 1, meta, arguments={"a": 1})
    request = await server.call(len(server.of("tools/call")))
    server.result(request["id"], {"resultType": "input_required", **result})
    [answer] = agent.answers(1)
    found: Message = answer.get("result", answer)
    return found


async def test_a_round_and_its_retry(shelves: Bench, server: Shelves) -> None:
    """B33, B46: the agent sees who asks; the server gets the answers, and its own state byte for byte."""
    agent = shelves.agent()
    result = await asks(server, agent, inputRequests={"k": QUESTION}, requestState='st\0ate"漢')
    assert result["resultType"] == "input_required"
    assert result["_meta"][META + "serverInfo"]["name"] == "mcphub"
    assert result["inputRequests"]["k"]["params"]["message"] == "[s] Name?"
    assert "ate" not in result["requestState"]
    answers = {"k": {"action": "accept", "content": {"n": 1.50}}}
    call(agent, 2, arguments={"a": 1}, inputResponses=answers, requestState=result["requestState"])
    retry = await server.call(2)
    assert retry["params"]["requestState"] == 'st\0ate"漢' and retry["params"]["inputResponses"] == answers
    assert retry["params"]["name"] == "t" and retry["params"]["arguments"] == {"a": 1}
    assert retry["params"]["_meta"][META + "clientCapabilities"] == CAPABLE[META + "clientCapabilities"]
    server.text(retry, "done")
    assert agent.answers(2)[0]["result"]["resultType"] == "complete"


async def test_a_state_is_not_invented(shelves: Bench, server: Shelves) -> None:
    """B33: where the server gave none, the hub's own is not sent to it."""
    agent = shelves.agent()
    result = await asks(server, agent, inputRequests={"k": QUESTION})
    call(agent, 2, arguments={"a": 1}, inputResponses={"k": {}}, requestState=result["requestState"])
    retry = await server.call(2)
    assert "requestState" not in retry["params"] and retry["params"]["inputResponses"] == {"k": {}}


async def test_a_state_alone(shelves: Bench, server: Shelves) -> None:
    """B35: a round without questions reaches an agent that can answer none."""
    agent = shelves.agent()
    call(agent, 1, {})
    server.result((await server.call())["id"], {"resultType": "input_required", "requestState": "later"})
    result = agent.answers(1)[0]["result"]
    assert result["resultType"] == "input_required" and "inputRequests" not in result
    call(agent, 2, {}, requestState=result["requestState"])
    assert (await server.call(2))["params"]["requestState"] == "later"


async def test_seals_that_belong_elsewhere(shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch) -> None:
    """B39, H5: changed, of another agent, tool, argument or method, or expired: refused, and nothing is sent."""
    agent, other = shelves.agent(), shelves.agent()
    seal = (await asks(server, agent, inputRequests={"k": QUESTION}, requestState="s"))["requestState"]
    tries: list[tuple[Agent, dict[str, Any]]] = [
        (agent, {"requestState": "A" + seal[1:] if seal[0] != "A" else "B" + seal[1:]}),
        (agent, {"requestState": seal + "!"}),
        (agent, {"requestState": "s"}),
        (agent, {"requestState": ""}),
        (agent, {"requestState": 5}),
        (agent, {"requestState": ["x"]}),
        (agent, {"requestState": seal, "tool": "u"}),
        (agent, {"requestState": seal, "arguments": {"a": 2}}),
        (other, {"requestState": seal, "meta": OTHER}),
    ]
    for number, (who, params) in enumerate(tries, 10):
        [answer] = call(who, number, **{"arguments": {"a": 1}, **params})
        assert answer["error"]["code"] == -32602 and "seal" not in answer["error"]["message"]
    [answer] = agent.modern("resources/read", {"uri": "x:1", "requestState": seal}, id=50, meta=ME)
    assert answer["error"]["code"] == -32602
    late = time.time_ns() + int((mrtr.LIFETIME + 1) * 1e9)
    monkeypatch.setattr(time, "time_ns", lambda: late)
    [answer] = call(agent, 60, arguments={"a": 1}, requestState=seal)
    assert answer["error"]["code"] == -32602
    assert len(server.of("tools/call")) == 1 and server.of("resources/read") == []


async def test_another_connection_of_the_agent(shelves: Bench, server: Shelves) -> None:
    """H12: a round is the agent's, not the connection's."""
    seal = (await asks(server, shelves.agent(), inputRequests={"k": QUESTION}))["requestState"]
    call(shelves.agent(), 2, arguments={"a": 1}, requestState=seal)
    await server.call(2)


async def test_rounds_do_not_mix(shelves: Bench, server: Shelves) -> None:
    """B34: another call carries nothing of a round."""
    agent = shelves.agent()
    await asks(server, agent, inputRequests={"k": QUESTION}, requestState="s")
    call(agent, 2, tool="u")
    other = await server.call(2)
    assert not other["params"].keys() & {"requestState", "inputResponses"}


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"inputRequests": 5},
        {"inputRequests": {"k": 5}},
        {"inputRequests": {"k": {"method": 5}}},
        {"inputRequests": {"k": {"method": "elicitation/create"}}},
        {"inputRequests": {"k": {"method": "elicitation/create", "params": {"message": 5}}}},
        {"inputRequests": {"k": {"method": "elicitation/create", "params": []}}},
        {"inputRequests": {"k": {**QUESTION, "params": {**FORM, "mode": "url", "url": "javascript:x"}}}},
        {"requestState": 5},
        {"requestState": "x" * (mrtr.MAX_STATE + 1)},
    ],
)
async def test_questions_that_are_none(shelves: Bench, server: Shelves, result: Message) -> None:
    """B47: what cannot be carried is an error of the call that names the server; the agent goes on."""
    agent = shelves.agent()
    answer = await asks(server, agent, **result)
    assert answer["error"]["code"] == -32603 and "server s" in answer["error"]["message"]
    assert call(agent, 2) == []


async def test_sampling_and_roots(shelves: Bench, server: Shelves) -> None:
    """B47: every server's context is not this one's; what is unknown goes along."""
    params = {"messages": [], "maxTokens": 1, "includeContext": "thisServer"}
    questions = {
        "s": {"method": "sampling/createMessage", "params": params},
        "r": {"method": "roots/list"},
        "x": {"method": "future/thing", "params": [1]},
    }
    declared: Message = {"sampling": {}, "roots": {}}
    found = (await asks(server, shelves.agent(), declared, inputRequests=questions))["inputRequests"]
    assert found["s"]["params"] == {"messages": [], "maxTokens": 1}
    assert found["r"] == {"method": "roots/list"} and found["x"] == questions["x"]


PAGE = {"method": "elicitation/create", "params": {"mode": "url", "url": "https://x.test/", "message": "Go"}}
ASK = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}
TOOLS = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1, "tools": []}}
ROOTS = {"method": "roots/list"}


@pytest.mark.parametrize(
    ("declared", "questions", "missing"),
    [
        ({}, [QUESTION], {"elicitation": {"form": {}}}),
        ({"elicitation": {}}, [QUESTION, PAGE], {"elicitation": {"url": {}}}),
        ({"elicitation": {"form": {}}}, [PAGE], {"elicitation": {"url": {}}}),
        ({"elicitation": {"url": {}}}, [PAGE, QUESTION], {"elicitation": {"form": {}}}),
        ({"elicitation": {}}, [ASK, ROOTS], {"sampling": {}, "roots": {}}),
        ({"sampling": {}}, [ASK, TOOLS], {"sampling": {"tools": {}}}),
        ({"elicitation": {}}, [QUESTION], {}),
        ({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}, [QUESTION, PAGE, TOOLS], {}),
    ],
)
async def test_questions_that_an_agent_did_not_declare(
    shelves: Bench, server: Shelves, declared: Message, questions: list[Message], missing: Message
) -> None:
    """B82: they do not reach it; its call ends with what the server wanted and all that the agent lacks."""
    asked = {f"k{number}": question for number, question in enumerate(questions)}
    answer = await asks(server, shelves.agent(), declared, inputRequests=asked, requestState="s")
    if not missing:
        assert answer["inputRequests"].keys() == asked.keys()
        return
    assert answer["error"]["code"] == -32021
    assert answer["error"]["data"]["requiredCapabilities"] == missing
    own = answer["error"]["data"]["dev.mcphub/error"]
    assert (own["kind"], own["server"], own["tool"]) == ("undeclared_capability", "s", "t")
    assert answer["error"]["message"].startswith("the server s cannot do t without input: it wants ")
    assert "and this agent did not declare " in answer["error"]["message"]


@pytest.mark.parametrize(
    ("method", "params"), [("prompts/get", {"name": "mcp__s__p"}), ("resources/read", {"uri": "mcphub://s/x:1"})]
)
async def test_prompts_and_resources_have_rounds(
    shelves: Bench, server: Shelves, method: str, params: dict[str, str]
) -> None:
    """They ask, and are asked again, as tools are."""
    agent = shelves.agent()
    agent.modern(method, params, id=1, meta=ME)
    request = await server.got(method)
    asks = {"inputRequests": {"k": QUESTION}, "requestState": "s"}
    server.result(request["id"], {"resultType": "input_required", **asks})
    seal = agent.answers(1)[0]["result"]["requestState"]
    agent.modern(method, {**params, "inputResponses": {"k": {}}, "requestState": seal}, id=2, meta=ME)
    retry = await server.got(method, 2)
    assert retry["params"]["requestState"] == "s" and retry["params"]["inputResponses"] == {"k": {}}


async def test_what_was_read_with_answers_is_nobody_elses(shelves: Bench, server: Shelves) -> None:
    """B58: it is given with no time and for its agent alone, whatever the server says; every read goes to the server,
    the same one again too, and what was not asked about keeps the server's own word."""
    agent = shelves.agent()
    read = {"uri": "mcphub://s/x:1"}
    said = {"contents": [{"uri": "x:1", "text": "secret"}], "ttlMs": 60_000, "cacheScope": "public"}
    agent.modern("resources/read", read, id=1, meta=ME)
    first = await server.got("resources/read")
    server.result(first["id"], {"resultType": "input_required", "inputRequests": {"k": QUESTION}, "requestState": "s"})
    state = agent.answers(1)[0]["result"]["requestState"]
    answers = {"k": {"action": "accept", "content": {}}}
    agent.modern("resources/read", {**read, "inputResponses": answers, "requestState": state}, id=2, meta=ME)
    server.answer(await server.got("resources/read", 2), **said)
    result = agent.answers(2)[0]["result"]
    assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
    assert result["contents"] == [{"uri": "mcphub://s/x:1", "text": "secret"}]
    for number, reader in ((3, agent), (4, shelves.agent())):
        assert reader.modern("resources/read", read, id=number, meta=ME) == []
        server.answer(await server.got("resources/read", number), **said)
        result = reader.answers(number)[0]["result"]
        assert (result["ttlMs"], result["cacheScope"]) == (60_000, "public")


@pytest.mark.parametrize("bad", ["x", {"k0": 5}, {"k0": None}, [], 5, None])
async def test_answers_that_are_none(shelves: Bench, server: Shelves, bad: Any) -> None:
    """No server gets `inputResponses` that are not what the protocol has; the error belongs to the request's trace."""
    agent = shelves.agent()
    meta = {**ME, "traceparent": f"00-{'ab' * 16}-00f067aa0ba902b7-01"}
    agent.modern("tools/call", {"name": "mcp__s__t", "arguments": {}, "inputResponses": bad}, id=1, meta=meta)
    agent.modern("prompts/get", {"name": "mcp__s__p", "inputResponses": bad}, id=2, meta=meta)
    for id in (1, 2):
        error = agent.answers(id)[0]["error"]
        found = error["data"]["dev.mcphub/error"]
        assert (error["code"], found["kind"], found["traceId"]) == (-32602, "invalid_params", "ab" * 16)
    assert server.of("tools/call") == server.of("prompts/get") == [] and not agent.session.calls
