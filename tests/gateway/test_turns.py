"""Calls of different agents to a server that asks."""

from __future__ import annotations

import json
import time

import anyio
import pytest
from msgspec.structs import replace

from mcphub.gateway import turns
from mcphub.gateway.kept import Kept
from mcphub.sessions.http_session import Exchange
from tests.gateway.bench import Agent, Bench, Message
from tests.gateway.shelves import FORM, Sent, Shelves, asked, legacy, reply, restarted

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server(shelves: Bench) -> Shelves:
    """One that has asked."""
    await shelves.up(server := Shelves("s"))
    agent = legacy(shelves)
    call(agent)
    first = await server.call()
    server.ask("elicitation/create", FORM)
    reply(agent, asked(agent), {"action": "accept"})
    server.text(first, "ok")
    agent.leave()
    server.messages.clear()
    return server


def call(agent: Agent, id: int = 1, tool: str = "t") -> None:
    agent.ask("tools/call", {"name": f"mcp__s__{tool}", "arguments": {"id": id}}, id=id)


async def test_one_agent_at_a_time_in_order(shelves: Bench, server: Shelves) -> None:
    """A call of another agent is sent when those before it are over, with what it was made of."""
    one, two, three = legacy(shelves), legacy(shelves), legacy(shelves)
    call(one, 11)
    call(two, 21)
    call(three, 31)
    two.ask("resources/read", {"uri": "x:1"}, id=22)
    first = await server.call()
    assert len(server.of("tools/call")) == 1 and server.of("resources/read") == []
    server.ask("elicitation/create", FORM, id="own")
    assert len(one.of("elicitation/create")) == 1 and two.of("elicitation/create") == []
    server.text(first, "one")
    second = await server.call(2)
    assert second["params"]["arguments"] == {"id": 21} and len(one.answers(11)) == 1
    server.text(second, "two")
    third = await server.call(3)
    assert third["params"]["arguments"] == {"id": 31} and server.of("resources/read") == []
    server.text(third, "three")
    server.answer(await server.got("resources/read"), contents=[])
    assert len(two.answers(21)) == len(two.answers(22)) == len(three.answers(31)) == 1


async def test_calls_of_one_agent_go_together(shelves: Bench, server: Shelves) -> None:
    """It is not slower than before, as long as nobody else waits."""
    one = legacy(shelves)
    for number in range(5):
        call(one, number)
    await server.call(5)


async def test_the_answer_may_need_another_call(shelves: Bench, server: Shelves) -> None:
    """Who was asked may call again though another waits: else neither would ever go on."""
    one, two = legacy(shelves), legacy(shelves)
    call(one, 1)
    await server.call()
    call(two, 2)
    call(one, 3)
    assert len(server.of("tools/call")) == 1
    server.ask("elicitation/create", FORM)
    call(one, 4)
    assert (await server.call(2))["params"]["arguments"] == {"id": 4}


async def test_who_has_answered_waits_as_all_do(shelves: Bench, server: Shelves) -> None:
    """An agent that answers each question at once, and always has a call in flight, keeps nobody from his turn."""
    one, two = legacy(shelves), legacy(shelves)
    call(one, 1)
    first = await server.call()
    server.ask("elicitation/create", FORM)
    reply(one, asked(one), {"action": "accept"})
    call(two, 2)
    call(one, 3)
    assert len(server.of("tools/call")) == 1
    server.text(first, "one")
    assert (await server.call(2))["params"]["arguments"] == {"id": 2}


async def test_who_waits_cancels(shelves: Bench, server: Shelves) -> None:
    """The server never hears of it, and the next one's turn comes."""
    one, two, three = legacy(shelves), legacy(shelves), legacy(shelves)
    call(one, 1)
    call(two, 2)
    call(three, 3)
    two.notify("notifications/cancelled", {"requestId": 2})
    server.text(await server.call(), "one")
    assert (await server.call(2))["params"]["arguments"] == {"id": 3}
    assert two.answers(2) == [] and server.of("notifications/cancelled") == []


