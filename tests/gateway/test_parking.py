"""The calls of modern agents that wait at a legacy server which asks."""

from __future__ import annotations

import asyncio
import gc
import random
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphub.gateway import parking, turns
from mcphub.store.call_record import UNKNOWN, CallRecord
from tests.gateway.bench import META, Agent, Bench, Message, gateway
from tests.gateway.shelves import FORM, Shelves, legacy, patient, restarted

pytestmark = pytest.mark.anyio

ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
MESSAGES = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5}
ABLE: Message = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
YES = {"action": "accept", "content": {"n": 1}}
def lost(why: str) -> str:
    return (
        f"the call of t at the server s that waited for this answer is gone: {why}; whether it had effects is unknown, "
        "check before calling it again"
    )


LATE, CANCELLED = lost("the time for the answer was over"), lost("its request was cancelled")
#: What is told where nothing is known of it.
LOST = lost("mcphub was restarted, the time for the answer was over, or its request was cancelled")


def meta(name: str = "me", can: Message = ABLE, **more: Any) -> Message:
    return {META + "clientCapabilities": can, META + "clientInfo": {"name": name, "version": "1"}, **more}


def call(agent: Agent, id: int = 1, of: Message | None = None, **params: Any) -> None:
    body = {"name": "mcp__s__t", "arguments": {"a": 1}, **params}
    agent.modern("tools/call", body, id=id, meta=of or meta())


async def answered(agent: Agent, id: int = 1) -> Message:
    """The answer to a request, which comes by and by: its result, or its error under `error`."""
    with anyio.fail_after(5):
        while not agent.answers(id):  # noqa: ASYNC110
            await anyio.sleep(0.002)
    [answer] = agent.answers(id)
    found: Message = answer["result"] if "result" in answer else {"error": answer["error"]}
    return found


async def parked(server: Shelves, agent: Agent, id: int = 1, **more: Any) -> tuple[Message, Message]:
    """A call whose server has asked for a form: as the server got it, and what the agent got."""
    before = len(server.of("tools/call"))
    call(agent, id, **more)
    request = await server.call(before + 1)
    server.ask(ELICIT, FORM, id=f"u{id}")
    return request, await answered(agent, id)


def retry(agent: Agent, given: Message, responses: Any, id: int = 2, **more: Any) -> None:
    call(agent, id, requestState=given["requestState"], inputResponses=responses, **more)


@pytest.fixture
async def server(shelves: Bench) -> Shelves:
    await shelves.up(server := Shelves("s", tools=("t", "u")))
    return server


async def test_a_question_and_its_retry(shelves: Bench, server: Shelves) -> None:
    """B38: the agent gets a round that says who asks; the retry, over another connection, completes the same call,
    which ran once."""
    agent, again = shelves.agent(), shelves.agent()
    request, given = await parked(server, agent)
    assert given["resultType"] == "input_required"
    assert given["_meta"][META + "serverInfo"]["name"] == "mcphub"
    assert given["inputRequests"] == {"r1": {"method": ELICIT, "params": {**FORM, "message": "[s] Name?"}}}
    assert agent.session.calls == {} and server.replies("u1") == []
    agent.leave()
    retry(again, given, {"r1": YES})
    assert [r["result"] for r in server.replies("u1")] == [YES]
    assert again.answers(2) == []
    server.text(request, "done")
    result = await answered(again, 2)
    assert result["content"] == [{"type": "text", "text": "done"}] and result["resultType"] == "complete"
    assert len(server.of("tools/call")) == 1 and server.of("notifications/cancelled") == []
    assert again.session.calls == {}


