"""One hundred agents on one daemon: every answer to its asker, and nothing of them left when they are gone."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from tests.fakes.agent import Agent, text
from tests.fakes.hub import Fake, Hub, running

pytestmark = pytest.mark.anyio

AGENTS = 100
MIB = 1 << 20
SERVERS = {name: Fake({"era": era}) for name, era in {"old": "legacy", "new": "modern", "locked": "locked"}.items()}


@pytest.fixture(scope="module")
async def hub() -> AsyncIterator[Hub]:
    async with running(SERVERS) as hub:
        await hub.until_state(*SERVERS)
        # What the first agents cost stays: buffers, caches, imports.
        await all_call(hub, 10)
        await hub.until(lambda report: report["sessions"] == [])
        yield hub


async def all_call(hub: Hub, agents: int) -> None:
    """That many agents attach, then all call every server at the same time, alternately in either era."""
    attached, go = 0, anyio.Event()

    async def one(number: int) -> None:
        nonlocal attached
        era = "modern" if number % 2 else "legacy"
        async with await hub.agent(client=f"agent-{number}") as agent:
            await agent.initialize()
            attached += 1
            if attached == agents:
                go.set()
            await go.wait()
            for turn in range(5):
                for name in SERVERS:
                    said = f"{number} {name} {turn}"
                    assert text(await agent.call(f"mcp__{name}__echo", {"text": said}, era=era)) == said
            assert agent.responses == {}

    with anyio.fail_after(50):
        async with anyio.create_task_group() as tasks:
            for number in range(agents):
                tasks.start_soon(one, number)


async def back_to(hub: Hub, descriptors: int, rss: int) -> None:
    """Sessions and descriptors are as before, memory nearly so."""
    await hub.until(lambda report: report["sessions"] == [])
    daemon = (await hub.status())["daemon"]
    with anyio.move_on_after(10):
        while daemon["descriptors"] > descriptors or daemon["rss"] > rss + 15 * MIB:
            daemon = (await hub.status())["daemon"]
    assert daemon["descriptors"] <= descriptors
    assert daemon["rss"] <= rss + 15 * MIB


async def test_one_hundred_agents(hub: Hub) -> None:
    """C159: with one hundred agents calling every server at once, each answer reaches the agent that asked."""
    before = (await hub.status())["daemon"]
    await all_call(hub, AGENTS)
    await back_to(hub, before["descriptors"], before["rss"])


async def test_replies_that_nobody_reads(hub: Hub) -> None:
    """One hundred agents each leave 5 MB unread: no server is held up by it, and the memory comes back."""
    before = (await hub.status())["daemon"]
    agents: list[Agent] = []
    try:
        for _ in range(AGENTS):
            agent = await hub.agent()
            agents.append(agent)
            await agent.start_modern(
                "tools/call", {"name": "mcp__old__do", "arguments": {"actions": [{"big": 5_000_000}]}}
            )
        # A status may be read before what was sent: until then an agent has no name.
        with anyio.fail_after(40):
            while True:
                report = await hub.status()
                arrived = [session for session in report["sessions"] if session["client"]]
                if len(arrived) == AGENTS and not any(server["calls_in_flight"] for server in report["servers"]):
                    break
                await anyio.sleep(0.05)  # for each of them the daemon writes a report of a hundred agents
        async with await hub.agent() as other:
            assert text(await other.call("mcp__old__echo", {"text": "quick"}, era="modern", timeout=5)) == "quick"
    finally:
        for agent in agents:
            await agent.__aexit__(None, None, None)
    await back_to(hub, before["descriptors"], before["rss"])
