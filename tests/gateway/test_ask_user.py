"""The questions of legacy servers to legacy agents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphub.gateway import ask_user
from tests.gateway.bench import Agent, Bench, Message
from tests.gateway.shelves import ALL, FORM, Shelves, asked, legacy, reply, restarted

pytestmark = pytest.mark.anyio

ELICIT = "elicitation/create"
SAMPLE = "sampling/createMessage"
MESSAGES = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5}


async def calling(server: Shelves, agent: Agent, number: int = 1) -> Message:
    agent.ask("tools/call", {"name": "mcp__s__t"}, id=number)
    return await server.call(number)


@pytest.fixture
async def server(shelves: Bench) -> Shelves:
    await shelves.up(server := Shelves("s"))
    return server


async def test_a_question_and_its_answer(shelves: Bench, server: Shelves) -> None:
    """B46: the agent sees who asks; the server gets the answer as it was given, under its own id."""
    agent = legacy(shelves)
    call = await calling(server, agent)
    server.ask(ELICIT, {**FORM, "x": 1.5}, id=7)
    question = asked(agent)
    assert question["params"] == {**FORM, "message": "[s] Name?", "x": 1.5}
    answer = {"action": "accept", "content": {"a": [1, None]}}
    reply(agent, question, answer)
    assert server.replies(7) == [{"jsonrpc": "2.0", "id": 7, "result": answer}]
    server.text(call, "done")
    assert len(agent.answers(1)) == 1 and agent.of("notifications/cancelled") == []


async def test_sampling(shelves: Bench, server: Shelves) -> None:
    """B47: what would mean every server's context is left out, the rest goes along."""
    agent = legacy(shelves)
    await calling(server, agent)
    server.ask(SAMPLE, {**MESSAGES, "includeContext": "allServers"})
    question = asked(agent, SAMPLE)
    assert question["params"] == MESSAGES
    reply(agent, question, error={"code": -1, "message": "User rejected"})
    [answer] = server.replies()
    assert answer["error"] == {"code": -1, "message": "User rejected"}


async def test_sampling_that_was_not_offered(shelves: Bench) -> None:
    """A server whose entry does not allow it reaches no model, though the agent has one."""
    await shelves.up(server := Shelves("s", sampling=False))
    agent = legacy(shelves)
    await calling(server, agent)
    server.ask(SAMPLE, MESSAGES)
    assert server.replies()[0]["error"]["code"] == -32601 and agent.of(SAMPLE) == []


async def test_a_refused_form(shelves: Bench, server: Shelves) -> None:
    """B36: an agent's error is the server's `cancel`."""
    agent = legacy(shelves)
    await calling(server, agent)
    server.ask(ELICIT, FORM)
    reply(agent, asked(agent), error={"code": -32603, "message": "broken"})
    assert [r["result"] for r in server.replies()] == [{"action": "cancel"}]


@pytest.mark.parametrize("result", [5, None, [], "x", True])
async def test_an_answer_that_is_none(shelves: Bench, server: Shelves, result: Any) -> None:
    """It counts as a refusal."""
    agent = legacy(shelves)
    await calling(server, agent)
    server.ask(ELICIT, FORM)
    reply(agent, asked(agent), result)
    assert [r["result"] for r in server.replies()] == [{"action": "cancel"}]


async def test_only_the_asked_agent_answers_and_once(shelves: Bench, server: Shelves) -> None:
    """Another agent's answer, a second one, and one to a made-up id reach nobody."""
    agent, other = legacy(shelves), legacy(shelves)
    await calling(server, agent)
    server.ask(ELICIT, FORM)
    question = asked(agent)
    reply(other, question, {"action": "accept"})
    for odd in (None, 1, "mcphub-99", "mcphub-01", "x" * 10_000):
        agent.write({"jsonrpc": "2.0", "id": odd, "result": {}})
    assert server.replies() == []
    for action in ("decline", "accept"):
        reply(agent, question, {"action": action})
    assert [r["result"] for r in server.replies()] == [{"action": "decline"}]
    assert shelves.gateway.counters["stray_replies"] == 7


async def two_in_flight(shelves: Bench, server: Shelves, **can: Any) -> tuple[list[Agent], list[Message]]:
    """Two agents with a call each, as the server got it."""
    agents = [legacy(shelves, **can), legacy(shelves, **can)]
    return agents, [await calling(server, agent, number) for number, agent in enumerate(agents, 1)]