@pytest.mark.parametrize("end", ["answered", "abandoned"])
async def test_what_is_forgotten_is_gone(
    shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Nothing of a call is left in memory once nobody can ask for it any more."""
    monkeypatch.setattr(parking, "MAX_KEPT", 0)
    agent = shelves.agent()
    request, given = await parked(server, agent)
    retry(agent, given, {"r1": YES})
    found = weakref.ref(next(one for one in gc.get_objects() if isinstance(one, parking.Parked)))
    if end == "answered":
        server.text(request, "done")
        await answered(agent, 2)
    else:
        agent.notify("notifications/cancelled", {"requestId": 2})
    gc.collect()
    assert found() is None


@pytest.mark.parametrize(
    ("method", "params"), [("prompts/get", {"name": "mcp__s__p"}), ("resources/read", {"uri": "mcphub://s/x:1"})]
)
async def test_prompts_and_resources(shelves: Bench, server: Shelves, method: str, params: Message) -> None:
    """B38: they wait as tools do."""
    agent = shelves.agent()
    agent.modern(method, params, id=1, meta=meta())
    request = await server.got(method)
    server.ask(ELICIT, FORM)
    given = await answered(agent)
    again = {**params, "requestState": given["requestState"], "inputResponses": {"r1": YES}}
    agent.modern(method, again, id=2, meta=meta())
    assert len(server.replies()) == 1
    server.answer(request, messages=[], contents=[{"uri": "x:1", "text": ""}])
    assert (await answered(agent, 2))["resultType"] == "complete" and len(server.of(method)) == 1


async def test_questions_of_one_moment(shelves: Bench, server: Shelves) -> None:
    """They are one round; what the agent does not answer is asked again, what it makes up is ignored, and what it
    declines is declined."""
    agent = shelves.agent()
    call(agent)
    request = await server.call()
    server.ask(ELICIT, FORM, id=1)
    server.ask(SAMPLE, {**MESSAGES, "includeContext": "allServers"}, id=2)
    server.ask(ROOTS, id=3)
    given = await answered(agent)
    assert [one["method"] for one in given["inputRequests"].values()] == [ELICIT, SAMPLE, ROOTS]
    assert given["inputRequests"]["r2"]["params"] == MESSAGES and "params" not in given["inputRequests"]["r3"]
    root = {"uri": (Path.home() / "w").as_uri()}
    answers = {"r1": {"action": "decline"}, "r3": {"roots": [root, {"uri": "file:///etc"}]}, "r9": YES, "r2": 5}
    retry(agent, given, answers)
    assert server.replies(1)[0]["result"] == {"action": "decline"}
    assert server.replies(3)[0]["result"] == {"roots": [root]} and server.replies(2) == []
    more = await answered(agent, 2)
    assert list(more["inputRequests"]) == ["r2"] and more["requestState"] != given["requestState"]
    retry(agent, more, {"r2": {"role": "assistant"}, "r1": YES}, 3)
    assert server.replies(2)[0]["result"] == {"role": "assistant"} and len(server.replies(1)) == 1
    server.text(request, "done")
    assert (await answered(agent, 3))["resultType"] == "complete"


async def test_round_after_round(shelves: Bench, server: Shelves) -> None:
    """Each question of a call is a round of its own, with a state of its own; keys do not come twice."""
    agent = shelves.agent()
    request, given = await parked(server, agent)
    for number in range(2, 6):
        retry(agent, given, {f"r{number - 1}": YES}, number)
        server.ask(ELICIT, FORM, id=f"u{number}")
        given = await answered(agent, number)
        assert list(given["inputRequests"]) == [f"r{number}"]
    retry(agent, given, {"r5": YES}, 6)
    server.text(request, "done")
    assert (await answered(agent, 6))["resultType"] == "complete"
    assert all(len(server.replies(f"u{number}")) == 1 for number in range(1, 6))


async def test_seals(shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch) -> None:
    """B39: changed, of another agent, tool or argument, or too old: -32602, and the server gets no answer."""
    agent = shelves.agent()
    _, given = await parked(server, agent)
    seal = given["requestState"]
    changed = ("A" if seal[0] != "A" else "B") + seal[1:]
    tries: list[Message] = [
        {"requestState": changed},
        {"requestState": seal, "arguments": {"a": 2}},
        {"requestState": seal, "name": "mcp__s__u"},
        {"requestState": 5},
    ]
    for number, more in enumerate(tries, 10):
        call(agent, number, inputResponses={"r1": YES}, **more)
        error = (await answered(agent, number))["error"]
        assert error["code"] == -32602 and error["data"]["dev.mcphub/error"]["kind"] == "bad_state"
    for other, name in ((shelves.agent("/elsewhere"), "me"), (shelves.agent(), "other")):
        retry(other, given, {"r1": YES}, of=meta(name))
        assert (await answered(other, 2))["error"]["code"] == -32602
    late = time.time_ns() + int(1e9 * (parking.LIFETIME + 1))
    monkeypatch.setattr(time, "time_ns", lambda: late)
    retry(agent, given, {"r1": YES}, 30)
    assert (await answered(agent, 30))["error"]["code"] == -32602
    assert server.replies("u1") == [] and len(server.of("tools/call")) == 1


async def test_the_same_retry_twice(shelves: Bench, server: Shelves) -> None:
    """B40, H7: the server's question is answered once, and both get the same outcome; so does one that comes later."""
    agent, other = shelves.agent(), shelves.agent()
    request, given = await parked(server, agent)
    retry(agent, given, {"r1": YES})
    retry(other, given, {"r1": {"action": "decline"}})
    assert [r["result"] for r in server.replies("u1")] == [YES]
    server.text(request, "done")
    first, second = await answered(agent, 2), await answered(other, 2)
    assert first == second and first["content"][0]["text"] == "done"
    retry(other, given, {"r1": YES}, 3)
    assert await answered(other, 3) == first
    assert len(server.replies("u1")) == 1 and len(server.of("tools/call")) == 1


async def test_a_retry_of_an_earlier_round(shelves: Bench, server: Shelves) -> None:
    """B40: it gets what its answer led to, the next question, and answers nothing."""
    agent = shelves.agent()
    request, given = await parked(server, agent)
    retry(agent, given, {"r1": YES})
    server.ask(ELICIT, FORM, id="u2")
    second = await answered(agent, 2)
    retry(agent, given, {"r1": YES, "r2": YES}, 3)
    assert await answered(agent, 3) == second
    assert server.replies("u2") == [] and len(server.replies("u1")) == 1
    retry(agent, second, {"r2": YES}, 4)
    server.text(request, "done")
    assert (await answered(agent, 4))["resultType"] == "complete"


async def test_nobody_comes_back(shelves: Bench, server: Shelves) -> None:
    """B41: after the limit the server gets `cancel` for its form, errors for the rest, and a cancellation; the slot is
    free, and a late retry is told that the call is gone."""
    patient(shelves, server, 0.05)
    agent = shelves.agent()
    call(agent)
    request = await server.call()
    for number, method in enumerate((ELICIT, SAMPLE, ROOTS)):
        server.ask(method, {**FORM, **MESSAGES}, id=number)
    given = await answered(agent)
    await until(lambda: server.of("notifications/cancelled") != [])
    [told] = server.of("notifications/cancelled")
    assert told["params"]["requestId"] == request["id"]
    assert server.replies(0)[0]["result"] == {"action": "cancel"}
    assert [server.replies(n)[0]["error"]["code"] for n in (1, 2)] == [-1, -32603]
    assert server.messages.index(told) > server.messages.index(server.replies(0)[0])
    retry(agent, given, {"r1": YES})
    error = (await answered(agent, 2))["error"]
    assert error["code"] == -32602 and error["data"]["dev.mcphub/error"]["kind"] == "request_state_lost"
    assert error["message"] == LATE
    client = shelves.worker(server).client
    assert client is not None and client.calls == 0
    assert shelves.gateway.counters["expired_calls"] == 1


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(5):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.005)


