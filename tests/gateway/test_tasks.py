"""The tasks of servers, followed for agents that know of none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphub.gateway import parking, tasks
from mcphub.store.call_record import OUTCOMES
from tests.gateway.bench import META, Agent, Bench, Message
from tests.gateway.makers import EXTENSION, Maker, call_modern, handle_of, text
from tests.gateway.shelves import CAPABLE, FORM, asked, legacy, reply, restarted

pytestmark = pytest.mark.anyio

Kept = Callable[[], list[tuple[str, str]]]

QUESTION = {"method": "elicitation/create", "params": FORM}
YES = {"action": "accept", "content": {"n": 1}}


@pytest.fixture
async def server(shelves: Bench, monkeypatch: pytest.MonkeyPatch) -> Maker:
    monkeypatch.setattr(tasks, "AGAIN", 0.01)
    await shelves.up(maker := Maker())
    return maker


@pytest.fixture
async def old(shelves: Bench, monkeypatch: pytest.MonkeyPatch) -> Maker:
    monkeypatch.setattr(tasks, "AGAIN", 0.01)
    await shelves.up(maker := Maker(era="legacy"))
    return maker


@pytest.fixture
def kept(shelves: Bench, tmp_path: Path) -> Iterator[Kept]:
    """Outcome and reason of all that the journal has, oldest first."""
    journal = shelves.gateway.outcomes
    journal.open(str(tmp_path / "calls"))
    yield lambda: [(OUTCOMES[one.outcome], one.reason) for one in reversed(journal.records()())]
    journal.end()


async def made(server: Maker, agent: Agent, number: int = 1, **more: Any) -> Message:
    """A call that became a task: the request as the server got it."""
    name = more.pop("name", "mcp__s__t")
    meta = more.pop("meta", None)
    params: Message = {"name": name, "arguments": {"a": 1}, **({"_meta": meta} if meta else {})}
    agent.ask("tools/call", params, id=number)
    server.makes(request := await server.call(number), **more)
    return request


def error_of(agent: Agent, id: int = 1) -> Message:
    [answer] = agent.answers(id)
    error: Message = answer["error"]
    return error


def nothing_is_left(shelves: Bench, agent: Agent) -> None:
    assert all(worker.client is None or not worker.client.followed for worker in shelves.gateway._workers.values())
    assert agent.session.calls == {} and shelves.gateway._older._open == {} and shelves.gateway._tasks._left == {}


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_final_result(shelves: Bench, server: Maker, era: str) -> None:
    """B76: an agent without the extension gets what its task comes to; the server was told that it may make one, and
    is asked no more often than it wants."""
    agent = legacy(shelves) if era == "legacy" else shelves.agent()
    if era == "legacy":
        agent.ask("tools/call", {"name": "mcp__s__t", "arguments": {"a": 1}}, id=1)
    else:
        call_modern(agent)
    request = await server.call()
    assert request["params"]["_meta"][META + "clientCapabilities"]["extensions"] == {EXTENSION: {}}
    server.makes(request, pollIntervalMs=120)
    assert agent.answers(1) == [] and shelves.worker(server).calls == 1, "it is in use between two requests, too"
    poll = await server.got("tasks/get")
    assert poll["params"]["taskId"] == "up-1"
    assert EXTENSION in poll["params"]["_meta"][META + "clientCapabilities"]["extensions"]
    server.tells(poll, pollIntervalMs=150)
    server.tells(await server.got("tasks/get", 2), "up-1", "completed", result=text("done"))
    result = agent.answers(1)[0]["result"]
    assert result["content"] == text("done")["content"] and "taskId" not in result
    assert result.get("resultType") == (None if era == "legacy" else "complete")
    assert server.when[1] - server.when[0] >= 0.149
    assert server.of("tasks/cancel") == [] and len(server.of("tools/call")) == 1
    nothing_is_left(shelves, agent)


async def test_it_is_over_when_it_is_made(shelves: Bench, server: Maker) -> None:
    """B76: what a task that has ended came to is asked for at once."""
    agent = legacy(shelves)
    await made(server, agent, status="completed", pollIntervalMs=3_600_000)
    server.tells(await server.got("tasks/get"), "up-1", "completed", result={**text("x"), "isError": True})
    assert agent.answers(1)[0]["result"]["isError"] is True


async def test_messages_are_progress(shelves: Bench, server: Maker) -> None:
    """B76: what a task says of itself is progress, which rises, for an agent that gave a token, each of it once."""
    agent = legacy(shelves)
    await made(server, agent, meta={"progressToken": "p"}, statusMessage="one")
    server.tells(await server.got("tasks/get"), statusMessage="one")
    server.tells(await server.got("tasks/get", 2), statusMessage="two")
    server.tells(await server.got("tasks/get", 3), "up-1", "completed", result=text("x"), statusMessage="three")
    told = [(one["params"]["progressToken"], one["params"]["message"]) for one in agent.of("notifications/progress")]
    assert told == [("p", "one"), ("p", "two"), ("p", "three")]
    steps = [one["params"]["progress"] for one in agent.of("notifications/progress")]
    assert steps == sorted(set(steps)) and agent.got[-1]["id"] == 1
    assert "progressToken" not in server.of("tasks/get")[0]["params"]["_meta"]


ENDS: list[tuple[Message, int, str]] = [
    ({"status": "failed", "error": {"code": -32050, "message": "no", "data": 7}}, -32050, "no"),
    ({"status": "cancelled", "statusMessage": "too dear"}, -32603, "task_cancelled"),
    ({"status": "completed"}, -32603, "unsupported_result"),
    ({"status": "completed", "result": {"resultType": "task", "taskId": "x"}}, -32603, "unsupported_result"),
    ({"status": "failed"}, -32603, "unsupported_result"),
]


@pytest.mark.parametrize(("end", "code", "said"), ENDS)
async def test_other_ends(shelves: Bench, server: Maker, end: Message, code: int, said: str) -> None:
    """B76: `failed` is a JSON-RPC error; what is no result is named as such, and followed no further."""
    agent = legacy(shelves)
    await made(server, agent)
    server.tells(await server.got("tasks/get"), **end)
    error = error_of(agent)
    assert error["code"] == code and said in str(error)
    assert server.of("tasks/cancel") == []
    nothing_is_left(shelves, agent)


@pytest.mark.parametrize("bad", [{}, {"taskId": 5, "status": "working"}, {"taskId": "", "status": "working"}])
async def test_what_is_no_task(shelves: Bench, server: Maker, bad: Message) -> None:
    """A result that only says that it is a task ends the call."""
    agent = legacy(shelves)
    agent.ask("tools/call", {"name": "mcp__s__t", "arguments": {}}, id=1)
    server.result((await server.call())["id"], {"resultType": "task", **bad})
    assert error_of(agent)["data"]["dev.mcphub/error"]["kind"] == "unsupported_result"


async def test_a_task_that_was_not_agreed_on(shelves: Bench) -> None:
    """A server that does not offer the extension is not told of it, and must make none."""
    await shelves.up(server := Maker(offers=False))
    agent = legacy(shelves)
    request = await made(server, agent)
    assert request["params"]["_meta"][META + "clientCapabilities"] == {"elicitation": {"form": {}}, "sampling": {}} | {
        "roots": {}
    }
    assert error_of(agent)["data"]["dev.mcphub/error"]["kind"] == "unsupported_result"


async def test_questions_of_a_task_for_a_legacy_agent(shelves: Bench, server: Maker) -> None:
    """B76: what a task asks is asked of the agent, each key once; the answers go to the task, and the call goes on."""
    agent = legacy(shelves)
    await made(server, agent)
    server.tells(await server.got("tasks/get"), "up-1", "input_required", inputRequests={"k": QUESTION})
    question = asked(agent)
    assert question["params"]["message"] == "[s] Name?"
    reply(agent, question, YES)
    update = await server.got("tasks/update")
    assert update["params"]["taskId"] == "up-1" and update["params"]["inputResponses"] == {"k": YES}
    server.answer(update)
    server.tells(await server.got("tasks/get", 2), "up-1", "input_required", inputRequests={"k": QUESTION})
    server.tells(await server.got("tasks/get", 3), "up-1", "completed", result=text("done"))
    assert agent.answers(1)[0]["result"] == text("done")
    assert len(agent.of("elicitation/create")) == 1 and len(server.of("tasks/update")) == 1
    assert len(server.of("tools/call")) == 1
    nothing_is_left(shelves, agent)


async def test_questions_of_a_task_for_a_modern_agent(shelves: Bench, server: Maker) -> None:
    """B76: without the extension they are a round, whose state is sealed; the retry goes to the task alone."""
    agent = shelves.agent()
    call_modern(agent, meta=CAPABLE)
    server.makes(await server.call())
    both = {"k": QUESTION, "l": QUESTION}
    server.tells(await server.got("tasks/get"), "up-1", "input_required", inputRequests=both)
    round = agent.answers(1)[0]["result"]
    assert round["resultType"] == "input_required" and round["inputRequests"].keys() == both.keys()
    assert round["inputRequests"]["k"]["params"]["message"] == "[s] Name?" and "up-1" not in str(round)
    other = shelves.agent("/elsewhere")
    brought = {"requestState": round["requestState"], "inputResponses": {"k": YES}}
    call_modern(other, 5, meta=CAPABLE, **brought)
    assert error_of(other, 5)["code"] == -32602
    call_modern(agent, 2, meta=CAPABLE, **brought)
    update = await server.got("tasks/update")
    assert update["params"]["inputResponses"] == {"k": YES} and "requestState" not in update["params"]
    server.answer(update)
    # What is missing is asked again.
    server.tells(await server.got("tasks/get", 2), "up-1", "input_required", inputRequests=both)
    again = agent.answers(2)[0]["result"]
    assert again["inputRequests"].keys() == {"l"}
    call_modern(
        agent, 3, meta=CAPABLE, requestState=again["requestState"], inputResponses={"l": {"action": "decline"}}
    )
    server.answer(await server.got("tasks/update", 2))
    # The first answer is slow to be seen.
    server.tells(await server.got("tasks/get", 3), "up-1", "input_required", inputRequests={"k": QUESTION})
    server.tells(await server.got("tasks/get", 4), "up-1", "completed", result=text("done"))
    assert agent.answers(3)[0]["result"]["content"] == text("done")["content"]
    assert len(server.of("tools/call")) == 1
    assert all(b - a >= 0.099 for a, b in zip(server.when, server.when[1:], strict=False))
    nothing_is_left(shelves, agent)


async def test_answers_that_are_none(shelves: Bench, server: Maker) -> None:
    """What an agent brings back may be anything: the task is not touched by what is no answer, and waits."""
    agent = shelves.agent()
    call_modern(agent, meta=CAPABLE)
    server.makes(await server.call())
    server.tells(await server.got("tasks/get"), "up-1", "input_required", inputRequests={"k": QUESTION})
    state = agent.answers(1)[0]["result"]["requestState"]
    for number, bad in enumerate((5, "x", [], [1], None, {"other": 5})):
        call_modern(agent, 10 + number, meta=CAPABLE, requestState=state, inputResponses=bad)
        assert error_of(agent, 10 + number)["code"] == -32602
    assert server.of("tasks/update") == server.of("tasks/cancel") == [] and agent.session.calls == {}
    nothing: list[Message] = [{}, {"other": {}}]
    for number, none in enumerate(nothing):
        call_modern(agent, 20 + number, meta=CAPABLE, requestState=state, inputResponses=none)
        for update in server.of("tasks/update")[number:]:
            server.answer(update)
        server.tells(await server.got("tasks/get", number + 2), "up-1", "input_required", inputRequests={"k": QUESTION})
        state = agent.answers(20 + number)[0]["result"]["requestState"]
    call_modern(agent, 30, meta=CAPABLE, requestState=state, inputResponses={"k": YES})
    server.answer(await server.got("tasks/update", len(server.of("tasks/update"))))


async def test_an_agent_that_never_comes_back(shelves: Bench, server: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task whose question nobody answers is cancelled when its time is over."""
    monkeypatch.setattr(tasks, "PATIENCE", 0.01)
    monkeypatch.setattr(shelves.gateway._tasks, "_patience", lambda key: 0.01)
    agent = shelves.agent()
    call_modern(agent, meta=CAPABLE)
    server.makes(await server.call())
    monkeypatch.setattr(tasks, "PATIENCE", 5.0)
    poll = await server.got("tasks/get")
    monkeypatch.setattr(tasks, "PATIENCE", 0.01)
    server.tells(poll, "up-1", "input_required", inputRequests={"k": QUESTION})
    assert (await server.got("tasks/cancel"))["params"]["taskId"] == "up-1"


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_what_an_agent_cannot_be_asked(shelves: Bench, server: Maker, era: str) -> None:
    """B82: a question that the agent did not declare ends the call with -32021; its task is cancelled."""
    agent = legacy(shelves, {}) if era == "legacy" else shelves.agent()
    if era == "legacy":
        await made(server, agent)
    else:
        call_modern(agent)
        server.makes(await server.call())
    server.tells(await server.got("tasks/get"), "up-1", "input_required", inputRequests={"k": QUESTION})
    assert error_of(agent)["code"] == -32021
    await server.got("tasks/cancel")
    nothing_is_left(shelves, agent)