async def test_two_agents_in_flight(shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch) -> None:
    """B43: while it is unclear whose a question is, nobody is shown it; where it stays so the server is
    refused, at once where there are as many questions as agents, and it is counted."""
    monkeypatch.setattr(ask_user, "UNCLEAR_LIMIT", 0.05)
    agents, _ = await two_in_flight(shelves, server)
    server.ask(ELICIT, FORM)
    server.ask(SAMPLE, MESSAGES, id="r")
    assert server.replies() == [] and server.replies("r")[0]["error"]["code"] == -32602
    await until(lambda: server.replies() != [])
    assert server.replies()[0]["error"]["code"] == -32602
    assert all(agent.of(ELICIT) == agent.of(SAMPLE) == [] for agent in agents)
    assert shelves.gateway.counters["refused_questions"] == 2
    server.ask("roots/list", id="s")
    assert server.replies("s")[0]["result"] == {"roots": []}


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await anyio.sleep(0.01)


@pytest.mark.parametrize("asker", [0, 1])
async def test_the_other_agents_call_is_answered(shelves: Bench, server: Shelves, asker: int) -> None:
    """The question was not that call's: the agent whose call is left is asked, and answers."""
    agents, calls = await two_in_flight(shelves, server)
    server.ask(ELICIT, FORM)
    assert all(agent.of(ELICIT) == [] for agent in agents)
    server.text(calls[1 - asker], "done")
    assert agents[1 - asker].of(ELICIT) == []
    reply(agents[asker], asked(agents[asker]), {"action": "accept"})
    assert server.replies()[0]["result"] == {"action": "accept"}
    server.text(calls[asker], "done")
    assert shelves.gateway.counters["refused_questions"] == 0


@pytest.mark.parametrize("first", [0, 1])
async def test_two_agents_are_asked_about_at_once(shelves: Bench, server: Shelves, first: int) -> None:
    """One question is refused; the call that ends of it tells whose the other one is."""
    agents, calls = await two_in_flight(shelves, server)
    server.ask(ELICIT, FORM, id=first)
    server.ask(ELICIT, FORM, id=1 - first)
    assert server.replies(1 - first)[0]["error"]["code"] == -32602
    server.text(calls[1 - first], "nobody could be asked")
    reply(agents[first], asked(agents[first]), {"action": "decline"})
    assert server.replies(first)[0]["result"] == {"action": "decline"}
    assert agents[1 - first].of(ELICIT) == []
    assert shelves.gateway.counters["refused_questions"] == 1


@pytest.mark.parametrize("how", ["cancelled", "left"])
async def test_the_other_agents_call_ends_without_an_answer(shelves: Bench, server: Shelves, how: str) -> None:
    """The question may have been that call's, so it stays unclear, and is refused at once."""
    agents, _ = await two_in_flight(shelves, server)
    server.ask(ELICIT, FORM)
    if how == "left":
        agents[0].leave()
    else:
        agents[0].notify("notifications/cancelled", {"requestId": 1})
    assert server.replies()[0]["error"]["code"] == -32602
    assert agents[1].of(ELICIT) == []


async def test_an_unclear_question_is_withdrawn(shelves: Bench, server: Shelves) -> None:
    """Nobody hears of it."""
    agents, calls = await two_in_flight(shelves, server)
    server.ask(ELICIT, FORM)
    server.notify("notifications/cancelled", {"requestId": "q"})
    server.text(calls[0], "done")
    assert server.replies() == [] and agents[1].of(ELICIT) == []


async def test_none_of_several_agents_can_be_asked(shelves: Bench, server: Shelves) -> None:
    """Whoever it is meant for: the answer is that of each."""
    await two_in_flight(shelves, server, capabilities={})
    server.ask(ELICIT, FORM)
    server.ask(SAMPLE, MESSAGES, id="r")
    assert server.replies()[0]["result"] == {"action": "cancel"}
    assert server.replies("r")[0]["error"]["code"] == -32602


async def test_a_question_of_several_agents_calls_when_the_server_is_lost(shelves: Bench, server: Shelves) -> None:
    """It is gone with the server."""
    agents, _ = await two_in_flight(shelves, server)
    server.ask(ELICIT, FORM)
    server.lose("gone")
    assert all(agent.of(ELICIT) == [] for agent in agents)
    assert server.replies() == []


