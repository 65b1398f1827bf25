"""The rounds of modern servers towards legacy agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphub.gateway import legacy_rounds
from mcphub.protocol import mrtr
from mcphub.sessions.http_session import Exchange
from mcphub.store.call_record import UNKNOWN
from tests.gateway.bench import META, Agent, Bench, Message
from tests.gateway.shelves import ALL, FORM, Sent, Shelves, asked, legacy, patient, reply, restarted

pytestmark = pytest.mark.anyio

ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
QUESTION = {"method": ELICIT, "params": FORM}
MESSAGES = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5}
MODEL = {"method": SAMPLE, "params": {**MESSAGES, "includeContext": "thisServer"}}
PAGE: Message = {"method": ELICIT, "params": {"mode": "url", "url": "https://x.test/", "message": "Go"}}
YES = {"action": "accept", "content": {"n": 1}}


@pytest.fixture
async def server(shelves: Bench) -> Shelves:
    await shelves.up(server := Shelves("s", era="modern", tools=("t", "u")))
    return server


async def call(server: Shelves, agent: Agent, number: int = 1, **params: Any) -> Message:
    """The request as the server got it."""
    agent.ask("tools/call", {"name": "mcp__s__t", "arguments": {"a": [1, None]}, **params}, id=number)
    return await server.call(number)


def asks(server: Shelves, request: Message, **result: Any) -> None:
    server.result(request["id"], {"resultType": "input_required", **result})


async def test_two_questions_and_one_retry(shelves: Bench, server: Shelves) -> None:
    """B32: two entries are two requests to the agent at once, and one retry with both keys, a new id, the same
    arguments and the state byte for byte."""
    agent = legacy(shelves)
    first = await call(server, agent)
    asks(server, first, inputRequests={"k": QUESTION, 'l"': MODEL}, requestState='st\0ate"漢')
    question, model = asked(agent), asked(agent, SAMPLE)
    assert question["id"] != model["id"] and len(server.of("tools/call")) == 1
    answer = {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}
    reply(agent, model, answer)
    assert len(server.of("tools/call")) == 1, "one answer is missing"
    reply(agent, question, YES)
    retry = await server.call(2)
    assert retry["id"] != first["id"]
    params, before = dict(retry["params"]), first["params"]
    assert params.pop("inputResponses") == {"k": YES, 'l"': answer}
    assert params.pop("requestState") == 'st\0ate"漢'
    assert params == before
    server.text(retry, "done")
    [result] = agent.answers(1)
    assert result["result"] == {"content": [{"type": "text", "text": "done"}]}
    assert agent.session.calls == {} and agent.of("notifications/cancelled") == []


@pytest.mark.parametrize(
    ("method", "params"), [("prompts/get", {"name": "mcp__s__p"}), ("resources/read", {"uri": "mcphub://s/x:1"})]
)
async def test_prompts_and_resources(shelves: Bench, server: Shelves, method: str, params: dict[str, str]) -> None:
    """B32: they are sent again as they were, under the server's own names."""
    agent = legacy(shelves)
    agent.ask(method, params, id=1)
    first = await server.got(method)
    asks(server, first, inputRequests={"k": QUESTION}, requestState="s")
    reply(agent, asked(agent), YES)
    retry = await server.got(method, 2)
    assert retry["params"] == {**first["params"], "inputResponses": {"k": YES}, "requestState": "s"}
    server.answer(retry, messages=[], contents=[])
    assert "resultType" not in agent.answers(1)[0]["result"]


async def test_a_state_is_not_invented(shelves: Bench, server: Shelves) -> None:
    """B33: where the server gave none, the retry has none."""
    agent = legacy(shelves)
    asks(server, await call(server, agent), inputRequests={"k": QUESTION})
    reply(agent, asked(agent), YES)
    assert "requestState" not in (await server.call(2))["params"]


async def test_rounds_do_not_mix(shelves: Bench, server: Shelves) -> None:
    """B34: a call of another tool meanwhile carries nothing of a round."""
    agent = legacy(shelves)
    asks(server, await call(server, agent), inputRequests={"k": QUESTION}, requestState="s")
    other = await call(server, agent, 2, name="mcp__s__u")
    assert not other["params"].keys() & {"inputResponses", "requestState"}
    server.text(other, "done")
    reply(agent, asked(agent), YES)
    assert (await server.call(3))["params"]["name"] == "t"


