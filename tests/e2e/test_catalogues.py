"""What lazy servers offer is known over the end of the daemon: nobody starts one to ask it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.agent import Agent, text
from tests.fakes.hub import Fake, Hub, Place, eventually, row, running

pytestmark = pytest.mark.anyio

CHANGED = "notifications/tools/list_changed"
#: A file of resources and prompts as well.
SHELF = {
    "capabilities": {"tools": {}, "prompts": {}},
    "instructions": "Ask politely.",
    "on": {"prompts/list": [{"answer": {"prompts": [{"name": "poem"}]}}]},
}


def idle(*names: str) -> Any:
    """Whether these are idle, and their processes gone."""

    def reached(report: Any) -> bool:
        rows = [row(report, name) for name in names]
        return all(one["state_text"] == "pending (idle)" and one["pid"] is None for one in rows)

    return reached


def files(place: Place) -> list[Path]:
    return sorted((place.root / "state" / "mcphub" / "catalogues").glob("*.catalogue"))


async def names(agent: Agent) -> set[str]:
    return {tool["name"] for tool in await agent.tools()}


async def agent_in(hub: Hub) -> Agent:
    agent = await hub.agent()
    await agent.initialize()
    return agent


async def test_a_lazy_server_is_not_started_by_the_next_daemon(place: Place) -> None:
    """Neither by its start, also after SIGKILL, nor by lists of an agent; the first call starts it. What it then lists
    differently reaches agents, and is what the daemon after that one knows."""
    starts = [{"tools": ["echo", "old"]}, {"tools": ["echo", "new"]}]
    servers = {"lazy": Fake({**SHELF, "starts": starts}, {"lazy": True})}
    async with running(servers, place=place) as hub:
        await hub.until(idle("lazy"))
        await eventually(lambda: files(place), timeout=10)
        assert [path.stat().st_mode & 0o777 for path in files(place)] == [0o600]
        await hub.kill()
    await place.empty(timeout=5)
    async with running(servers, place=place) as hub, await agent_in(hub) as agent:
        assert await names(agent) == {"mcp__lazy__echo", "mcp__lazy__old"}
        prompts = (await agent.request("prompts/list"))["result"]["prompts"]
        assert [prompt["name"] for prompt in prompts] == ["mcp__lazy__poem"]
        report = await hub.status()
        assert idle("lazy")(report) and row(report, "lazy")["tools"] == 2
        assert len(place.starts("lazy")) == 1
        assert text(await agent.call("mcp__lazy__echo", {"text": "hello"})) == "hello"
        assert len(place.starts("lazy")) == 2
        await agent.notification(CHANGED)
        assert await names(agent) == {"mcp__lazy__echo", "mcp__lazy__new"}
    async with running(servers, place=place) as hub, await agent_in(hub) as agent:
        assert await names(agent) == {"mcp__lazy__echo", "mcp__lazy__new"}
        assert len(place.starts("lazy")) == 2


async def test_what_cannot_be_used_is_listed_again(place: Place) -> None:
    """One learning start each for a damaged file, a changed entry and a changed program, and none for the one beside
    them; after that none at all."""
    script = place.root / "main.py"
    script.write_text("one")
    servers = {
        "damaged": Fake({}, {"lazy": True}),
        "steady": Fake({}, {"lazy": True}),
        "entry": Fake({}, {"lazy": True}),
        "program": Fake({}, {"lazy": True, "args": [str(script)]}),
    }
    async with running({"damaged": servers["damaged"]}, place=place) as hub:
        await hub.until(idle("damaged"))
    (damaged,) = files(place)
    async with running(servers, place=place) as hub:
        await hub.until(idle(*servers))
    assert [len(place.starts(name)) for name in servers] == [1, 1, 1, 1]
    assert len(files(place)) == 4
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[: len(whole) // 2])
    script.write_text("another")
    servers["entry"] = Fake({}, {"lazy": True, "env": {"MORE": "1"}})
    async with running(servers, place=place) as hub:
        await hub.until(lambda report: len(place.starts("program")) == 2 and idle(*servers)(report))
        assert "what it offers is listed again" in hub.stderr()
    assert [len(place.starts(name)) for name in servers] == [2, 1, 2, 2]
    assert damaged.read_bytes() == whole
    async with running(servers, place=place) as hub:
        report = await hub.status()
        assert idle(*servers)(report) and all(row(report, name)["tools"] for name in servers)
    assert [len(place.starts(name)) for name in servers] == [2, 1, 2, 2]


async def test_what_was_saved_is_judged_as_what_was_listed(place: Place) -> None:
    """A tool that was withheld is withheld by the next daemon too, which knows it from the file alone."""
    starts = [{"tools": ["echo"]}, {"tools": ["echo", "odd"]}]
    servers = {"lazy": Fake({"starts": starts}, {"lazy": True})}
    settings = '[pinning]\nothers = "withhold"\n'
    async with running(servers, place=place, settings=settings) as hub, await agent_in(hub) as agent:
        await hub.until(idle("lazy"))
        assert text(await agent.call("mcp__lazy__echo", {"text": "a"})) == "a"
        assert await names(agent) == {"mcp__lazy__echo"}
    async with running(servers, place=place) as hub, await agent_in(hub) as agent:
        assert await names(agent) == {"mcp__lazy__echo"}
        assert "withheld" in str(await agent.call("mcp__lazy__odd"))
        assert len(place.starts("lazy")) == 2