async def test_a_cancelled_call(shelves: Bench, server: Maker) -> None:
    """B70: an agent that cancels its call cancels the task, once, and hears no more of it; so does one that leaves."""
    agent = legacy(shelves)
    await made(server, agent)
    poll = await server.got("tasks/get")
    agent.notify("notifications/cancelled", {"requestId": 1})
    cancel = await server.got("tasks/cancel")
    assert cancel["params"]["taskId"] == "up-1"
    server.tells(poll, "up-1", "completed", result=text("late"))
    await made(server, agent, 2, id="up-2")
    await server.got("tasks/get", 2)
    agent.leave()
    assert (await server.got("tasks/cancel", 2))["params"]["taskId"] == "up-2"
    assert agent.answers(1) == agent.answers(2) == [] and len(server.of("tasks/cancel")) == 2
    nothing_is_left(shelves, agent)


async def test_a_cancelled_question(shelves: Bench, server: Maker) -> None:
    """B70: while the agent is asked, too: the question is taken back, the task cancelled."""
    agent = legacy(shelves)
    await made(server, agent)
    server.tells(await server.got("tasks/get"), "up-1", "input_required", inputRequests={"k": QUESTION})
    agent.notify("notifications/cancelled", {"requestId": 1})
    assert agent.of("notifications/cancelled")[0]["params"]["requestId"] == asked(agent)["id"]
    await server.got("tasks/cancel")
    nothing_is_left(shelves, agent)