async def test_several_calls_of_one_agent(shelves: Bench, server: Shelves) -> None:
    """They are all its own: it is asked."""
    agent = legacy(shelves)
    for number in (1, 2):
        await calling(server, agent, number)
    server.ask(ELICIT, FORM)
    reply(agent, asked(agent), {"action": "accept"})
    assert len(server.replies()) == 1


async def test_a_question_out_of_nothing(shelves: Bench, server: Shelves) -> None:
    """B44: with no call in flight it is refused; roots are the configured ones."""
    agent = legacy(shelves)
    server.ask(ELICIT, FORM)
    server.ask("roots/list", id=8)
    assert server.replies()[0]["error"]["code"] == -32602
    assert server.replies(8)[0]["result"] == {"roots": []}
    assert agent.of(ELICIT) == agent.of("roots/list") == []


async def test_roots_of_the_calling_agent(shelves: Bench, server: Shelves) -> None:
    """They are relayed as they are, but for those outside of what the person allowed, which are counted."""
    agent = legacy(shelves)
    await calling(server, agent)
    server.ask("roots/list")
    root = {"uri": (Path.home() / "w").as_uri(), "name": "w"}
    reply(agent, asked(agent, "roots/list"), {"roots": [root, {"uri": "file:///etc"}]})
    assert server.replies()[0]["result"] == {"roots": [root]}
    assert shelves.gateway.counters["refused_roots"] == 1


async def test_what_an_agent_did_not_declare(shelves: Bench, server: Shelves) -> None:
    """It is not asked: a form is cancelled, roots are the hub's, sampling is refused."""
    agent = legacy(shelves, {})
    await calling(server, agent)
    for number, method in enumerate((ELICIT, "roots/list", SAMPLE)):
        server.ask(method, {**FORM, **MESSAGES}, id=number)
    assert server.replies(0)[0]["result"] == {"action": "cancel"}
    assert server.replies(1)[0]["result"] == {"roots": []}
    assert server.replies(2)[0]["error"]["code"] == -32601
    assert [m["method"] for m in agent.got if "method" in m] == []


@pytest.mark.parametrize("declared", [None, 5, "x", [], {"form": {}}])
async def test_kinds_of_a_capability(shelves: Bench, server: Shelves, declared: Any) -> None:
    """B31: a capability without `url` is forms only, one without `tools` is plain sampling."""
    agent = legacy(shelves, {"elicitation": declared, "sampling": declared})
    await calling(server, agent)
    server.ask(ELICIT, {"message": "m", "mode": "url", "url": "https://x", "elicitationId": "1"}, id=1)
    server.ask(SAMPLE, {**MESSAGES, "tools": []}, id=2)
    assert [server.replies(i)[0]["error"]["code"] for i in (1, 2)] == [-32602, -32602]
    server.ask(ELICIT, FORM, id=3)
    assert len(agent.of(ELICIT)) == 1


async def test_an_agent_that_opens_pages_only(shelves: Bench, server: Shelves) -> None:
    """B31: a capability with `url` alone is no forms; the server is told what is missing."""
    agent = legacy(shelves, {"elicitation": {"url": {}}})
    await calling(server, agent)
    server.ask(ELICIT, FORM)
    error = server.replies()[0]["error"]
    assert (error["code"], agent.of(ELICIT)) == (-32602, [])
    assert "this agent did not declare elicitation.form" in error["message"]
    server.ask(ELICIT, {**FORM, "mode": "form"}, id=2)
    assert server.replies(2)[0]["error"]["code"] == -32602


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "", 5, None, "data:,x", " https://x"])
async def test_urls_that_nobody_is_sent_to(shelves: Bench, server: Shelves, url: Any) -> None:
    """B47: only http and https reach a person."""
    agent = legacy(shelves, {"elicitation": {"url": {}}})
    await calling(server, agent)
    server.ask(ELICIT, {"message": "m", "mode": "url", "url": url, "elicitationId": "1"})
    assert server.replies()[0]["error"]["code"] == -32602 and agent.of(ELICIT) == []
    server.ask(ELICIT, {"message": "m", "mode": "url", "url": "HTTPS://x", "elicitationId": "1"}, id="ok")
    assert asked(agent)["params"]["url"] == "HTTPS://x"


