"""Several agents on one daemon: who starts what, who sees what, and what each state of a server means to a call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.fakes.agent import Agent, text
from tests.fakes.hub import Fake, Hub, Place, eventually, row, running
from tests.fakes.rude_http import RudeHttp, empty

pytestmark = pytest.mark.anyio

ERAS = ("legacy", "modern")


def project(place: Place, name: str, servers: dict[str, Fake]) -> Path:
    """A directory whose `.mcp.json` brings these servers; their logs are called PROJECT-SERVER."""
    workspace = place.root / name
    workspace.mkdir()
    entries = {server: place.entry(f"{name}-{server}", fake) for server, fake in servers.items()}
    (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": entries}), "utf-8")
    return workspace


async def approve(hub: Hub, workspace: Path) -> None:
    """Every server of a project, while nobody works in it."""
    where = str(workspace)
    _, approvals = await hub.control("GET", "/v1/approvals", query={"workspace": where})
    assert approvals["items"]
    for item in approvals["items"]:
        decided = {"workspace": where, "name": item["name"], "digest": item["digest"]}
        assert (await hub.control("POST", "/v1/approve", body=decided))[0] == 200


async def agent_in(hub: Hub, workspace: Path | str = "", client: str = "agent") -> Agent:
    agent = await hub.agent(client=client, workspace=workspace)
    await agent.initialize()
    return agent


async def test_one_start_for_many_who_wait(place: Place) -> None:
    """C161: agents that come to a cold server at the same time share its one start; one that goes in the middle takes
    nothing from the others, who get the tools and their answers."""
    slow = Fake({"before": [{"wait": str(place.root / "go")}]})
    workspace = project(place, "p", {"cold": slow})
    async with running({}, place=place, settings="[lists]\nwait = 20\n") as hub:
        await approve(hub, workspace)
        assert place.starts("p-cold") == []
        agents = [await agent_in(hub, workspace) for _ in range(5)]
        lists = [await agent.start("tools/list") for agent in agents]
        await eventually(lambda: place.starts("p-cold"), timeout=10)
        leaver = agents.pop(0)
        await leaver.__aexit__(None, None, None)
        (place.root / "go").touch()
        for agent, mid in zip(agents, lists[1:], strict=True):
            tools = (await agent.response(mid))["result"]["tools"]
            assert "mcp__cold__echo" in [tool["name"] for tool in tools]
            assert text(await agent.call("mcp__cold__echo", {"text": "x"})) == "x"
        assert len(place.starts("p-cold")) == 1
        for agent in agents:
            await agent.__aexit__(None, None, None)


async def test_a_failed_start_is_not_for_ever(place: Place) -> None:
    """C161: whoever asks after a failure hears of it at once and causes one new attempt, several that ask no more than
    one; when it succeeds, all of them have the server; when it does not, asking on and on starts nothing."""
    bad = {"on": {"initialize": [{"exit": 1}]}}
    fake = Fake({"starts": [bad, bad, {}]}, {"era": "legacy"})
    async with running({"s": fake}, place=place, settings="[connect]\nattempts = 1\n") as hub:
        await hub.until_state("s", state="failed")
        assert len(place.starts("s")) == 2
        a, b = await agent_in(hub), await agent_in(hub)
        async with a, b:
            for agent in (a, b):
                answer = await agent.call("mcp__s__echo", {"text": "x"})
                assert answer["result"]["isError"] is True
            await hub.until_state("s")
            assert len(place.starts("s")) == 3
            for agent in (a, b):
                await agent.notification("notifications/tools/list_changed")
                assert text(await agent.call("mcp__s__echo", {"text": "x"})) == "x"
    always = Fake({**bad}, {"era": "legacy"})
    async with running({"t": always}, place=place, settings="[connect]\nattempts = 1\n") as hub:
        await hub.until_state("t", state="failed")
        async with await agent_in(hub) as agent:
            for _ in range(10):
                assert (await agent.call("mcp__t__echo", {"text": "x"}))["result"]["isError"] is True
            await hub.until_state("t", state="failed")
        assert len(place.starts("t")) == 3


async def test_two_projects_with_one_name(place: Place) -> None:
    """C162: each agent sees the user's servers and its own project's; two servers of one name are two processes, each
    asked by its own agents only, and told its own project's directory."""
    roots_tool = {"name": "roots", "inputSchema": {}, "actions": [{"ask": "roots/list"}, {"reply": 1}]}
    ask = Fake({"tools": ["echo", roots_tool]})
    one = project(place, "one", {"db": ask, "p1": Fake()})
    two = project(place, "two", {"db": ask})
    async with running({"mine": Fake()}, place=place, settings="[lists]\nwait = 20\n") as hub:
        for workspace in (one, two):
            await approve(hub, workspace)
        async with await agent_in(hub, one) as a, await agent_in(hub, two) as b, await agent_in(hub) as c:
            names = [{tool["name"].split("__")[1] for tool in await agent.tools()} for agent in (a, b, c)]
            assert names == [{"mine", "db", "p1"}, {"mine", "db"}, {"mine"}]
            for agent, workspace in ((a, one), (b, two)):
                roots = json.loads(text(await agent.call("mcp__db__roots")))["result"]["roots"]
                assert [root["uri"] for root in roots] == [f"file://{workspace}"]
                assert text(await agent.call("mcp__db__echo", {"text": str(workspace)})) == str(workspace)
            for agent, name in ((b, "mcp__p1__echo"), (c, "mcp__p1__echo"), (c, "mcp__db__echo")):
                assert (await agent.call(name, {"text": "x"}))["error"]["code"] == -32602
        assert [len(place.starts(f"{name}-db")) for name in ("one", "two")] == [1, 1]
        for workspace, other in ((one, two), (two, one)):
            got = json.dumps(place.received(f"{workspace.name}-db"))
            assert str(workspace) in got and str(other) not in got