async def test_a_lost_connection(shelves: Bench, server: Maker) -> None:
    """A task outlives a connection: it is asked for over the next one, with a request in flight or without, and
    answers that may not have come are brought again."""
    agent = legacy(shelves)
    await made(server, agent)
    await server.got("tasks/get")
    await restarted(shelves, server)
    server.tells(await server.got("tasks/get", 2), pollIntervalMs=3_000)
    await restarted(shelves, server)
    shelves.gateway._tasks._poll(call := agent.session.calls[b"1"], call.task)
    question = {"k": QUESTION}
    server.tells(await server.got("tasks/get", 3), "up-1", "input_required", inputRequests=question)
    reply(agent, asked(agent), YES)
    await server.got("tasks/update")
    await restarted(shelves, server)
    server.tells(await server.got("tasks/get", 4), "up-1", "input_required", inputRequests=question)
    again = await server.got("tasks/update", 2)
    assert again["params"]["inputResponses"] == {"k": YES}
    server.answer(again)
    server.tells(await server.got("tasks/get", 5), "up-1", "completed", result=text("done"))
    assert agent.answers(1)[0]["result"] == text("done") and len(server.of("tools/call")) == 1


async def test_cancelled_without_a_connection(shelves: Bench, server: Maker) -> None:
    """B70: what is cancelled while there is no connection is cancelled over the next one."""
    agent = legacy(shelves)
    await made(server, agent)
    server.lose("gone")
    agent.notify("notifications/cancelled", {"requestId": 1})
    assert server.of("tasks/cancel") == [] and agent.session.calls == {}
    assert (await server.got("tasks/cancel"))["params"]["taskId"] == "up-1"