async def test_who_waits_leaves(shelves: Bench, server: Shelves) -> None:
    """So it is with an agent that is gone; and the turn of one that leaves in flight is over."""
    one, two, three = legacy(shelves), legacy(shelves), legacy(shelves)
    call(one, 1)
    call(two, 2)
    call(three, 3)
    await server.call()
    two.leave()
    one.leave()
    server.answer(await server.got("ping"))
    assert (await server.call(2))["params"]["arguments"] == {"id": 3}


async def test_who_is_in_flight_cancels(shelves: Bench, server: Shelves) -> None:
    """What the server asks before it has read that is no question to the next agent, whose turn comes then."""
    one, two = legacy(shelves, {"elicitation": {}}), legacy(shelves, {"elicitation": {}})
    call(one, 1)
    await server.call()
    one.notify("notifications/cancelled", {"requestId": 1})
    call(two, 2)
    ping = await server.got("ping")
    assert server.of("notifications/cancelled") and len(server.of("tools/call")) == 1
    server.ask("elicitation/create", FORM)
    assert two.of("elicitation/create") == one.of("elicitation/create") == []
    assert "belongs to no call" in server.replies()[0]["error"]["message"]
    server.answer(ping)
    assert (await server.call(2))["params"]["arguments"] == {"id": 2}
    server.ask("elicitation/create", FORM, id="own")
    assert len(two.of("elicitation/create")) == 1


async def test_the_first_question_may_be_of_a_call_that_was_withdrawn(shelves: Bench) -> None:
    """Nothing took turns before it, so it is unclear whose it is, and nobody gets it."""
    await shelves.up(server := Shelves("s"))
    one, two = legacy(shelves, {"elicitation": {}}), legacy(shelves, {"elicitation": {}})
    call(one, 1)
    call(two, 2)
    one.notify("notifications/cancelled", {"requestId": 1})
    second = await server.call(2)
    server.ask("elicitation/create", FORM)
    assert two.of("elicitation/create") == one.of("elicitation/create") == []
    assert "whom this asks is unclear" in server.replies()[0]["error"]["message"]
    server.ask("elicitation/create", FORM, id="as unclear")
    server.answer(await server.got("ping"))
    assert two.of("elicitation/create") == [] and len(server.replies("as unclear")) == 1
    server.ask("elicitation/create", FORM, id="of the second")
    assert len(two.of("elicitation/create")) == 1
    server.text(second, "two")


async def cancelled(shelves: Bench, server: Shelves) -> tuple[Agent, list[Message]]:
    """An agent's call, and what the server got, after another's that was sent before was cancelled."""
    one, two = legacy(shelves, {"elicitation": {}, "roots": {}}), legacy(shelves, {"elicitation": {}, "roots": {}})
    call(one, 1)
    call(two, 2)
    calls = [await server.call(1), await server.call(2)]
    one.notify("notifications/cancelled", {"requestId": 1})
    return two, calls


async def test_the_first_question_once_it_has_read(shelves: Bench) -> None:
    """A ping behind the cancellation says so before anybody asks: nothing is unclear then, and nothing refused."""
    await shelves.up(server := Shelves("s"))
    two, _ = await cancelled(shelves, server)
    server.answer(await server.got("ping"))
    server.ask("elicitation/create", FORM)
    assert len(two.of("elicitation/create")) == 1 and server.replies() == []
    assert len(server.of("ping")) == 1


async def test_a_late_answer_says_that_it_is_done(shelves: Bench) -> None:
    """A server that works on one call after the other answers the cancelled one before it reads of that."""
    await shelves.up(server := Shelves("s"))
    two, [first, _] = await cancelled(shelves, server)
    server.text(first, "late")
    server.ask("elicitation/create", FORM)
    assert len(two.of("elicitation/create")) == 1 and server.replies() == []