async def test_a_server_that_always_asks(shelves: Bench, server: Shelves) -> None:
    """B35: after the last round that is allowed the call ends with an error, and nothing more is sent."""
    agent = legacy(shelves)
    request = await call(server, agent)
    for number in range(mrtr.MAX_ROUNDS):
        asks(server, request, inputRequests={"k": QUESTION})
        reply(agent, agent.of(ELICIT)[number], YES)
        request = await server.call(number + 2)
    asks(server, request, inputRequests={"k": QUESTION})
    [answer] = agent.answers(1)
    assert answer["error"]["data"]["dev.mcphub/error"]["kind"] == "too_many_rounds"
    assert len(agent.of(ELICIT)) == mrtr.MAX_ROUNDS and len(server.of("tools/call")) == mrtr.MAX_ROUNDS + 1


async def test_a_state_alone(shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch) -> None:
    """B35: a round without questions is answered without the agent, which may be one that can answer none."""
    monkeypatch.setattr(legacy_rounds, "PAUSE", 0.001)
    agent = legacy(shelves, {})
    asks(server, await call(server, agent), requestState="later")
    asks(server, await server.call(2), inputRequests={}, requestState="later still")
    retry = await server.call(3)
    assert retry["params"]["requestState"] == "later still" and "inputResponses" not in retry["params"]
    server.text(retry, "done")
    assert len(agent.answers(1)) == 1 and [m for m in agent.got if "method" in m] == []


@pytest.mark.parametrize("method", [SAMPLE, ROOTS])
async def test_what_cannot_be_refused(shelves: Bench, server: Shelves, method: str) -> None:
    """B36: a refused model, or refused roots, fail the call once; no retry is sent, and the other question ends."""
    agent = legacy(shelves)
    questions = {"no": {"method": method, "params": MESSAGES}, "k": QUESTION}
    asks(server, await call(server, agent), inputRequests=questions)
    reply(agent, asked(agent, method), error={"code": -1, "message": "User rejected"})
    [answer] = agent.answers(1)
    assert answer["error"]["code"] == -32603 and "(no)" in answer["error"]["message"]
    assert "User rejected" in answer["error"]["message"]
    assert answer["error"]["data"]["dev.mcphub/error"]["kind"] == "input_refused"
    [told] = agent.of("notifications/cancelled")
    assert told["params"]["requestId"] == asked(agent)["id"]
    reply(agent, asked(agent), YES)
    assert len(server.of("tools/call")) == 1 and len(agent.answers(1)) == 1


@pytest.mark.parametrize("bad", [{"error": {"code": -1, "message": "no"}}, {"result": 5}, {"result": None}])
async def test_a_form_that_was_refused(shelves: Bench, server: Shelves, bad: Message) -> None:
    """B36: an error, or what is no answer, is `cancel` for the server."""
    agent = legacy(shelves)
    asks(server, await call(server, agent), inputRequests={"k": QUESTION})
    agent.write({"jsonrpc": "2.0", "id": asked(agent)["id"], **bad})
    assert (await server.call(2))["params"]["inputResponses"] == {"k": {"action": "cancel"}}


async def test_the_stream_of_the_call(shelves: Bench, server: Shelves) -> None:
    """B37: a question goes where the answer of its call goes, and nowhere else."""
    agent = legacy(shelves)
    one, two = Sent(), Sent()
    shelves.gateway.dispatch(
        Exchange(agent.session, one),
        memoryview(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp__s__t","arguments":{}}}'),
    )
    shelves.gateway.dispatch(
        Exchange(agent.session, two),
        memoryview(b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"mcp__s__u","arguments":{}}}'),
    )
    before = len(agent.got)
    asks(server, await server.call(2), inputRequests={"k": QUESTION})
    assert one.got == [] and len(agent.got) == before
    [question] = two.got
    assert b'"method":"elicitation/create"' in question


DECLARED: list[tuple[Any, str, Any]] = [
    ({"elicitation": {}}, "2025-11-25", {"elicitation": {"form": {}}}),
    ({"elicitation": {"form": {}, "url": {}}}, "2025-11-25", {"elicitation": {"form": {}, "url": {}}}),
    ({"elicitation": {"url": {}}}, "2025-11-25", {"elicitation": {"url": {}}}),
    ({"elicitation": {"url": {}, "x": {}}, "tasks": {}}, "2025-06-18", {}),
    ({"elicitation": {"form": {}, "url": {}}}, "2025-06-18", {"elicitation": {"form": {}}}),
    ({"elicitation": {}, "sampling": {}}, "2025-03-26", {"sampling": {}}),
    ({"roots": {"listChanged": True}, "sampling": {"tools": {}, "context": {}}}, "2025-11-25",
     {"roots": {}, "sampling": {"tools": {}}}),
    ({}, "2025-11-25", {}),
    ({"elicitation": None, "roots": False, "experimental": {"x": {}}}, "2025-11-25", {}),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "version", "told"), DECLARED)
