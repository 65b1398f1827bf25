"""The signs of life of a call whose agent's person is asked."""

from __future__ import annotations

import math
from typing import Any

import anyio
import pytest

from mcphub.gateway import signs
from tests.gateway.bench import Agent, Bench, Message
from tests.gateway.shelves import CAPABLE, FORM, Shelves, asked, legacy, reply

pytestmark = pytest.mark.anyio

PROGRESS = "notifications/progress"
QUESTION = {"method": "elicitation/create", "params": FORM}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signs, "EVERY", 0.01)


async def told(agent: Agent, count: int) -> list[Message]:
    with anyio.fail_after(5):
        while len(agent.of(PROGRESS)) < count:  # noqa: ASYNC110
            await anyio.sleep(0.002)
    return [one["params"] for one in agent.of(PROGRESS)]


def call(agent: Agent, id: int, **meta: Any) -> None:
    agent.ask("tools/call", {"name": "mcp__s__t", **({"_meta": meta} if meta else {})}, id=id)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_while_a_person_is_asked(shelves: Bench, era: str) -> None:
    """Under the agent's token, rising, and saying what is waited for, until the answer; then its server's progress goes
    on above it."""
    await shelves.up(server := Shelves("s", era=era))
    agent = legacy(shelves)
    call(agent, 1, progressToken="p")
    request = await server.call()
    token = request["params"]["_meta"]["progressToken"]
    server.notify(PROGRESS, {"progressToken": token, "progress": 0.5})
    if era == "modern":
        server.result(request["id"], {"resultType": "input_required", "inputRequests": {"k": QUESTION}})
    else:
        server.ask("elicitation/create", FORM)
    found = await told(agent, 4)
    assert all(one["progressToken"] == "p" for one in found)
    assert [one["progress"] for one in found] == sorted({one["progress"] for one in found})
    assert "a question of the server s" in found[1]["message"] and found[3]["progress"] < 0.501
    reply(agent, asked(agent), {"action": "accept"})
    if era == "modern":
        request = await server.call(2)
        token = request["params"]["_meta"]["progressToken"]
    before = len(agent.of(PROGRESS))
    for progress in (0.5, 0.75):  # as often as it was told, which is too little now; and more
        server.notify(PROGRESS, {"progressToken": token, "progress": progress})
    assert [one["params"]["progress"] for one in agent.of(PROGRESS)[before:]] == [0.75]
    await anyio.sleep(0.03)
    assert len(agent.of(PROGRESS)) == before + 1
    server.text(request, "done")
    assert len(agent.answers(1)) == 1


async def test_who_gets_none(shelves: Bench) -> None:
    """Nobody without a token, no modern agent, which has its answer, and nothing after the call."""
    await shelves.up(server := Shelves("s"))
    agent, other = legacy(shelves), shelves.agent()
    call(agent, 1)
    request = await server.call()
    server.ask("elicitation/create", FORM)
    await anyio.sleep(0.03)
    server.text(request, "done")
    call(agent, 2, progressToken=7)
    await server.call(2)
    server.ask("elicitation/create", FORM, id="r")
    await told(agent, 1)
    agent.notify("notifications/cancelled", {"requestId": 2})
    before = len(agent.of(PROGRESS))
    other.modern("tools/call", {"name": "mcp__s__t"}, id=3, meta={**CAPABLE, "progressToken": "m"})
    await server.call(3)
    server.ask("elicitation/create", FORM, id="s")
    await anyio.sleep(0.05)
    assert len(agent.of(PROGRESS)) == before and other.of(PROGRESS) == []
    assert all(one["params"]["progressToken"] == 7 for one in agent.of(PROGRESS))


async def test_the_smallest_step(shelves: Bench) -> None:
    """It is a step for numbers of any size."""
    await shelves.up(server := Shelves("s"))
    agent = legacy(shelves)
    call(agent, 1, progressToken=1)
    request = await server.call()
    token = request["params"]["_meta"]["progressToken"]
    server.notify(PROGRESS, {"progressToken": token, "progress": 1e15})
    server.ask("elicitation/create", FORM)
    found = await told(agent, 2)
    assert found[1]["progress"] == math.nextafter(1e15, math.inf)