async def test_an_answer_behind_it_says_so_too(shelves: Bench) -> None:
    """One that answers no ping has read all the same what came before a call that it has answered."""
    await shelves.up(server := Shelves("s"))
    two, [_, second] = await cancelled(shelves, server)
    call(two, 3)
    call(two, 4)
    third = await server.call(3)
    server.text(second, "sent before")
    server.ask("elicitation/create", FORM, id="unclear")
    assert two.of("elicitation/create") == [] and "unclear" in server.replies("unclear")[0]["error"]["message"]
    server.text(third, "sent behind it")
    server.ask("elicitation/create", FORM)
    assert len(two.of("elicitation/create")) == 1


async def test_roots_are_not_told_for_a_call_of_another(shelves: Bench) -> None:
    """A server that asks for roots because of a cancelled call gets mcphub's own answer, and takes no turns for it."""
    await shelves.up(server := Shelves("s"))
    two, _ = await cancelled(shelves, server)
    server.ask("roots/list")
    assert two.of("roots/list") == [] and server.replies()[0]["result"] == {"roots": []}
    assert shelves.gateway.counters["refused_questions"] == 1
    server.answer(await server.got("ping"))
    server.ask("roots/list", id="own")
    assert len(two.of("roots/list")) == 1
    call(legacy(shelves), 3)
    await server.call(3)