@pytest.mark.parametrize("params", [None, 5, [], {}, {"message": 5}, {"message": None}, {"message": ["x"]}, "x"])
async def test_questions_that_are_none(shelves: Bench, server: Shelves, params: Any) -> None:
    """They are refused; the call goes on."""
    agent = legacy(shelves)
    call = await calling(server, agent)
    server.ask(ELICIT, params)
    assert server.replies()[0]["error"]["code"] == -32602 and agent.of(ELICIT) == []
    server.text(call, "ok")
    assert len(agent.answers(1)) == 1


async def test_a_form_that_asks_for_a_secret(shelves: Bench, server: Shelves) -> None:
    """It is shown as any other, and counted with the server."""
    agent = legacy(shelves)
    await calling(server, agent)
    server.ask(ELICIT, {**FORM, "requestedSchema": {"type": "object", "properties": {"password": {}}}})
    assert asked(agent)["params"]["requestedSchema"]["properties"] == {"password": {}}
    assert shelves.worker(server).counters()["secret_forms"] == 1


async def test_hostile_texts(shelves: Bench, server: Shelves) -> None:
    """Whatever the message holds, it is one string behind the server's name."""
    agent = legacy(shelves)
    await calling(server, agent)
    for number, message in enumerate(("\0\n[other] x", "漢" * 100_000, "\U0001f600", '"}')):
        server.ask(ELICIT, {**FORM, "message": message}, id=number)
        assert agent.of(ELICIT)[number]["params"]["message"] == "[s] " + message


async def test_a_modern_agent(shelves: Bench, server: Shelves) -> None:
    """Its call is not stopped by a question that it did not say it can answer."""
    agent = shelves.agent()
    agent.modern("tools/call", {"name": "mcp__s__t"}, id=1)
    call = await server.call()
    server.ask(ELICIT, FORM)
    server.ask("roots/list", id=8)
    server.ask(SAMPLE, MESSAGES, id=9)
    assert server.replies()[0]["result"] == {"action": "cancel"}
    assert server.replies(8)[0]["result"] == {"roots": []}
    assert server.replies(9)[0]["error"]["message"] == "the agent does not support sampling"
    server.text(call, "ok")
    assert len(agent.answers(1)) == 1


async def test_the_call_ends_first(shelves: Bench, server: Shelves) -> None:
    """The agent is told that nobody wants an answer, the server gets one that says so, a late one is dropped."""
    agent = legacy(shelves)
    call = await calling(server, agent)
    server.ask(ELICIT, FORM)
    question = asked(agent)
    server.text(call, "done")
    [told] = agent.of("notifications/cancelled")
    assert told["params"]["requestId"] == question["id"]
    reply(agent, question, {"action": "accept"})
    assert [r["result"] for r in server.replies()] == [{"action": "cancel"}]


async def test_the_agent_cancels_its_call(shelves: Bench, server: Shelves) -> None:
    """So ends the question; the server gets its answer and the cancellation."""
    agent = legacy(shelves)
    await calling(server, agent)
    server.ask(SAMPLE, MESSAGES)
    agent.notify("notifications/cancelled", {"requestId": 1})
    assert len(agent.of("notifications/cancelled")) == 1
    assert "error" in server.replies()[0] and len(server.of("notifications/cancelled")) == 1


async def test_the_agent_leaves(shelves: Bench, server: Shelves) -> None:
    """The server is told what somebody who is gone would say; nothing is sent to the agent."""
    agent = legacy(shelves)
    await calling(server, agent)
    server.ask(ELICIT, FORM, id=1)
    server.ask(SAMPLE, MESSAGES, id=2)
    before = len(agent.got)
    agent.leave()
    assert server.replies(1)[0]["result"] == {"action": "cancel"} and "error" in server.replies(2)[0]
    assert len(agent.got) == before


async def test_the_server_is_lost(shelves: Bench, server: Shelves) -> None:
    """The question ends with the call; an answer then goes nowhere, not to the next connection."""
    agent = legacy(shelves)
    await calling(server, agent)
    server.ask(ELICIT, FORM)
    question = asked(agent)
    await restarted(shelves, server)
    assert len(agent.of("notifications/cancelled")) == 1
    reply(agent, question, {"action": "accept"})
    assert server.replies() == []