async def test_another_hub(shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch) -> None:
    """B42: after a restart the retry is told that the call was interrupted; the tool is not run again."""
    _, given = await parked(server, shelves.agent())
    async with gateway(monkeypatch) as other:
        await other.up(second := Shelves("s", tools=("t", "u")))
        retry(agent := other.agent(), given, {"r1": YES})
        error = (await answered(agent, 2))["error"]
        assert error["code"] == -32602 and error["data"]["dev.mcphub/error"]["kind"] == "request_state_lost"
        assert error["message"] == LOST
        assert error["data"]["dev.mcphub/error"]["retryable"] is False
        assert error["data"]["dev.mcphub/error"]["tool"] == "t"
        assert second.of("tools/call") == []


@pytest.mark.parametrize("how", ["expired", "killed", "too old"])
async def test_what_is_known_of_a_call_that_is_gone(
    shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    """The agent is told what to check, under the id that the call has in the journal, also by another mcphub; that
    nobody answered in time is not called a cancellation."""
    shelves.gateway.outcomes.open(path := str(tmp_path / "calls"))
    if how == "expired":
        patient(shelves, server, 0.05)
    agent = shelves.agent()
    _, given = await parked(server, agent)
    if how == "expired":
        await until(lambda: shelves.gateway.counters["expired_calls"] == 1)
    [record] = shelves.gateway.outcomes.records()()
    if how == "expired":
        assert (record.outcome, record.reason) == (UNKNOWN, "timeout")
    shelves.gateway.outcomes.end()
    said = LOST
    if how == "too old":
        said, late = LATE, time.time_ns() + int(1e9 * (parking.LIFETIME + 1))
        monkeypatch.setattr("mcphub.gateway.rounds.time.time_ns", lambda: late)
    async with gateway(monkeypatch) as other:
        other.gateway.outcomes.open(path)
        await other.up(Shelves("s", tools=("t", "u")))
        retry(again := other.agent(), given, {"r1": YES})
        error = (await answered(again, 2))["error"]
        other.gateway.outcomes.end()
    assert error["code"] == -32602 and error["message"] == f"{said} (what was sent: mcphub calls {record.id})"
    told = error["data"]["dev.mcphub/error"]
    assert (told["kind"], told["retryable"], told["operationId"]) == ("request_state_lost", False, record.id)
    assert (told["server"], told["tool"]) == ("s", "t")


async def test_a_prompt_that_is_gone(shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch) -> None:
    """It only reads, and can be asked for again."""
    agent, params = shelves.agent(), {"name": "mcp__s__p"}
    agent.modern("prompts/get", params, meta=meta())
    await server.got("prompts/get")
    server.ask(ELICIT, FORM)
    given = await answered(agent)
    async with gateway(monkeypatch) as other:
        await other.up(Shelves("s"))
        back = {**params, "requestState": given["requestState"], "inputResponses": {}}
        (again := other.agent()).modern("prompts/get", back, id=2, meta=meta())
        error = (await answered(again, 2))["error"]
    told = error["data"]["dev.mcphub/error"]
    assert "it only reads, so it can be made again" in error["message"]
    assert (told["kind"], told["retryable"], told["tool"]) == ("request_state_lost", True, "prompts/get")


async def test_a_cancel_that_crosses_the_question(shelves: Bench, server: Shelves) -> None:
    """The agent that cancels a request whose answer is a question, which it may not have read, will not come back:
    its call ends at the server. The same word of another agent, or of a round that was taken up, ends nothing."""
    agent, other = shelves.agent(), shelves.agent()
    request, given = await parked(server, agent)
    other.notify("notifications/cancelled", {"requestId": 1})
    assert server.of("notifications/cancelled") == []
    retry(agent, given, {"r1": YES})
    agent.notify("notifications/cancelled", {"requestId": 1})
    assert server.of("notifications/cancelled") == []
    server.text(request, "done")
    await answered(agent, 2)
    request, given = await parked(server, agent, 3)
    agent.notify("notifications/cancelled", {"requestId": 3})
    assert [m["params"]["requestId"] for m in server.of("notifications/cancelled")] == [request["id"]]
    retry(agent, given, {"r1": YES}, 4)
    error = (await answered(agent, 4))["error"]
    assert error["data"]["dev.mcphub/error"]["kind"] == "request_state_lost" and error["message"] == CANCELLED


async def test_why_calls_are_gone_is_kept_of_so_many(
    shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those before, all that it may have been is told."""
    monkeypatch.setattr(parking, "MOST_GONE", 1)
    agent = shelves.agent()
    _, first = await parked(server, agent, 10)
    agent.notify("notifications/cancelled", {"requestId": 10})
    server.answer(await server.got("ping"))  # it has read of that
    _, second = await parked(server, agent, 20)
    agent.notify("notifications/cancelled", {"requestId": 20})
    for number, (given, said) in enumerate(((first, LOST), (second, CANCELLED)), 30):
        retry(agent, given, {"r1": YES}, number)
        assert (await answered(agent, number))["error"]["message"] == said


async def test_a_call_that_ends_while_it_waits(shelves: Bench, server: Shelves) -> None:
    """Its outcome is kept for the retry; the question that it left gets an answer."""
    agent = shelves.agent()
    request, given = await parked(server, agent)
    server.text(request, "done anyway")
    assert server.replies("u1")[0]["result"] == {"action": "cancel"}
    retry(agent, given, {"r1": YES})
    assert (await answered(agent, 2))["content"][0]["text"] == "done anyway"
    assert len(server.replies("u1")) == 1


async def test_a_server_that_dies_while_a_call_waits(shelves: Bench, server: Shelves) -> None:
    """B72: the retry is told so by name; the next session of the server gets neither the call nor an answer."""
    agent = shelves.agent()
    _, given = await parked(server, agent)
    await restarted(shelves, server)
    retry(agent, given, {"r1": YES})
    error = (await answered(agent, 2))["error"]
    assert error["data"]["dev.mcphub/error"]["kind"] == "outcome_unknown"
    assert server.replies("u1") == [] and len(server.of("tools/call")) == 1


async def test_a_server_that_is_gone_when_the_retry_comes(shelves: Bench, server: Shelves) -> None:
    """What became of the call is known, though its server cannot be had."""
    agent = shelves.agent()
    _, given = await parked(server, agent)
    server.refuses = True
    server.lose("gone")
    await shelves.until(lambda: shelves.worker(server).client is None)
    retry(agent, given, {"r1": YES})
    assert (await answered(agent, 2))["error"]["data"]["dev.mcphub/error"]["kind"] == "outcome_unknown"


async def test_a_question_is_withdrawn(shelves: Bench, server: Shelves) -> None:
    """What the agent was given cannot be taken back: its answer goes nowhere, and it waits for what comes."""
    agent = shelves.agent()
    request, given = await parked(server, agent)
    server.notify("notifications/cancelled", {"requestId": "u1"})
    retry(agent, given, {"r1": YES})
    assert server.replies("u1") == [] and agent.answers(2) == []
    server.text(request, "done")
    assert (await answered(agent, 2))["resultType"] == "complete"


async def test_a_question_is_withdrawn_at_once(shelves: Bench, server: Shelves) -> None:
    """Then the agent never hears of it."""
    agent = shelves.agent()
    call(agent)
    request = await server.call()
    server.ask(ELICIT, FORM)
    server.notify("notifications/cancelled", {"requestId": "q"})
    await anyio.sleep(parking.WINDOW * 2)
    assert agent.answers(1) == []
    server.text(request, "done")
    assert (await answered(agent))["resultType"] == "complete"


@pytest.mark.parametrize("how", ["cancelled", "left"])
async def test_the_retry_is_given_up(shelves: Bench, server: Shelves, how: str) -> None:
    """B70: the call ends upstream with the request that waits for it."""
    agent = shelves.agent()
    request, given = await parked(server, agent)
    retry(agent, given, {"r1": YES})
    if how == "left":
        agent.leave()
    else:
        agent.notify("notifications/cancelled", {"requestId": 2})
    [told] = server.of("notifications/cancelled")
    assert told["params"]["requestId"] == request["id"] and agent.answers(2) == []
    retry(other := shelves.agent(), given, {"r1": YES}, 3)
    error = (await answered(other, 3))["error"]
    assert error["data"]["dev.mcphub/error"]["kind"] == "request_state_lost" and error["message"] == CANCELLED


async def test_one_of_two_retries_is_given_up(shelves: Bench, server: Shelves) -> None:
    """The other one waits on."""
    agent, other = shelves.agent(), shelves.agent()
    request, given = await parked(server, agent)
    for one in (agent, other):
        retry(one, given, {"r1": YES})
    agent.leave()
    server.text(request, "done")
    assert (await answered(other, 2))["resultType"] == "complete" and server.of("notifications/cancelled") == []


async def test_what_an_agent_did_not_declare(shelves: Bench, server: Shelves) -> None:
    """B30: it is asked nothing else; the server gets the answer that there is without a person."""
    agent = shelves.agent()
    call(agent, of=meta(can={"elicitation": {}}))
    await server.call()
    server.ask(SAMPLE, MESSAGES, id=1)
    server.ask(ROOTS, id=2)
    server.ask(ELICIT, {"mode": "url", "url": "https://x", "elicitationId": "1", "message": "m"}, id=3)
    assert [server.replies(n)[0].get("error", {}).get("code") for n in (1, 2, 3)] == [-32601, None, -32602]
    assert agent.answers(1) == []


async def test_a_page(shelves: Bench, server: Shelves) -> None:
    """B45: it has no `elicitationId` in the modern era. B47: only the web's addresses are shown."""
    agent = shelves.agent()
    call(agent)
    await server.call()
    page = {"mode": "url", "url": "https://x.test/", "message": "Go"}
    server.ask(ELICIT, {**page, "url": "javascript:x", "elicitationId": "1"}, id=1)
    server.ask(ELICIT, {**page, "elicitationId": "2"}, id=2)
    given = await answered(agent)
    assert server.replies(1)[0]["error"]["code"] == -32602
    assert [one["params"] for one in given["inputRequests"].values()] == [{**page, "message": "[s] Go"}]


async def test_completion_does_not_wait(shelves: Bench, server: Shelves) -> None:
    """B44: what may have no rounds is refused to the server, never a round to the agent."""
    agent = shelves.agent()
    params = {"ref": {"type": "ref/prompt", "name": "mcp__s__p"}, "argument": {"name": "a", "value": "x"}}
    agent.modern("completion/complete", params, id=1, meta=meta())
    await server.got("completion/complete")
    server.ask(ELICIT, FORM)
    assert server.replies()[0]["error"]["code"] == -32602
    await anyio.sleep(parking.WINDOW * 2)
    assert agent.answers(1) == []


async def test_too_many(
    shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only so many calls of one agent wait, and at one server; one more ends, by name, and upstream too. It had begun:
    its agent is told what to check."""
    shelves.gateway.outcomes.open(str(tmp_path / "calls"))

    def newest() -> CallRecord:
        return shelves.gateway.outcomes.records()()[0]

    agent = shelves.agent()
    monkeypatch.setattr(parking, "MOST_OF_AGENT", 1)
    request, _ = await parked(server, agent)
    call(agent, 2, name="mcp__s__u")
    second = await server.call(2)
    server.current = second["id"]
    server.ask(ELICIT, FORM, id="v")
    error = (await answered(agent, 2))["error"]
    told = error["data"]["dev.mcphub/error"]
    assert (told["kind"], told["retryable"], told["operationId"]) == ("too_many_parked", False, newest().id)
    assert error["message"].endswith(f"check before calling it again (what was sent: mcphub calls {newest().id})")
    assert (newest().outcome, newest().reason) == (UNKNOWN, "given_up")
    shelves.gateway.outcomes.end()
    assert server.replies("v")[0]["result"] == {"action": "cancel"}
    [told] = server.of("notifications/cancelled")
    assert told["params"]["requestId"] == second["id"] != request["id"]


async def test_ends_that_nobody_has_asked_for(
    shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are kept whole, and count as calls that wait; once told they do not."""
    agent = shelves.agent()
    monkeypatch.setattr(parking, "MOST_OF_AGENT", 1)
    request, given = await parked(server, agent)
    server.text(request, "done")
    _, refused = await parked(server, agent, 2)
    assert refused["error"]["data"]["dev.mcphub/error"]["kind"] == "too_many_parked"
    server.result((await server.got("ping"))["id"], {})  # it has read of that
    retry(agent, given, {}, 3)
    assert (await answered(agent, 3))["content"][0]["text"] == "done"
    _, given = await parked(server, agent, 4)
    assert given["resultType"] == "input_required"


async def test_progress_while_it_waits(shelves: Bench, server: Shelves) -> None:
    """B28: it goes to whoever waits then, under its own token, and to nobody in between."""
    agent = shelves.agent()
    request, given = await parked(server, agent, of=meta(progressToken="one"))
    token = request["params"]["_meta"]["progressToken"]
    server.notify("notifications/progress", {"progressToken": token, "progress": 1})
    retry(agent, given, {"r1": YES}, of=meta(progressToken="two"))
    server.notify("notifications/progress", {"progressToken": token, "progress": 2})
    server.text(request, "done")
    [told] = agent.of("notifications/progress")
    assert told["params"] == {"progressToken": "two", "progress": 2}
    assert agent.got[-1]["id"] == 2


async def test_a_person_may_take_long(shelves: Bench, server: Shelves) -> None:
    """B71: while the call waits its own clock stands still; then it runs on as before."""
    agent = shelves.agent()
    call(agent)
    await server.call()
    client = shelves.worker(server).client
    assert client is not None
    [waiter] = client.waiting().values()
    before = waiter.deadline
    server.ask(ELICIT, FORM)
    given = await answered(agent)
    assert waiter.deadline > before + 300
    retry(agent, given, {"r1": YES})
    assert waiter.deadline < before + 60 and waiter.hard >= waiter.deadline


async def test_an_agents_other_call_goes_on(shelves: Bench, server: Shelves) -> None:
    """Who was asked may need another call for the answer: it is its own, and waits for nobody."""
    agent = shelves.agent()
    await parked(server, agent)
    call(agent, 5, name="mcp__s__u")
    server.text(await server.call(2), "here")
    assert (await answered(agent, 5))["content"][0]["text"] == "here"


async def test_a_call_that_was_given_up(shelves: Bench, server: Shelves) -> None:
    """Nobody says that it was: a question meanwhile is of what the agent has in flight."""
    agent = shelves.agent()
    await parked(server, agent)
    call(agent, 5, name="mcp__s__u")
    await server.call(2)
    server.ask(ROOTS, id="r")
    given = await answered(agent, 5)
    assert list(given["inputRequests"]) == ["r1"] and given["inputRequests"]["r1"] == {"method": ROOTS}
    retry(agent, given, {"r1": {"roots": []}}, 6, name="mcp__s__u")
    assert server.replies("r")[0]["result"] == {"roots": []} and server.replies("u1") == []


async def test_agents_without_connections(shelves: Bench, server: Shelves) -> None:
    """Over HTTP each request is by itself: those of one name and workspace are one agent's, all others are not."""
    agents = [shelves.agent() for _ in range(3)]
    for agent in agents:
        agent.session.passing = True
    await parked(server, agents[0], name="mcp__s__u")
    call(agents[1], 2)
    await server.call(2)
    call(agents[2], 3, of=meta("other"))
    server.ask(ROOTS, id="r")
    assert (await answered(agents[1], 2))["inputRequests"] == {"r1": {"method": ROOTS}}
    assert len(server.of("tools/call")) == 2, "another agent's waits"


async def test_another_agents_call_waits(shelves: Bench, server: Shelves) -> None:
    """B43: a server whose questions do not say whose they are gets no other agent's call while one waits there."""
    agent, other = shelves.agent(), legacy(shelves)
    request, given = await parked(server, agent)
    other.ask("tools/call", {"name": "mcp__s__u"}, id=1)
    retry(agent, given, {"r1": YES})
    assert len(server.of("tools/call")) == 1
    server.text(request, "done")
    await answered(agent, 2)
    server.text(await server.call(2), "mine")
    assert other.answers(1)[0]["result"]["content"][0]["text"] == "mine"


async def test_an_agent_that_is_gone(
    shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """B43: who has left, and is attached nowhere, holds others up for a short time only: then its call ends as one that
    nobody came back for, in the journal too. While nobody waits, or while it is there, nothing is ended."""
    shelves.gateway.outcomes.open(str(tmp_path / "calls"))
    monkeypatch.setattr(turns, "LOOK", 0.005)
    monkeypatch.setattr(parking, "ABSENT", 0.03)
    agent, second, other = shelves.agent(), shelves.agent(), legacy(shelves)
    second.modern("tools/list", {}, meta=meta())
    request, given = await parked(server, agent)
    agent.leave()
    seat = next(iter(shelves.gateway._parking._calls.values()))
    for waits in (False, True):
        if waits:
            other.ask("tools/call", {"name": "mcp__s__u"}, id=1)
        with anyio.move_on_after(0.1):
            await anyio.sleep_forever()
        assert not seat.end and server.of("notifications/cancelled") == []
    second.leave()
    with anyio.fail_after(5):
        again = await server.call(2)
    assert again["params"]["name"] == "u"
    assert server.of("notifications/cancelled")[0]["params"]["requestId"] == request["id"]
    assert server.replies("u1")[0]["result"] == {"action": "cancel"}
    record = next(one for one in shelves.gateway.outcomes.records()() if one.tool == "t")
    assert (record.outcome, record.reason) == (UNKNOWN, "timeout")
    shelves.gateway.outcomes.end()
    retry(back := shelves.agent(), given, {"r1": YES})
    error = (await answered(back, 2))["error"]
    assert error["data"]["dev.mcphub/error"]["kind"] == "request_state_lost"


async def test_an_agent_that_comes_back(shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch) -> None:
    """In time it loses nothing; one that has no connection may be there, and is waited for."""
    monkeypatch.setattr(turns, "LOOK", 0.002)
    agent, other = shelves.agent(), legacy(shelves)
    request, given = await parked(server, agent)
    agent.leave()
    other.ask("tools/call", {"name": "mcp__s__u"}, id=1)
    monkeypatch.setattr(parking, "ABSENT", 0.0)
    back = shelves.agent()
    back.session.passing = True
    retry(back, given, {"r1": YES})
    server.ask(ELICIT, FORM, id="more")
    assert (await answered(back, 2))["resultType"] == "input_required"
    back.leave()
    with anyio.move_on_after(0.05):
        await anyio.sleep_forever()
    assert server.of("notifications/cancelled") == []
    server.text(request, "done")


async def test_calls_that_ask_side_by_side(
    shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of calls of one agent that all ask none hangs while another one has all the questions; those that wait are
    counted as calls, and one beyond ends alone."""
    monkeypatch.setattr(parking, "MOST_OF_AGENT", 3)
    agent = shelves.agent()
    for id in range(4):
        call(agent, id)
    requests = [await server.call(number) for number in range(1, 5)]
    for id in range(4):
        server.ask(ELICIT, FORM, id=f"u{id}")
    given = [await answered(agent, id) for id in range(3)]
    assert [list(one["inputRequests"]) for one in given] == [["r1"]] * 3
    assert (await answered(agent, 3))["error"]["data"]["dev.mcphub/error"]["kind"] == "too_many_parked"
    assert [server.replies(f"u{id}") for id in range(3)] == [[]] * 3
    for id in range(3):
        retry(agent, given[id], {"r1": YES}, 10 + id)
        assert server.replies(f"u{id}")[0]["result"] == YES
        server.text(requests[id], str(id))
        assert (await answered(agent, 10 + id))["content"][0]["text"] == str(id)


# --- whose a question is --------------------------------------------------------------------------------------------


class Interleaving:
    """Agents of both eras with calls in flight at one legacy server, and what may happen next, in random order.

    The arguments of a call name its agent. A question on the stream of a call is for that call's agent; one without a
    stream names, in its message, the agent whose call made the server ask, which the hub does not look at.
    """

    def __init__(self, bench: Bench, server: Shelves, seed: int) -> None:
        self.random = random.Random(seed)
        self.bench, self.server = bench, server
        self.agents: dict[str, Agent] = {}
        for number in range(4):
            modern = number % 2 == 0
            self.agents[f"agent{number}"] = bench.agent() if modern else legacy(bench)
        self.ids = 0
        self.running: dict[int, str] = {}
        self.questions: dict[str, str] = {}
        #: Those on the stream of a call, and how many were shown.
        self.told: set[str] = set()
        self.shown = 0
        self.taken: dict[str, int] = dict.fromkeys(self.agents, 0)

    def modern(self, name: str) -> bool:
        return int(name[-1]) % 2 == 0

    def sent(self) -> None:
        for message in self.server.of("tools/call")[len(self.running) :]:
            self.running[message["id"]] = message["params"]["arguments"]["who"]

    def call(self) -> None:
        name = self.random.choice(sorted(self.agents))
        self.ids += 1
        params: Message = {"name": "mcp__s__t", "arguments": {"who": name}}
        if self.modern(name):
            self.agents[name].modern("tools/call", params, id=self.ids, meta=meta(name))
        else:
            self.agents[name].ask("tools/call", params, id=self.ids)

    def in_flight(self) -> list[int]:
        client = self.bench.worker(self.server).client
        assert client is not None
        return sorted(id for id in client.waiting() if id in self.running)

    def ask(self) -> None:
        if not (flying := self.in_flight()):
            return
        request = self.random.choice(flying)
        self.ids += 1
        question = f"q{self.ids}"
        self.questions[question] = self.running[request]
        self.server.current = request if self.random.random() < 0.5 else None
        if self.server.current is not None:
            self.told.add(question)
        self.server.ask(ELICIT, {**FORM, "message": self.running[request]}, id=question)
        self.server.current = None

    def end(self) -> None:
        # A server that has asked because of a call waits for the answer before it ends that call.
        for request in self.in_flight():
            who = self.running[request]
            if not any(self.questions[q] == who and not self.server.replies(q) for q in self.questions):
                self.server.text({"id": request}, "done")
                return

    def answer(self) -> None:
        for name, agent in self.agents.items():
            news, self.taken[name] = agent.got[self.taken[name] :], len(agent.got)
            for message in news:
                if message.get("method") == ELICIT:
                    self.right(name, message["params"]["message"])
                    answer = {"action": "accept", "content": {"by": name}}
                    agent.write({"jsonrpc": "2.0", "id": message["id"], "result": answer})
                found = message.get("result", {})
                if found.get("resultType") == "input_required":
                    for one in found["inputRequests"].values():
                        self.right(name, one["params"]["message"])
                    self.ids += 1
                    answers = {key: {"action": "accept", "content": {"by": name}} for key in found["inputRequests"]}
                    params: Message = {"name": "mcp__s__t", "arguments": {"who": name}}
                    more = {"requestState": found["requestState"], "inputResponses": answers}
                    agent.modern("tools/call", {**params, **more}, id=self.ids, meta=meta(name))

    def right(self, name: str, message: str) -> None:
        assert message == f"[s] {name}", f"{name} was asked what {message} was meant to be"
        self.shown += 1

    def check(self) -> None:
        for question, who in self.questions.items():
            replies = self.server.replies(question)
            assert len(replies) <= 1, question
            for reply in replies:
                content = reply.get("result", {}).get("content")
                assert content is None or content == {"by": who}, question
                assert "error" not in reply or question not in self.told, question


@pytest.mark.parametrize("seed", range(40))
async def test_never_the_wrong_agent(shelves: Bench, server: Shelves, seed: int) -> None:
    """B43: over random interleavings of four agents of both eras at one server that asks, no question is shown to
    another agent than the one whose call made the server ask, and no answer of another one reaches the server."""
    world = Interleaving(shelves, server, seed)
    steps = [world.call, world.ask, world.end, world.answer]
    for _ in range(60):
        world.random.choice(steps)()
        world.sent()
        if world.random.random() < 0.2:
            await asyncio.sleep(parking.WINDOW / 8)
        world.sent()
        world.check()
    await anyio.sleep(parking.WINDOW * 1.5)
    world.answer()
    world.check()
    assert world.questions and (world.shown or not world.told), "what can be told is told"


async def test_ends_that_were_told(shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are kept for an agent that asks twice, but only so many of them, and none that is large."""
    monkeypatch.setattr(parking, "MOST_KEPT", 1)
    agent = shelves.agent()
    kept = shelves.gateway._parking._calls
    for number, size in enumerate((1, 1, parking.MAX_KEPT), 1):
        request, given = await parked(server, agent, number * 10)
        retry(agent, given, {"r1": YES}, number * 10 + 1)
        server.text(request, "x" * size)
        await answered(agent, number * 10 + 1)
        assert len(kept) == 1
    retry(agent, given, {"r1": YES}, 99)
    error = (await answered(agent, 99))["error"]
    assert error["data"]["dev.mcphub/error"]["kind"] == "request_state_lost"
    assert error["message"] == lost("it has ended, and what it came to is no longer kept")