async def test_a_call_in_each_state(place: Place) -> None:
    """C165: a call of a tool whose server failed, is switched off or in need of a sign-in is answered at once, as a
    tool that failed, with the server's name, its state and what to do; one whose server is starting waits for that
    alone, and is told when it ends; an unknown tool is an error of its caller."""
    async with RudeHttp(lambda request: empty(401)) as far:
        servers: dict[str, Any] = {
            "fine": Fake(),
            "slow": Fake({"on": {"server/discover": [], "initialize": []}}, {"startupTimeout": 6000}),
            **{f"dead-{era}": Fake({"before": [{"exit": 1}]}) for era in ERAS},
            "far": {"type": "http", "url": far.url},
            "off": Fake({}, {"enabled": False}),
        }
        settings = "[connect]\nattempts = 1\n"
        async with running(servers, place=place, settings=settings) as hub, await agent_in(hub) as agent:
            await hub.until_state("fine")
            await hub.until_state(*(f"dead-{era}" for era in ERAS), state="failed")
            await hub.until_state("far", state="needs-auth")
            assert row(await hub.status(), "slow")["state"] == "pending"
            slow = {"name": "mcp__slow__anything", "arguments": {}}
            waiting = [await agent.start("tools/call", slow), await agent.start_modern("tools/call", slow)]
            wanted = {
                "dead-{era}": ("failed", "exited with code 1", "mcphub"),
                "far": ("sign-in", "401", "headers"),
                "off": ("switched off", "mcp.json"),
            }
            for era in ERAS:
                for form, words in wanted.items():
                    name = form.format(era=era)  # a call of a failed one starts it
                    with anyio.fail_after(2):
                        answer = await agent.call(f"mcp__{name}__anything", {"text": "x"}, era=era)
                    assert answer["result"]["isError"] is True, answer
                    said = text(answer)
                    assert f"server {name} " in said
                    assert all(word in said for word in words), said
                answer = await agent.call("mcp__nobody__x", era=era)
                assert answer["error"]["code"] == -32602
                assert text(await agent.call("mcp__fine__echo", {"text": "x"}, era=era)) == "x"
            assert agent.responses == {}
            for call in waiting:
                said = text(await agent.response(call))
                assert "server slow is down" in said and "mcphub reconnect slow" in said


async def test_an_agent_that_sends_without_end(place: Place) -> None:
    """C165: one line without end, four times the limit, ends that agent alone, without the daemon holding more than the
    limit; half a line and answers to nothing disturb nobody."""
    async with running({"fine": Fake()}, place=place) as hub, await agent_in(hub) as calm:
        await hub.until_state("fine")
        before = (await hub.status())["daemon"]["rss"]
        endless = await hub.agent()
        block = b"x" * (1 << 20)
        with anyio.fail_after(60):
            with pytest.raises((anyio.BrokenResourceError, anyio.ClosedResourceError)):
                for n in range(1024):
                    await endless.stream.send(block)
                    if n % 16 == 0:
                        assert text(await calm.call("mcp__fine__echo", {"text": "calm"})) == "calm"
        assert 250 < n < 270
        half = await hub.agent()
        await half.send_line(b'{"jsonrpc":"2.0","id":"hub-1","result":{}}')
        await half.stream.send(b'{"jsonrpc":"2.0","id":1,"method":"tools/')
        await half.__aexit__(None, None, None)
        assert text(await calm.call("mcp__fine__echo", {"text": "calm"})) == "calm"
        await endless.__aexit__(None, None, None)
        with anyio.fail_after(10):
            while len((report := await hub.status())["sessions"]) != 1:
                await anyio.lowlevel.checkpoint()
        assert report["daemon"]["rss"] < before + (100 << 20)
