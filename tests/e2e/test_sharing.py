"""Who shares a process, and when it runs: lazy servers, unused ones, one a workspace, one an agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters

from tests.fakes.agent import Agent, text
from tests.fakes.http_agent import HttpAgent
from tests.fakes.hub import MCPHUB, Fake, Hub, Place, Report, eventually, row, running

pytestmark = pytest.mark.anyio


def idle(name: str) -> Any:
    """Whether a server is idle, and its process gone."""
    return lambda report: row(report, name)["state_text"] == "pending (idle)" and row(report, name)["pid"] is None


def rows(report: Report, name: str) -> list[Report]:
    return [server for server in report["servers"] if server["name"] == name]


async def agent_in(hub: Hub, workspace: Path | str = "", client: str = "") -> Agent:
    agent = await hub.agent(workspace=workspace, client=client)
    await agent.initialize()
    await agent.tools()  # waits for what is in its first start
    return agent


async def start_of(agent: Agent, name: str) -> int:
    """The process that answers this agent, by the number of its start."""
    answer = await agent.call(f"mcp__{name}__where")
    return int(text(answer))


def telling(**more: Any) -> Fake:
    """A fake whose tool `where` says which process it is, by the number of its start."""
    starts = [{"tools": [{"name": "where", "actions": [{"text": str(n)}]}]} for n in range(1, 9)]
    return Fake({"starts": starts, **more.pop("script", {})}, more)


async def test_a_lazy_server(place: Place) -> None:
    """It is started once for its lists, sleeps with its tools listed, and is started by the first call, which waits; in
    both eras."""
    servers = {"lazy": Fake({"name": "lazy"}, {"lazy": True}), "steady": Fake()}
    async with running(servers, place=place) as hub:
        report = await hub.until(idle("lazy"))
        assert row(report, "lazy")["tools"] == 3
        assert "started when it is used" in row(report, "lazy")["reason"]
        async with await agent_in(hub) as agent:
            assert "mcp__lazy__echo" in [tool["name"] for tool in await agent.tools()]
            assert len(place.starts("lazy")) == 1
            first = await agent.start("tools/call", {"name": "mcp__lazy__echo", "arguments": {"text": "a"}})
            second = await agent.start("tools/call", {"name": "mcp__lazy__echo", "arguments": {"text": "b"}})
            third = await agent.start_modern("tools/call", {"name": "mcp__lazy__echo", "arguments": {"text": "c"}})
            found = [text(await agent.response(each)) for each in (first, second, third)]
            assert found == ["a", "b", "c"]
            assert agent.notifications == []
        assert len(place.starts("lazy")) == 2
        assert row(await hub.status(), "lazy")["state"] == "connected"


async def test_a_lazy_server_that_cannot_start_again(place: Place) -> None:
    """Whoever waits for it is told what is wrong, as a tool's failure; a call that was cancelled gets no answer."""
    script = {"starts": [{}, {"before": [{"stderr": "no luck\n"}, {"exit": 3}]}]}
    async with running({"lazy": Fake(script, {"lazy": True})}, place=place) as hub:
        await hub.until(idle("lazy"))
        async with await agent_in(hub) as agent:
            unwanted = await agent.start("tools/call", {"name": "mcp__lazy__echo", "arguments": {}})
            await agent.notify("notifications/cancelled", {"requestId": unwanted})
            answer = await agent.call("mcp__lazy__echo")
            assert answer["result"]["isError"] is True
            assert "exited with code 3" in text(answer)
            assert unwanted not in agent.responses


async def test_an_agent_leaves_while_it_waits(place: Place) -> None:
    """The server is started all the same, and the daemon goes on."""
    async with running({"lazy": Fake({}, {"lazy": True})}, place=place) as hub:
        await hub.until(idle("lazy"))
        async with await agent_in(hub) as agent:
            await agent.start("tools/call", {"name": "mcp__lazy__echo", "arguments": {}})
            await hub.until(lambda report: row(report, "lazy")["state_text"] != "pending (idle)")
        await hub.until_state("lazy")


async def test_a_server_that_nobody_uses_is_stopped(place: Place) -> None:
    """After `idleTimeout` its process is gone and its tools are there; the next call starts it; a call that takes
    longer than that is use."""
    servers = {"brief": Fake({}, {"idleTimeout": 1000}), "steady": Fake()}
    async with running(servers, place=place) as hub:
        await hub.until_state(*servers)
        report = await hub.until(idle("brief"))
        assert row(report, "steady")["state"] == "connected"
        assert "#eof" in place.received("brief")
        async with await agent_in(hub) as agent:
            answer = await agent.call("mcp__brief__do", {"actions": [{"pause": 1.6}, {"text": "late"}]})
            assert text(answer) == "late"
            assert len(place.starts("brief")) == 2
            await hub.until(idle("brief"))
            assert text(await agent.call("mcp__brief__echo", {"text": "again"})) == "again"
        assert row(await hub.status(), "brief")["last_error"] is None