@pytest.mark.parametrize("meta", [{}, {"_meta": {"progressToken": 1}}], ids=["plain", "meta"])
async def test_what_a_server_is_told(
    shelves: Bench, server: Shelves, declared: Any, version: str, told: Any, meta: Message
) -> None:
    """B30: never more than the agent declared and its version has. B31: `{}` for elicitation is forms alone."""
    agent = legacy(shelves, declared, version)
    request = await call(server, agent, **meta)
    assert request["params"]["_meta"][META + "clientCapabilities"] == told
    agent.ask("prompts/get", {"name": "mcp__s__p", **meta}, id=2)
    assert (await server.got("prompts/get"))["params"]["_meta"][META + "clientCapabilities"] == told


@pytest.mark.parametrize(
    ("declared", "version", "missing"),
    [
        ({}, "2025-11-25", {"elicitation": {"form": {}}}),
        ({"elicitation": {"url": {}}}, "2025-11-25", {"elicitation": {"form": {}}}),
        ({"elicitation": {}}, "2025-03-26", {"elicitation": {"form": {}}}),
    ],
)
async def test_what_an_agent_did_not_declare(
    shelves: Bench, server: Shelves, declared: Message, version: str, missing: Message
) -> None:
    """B82: it is not asked; its call ends with -32021 and what is missing; the server's own -32021 reaches it too."""
    agent = legacy(shelves, declared, version)
    asks(server, await call(server, agent), inputRequests={"k": QUESTION})
    [answer] = agent.answers(1)
    assert answer["error"]["code"] == -32021 and answer["error"]["data"]["requiredCapabilities"] == missing
    assert agent.of(ELICIT) == [] and len(server.of("tools/call")) == 1
    server.refuse(await call(server, agent, 2), -32021, "I need elicitation", requiredCapabilities=missing)
    error = agent.answers(2)[0]["error"]
    assert error["code"] == -32021 and error["data"]["requiredCapabilities"] == missing
    assert error["message"] == "the server s wants what this agent did not declare for t: I need elicitation"


async def test_pages(shelves: Bench, server: Shelves) -> None:
    """B45: a page reaches an agent of 2025-11-25 with an id of its own, and that agent alone hears when it is done."""
    agent = legacy(shelves, {"elicitation": {"url": {}}})
    other = legacy(shelves, {"elicitation": {"url": {}}})
    asks(server, await call(server, agent), inputRequests={"a": PAGE, "b": PAGE})
    pages = agent.of(ELICIT)
    ids = [page["params"]["elicitationId"] for page in pages]
    assert len(set(ids)) == 2 and all(ids)
    assert pages[0]["params"] | {"elicitationId": ""} == {**PAGE["params"], "message": "[s] Go", "elicitationId": ""}
    for page in pages:
        reply(agent, page, {"action": "accept"})
    retry = await server.call(2)
    assert retry["params"]["inputResponses"] == {"a": {"action": "accept"}, "b": {"action": "accept"}}
    assert agent.of("notifications/elicitation/complete") == []
    server.text(retry, "done")
    done = [told["params"]["elicitationId"] for told in agent.of("notifications/elicitation/complete")]
    assert done == ids and other.of("notifications/elicitation/complete") == []
    assert agent.got[-1]["id"] == 1, "in front of the answer, on whose stream they go"


async def test_who_asks_and_what_is_left_out(shelves: Bench, server: Shelves) -> None:
    """B46: the message begins with the server's name. B47: other servers' context is not offered, no script shown."""
    agent = legacy(shelves)
    asks(server, await call(server, agent), inputRequests={"k": QUESTION, "m": MODEL})
    assert asked(agent)["params"]["message"] == "[s] Name?" and asked(agent, SAMPLE)["params"] == MESSAGES
    able = legacy(shelves, {"elicitation": {"url": {}}})
    script = {**PAGE, "params": {**PAGE["params"], "url": "javascript:x"}}
    asks(server, await call(server, able, 2), inputRequests={"k": script})
    assert able.answers(2)[0]["error"]["code"] == -32603 and able.of(ELICIT) == []


async def test_roots(shelves: Bench, server: Shelves) -> None:
    """Roots go along as they are, but for those outside of what the person allowed."""
    agent = legacy(shelves)
    asks(server, await call(server, agent), inputRequests={"r": {"method": ROOTS}})
    root = {"uri": (Path.home() / "x").as_uri()}
    reply(agent, asked(agent, ROOTS), {"roots": [{"uri": "file:///etc"}, root]})
    assert (await server.call(2))["params"]["inputResponses"] == {"r": {"roots": [root]}}


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"inputRequests": 5},
        {"inputRequests": {"k": 5}},
        {"inputRequests": {"k": {"method": "future/thing"}}},
        {"inputRequests": {"k": {"method": ELICIT, "params": {"message": 5}}}},
        {"inputRequests": {f"k{n}": QUESTION for n in range(legacy_rounds.MAX_ENTRIES + 1)}},
        {"requestState": 5},
    ],
)
async def test_questions_that_are_none(shelves: Bench, server: Shelves, result: Message) -> None:
    """What cannot be carried is an error of the call that names the server; nobody is asked."""
    agent = legacy(shelves)
    asks(server, await call(server, agent), **result)
    [answer] = agent.answers(1)
    assert answer["error"]["code"] == -32603 and "server s" in answer["error"]["message"]
    assert [m for m in agent.got if "method" in m] == [] and agent.session.calls == {}