async def test_a_task_that_is_gone(shelves: Bench, server: Maker) -> None:
    """A server that knows it no more, or never says anything of use, leaves an outcome that nobody knows."""
    agent = legacy(shelves)
    await made(server, agent)
    server.refuse(await server.got("tasks/get"), -32602, "Task not found")
    error = error_of(agent)
    assert error["data"]["dev.mcphub/error"]["kind"] == "outcome_unknown" and "Task not found" in error["message"]
    assert server.of("tasks/cancel") == []
    await made(server, agent, 2, id="up-2", pollIntervalMs=1)
    for number in range(tasks.MOST_FAILURES):
        run = agent.session.calls[b"2"].task
        if run.timer is not None:
            run.timer.cancel()
            shelves.gateway._tasks._poll(agent.session.calls[b"2"], run)
        server.refuse(await server.got("tasks/get", number + 2), -32603, "busy")
    assert error_of(agent, 2)["data"]["dev.mcphub/error"]["kind"] == "outcome_unknown"
    await server.got("tasks/cancel")
    nothing_is_left(shelves, agent)


async def test_the_time_of_a_call(shelves: Bench, server: Maker) -> None:
    """That its server knows it keeps the call alive; the longest time of a call ends it, and the task."""
    agent = legacy(shelves)
    await made(server, agent, pollIntervalMs=3_600_000)
    call = agent.session.calls[b"1"]
    assert call.deadline > call.began + call.idle  # until it has been asked, and could answer
    assert call.deadline <= call.hard
    call.began -= call.idle * 6
    call.deadline = call.hard
    call.task.timer.cancel()
    shelves.gateway._tasks._poll(call, call.task)
    assert error_of(agent)["data"]["dev.mcphub/error"]["kind"] == "outcome_unknown"
    await server.got("tasks/cancel")
    nothing_is_left(shelves, agent)