async def test_one_a_workspace(place: Place) -> None:
    """With `workspace` agents of one directory share a process, others have their own, and for agents without one it is
    not started before there is such an agent."""
    one, two = place.root / "one", place.root / "two"
    for directory in (one, two):
        directory.mkdir()
    async with running({"divided": telling(sharing="workspace"), "steady": Fake()}, place=place) as hub:
        await hub.until_state("steady")
        assert row(await hub.status(), "divided")["state_text"] == "pending (idle)"
        assert place.starts("divided") == []
        async with await agent_in(hub, one) as a, await agent_in(hub, one) as b, await agent_in(hub, two) as c:
            await hub.until_state("divided", workspace=one)
            first = await start_of(a, "divided")
            await hub.until_state("divided", workspace=two)
            assert await start_of(b, "divided") == first
            assert await start_of(c, "divided") != first
            async with await agent_in(hub) as d:
                assert await start_of(d, "divided") == 3
            report = await hub.status(workspace=one)
            used = {server["workspace"]: server["used_by"] for server in rows(report, "divided")}
            assert [len(used[str(directory)]) for directory in (one, two)] == [2, 1]
            assert report["saved"] > 0
            # Who asks from where no agent is has no row for that.
            asked = await hub.status(workspace=place.root)
            assert {server["workspace"] for server in rows(asked, "divided")} == set(used)
            assert str(place.root) not in used
        assert len(place.starts("divided")) == 3


async def test_one_an_agent(place: Place) -> None:
    """With `agent` each has a process of its own, which goes when it leaves; what is shared is shared all the same."""
    async with running({"own": telling(sharing="agent"), "steady": telling()}, place=place) as hub:
        await hub.until_state("steady")
        async with await agent_in(hub, client="first") as a, await agent_in(hub, place.root, client="second") as b:
            assert {await start_of(a, "own"), await start_of(b, "own")} == {1, 2}
            assert await start_of(a, "steady") == await start_of(b, "steady") == 1
            report = await hub.status()
            sessions = {session["client"]: session["id"] for session in report["sessions"]}
            users = [server["used_by"] for server in rows(report, "own") if server["pid"] is not None]
            assert sorted(users) == sorted([[sessions["first"]], [sessions["second"]]])
            assert row(report, "steady")["used_by"] == sorted(sessions.values())
        await eventually(lambda: place.received("own").count("#eof") == 2, timeout=10)


async def test_a_lazy_server_of_each_agent(place: Place) -> None:
    """What one agent's said is known for the next one's: that is not started before it is used."""
    async with running({"own": telling(sharing="agent", lazy=True)}, place=place) as hub, await agent_in(hub) as a:
        assert await start_of(a, "own") in (1, 2)
        started = len(place.starts("own"))
        async with await agent_in(hub) as b:
            assert "mcp__own__where" in [tool["name"] for tool in await b.tools()]
            assert len(place.starts("own")) == started


async def test_a_server_for_all(place: Place) -> None:
    """With `shared` and by default one process serves agents of all directories."""
    servers = {"all": telling(sharing="shared"), "auto": telling()}
    async with running(servers, place=place) as hub:
        await hub.until_state(*servers)
        async with await agent_in(hub) as a, await agent_in(hub, place.root) as b:
            for name in servers:
                assert await start_of(a, name) == await start_of(b, name) == 1


async def test_many_agents_wake_one_server(place: Place) -> None:
    """H7: calls of twenty agents at the same moment start one process, and all are answered."""
    async with running({"lazy": Fake({}, {"lazy": True})}, place=place) as hub:
        await hub.until(idle("lazy"))
        answers: list[str] = []

        async def call(number: int) -> None:
            async with await agent_in(hub) as agent:
                answers.append(text(await agent.call("mcp__lazy__echo", {"text": str(number)})))

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(call, number)
        assert sorted(answers, key=int) == [str(number) for number in range(20)]
        assert len(place.starts("lazy")) == 2


RESOURCES = {
    "capabilities": {"resources": {"subscribe": True}, "tools": {}},
    "on": {
        "resources/list": [{"answer": {"resources": [{"uri": "file:///a", "name": "r"}]}}],
        "resources/templates/list": [{"answer": {"resourceTemplates": []}}],
        "resources/read": [{"answer": {"contents": [{"uri": "file:///a", "text": "x"}]}}],
        "resources/subscribe": [{"answer": {}}],
        "resources/unsubscribe": [{"answer": {}}],
    },
}