async def test_a_server_that_reads_nothing_for_long(
    shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It works on the cancelled call still: the next agent's is sent after a while, and what is asked stays unclear
    until the server has read of the end, however long that takes."""
    monkeypatch.setattr(turns, "SETTLES", 0.01)
    one, two = legacy(shelves, {"elicitation": {}}), legacy(shelves, {"elicitation": {}})
    call(one, 1)
    await server.call()
    one.notify("notifications/cancelled", {"requestId": 1})
    call(two, 2)
    ping = await server.got("ping")
    await server.call(2)
    server.ask("elicitation/create", FORM)
    assert two.of("elicitation/create") == [] and "unclear" in server.replies()[0]["error"]["message"]
    server.answer(ping)
    server.ask("elicitation/create", FORM, id="own")
    assert len(two.of("elicitation/create")) == 1


async def test_a_server_that_reads_in_no_known_order(shelves: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over HTTP no answer tells what it has read, so the clock does."""
    await shelves.up(server := Shelves("s"))
    client = shelves.worker(server).client
    assert client is not None
    client.in_order = False
    two, _ = await cancelled(shelves, server)
    server.ask("elicitation/create", FORM, id="soon")
    assert two.of("elicitation/create") == [] and "unclear" in server.replies("soon")[0]["error"]["message"]
    monkeypatch.setattr(turns, "SETTLES", 0.0)
    server.ask("elicitation/create", FORM)
    assert len(two.of("elicitation/create")) == 1


async def test_a_server_that_never_says_that_it_has_read(
    shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in nobody's way for long; the same agent need not wait at all."""
    monkeypatch.setattr(turns, "SETTLES", 0.01)
    one, two = legacy(shelves), legacy(shelves)
    call(one, 1)
    await server.call()
    one.notify("notifications/cancelled", {"requestId": 1})
    call(one, 2)
    server.text(await server.call(2), "two")
    call(two, 3)
    assert (await server.call(3))["params"]["arguments"] == {"id": 3}


async def test_the_connection_is_lost(shelves: Bench, server: Shelves) -> None:
    """What waited was not sent, and the agent may call again; the new connection takes turns as well."""
    one, two = legacy(shelves), legacy(shelves)
    call(one, 1)
    await server.call()
    call(two, 2)
    await restarted(shelves, server)
    [answer] = two.answers(2)
    assert answer["result"]["_meta"]["dev.mcphub/error"]["kind"] == "lost" and answer["result"]["isError"]
    assert "not sent" in answer["result"]["content"][0]["text"]
    assert one.answers(1)[0]["error"]["data"]["dev.mcphub/error"]["kind"] == "outcome_unknown"
    server.messages.clear()
    call(one, 3)
    call(two, 4)
    await server.call()
    assert len(server.of("tools/call")) == 1


async def test_waiting_is_bounded(shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many wait; the next one is told that it was not sent."""
    monkeypatch.setattr(turns, "MAX_WAITING", 1)
    one, two = legacy(shelves), legacy(shelves)
    call(one, 1)
    call(two, 2)
    call(two, 3)
    assert two.answers(2) == []
    [answer] = two.answers(3)
    assert answer["result"]["isError"] and answer["result"]["_meta"]["dev.mcphub/error"]["kind"] == "busy"


async def test_questions_of_roots_alone(shelves: Bench) -> None:
    """A server that only looks at roots, as most do at their start, stays fast for everybody."""
    await shelves.up(server := Shelves("s"))
    server.ask("roots/list")
    one, two = legacy(shelves), legacy(shelves)
    call(one, 1)
    call(two, 2)
    await server.call(2)


async def test_requests_that_stand_for_one_agent(shelves: Bench, server: Shelves) -> None:
    """Over HTTP each request of an agent has an answer of its own: they are one agent's all the same."""
    one, two = legacy(shelves), legacy(shelves)
    for number in (1, 2):
        Exchange(one.session, Sent()).frame(memoryview(json.dumps(request(number)).encode()))
    await server.call(2)
    call(two, 3)
    assert len(server.of("tools/call")) == 2


def request(id: int) -> Message:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "mcp__s__t"}}


async def test_whether_it_is_free(shelves: Bench, server: Shelves) -> None:
    """What a server asks next is this call's question as long as no other agent's is in flight there."""
    one, two = legacy(shelves), legacy(shelves)
    call(one, 11)
    call(two, 21)
    turns_of = shelves.gateway._turns
    assert turns_of.is_free(one.session.calls[b"11"]) and not turns_of.is_free(two.session.calls[b"21"])
    server.text(await server.call(), "one")
    server.text(await server.call(2), "two")


async def test_how_many_wait(shelves: Bench, server: Shelves) -> None:
    """They are counted among those that wait at that server, until they are sent or wait no more."""
    one, two = legacy(shelves), legacy(shelves)
    call(one, 1)
    for id in (2, 3, 4):
        call(two, id)
    assert shelves.gateway.held() == {server.spec.key(): 3}
    two.notify("notifications/cancelled", {"requestId": 3})
    assert shelves.gateway.held() == {server.spec.key(): 2}
    server.text(await server.call(), "ok")
    await server.call(3)
    assert not shelves.gateway.held()


async def test_bytes_that_wait_are_bounded(
    shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is beyond is told so, and all is free again when nothing waits."""
    monkeypatch.setattr(shelves.gateway._turns, "_kept", kept := Kept(10_000, 10_000))
    one, two = legacy(shelves), legacy(shelves)
    call(one, 1)
    for id in (2, 3, 4):
        two.ask("tools/call", {"name": "mcp__s__t", "arguments": {"id": id, "pad": "x" * 4000}}, id=id)
    [answer] = two.answers(4)
    assert answer["result"]["_meta"]["dev.mcphub/error"]["kind"] == "busy"
    assert "of this agent's calls wait already" in answer["result"]["content"][0]["text"] and kept.total > 8_000
    two.leave()
    assert kept.total == 0


async def test_a_call_past_its_deadline_is_not_sent(shelves: Bench, server: Shelves) -> None:
    """Though its turn comes in the very moment, and nobody has looked since."""
    one, two = legacy(shelves), legacy(shelves)
    call(one, 1)
    task = {"dev.mcphub/task": {"id": "t", "deadline": time.time_ns() / 1e6 + 30}}
    two.ask("tools/call", {"name": "mcp__s__t", "arguments": {"id": 2}, "_meta": task}, id=2)
    first = await server.call()
    time.sleep(0.05)  # noqa: ASYNC251  the loop must not run meanwhile
    server.text(first, "ok")
    with anyio.fail_after(5):
        while not two.answers(2):
            await anyio.lowlevel.checkpoint()
    assert two.answers(2)[0]["result"]["_meta"]["dev.mcphub/error"]["kind"] == "task_budget"
    assert len(server.of("tools/call")) == 1


def told(agent: Agent, id: int) -> tuple[str, str, bool]:
    """The kind, the text, and whether to call again, of a call's failure."""
    result = agent.answers(id)[0]["result"]
    error = result["_meta"]["dev.mcphub/error"]
    return error["kind"], result["content"][0]["text"], error["retryable"]


async def test_a_person_thinks(shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others wait for an answer so long only, and are told by name who was asked; for a call that nobody is asked for
    they wait on."""
    monkeypatch.setattr(turns, "LOOK", 0.005)
    monkeypatch.setattr(turns, "PATIENCE", 0.05)
    one, two = legacy(shelves), legacy(shelves)
    one.session.client = "clau\x07de"
    call(one, 1)
    first = await server.call()
    call(two, 2)
    with anyio.move_on_after(0.1):
        await anyio.sleep_forever()
    assert two.answers(2) == [], "nobody was asked"
    began = anyio.current_time()
    server.ask("elicitation/create", FORM, id="own")
    with anyio.fail_after(5):
        while not two.answers(2):  # noqa: ASYNC110
            await anyio.sleep(0.002)
    kind, text, again = told(two, 2)
    assert (kind, again) == ("busy", True) and anyio.current_time() - began < 2
    assert "were in the way for 0." in text and ": the agent claude has not answered a question of it for 0 s" in text
    assert one.of("notifications/cancelled") == [] and len(server.of("tools/call")) == 1
    reply(one, one.of("elicitation/create")[-1], {"action": "accept"})
    server.text(first, "one")
    assert len(one.answers(1)) == 1
    call(two, 3)
    server.text(await server.call(2), "two")
    assert len(two.answers(3)) == 1


async def test_who_is_in_the_way_at_the_deadline(shelves: Bench, server: Shelves) -> None:
    """B43: the error of a call that was not sent in time says who has not answered."""
    worker = shelves.worker(server)
    worker.spec = replace(worker.spec, call_timeout=0.05)
    one, two = legacy(shelves), legacy(shelves)
    call(one, 1)
    await server.call()
    server.ask("elicitation/create", FORM, id="own")
    call(two, 2)
    with anyio.fail_after(5):
        while not two.answers(2):  # noqa: ASYNC110
            await anyio.sleep(0.002)
    kind, text, _ = told(two, 2)
    assert kind == "busy" and "for 0.05 s: an agent without a name has not answered a question of it" in text


async def test_a_question_that_may_be_of_the_same_agents_withdrawn_call(shelves: Bench, server: Shelves) -> None:
    """B43, B70: it is shown for no other call, of that agent neither, until the server has shown that it has read of
    the withdrawal: a call that was cancelled does not go on by an answer. Its roots it may be told."""
    agent = legacy(shelves)
    agent.ask("tools/call", {"name": "mcp__s__t"}, id=1)
    await server.call()
    agent.notify("notifications/cancelled", {"requestId": 1})
    call(agent, 2)
    request = await server.call(2)
    server.ask("elicitation/create", FORM, id="late")
    server.ask("roots/list", id="roots")
    assert agent.of("elicitation/create") == [] and len(agent.of("roots/list")) == 1
    [refusal] = server.replies("late")
    assert refusal["error"]["code"] == -32602 and "was cancelled" in refusal["error"]["message"]
    server.result((await server.got("ping"))["id"], {})
    server.ask("elicitation/create", FORM, id="now")
    assert len(agent.of("elicitation/create")) == 1
    server.text(request, "ok")
