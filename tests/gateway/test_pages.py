"""The pages that legacy servers want opened."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcphub.gateway import pages
from mcphub.protocol import mrtr
from tests.gateway.bench import META, Agent, Bench, Message
from tests.gateway.shelves import Shelves, legacy, reply

pytestmark = pytest.mark.anyio

COMPLETE = "notifications/elicitation/complete"
ABLE: Message = {META + "clientCapabilities": {"elicitation": {"url": {}}}}
YES = {"page1": {"action": "accept"}}


def step(id: str) -> Message:
    return {"mode": "url", "url": "https://x.test/", "message": "Sign in", "elicitationId": id}


def call(agent: Agent, id: int, method: str = "tools/call", params: Message | None = None, **more: Any) -> None:
    agent.modern(method, {**(params or {"name": "mcp__s__t", "arguments": {"a": 1}}), **more}, id=id, meta=ABLE)


@pytest.fixture
async def server(shelves: Bench) -> Shelves:
    await shelves.up(server := Shelves("s"))
    return server


async def refused(server: Shelves, number: int, *ids: str, method: str = "tools/call") -> None:
    server.refuse(await server.got(method, number), -32042, "Open it", elicitations=[step(id) for id in ids])


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "mcp__s__t", "arguments": {}}),
        ("prompts/get", {"name": "mcp__s__p"}),
        ("resources/read", {"uri": "mcphub://s/x:1"}),
    ],
)
async def test_a_modern_agent_comes_back(shelves: Bench, server: Shelves, method: str, params: Message) -> None:
    """B45: the retry waits until the server says that all pages are done, then the server gets another call, without
    anything of the round; pages of others, and of other servers, do not count."""
    agent = shelves.agent()
    call(agent, 1, method, params)
    await refused(server, 1, "a", "b", method=method)
    given = agent.answers(1)[0]["result"]
    assert "elicitationId" not in str(given["inputRequests"])
    again = {"inputResponses": {"page1": {"action": "accept"}, "page2": {"action": "accept"}}}
    call(agent, 2, method, params, requestState=given["requestState"], **again)
    for odd in ({"elicitationId": "c"}, {"elicitationId": 5}, {}, {"elicitationId": "a"}):
        server.notify(COMPLETE, odd)
    assert len(server.of(method)) == 1 and agent.session.calls.keys() == {b"2"}
    server.notify(COMPLETE, {"elicitationId": "b"})
    request = await server.got(method, 2)
    assert not request["params"].keys() & {"inputResponses", "requestState"}
    server.answer(request, content=[], messages=[], contents=[])
    assert agent.answers(2)[0]["result"]["resultType"] == "complete"


async def test_a_page_that_was_done_before(shelves: Bench, server: Shelves) -> None:
    """Nothing is waited for."""
    agent = shelves.agent()
    call(agent, 1)
    await refused(server, 1, "a")
    server.notify(COMPLETE, {"elicitationId": "a"})
    call(agent, 2, requestState=agent.answers(1)[0]["result"]["requestState"], inputResponses=YES)
    assert len(server.of("tools/call")) == 2


async def test_a_server_that_does_not_tell(shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is bounded; where the server still refuses, the agent is asked again, so many times."""
    monkeypatch.setattr(pages, "WAIT", 0.001)
    agent = shelves.agent()
    call(agent, 1)
    for number in range(1, mrtr.MAX_ROUNDS + 1):
        with anyio.fail_after(5):
            await refused(server, number, f"p{number}")
        given = agent.answers(number)[0]["result"]
        call(agent, number + 1, requestState=given["requestState"], inputResponses=YES)
    with anyio.fail_after(5):
        await refused(server, mrtr.MAX_ROUNDS + 1, "last")
    error = agent.answers(mrtr.MAX_ROUNDS + 1)[0]["error"]
    assert error["code"] == -32603 and error["data"]["dev.mcphub/error"]["kind"] == "needs_page"


async def test_a_wait_that_ends(shelves: Bench, server: Shelves) -> None:
    """Cancelled, it is not sent; where the connection is another one by then, the agent is told that it was not."""
    agent = shelves.agent()
    call(agent, 1)
    await refused(server, 1, "a")
    state = agent.answers(1)[0]["result"]["requestState"]
    call(agent, 2, requestState=state, inputResponses=YES)
    agent.notify("notifications/cancelled", {"requestId": 2})
    server.notify(COMPLETE, {"elicitationId": "x"})
    call(agent, 3, requestState=state, inputResponses=YES)
    server.lose("gone")
    shelves.gateway._pages.completed(server.spec.key(), b'{"elicitationId":"a"}')  # type: ignore[arg-type]
    assert "was not sent to the server s" in agent.answers(3)[0]["result"]["content"][0]["text"]
    assert agent.answers(2) == [] and len(server.of("tools/call")) == 1


def steps_of(agent: Agent, id: int) -> list[Message]:
    found: list[Message] = agent.answers(id)[0]["error"]["data"]["elicitations"]
    return found


async def test_a_legacy_agent_hears_of_its_own(shelves: Bench, server: Shelves) -> None:
    """B45: who was sent to a page, by the error or by a question, hears that it is done, once, and nobody else. It
    knows the page by an id of mcphub's own, the same one for the same page: two servers may have the same id."""
    able: Message = {"elicitation": {"form": {}, "url": {}}}
    agent, other = legacy(shelves, able), legacy(shelves, able)
    agent.ask("tools/call", {"name": "mcp__s__t"}, id=1)
    await refused(server, 1, "a")
    assert agent.answers(1)[0]["error"]["code"] == -32042
    agent.ask("tools/call", {"name": "mcp__s__t"}, id=2)
    await refused(server, 2, "a")
    first, again = ([one["elicitationId"] for one in steps_of(agent, id)] for id in (1, 2))
    await shelves.up(server, second := Shelves("s2"))
    agent.ask("tools/call", {"name": "mcp__s2__t"}, id=3)
    await refused(second, 1, "a")
    [elsewhere] = [one["elicitationId"] for one in steps_of(agent, 3)]
    agent.ask("tools/call", {"name": "mcp__s__t"}, id=4)
    await server.call(3)
    server.ask("elicitation/create", step("b"))
    [question] = agent.of("elicitation/create")
    reply(agent, question, {"action": "accept"})
    own = question["params"]["elicitationId"]
    assert first == again and len({"a", "b", own, *first, elsewhere}) == 5
    for id in ("b", "a", "a", "c"):
        server.notify(COMPLETE, {"elicitationId": id})
    assert [told["params"] for told in agent.of(COMPLETE)] == [{"elicitationId": own}, {"elicitationId": first[0]}]
    assert other.of(COMPLETE) == []
    agent.leave()


async def test_bounds(shelves: Bench, server: Shelves, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that tells of pages for ever fills nothing; an agent that left is forgotten."""
    monkeypatch.setattr(pages, "MOST", 5)
    agent = legacy(shelves, {"elicitation": {"url": {}}})
    for number in range(9):
        server.notify(COMPLETE, {"elicitationId": str(number)})
        shelves.gateway._pages.give(agent.session, server.spec.key(), [f"own{number}"])
    made = shelves.gateway._pages
    assert len(made._done) == len(made._given) == 5
    agent.leave()
    assert made._given == {}
