"""The handles by which modern agents have tasks."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcphub.gateway.dispatch import Gateway
from tests.gateway.bench import META, Bench, Message
from tests.gateway.makers import EXTENSION, HANDLES, Maker, call_modern, handle_of, task, text
from tests.gateway.shelves import FORM, legacy

pytestmark = pytest.mark.anyio

NAMED = {META + "clientInfo": {"name": "one", "version": "1"}}
OTHER = {META + "clientInfo": {"name": "two", "version": "1"}}
QUESTION = {"method": "elicitation/create", "params": FORM}


@pytest.fixture
async def server(shelves: Bench) -> Maker:
    await shelves.up(maker := Maker())
    return maker


def error(answers: list[Message]) -> Message:
    [answer] = answers
    found: Message = answer["error"]
    return found


async def test_it_is_offered(shelves: Bench) -> None:
    """B77: modern agents are told of the extension, legacy ones of no tasks at all."""
    agent = shelves.agent()
    [answer] = agent.modern("server/discover")
    assert answer["result"]["capabilities"]["extensions"] == {EXTENSION: {}}
    params = {"protocolVersion": "2025-11-25", "capabilities": {"tasks": {}}, "clientInfo": {"name": "x"}}
    found = shelves.agent().one("initialize", params)["result"]["capabilities"]
    assert "extensions" not in found and "tasks" not in found


async def test_a_handle(shelves: Bench, server: Maker) -> None:
    """B77: an agent with the extension gets what its server made, under an id of its own, by which it reaches the
    server's."""
    agent = shelves.agent()
    call_modern(agent, meta=HANDLES | NAMED)
    server.makes(await server.call(), statusMessage="m", requestState="old", result={}, _meta={"x": 1})
    made = agent.answers(1)[0]["result"]
    handle = made.pop("taskId")
    assert "up-1" not in handle and made.pop("_meta")["x"] == 1
    assert made == {"resultType": "task", **{k: v for k, v in task("", statusMessage="m").items() if k != "taskId"}}
    assert agent.session.calls == {} and server.of("tasks/get") == []
    agent.modern("tasks/get", {"taskId": handle}, id=2, meta=HANDLES | NAMED)
    asked_for = await server.got("tasks/get")
    assert asked_for["params"]["taskId"] == "up-1"
    assert asked_for["params"]["_meta"][META + "clientCapabilities"] == HANDLES[META + "clientCapabilities"]
    server.tells(asked_for, "up-1", "completed", result={**text("done"), "structuredContent": {"a": 1}})
    got = agent.answers(2)[0]["result"]
    assert got["taskId"] == handle and got["resultType"] == "complete" and got["status"] == "completed"
    assert got["result"] == {**text("done"), "structuredContent": {"a": 1}}
    agent.modern("tasks/cancel", {"taskId": handle}, id=3, meta=HANDLES | NAMED)
    assert (await server.got("tasks/cancel"))["params"]["taskId"] == "up-1"
    await anyio.wait_all_tasks_blocked()
    answer = agent.answers(3)[0]["result"]
    assert answer["resultType"] == "complete" and answer.keys() == {"resultType", "_meta"}


async def test_questions(shelves: Bench, server: Maker) -> None:
    """B77: what a task asks is seen with its server's name, and answered by `tasks/update`."""
    agent = shelves.agent()
    handle = await handle_of(shelves, server, agent)
    agent.modern("tasks/get", {"taskId": handle}, id=2, meta=HANDLES)
    server.tells(await server.got("tasks/get"), "up-1", "input_required", inputRequests={"k": QUESTION})
    shown = agent.answers(2)[0]["result"]["inputRequests"]
    assert shown["k"]["params"]["message"] == "[s] Name?"
    answers = {"k": {"action": "accept", "content": {}}, "r": {"roots": [{"uri": "file:///nowhere/at/all"}]}}
    agent.modern("tasks/update", {"taskId": handle, "inputResponses": answers}, id=3, meta=HANDLES)
    update = await server.got("tasks/update")
    assert update["params"]["taskId"] == "up-1"
    assert update["params"]["inputResponses"] == {"k": answers["k"], "r": {"roots": []}}
    server.answer(update)
    assert agent.answers(3)[0]["result"]["resultType"] == "complete"
    agent.modern("tasks/get", {"taskId": handle}, id=4, meta=HANDLES)
    model = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}
    server.tells(await server.got("tasks/get", 2), "up-1", "input_required", inputRequests={"k": model})
    assert error(agent.answers(4))["code"] == -32021 and agent.session.calls == {}


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_whose_it_is(shelves: Bench, server: Maker, method: str) -> None:
    """B77, H5: another agent's id, and what is none, get -32602, without a word to the server; an agent without the
    extension gets -32021; legacy agents have no such method."""
    agent = shelves.agent()
    call_modern(agent, meta=HANDLES | NAMED)
    server.makes(await server.call())
    handle = agent.answers(1)[0]["result"]["taskId"]
    ids: list[Any] = [handle[:-2] + "AA", handle + "A", "up-1", "", "x" * 100_000, "ä", 5, None]
    for bad in ids:
        assert error(agent.modern(method, {"taskId": bad}, meta=HANDLES | NAMED))["code"] == -32602
    assert error(agent.modern(method, {}, meta=HANDLES))["code"] == -32602
    for other, meta in ((shelves.agent(), OTHER), (shelves.agent("/w"), NAMED)):
        found = error(other.modern(method, {"taskId": handle}, meta=HANDLES | meta))
        assert found["code"] == -32602 and found["data"]["dev.mcphub/error"]["kind"] == "unknown_task"
    lacking = error(agent.modern(method, {"taskId": handle}, meta=NAMED))
    assert lacking["code"] == -32021
    assert lacking["data"]["requiredCapabilities"] == {"extensions": {EXTENSION: {}}}
    assert legacy(shelves).error(method, {"taskId": handle})[0] == -32601
    assert server.of(method) == []