async def test_progress_rises(shelves: Bench, server: Shelves) -> None:
    """B27: over two rounds an agent sees rising progress for its one token."""
    agent = legacy(shelves)
    request = await call(server, agent, _meta={"progressToken": "p"})
    for number in (1, 2):
        token = request["params"]["_meta"]["progressToken"]
        for progress in (1, 2.5, number + 1):
            server.notify("notifications/progress", {"progressToken": token, "progress": progress, "total": 3})
        if number == 1:
            asks(server, request, inputRequests={"k": QUESTION})
            reply(agent, asked(agent), YES)
            request = await server.call(2)
    assert [told["params"]["progress"] for told in agent.of("notifications/progress")] == [1, 2.5, 3]


async def test_cancelled_while_asked(shelves: Bench, server: Shelves) -> None:
    """B70, K3.3: the agent's questions end with its call, and no retry is sent."""
    agent = legacy(shelves)
    asks(server, await call(server, agent), inputRequests={"k": QUESTION})
    agent.notify("notifications/cancelled", {"requestId": 1})
    [told] = agent.of("notifications/cancelled")
    assert told["params"]["requestId"] == asked(agent)["id"]
    reply(agent, asked(agent), YES)
    assert len(server.of("tools/call")) == 1 and agent.answers(1) == [] and agent.session.calls == {}


async def test_nobody_answers(shelves: Bench, server: Shelves) -> None:
    """B71: a call that waits for a person ends at the human limit, not at its own."""
    patient(shelves, server, 0.05)
    agent = legacy(shelves)
    asks(server, await call(server, agent), inputRequests={"k": QUESTION})
    with anyio.fail_after(5):
        while not agent.answers(1):  # noqa: ASYNC110
            await anyio.sleep(0.01)
    assert agent.answers(1)[0]["error"]["data"]["dev.mcphub/error"]["kind"] == "input_timeout"
    assert len(agent.of("notifications/cancelled")) == 1


async def test_the_server_is_another_one_meanwhile(shelves: Bench, server: Shelves) -> None:
    """The retry goes over the connection that there is then: the state is all that the server needs."""
    agent = legacy(shelves)
    asks(server, await call(server, agent), inputRequests={"k": QUESTION}, requestState="s")
    await restarted(shelves, server)
    reply(agent, asked(agent), YES)
    assert (await server.call(2))["params"]["requestState"] == "s"


async def test_the_server_is_gone_meanwhile(shelves: Bench, server: Shelves, tmp_path: Path) -> None:
    """The call ends, and says that it may have had effects before its server asked."""
    shelves.gateway.outcomes.open(str(tmp_path / "calls"))
    agent = legacy(shelves)
    asks(server, await call(server, agent), inputRequests={"k": QUESTION}, requestState="s")
    server.refuses = True
    server.lose("gone")
    await shelves.until(lambda: shelves.worker(server).client is None)
    reply(agent, asked(agent), YES)
    [record] = shelves.gateway.outcomes.records()()
    shelves.gateway.outcomes.end()
    told = agent.answers(1)[0]["error"]["data"]["dev.mcphub/error"]
    assert (told["kind"], told["retryable"], told["operationId"]) == ("outcome_unknown", False, record.id)
    assert (record.outcome, record.reason) == (UNKNOWN, "lost")
    assert agent.session.calls == {}


async def test_only_the_asked_agent_answers(shelves: Bench, server: Shelves) -> None:
    """Another agent's answer, and a second one, reach nobody."""
    agent, other = legacy(shelves), legacy(shelves, ALL)
    asks(server, await call(server, agent), inputRequests={"k": QUESTION})
    reply(other, asked(agent), {"action": "decline"})
    assert len(server.of("tools/call")) == 1
    reply(agent, asked(agent), YES)
    reply(agent, asked(agent), {"action": "decline"})
    assert (await server.call(2))["params"]["inputResponses"] == {"k": YES}
    assert len(server.of("tools/call")) == 2 and shelves.gateway.counters["stray_replies"] == 2


async def test_the_agent_leaves(shelves: Bench, server: Shelves) -> None:
    """Nothing of its round is left."""
    agent = legacy(shelves)
    asks(server, await call(server, agent), inputRequests={"k": QUESTION})
    agent.leave()
    assert shelves.gateway._older._open == {} and len(server.of("tools/call")) == 1