async def test_resources_of_a_server_that_sleeps(place: Place) -> None:
    """Reading one starts it and waits; watching one starts it, and keeps it until nobody watches any more."""
    servers = {"brief": Fake(RESOURCES, {"lazy": True, "idleTimeout": 1000})}
    uri = "file:///a"
    async with running(servers, place=place) as hub:
        await hub.until(idle("brief"))
        async with await agent_in(hub) as agent:
            answer = await agent.request("resources/read", {"uri": uri})
            assert answer["result"]["contents"][0]["text"] == "x"
            await hub.until(idle("brief"))
            assert (await agent.request("resources/subscribe", {"uri": uri}))["result"] == {}
            await hub.until_state("brief")
            await eventually(lambda: "resources/subscribe" in methods(place, "brief"), timeout=10)
            assert "#eof" not in place.received("brief")[-1:]
            assert (await agent.request("resources/unsubscribe", {"uri": uri}))["result"] == {}
            await hub.until(idle("brief"))
        assert len(place.starts("brief")) == 3


def methods(place: Place, name: str) -> list[str]:
    return [one.get("method", "") for one in place.received(name) if isinstance(one, dict)]


async def test_one_an_agent_over_http(place: Place) -> None:
    """A legacy session over HTTP is an agent too."""
    settings = '[http]\nlisten = "127.0.0.1:0"\n'
    async with running({"own": telling(sharing="agent")}, place=place, settings=settings) as hub:
        done = await anyio.run_process([str(MCPHUB), "connect", "--print-url"], env=place.environment())
        found = []
        for _ in range(2):
            agent = HttpAgent(done.stdout.decode().strip())
            await agent.initialize()
            await agent.request("tools/list")
            reply = await agent.request("tools/call", {"name": "mcp__own__where", "arguments": {}})
            found.append(reply.response["result"]["content"][0]["text"])
        assert found == ["1", "2"]
        assert len(rows(await hub.status(), "own")) == 2
        assert await hub.control("POST", "/v1/reconnect", body={}) == (200, {"reconnected": ["own"]})


async def test_an_agents_own_server_is_told_what_that_agent_can_do(place: Place) -> None:
    """Not more and not less than the official client declares, in either era; another agent's declaration is no part
    of it, and one that says nothing has none of these servers started."""

    async def elicited(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"colour": "blue"})

    async def sampled(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        return types.CreateMessageResult(role="assistant", content=types.TextContent(text="word"), model="none")

    async def rooted(context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[])

    able: list[dict[str, Any]] = [
        {"elicitation_callback": elicited},
        {"sampling_callback": sampled, "list_roots_callback": rooted},
        {},
    ]
    told: list[Any] = [{"elicitation": {}}, {"roots": {}, "sampling": {}}, {}]
    program = StdioServerParameters(command=str(MCPHUB), args=["connect"], env=place.environment(), cwd=place.root)
    form = {"message": "?", "requestedSchema": {"type": "object", "properties": {"colour": {"type": "string"}}}}
    ask = [{"ask": "elicitation/create", "params": form}, {"reply": True}]
    servers = {"own": Fake({"tools": [{"name": "wonder", "actions": ask}]}, {"sharing": "agent"})}
    async with running(servers, place=place) as hub:
        async with await hub.agent() as silent:
            await silent.request("ping")
            reasons = [one["reason"] for one in rows(await hub.status(), "own") if one["state"] == "pending"]
            assert any("has not said yet what it can do" in reason for reason in reasons)
            for mode in ("legacy", "2026-07-28"):
                for can, expected in zip(able, told, strict=True):
                    with anyio.fail_after(20):
                        async with Client(program, mode=mode, **can) as client:
                            assert "mcp__own__wonder" in {tool.name for tool in (await client.list_tools()).tools}
                    assert declared(place, "own")[-1] == expected
            with anyio.fail_after(20):
                async with Client(program, mode="legacy", **able[0]) as client:
                    await client.list_tools()
                    result = await client.call_tool("mcp__own__wonder", {})
                    assert "blue" in str(result.content)
        assert len(place.starts("own")) == 2 * len(able) + 1


def declared(place: Place, name: str) -> list[Any]:
    """The capabilities of each `initialize` that the fake got."""
    said = [one for one in place.received(name) if isinstance(one, dict) and one.get("method") == "initialize"]
    return [one["params"]["capabilities"] for one in said]