async def test_the_server_withdraws_its_question(shelves: Bench, server: Shelves) -> None:
    """The agent is told, and its answer is dropped; what withdraws nothing is ignored."""
    agent = legacy(shelves)
    await calling(server, agent)
    server.ask(ELICIT, FORM, id=7)
    for params in ({"requestId": "7"}, {"requestId": None}, {}, {"requestId": [7]}):
        server.notify("notifications/cancelled", params)
    assert agent.of("notifications/cancelled") == []
    server.notify("notifications/cancelled", {"requestId": 7})
    assert len(agent.of("notifications/cancelled")) == 1
    reply(agent, asked(agent), {"action": "accept"})
    assert server.replies(7) == []


async def test_a_flood_of_questions(shelves: Bench, server: Shelves) -> None:
    """Only so many are open; the others are refused."""
    agent = legacy(shelves)
    await calling(server, agent)
    for number in range(ask_user.MAX_OPEN + 5):
        server.ask(ELICIT, FORM, id=number)
    assert len(agent.of(ELICIT)) == ask_user.MAX_OPEN
    assert server.replies(ask_user.MAX_OPEN + 4)[0]["error"]["code"] == -32602


async def test_a_person_may_take_longer_than_a_call(shelves: Bench, server: Shelves) -> None:
    """B71: the call's clock stands still until the last question is answered."""
    agent = legacy(shelves, ALL)
    await calling(server, agent)
    [call] = agent.session.calls.values()
    before = call.deadline
    server.ask(ELICIT, FORM, id=1)
    server.ask(ELICIT, FORM, id=2)
    waits = call.deadline
    assert waits > before
    first, second = agent.of(ELICIT)
    reply(agent, first, {"action": "accept"})
    assert call.deadline == waits
    reply(agent, second, {"action": "accept"})
    assert call.deadline < waits
    with anyio.fail_after(5):
        server.text(await server.call(), "ok")


async def test_two_questions_of_one_agent(shelves: Bench, server: Shelves) -> None:
    """Nothing says which call each is of: the end of one call ends neither question, and the clocks of all that they
    may be of stand still; with the last call the rest is withdrawn."""
    agent = legacy(shelves, ALL)
    first, second = await calling(server, agent, 1), await calling(server, agent, 2)
    one, two = agent.session.calls.values()
    before = two.deadline
    for number in (1, 2, 3):
        server.ask(ELICIT, FORM, id=number)
    assert one.deadline > before and two.deadline > before
    questions = agent.of(ELICIT)
    reply(agent, questions[0], {"action": "accept", "content": {"n": 1}})
    server.text(first, "done")
    assert agent.of("notifications/cancelled") == [] and server.replies(2) == []
    assert two.deadline > before
    reply(agent, questions[1], {"action": "accept", "content": {"n": 2}})
    assert [server.replies(n)[0]["result"]["content"] for n in (1, 2)] == [{"n": 1}, {"n": 2}]
    assert two.deadline > before, "one more is open"
    server.text(second, "done")
    [told] = agent.of("notifications/cancelled")
    assert told["params"]["requestId"] == questions[2]["id"]
    assert server.replies(3)[0]["result"] == {"action": "cancel"}
    assert [len(agent.answers(n)) for n in (1, 2)] == [1, 1]


async def test_a_call_that_was_made_after_the_question(shelves: Bench, server: Shelves) -> None:
    """It cannot be why that was asked: the question ends with the calls that there were, however many follow."""
    agent = legacy(shelves, ALL)
    first, second = await calling(server, agent, 1), await calling(server, agent, 2)
    server.ask(ELICIT, FORM)
    since = agent.session.calls[b"2"].still
    third = await calling(server, agent, 3)
    assert agent.session.calls[b"3"].still == 0.0
    server.text(first, "gave up")
    assert agent.of("notifications/cancelled") == [] and agent.session.calls[b"2"].still == since > 0
    server.text(second, "gave up, too")
    assert len(agent.of("notifications/cancelled")) == 1
    assert server.replies()[0]["result"] == {"action": "cancel"}
    server.text(third, "ok")
    assert [len(agent.answers(n)) for n in (1, 2, 3)] == [1, 1, 1]


async def test_clocks_that_stood_still_together(shelves: Bench, server: Shelves) -> None:
    """Once the last question that may be of a call is answered or withdrawn, its clock runs again."""
    agent = legacy(shelves, ALL)
    for number in (1, 2):
        await calling(server, agent, number)
    for end in ("answered", "withdrawn"):
        server.ask(ELICIT, FORM, id=end)
        calls = list(agent.session.calls.values())
        waits = [call.deadline for call in calls]
        if end == "answered":
            reply(agent, agent.of(ELICIT)[-1], {"action": "decline"})
        else:
            server.notify("notifications/cancelled", {"requestId": end})
        assert all(call.deadline < waited for call, waited in zip(calls, waits, strict=True))