@pytest.mark.parametrize("method", ["tasks/result", "tasks/list"])
async def test_what_there_is_not(shelves: Bench, server: Maker, method: str) -> None:
    """The extension has neither of these."""
    assert error(shelves.agent().modern(method, {}, meta=HANDLES))["code"] == -32601


async def test_it_outlives_the_hub(shelves: Bench, server: Maker) -> None:
    """B77, H12, H13: another hub with the same key knows the agent's id, since nothing has to be remembered."""
    agent = shelves.agent()
    handle = await handle_of(shelves, server, agent)
    bench = shelves
    bench.gateway = Gateway(bench.supervisor, bench.gateway._catalog, lambda w: bench.visible(w), 5.0, b"key")
    again = bench.agent()
    again.modern("tasks/get", {"taskId": handle}, meta=HANDLES)
    server.tells(await server.got("tasks/get"))
    assert again.answers(1)[0]["result"]["taskId"] == handle


async def test_answers_of_a_server(shelves: Bench, server: Maker) -> None:
    """Its errors are its own; the type of a result that made the task is put right; what is no task is named."""
    agent = shelves.agent()
    handle = await handle_of(shelves, server, agent)

    def get(id: int) -> None:
        agent.modern("tasks/get", {"taskId": handle}, id=id, meta=HANDLES)

    get(2)
    server.refuse(await server.got("tasks/get"), -32602, "Task has expired")
    assert error(agent.answers(2))["message"] == "Task has expired"
    get(3)
    failed = {"status": "failed", "error": {"code": -32603, "message": "x"}}
    server.result((await server.got("tasks/get", 2))["id"], {"resultType": "task", **task("up-1"), **failed})
    found = agent.answers(3)[0]["result"]
    assert found["resultType"] == "complete" and found["error"] == failed["error"] and found["taskId"] == handle
    get(4)
    server.answer(await server.got("tasks/get", 3))
    assert error(agent.answers(4))["data"]["dev.mcphub/error"]["kind"] == "unsupported_result"


async def test_a_server_that_is_away(shelves: Bench, server: Maker) -> None:
    """What its agent asks while there is no connection is answered with what a person can do."""
    agent = shelves.agent()
    handle = await handle_of(shelves, server, agent)
    server.refuses = True
    server.lose("gone")
    await shelves.until(lambda: shelves.worker(server).client is None)
    found = error(agent.modern("tasks/get", {"taskId": handle}, meta=HANDLES))
    assert found["data"]["dev.mcphub/error"]["kind"] == "unavailable"
    shelves.want()
    found = error(agent.modern("tasks/get", {"taskId": handle}, meta=HANDLES))
    assert found["code"] == -32602 and "no server s" in found["message"]


async def test_rounds_before_a_task(shelves: Bench, server: Maker) -> None:
    """B77: what was asked before there was a task has nothing to do with it."""
    agent = shelves.agent()
    call_modern(agent, meta=HANDLES)
    ask = {"resultType": "input_required", "inputRequests": {"k": QUESTION}, "requestState": "s"}
    server.result((await server.call())["id"], ask)
    round = agent.answers(1)[0]["result"]
    assert "taskId" not in round
    answers = {"k": {"action": "accept", "content": {}}}
    call_modern(agent, 2, meta=HANDLES, requestState=round["requestState"], inputResponses=answers)
    retry = await server.call(2)
    assert retry["params"]["requestState"] == "s" and retry["params"]["inputResponses"] == answers
    server.makes(retry)
    made = agent.answers(2)[0]["result"]
    assert made["resultType"] == "task" and "requestState" not in made
