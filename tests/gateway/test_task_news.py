"""Which agent is told of which task."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcphub.gateway.standing import Standing, decoded, encoded
from tests.gateway.bench import META, Agent, Bench, Message
from tests.gateway.makers import HANDLES, Maker, handle_of, task, text
from tests.gateway.shelves import restarted

pytestmark = pytest.mark.anyio

TOLD = "notifications/tasks"


@pytest.fixture
async def server(shelves: Bench) -> Maker:
    await shelves.up(maker := Maker())
    return maker


def acknowledged(agent: Agent) -> Message:
    [told] = agent.of("notifications/subscriptions/acknowledged")
    found: Message = told["params"]["notifications"]
    return found


def tells(server: Maker, listen: Message, id: str = "up-1", **more: Any) -> None:
    server.notify(TOLD, {**task(id, **more), "_meta": {META + "subscriptionId": listen["id"]}})


async def test_what_is_told(shelves: Bench, server: Maker) -> None:
    """B77: an agent is told of its own tasks alone, under its ids and on its own listen request."""
    agent, other = shelves.agent(), shelves.agent("/w")
    handle = await handle_of(shelves, server, agent)
    second = await handle_of(shelves, server, other, 1, 2)
    agent.modern("subscriptions/listen", {"notifications": {"taskIds": [handle, second, "x", 5]}}, id=7, meta=HANDLES)
    assert acknowledged(agent) == {"taskIds": [handle]}
    listen = await server.got("subscriptions/listen", 2)  # the first is of the lists
    assert listen["params"]["notifications"] == {"taskIds": ["up-1"]}
    tells(server, listen, statusMessage="half")
    tells(server, listen, "up-9")
    tells(server, {"id": 99})
    tells(server, listen, status="completed", result=text("done"))
    first, last = agent.of(TOLD)
    assert first["params"]["taskId"] == last["params"]["taskId"] == handle
    assert first["params"]["_meta"] == {META + "subscriptionId": 7} and "resultType" not in first["params"]
    assert first["params"]["statusMessage"] == "half" and last["params"]["result"] == text("done")
    assert other.of(TOLD) == []
    agent.notify("notifications/cancelled", {"requestId": 7})
    assert (await server.got("notifications/cancelled"))["params"]["requestId"] == listen["id"]
    tells(server, listen)
    assert len(agent.of(TOLD)) == 2


async def test_who_cannot_have_them(shelves: Bench, server: Maker) -> None:
    """B77: an agent without the extension that asks to be told gets -32021."""
    agent = shelves.agent()
    [answer] = agent.modern("subscriptions/listen", {"notifications": {"taskIds": []}})
    assert answer["error"]["code"] == -32021


async def test_the_next_connection(shelves: Bench, server: Maker) -> None:
    """What may have been missed while the connection was away is asked for, and told."""
    agent = shelves.agent()
    handle = await handle_of(shelves, server, agent)
    agent.modern("subscriptions/listen", {"notifications": {"taskIds": [handle]}}, id=7, meta=HANDLES)
    await server.got("subscriptions/listen", 2)
    await restarted(shelves, server)
    server.tells(await server.got("tasks/get"), "up-1", "completed", result=text("done"))
    [told] = agent.of(TOLD)
    assert told["params"]["status"] == "completed" and told["params"]["taskId"] == handle
    listens = [one for one in server.of("subscriptions/listen") if "taskIds" in one["params"]["notifications"]]
    assert len(listens) == 2
    agent.leave()
    assert shelves.gateway._task_news._streams == []


async def test_a_stream_that_ends(shelves: Bench, server: Maker) -> None:
    """One that the server ended in order is asked for again."""
    agent = shelves.agent()
    handle = await handle_of(shelves, server, agent)
    agent.modern("subscriptions/listen", {"notifications": {"taskIds": [handle]}}, id=7, meta=HANDLES)
    server.answer(await server.got("subscriptions/listen", 2))
    again = await server.got("subscriptions/listen", 3)
    tells(server, again)
    await asyncio.sleep(0)
    assert len(agent.of(TOLD)) == 1


async def test_another_daemon(shelves: Bench, server: Maker) -> None:
    """An agent that goes on in another daemon is told of its tasks there."""
    agent = shelves.agent()
    handle = await handle_of(shelves, server, agent)
    agent.modern("subscriptions/listen", {"notifications": {"taskIds": [handle]}}, id=7, meta=HANDLES)
    standing = shelves.gateway.standing(agent.session)
    assert standing.listens == {"7": {"dev.mcphub/tasks": {"s": {"up-1": handle}}}}
    standing = decoded(encoded(standing))
    again = shelves.agent()
    again.session.client = ""  # as long as it has sent nothing
    shelves.gateway.resume(again.session, standing)
    listen = await server.got("subscriptions/listen", 3)
    tells(server, listen)
    [told] = again.of(TOLD)
    assert told["params"]["_meta"] == {META + "subscriptionId": 7}


async def test_a_daemon_that_was_killed(shelves: Bench, server: Maker) -> None:
    """Of its listen requests only what the agent asked for is known: it is told as soon as it says who it is."""
    agent = shelves.agent()
    handle = await handle_of(shelves, server, agent)
    again = shelves.agent()
    again.session.client = "somebody else, for all that is known"
    shelves.gateway.resume(again.session, Standing(listens={"7": {"taskIds": [handle]}}))
    assert len(server.of("subscriptions/listen")) == 1
    again.session.client = agent.session.client
    shelves.gateway.refresh()
    tells(server, await server.got("subscriptions/listen", 2))
    [told] = again.of(TOLD)
    assert told["params"]["taskId"] == handle
    again.leave()
    assert shelves.gateway._task_news._later == {}
