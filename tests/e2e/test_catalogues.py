"""What servers offer is known over the end of the daemon: nobody starts a lazy one to ask it, and one that is on its
way shows what it offered."""

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


#: Of a server that is started and says nothing.
HANGS: dict[str, Any] = {"on": {"server/discover": [], "initialize": []}}
SETTINGS = '[pinning]\nothers = "withhold"\n[policy]\ndeniedTools = ["slow/denied"]\n'


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_server_that_is_on_its_way_shows_what_it_offered(place: Place, era: str) -> None:
    """K2.1: also after SIGKILL. Policy, pins and hygiene look at it as at a list that has just come; nobody may keep
    it; calls wait for it, those of tools that it may have meanwhile too; the status says how old it is. What it lists
    then takes its place, and what has not changed is not written again."""
    unclean = {"name": "clean", "description": "a\x1bb", "inputSchema": {"type": "object"}}
    later: list[Any] = ["echo", "denied", unclean, "odd"]
    change = {"name": "change", "inputSchema": {"type": "object"}, "actions": [{"tools": later}, {"text": "done"}]}
    starts = [{"tools": [*later[:-1], change]}, HANGS, {"tools": ["echo", unclean]}]
    servers = {"slow": Fake({"era": era, "starts": starts, **SHELF, "capabilities": {"tools": {}, "prompts": {}}})}
    servers["same"] = Fake({"era": era})
    usual = {"mcp__same__do", "mcp__same__echo", "mcp__same__look"}
    async with running(servers, place=place, settings=SETTINGS) as hub, await agent_in(hub) as agent:
        await hub.until_state("slow", "same")
        assert text(await agent.call("mcp__slow__change")) == "done"
        await eventually(lambda: any(b'"odd"' in path.read_bytes() for path in files(place)), timeout=10)
        await eventually(lambda: len(files(place)) == 2, timeout=10)
        await hub.kill()
    await place.empty(timeout=5)
    written = {path.name: path.stat().st_ino for path in files(place)}
    async with running(servers, place=place, settings=SETTINGS) as hub, await agent_in(hub) as agent:
        await hub.until_state("same")
        assert await names(agent) - usual == {"mcp__slow__clean", "mcp__slow__echo"}
        result = (await agent.modern("tools/list"))["result"]
        [shown] = [tool for tool in result["tools"] if tool["name"] == "mcp__slow__clean"]
        assert shown["description"] == "ab" and result["ttlMs"] == 0
        assert [p["name"] for p in (await agent.request("prompts/list"))["result"]["prompts"]] == ["mcp__slow__poem"]
        calls = [await agent.start("tools/call", {"name": f"mcp__slow__{tool}"}) for tool in ("echo", "new")]
        for tool, expected in {"odd": "withheld", "denied": "policy"}.items():
            assert expected in text(await agent.call(f"mcp__slow__{tool}", {"text": "x"})).lower()
        one = await hub.server("slow")
        assert (one["state"], one["tools"]) == ("pending", 2) and "as another daemon saved it" in one["stale"]
        code, why = await hub.control("GET", "/v1/why/slow")
        assert code == 200 and "as another daemon saved it" in str(why["steps"])
        assert "stale" not in await hub.server("same")
        assert all(call not in agent.responses for call in calls)
    assert {path.name: path.stat().st_ino for path in files(place)} == written
    async with running(servers, place=place, settings=SETTINGS) as hub, await agent_in(hub) as agent:
        await hub.until_state("slow", "same")
        assert await names(agent) - usual == {"mcp__slow__clean", "mcp__slow__echo"}
        assert text(await agent.call("mcp__slow__echo", {"text": "hello"})) == "hello"
        assert "stale" not in await hub.server("slow")
    now = {path.name: path.stat().st_ino for path in files(place)}
    assert len(now.items() - written.items()) == 1, "only what has changed"


async def test_what_was_saved_of_a_server_cannot_be_used(place: Place) -> None:
    """A damaged file is told once in the log, and the list waits for its server as for any other."""
    servers = {"slow": Fake({"starts": [{"tools": ["old"]}, {"before": [{"pause": 0.3}], "tools": ["new"]}]})}
    async with running(servers, place=place) as hub:
        await hub.until_state("slow")
    (path,) = files(place)
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    async with running(servers, place=place) as hub:
        for _ in range(2):
            async with await agent_in(hub) as agent:
                assert await names(agent) == {"mcp__slow__new"}
        assert hub.stderr().count("what it offers is listed again") == 1
    (path,) = files(place)
    assert b'"new"' in path.read_bytes()