async def test_a_question_on_a_stream_is_of_that_call(shelves: Bench, server: Shelves) -> None:
    """It ends with the call on whose stream it came, whatever else its agent has in flight."""
    agent = legacy(shelves, ALL)
    first = await calling(server, agent, 1)
    await calling(server, agent, 2)
    server.current = first["id"]
    server.ask(ELICIT, FORM, id=1)
    server.current = None
    server.text(first, "done")
    assert len(agent.of("notifications/cancelled")) == 1
    assert server.replies(1)[0]["result"] == {"action": "cancel"}


async def test_a_question_on_the_stream_of_a_call_that_is_over(shelves: Bench, server: Shelves) -> None:
    """It is nobody else's, and the server's calls need not take turns for it."""
    one, two, three = legacy(shelves, ALL), legacy(shelves, ALL), legacy(shelves, ALL)
    first = await calling(server, one, 1)
    await calling(server, two, 2)
    one.notify("notifications/cancelled", {"requestId": 1})
    server.current = first["id"]
    server.ask(ELICIT, FORM)
    server.current = None
    assert one.of(ELICIT) == two.of(ELICIT) == []
    assert "belongs to no call" in server.replies()[0]["error"]["message"]
    await calling(server, three, 3)


async def test_the_server_is_lost_with_two_calls(shelves: Bench, server: Shelves) -> None:
    """No question is handed from one call that is lost to another that is."""
    agent = legacy(shelves, ALL)
    for number in (1, 2):
        await calling(server, agent, number)
    server.ask(ELICIT, FORM)
    await restarted(shelves, server)
    assert len(agent.of("notifications/cancelled")) == 1
    assert [len(agent.answers(n)) for n in (1, 2)] == [1, 1]


@pytest.mark.parametrize(
    ("method", "params", "can", "lacks"),
    [
        (ELICIT, FORM, {}, "elicitation"),
        (ELICIT, {**FORM, "mode": "url", "url": "https://x.test"}, {"elicitation": {}}, "elicitation.url"),
        (SAMPLE, MESSAGES, {}, "sampling"),
    ],
)
@pytest.mark.parametrize("how", ["error", "result"])
async def test_an_error_for_want_of_a_capability(
    shelves: Bench, server: Shelves, method: str, params: Message, can: Message, lacks: str, how: str
) -> None:
    """Where a server gives up since its question could not be asked, its agent is told what it lacks; where it does
    without, nothing is said."""
    agent = shelves.agent()
    info = {"name": "odd agent", "version": "1"}
    agent.one("initialize", {"protocolVersion": "2025-11-25", "capabilities": can, "clientInfo": info}, id="init")
    request = await calling(server, agent)
    server.ask(method, params)
    assert len(server.replies()) == 1
    if how == "error":
        server.refuse(request, -32603, "I need you")
        assert agent.answers(1)[0]["error"]["message"] == f"I need you (the agent odd agent does not support {lacks})"
    else:
        server.result(request["id"], {"content": [{"type": "text", "text": "I need you"}], "isError": True})
        result = agent.answers(1)[0]["result"]
        assert result["content"][0]["text"] == "I need you"
        assert f"odd agent does not support {lacks}" in str(result["_meta"])
    request = await calling(server, agent, 2)
    server.ask(method, params)
    server.text(request, "without")
    assert agent.answers(2)[0]["result"] == {"content": [{"type": "text", "text": "without"}]}


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_server_that_does_not_ask(shelves: Bench, server: Shelves, era: str) -> None:
    """Over HTTP it knows what its agent declared, and fails at once: what its error speaks of is said to be missing
    where it is, and only there."""
    agent = legacy(shelves, {"sampling": {}}) if era == "legacy" else shelves.agent()
    for number, (text, lacks) in enumerate([("Elicitation not supported", True), ("no sampling", era == "modern")], 1):
        if era == "legacy":
            request = await calling(server, agent, number)
        else:
            agent.modern("tools/call", {"name": "mcp__s__t"}, id=number)
            request = await server.call(number)
        server.refuse(request, -32600, text)
        assert agent.answers(number)[0]["error"]["message"].startswith(text)
        assert ("this agent does not support" in agent.answers(number)[0]["error"]["message"]) is lacks