# --- the legacy era --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_tool_that_must_be_a_task(shelves: Bench, old: Maker, era: str) -> None:
    """B78: a plain call of a tool that its legacy server takes as a task only is answered plainly."""
    agent = legacy(shelves) if era == "legacy" else shelves.agent()
    if era == "legacy":
        agent.ask("tools/call", {"name": "mcp__s__t", "arguments": {"a": 1}, "_meta": {"progressToken": 9}}, id=1)
    else:
        call_modern(agent, meta={"progressToken": 9})
    request = await old.call()
    assert request["params"]["task"]["ttl"] > 0
    old.makes(request, statusMessage="one")
    old.tells(await old.got("tasks/get"))
    old.tells(await old.got("tasks/get", 2), "up-1", "completed")
    last = await old.got("tasks/result")
    assert last["params"]["taskId"] == "up-1" and "up-1" not in str(agent.got)
    related = {META + "related-task": {"taskId": "up-1"}}
    old.result(last["id"], {**text("done"), "_meta": related})
    result = agent.answers(1)[0]["result"]
    assert result["content"] == text("done")["content"] and "up-1" not in str(agent.got)
    assert [one["params"]["message"] for one in agent.of("notifications/progress")] == ["one"]
    assert old.when[1] - old.when[0] >= 0.099 and old.of("tasks/cancel") == []
    nothing_is_left(shelves, agent)


async def test_a_tool_that_may_be_a_task(shelves: Bench, old: Maker) -> None:
    """B78: `optional` is called plainly; what a call may be is not shown, and a `task` of an agent's is ignored."""
    agent = legacy(shelves)
    tools = agent.one("tools/list", id="list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["mcp__s__t", "mcp__s__u"]
    assert all("execution" not in tool for tool in tools)
    agent.ask("tools/call", {"name": "mcp__s__u", "arguments": {}, "task": {"ttl": 5}}, id=1)
    request = await old.call()
    assert "task" not in request["params"]
    old.text(request, "plain")
    assert agent.answers(1)[0]["result"] == text("plain")


async def test_a_server_that_takes_no_tasks(shelves: Bench) -> None:
    """A tool that must be a task at a server that offers none is called plainly."""
    await shelves.up(server := Maker(era="legacy", offers=False))
    agent = legacy(shelves)
    agent.ask("tools/call", {"name": "mcp__s__t", "arguments": {}}, id=1)
    assert "task" not in (await server.call())["params"]


async def test_an_answer_without_a_task(shelves: Bench, old: Maker) -> None:
    """B78: a server that simply answers, or refuses, is taken at its word."""
    agent = legacy(shelves)
    agent.ask("tools/call", {"name": "mcp__s__t", "arguments": {}}, id=1)
    old.text(await old.call(), "at once")
    assert agent.answers(1)[0]["result"] == text("at once")
    agent.ask("tools/call", {"name": "mcp__s__t", "arguments": {}}, id=2)
    old.refuse(await old.call(2), -32601, "no")
    assert error_of(agent, 2)["code"] == -32601


async def test_how_an_old_task_fails(shelves: Bench, old: Maker) -> None:
    """B78: the error of the request is that of `tasks/result`."""
    agent = legacy(shelves)
    await made(old, agent, status="failed")
    old.refuse(await old.got("tasks/result"), -32050, "no")
    assert error_of(agent)["code"] == -32050
    assert old.of("tasks/get") == []


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_questions_of_an_old_task(shelves: Bench, old: Maker, era: str) -> None:
    """B78: what it asks comes while its result is waited for, and belongs to that call; the agent is asked in its own
    way."""
    agent = legacy(shelves) if era == "legacy" else shelves.agent()
    if era == "legacy":
        await made(old, agent)
    else:
        call_modern(agent, meta=CAPABLE)
        old.makes(await old.call())
    old.tells(await old.got("tasks/get"), "up-1", "input_required")
    last = await old.got("tasks/result")
    old.ask("elicitation/create", FORM)
    if era == "legacy":
        reply(agent, asked(agent), YES)
        number = 1
    else:
        await anyio.sleep(parking.WINDOW * 2)  # timers fire in order
        round = agent.answers(1)[0]["result"]
        answers = dict.fromkeys(round["inputRequests"], YES)
        call_modern(agent, 2, meta=CAPABLE, requestState=round["requestState"], inputResponses=answers)
        number = 2
    assert old.replies()[0]["result"] == YES
    old.result(last["id"], text("done"))
    assert agent.answers(number)[0]["result"]["content"] == text("done")["content"]
    nothing_is_left(shelves, agent)


async def test_a_cancelled_old_task(shelves: Bench, old: Maker) -> None:
    """B70: it is cancelled as a task, while it is asked for and while its result is waited for."""
    agent = legacy(shelves)
    await made(old, agent)
    await old.got("tasks/get")
    agent.notify("notifications/cancelled", {"requestId": 1})
    await old.got("tasks/cancel")
    await made(old, agent, 2, status="completed")
    last = await old.got("tasks/result")
    agent.notify("notifications/cancelled", {"requestId": 2})
    await old.got("tasks/cancel", 2)
    assert last["id"] in [one["params"]["requestId"] for one in old.of("notifications/cancelled")]
    nothing_is_left(shelves, agent)


async def test_a_lost_connection_of_an_old_task(shelves: Bench, old: Maker) -> None:
    """A result that was waited for when the connection was lost is asked for again, if the next one knows the task."""
    agent = legacy(shelves)
    await made(old, agent, status="completed")
    await old.got("tasks/result")
    await restarted(shelves, old)
    old.tells(await old.got("tasks/get"), "up-1", "completed")
    old.result((await old.got("tasks/result", 2))["id"], text("done"))
    assert agent.answers(1)[0]["result"] == text("done") and len(old.of("tools/call")) == 1


@pytest.mark.parametrize("how", ["overdue", "stopped"])
async def test_a_request_about_a_task_that_waits_at_its_channel(
    shelves: Bench, old: Maker, kept: Kept, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """C089: that it was not sent says nothing of the call, on which its server has acted."""
    agent = legacy(shelves)
    await made(old, agent, status="completed")
    await old.got("tasks/result")
    call = agent.session.calls[b"1"]
    monkeypatch.setattr(old, "untouched", {call.up_id}.__contains__, raising=False)
    if how == "overdue":
        call.unanswered("overdue", "it waited")
    else:
        call.cut_short()
    assert error_of(agent)["data"]["dev.mcphub/error"]["kind"] == "outcome_unknown"
    assert kept() == [("unknown", "timeout" if how == "overdue" else "stopped")]


# --- what the journal has of them ------------------------------------------------------------------------------------


def told_id(shelves: Bench, error: Message) -> bool:
    """Whether the agent was told the id of the newest record, for programs and for people."""
    newest = shelves.gateway.outcomes.records()()[0].id
    said: Message = error["data"]["dev.mcphub/error"]
    return said["operationId"] == newest and f"mcphub calls {newest}" in error["message"]


async def asked_modern(server: Maker, agent: Agent, id: int = 1) -> Message:
    """A call that became a task, which asked: what brings the answer."""
    call_modern(agent, id, meta=CAPABLE)
    server.makes(await server.call())
    server.tells(await server.got("tasks/get"), "up-1", "input_required", inputRequests={"k": QUESTION})
    return {"requestState": agent.answers(id)[0]["result"]["requestState"], "inputResponses": {"k": YES}}


async def test_the_records_of_a_modern_agent(shelves: Bench, server: Maker, kept: Kept) -> None:
    """B76: a task that asks has no outcome yet; the request that brings the answer has a record of its own, which says
    what came of it."""
    agent = shelves.agent()
    more = await asked_modern(server, agent)
    assert kept() == [("input_required", "")]
    call_modern(agent, 2, meta=CAPABLE, **more)
    assert kept() == [("input_required", ""), ("open", "")]
    server.answer(await server.got("tasks/update"))
    server.tells(await server.got("tasks/get", 2), "up-1", "completed", result={**text("no"), "isError": True})
    assert kept() == [("input_required", ""), ("tool_error", "")]
    assert [one.attempts for one in shelves.gateway.outcomes.records()()] == [1, 1]


async def test_the_second_request_of_a_modern_agent_is_lost(shelves: Bench, server: Maker, kept: Kept) -> None:
    """B76: without an answer it is unknown, and its agent is told the id; cancelled by it, too."""
    agent = shelves.agent()
    more = await asked_modern(server, agent)
    call_modern(agent, 2, meta=CAPABLE, **more)
    call = agent.session.calls[b"2"]
    call.deadline = call.until = 0.0
    server.answer(await server.got("tasks/update"))
    with anyio.fail_after(5):
        while not agent.answers(2):  # noqa: ASYNC110
            await anyio.sleep(0.01)
    assert error_of(agent, 2)["data"]["dev.mcphub/error"]["kind"] == "outcome_unknown"
    assert kept() == [("input_required", ""), ("unknown", "timeout")] and told_id(shelves, error_of(agent, 2))
    call_modern(agent, 3, meta=CAPABLE, **more)
    agent.notify("notifications/cancelled", {"requestId": 3})
    assert kept()[2:] == [("unknown", "cancelled")]
    call_modern(agent, 4, meta=CAPABLE, **more)
    call_modern(agent, 5, meta=CAPABLE, **more)
    agent.leave()
    assert kept()[3:] == [("unknown", "cancelled")] * 2


async def test_the_record_of_a_legacy_agent(shelves: Bench, server: Maker, kept: Kept) -> None:
    """B76: it makes one request, which is open while its person is asked."""
    agent = legacy(shelves)
    await made(server, agent)
    server.tells(await server.got("tasks/get"), "up-1", "input_required", inputRequests={"k": QUESTION})
    assert kept() == [("open", "")]
    reply(agent, asked(agent), YES)
    server.refuse(await server.got("tasks/update"), -32603, "no")
    assert error_of(agent)["message"] == "no" and kept() == [("unknown", "task_cancelled")]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_record_where_nobody_can_be_asked(shelves: Bench, server: Maker, kept: Kept, era: str) -> None:
    """B82: its server had begun, so that what came of it is unknown, as its agent is told."""
    agent = legacy(shelves, {}) if era == "legacy" else shelves.agent()
    if era == "legacy":
        await made(server, agent)
    else:
        call_modern(agent)
        server.makes(await server.call())
    server.tells(await server.got("tasks/get"), "up-1", "input_required", inputRequests={"k": QUESTION})
    error = error_of(agent)
    assert kept() == [("unknown", "task_cancelled")] and told_id(shelves, error)
    assert "it had begun with it as a task, which was cancelled: whether it had effects is unknown" in error["message"]


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        ({"status": "failed", "error": {"code": -32050, "message": "no"}}, ("error", "")),
        ({"status": "cancelled", "statusMessage": "too dear"}, ("unknown", "task_cancelled")),
        ({"status": "completed"}, ("unknown", "unreadable")),
        ({"status": "completed", "result": text("x")}, ("answered", "")),
    ],
)
async def test_the_records_of_ends(
    shelves: Bench, server: Maker, kept: Kept, end: Message, outcome: tuple[str, str]
) -> None:
    """B76: only a result, or an error that is one, says what came of it."""
    agent = legacy(shelves)
    await made(server, agent)
    server.tells(await server.got("tasks/get"), **end)
    assert kept() == [outcome]
    if outcome[1] == "task_cancelled":
        assert told_id(shelves, error_of(agent))


async def test_the_record_of_an_old_task(shelves: Bench, old: Maker, kept: Kept) -> None:
    """B78: one that was cancelled has had effects or not, whatever its server answers then."""
    agent = legacy(shelves)
    await made(old, agent)
    old.tells(await old.got("tasks/get"), "up-1", "cancelled")
    old.refuse(await old.got("tasks/result"), -32603, "cancelled")
    assert error_of(agent)["message"] == "cancelled" and kept() == [("unknown", "task_cancelled")]


async def test_the_record_of_a_handle(shelves: Bench, server: Maker, kept: Kept) -> None:
    """B76: an agent that has a handle follows the task itself: the record says that there is one."""
    agent = shelves.agent()
    await handle_of(shelves, server, agent)
    assert kept() == [("task", "")]
    assert agent.session.calls == {}
