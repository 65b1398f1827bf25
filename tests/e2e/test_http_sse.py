"""Official servers of the HTTP+SSE transport, from an agent's end: found, called, cancelled, lost and back again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import psutil
import pytest

from tests.e2e.test_counterparts import INSTALLED, node
from tests.e2e.test_http_upstream import CHANGED, attached, far
from tests.fakes.agent import text
from tests.fakes.hub import eventually, row, running
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import RudeHttp, body, encoded, event

pytestmark = pytest.mark.anyio


def entry(url: str, kind: str = "sse") -> dict[str, Any]:
    return {"type": kind, "url": url}


@pytest.mark.parametrize("kind", ["sse", "http"])
@pytest.mark.parametrize("agents", ["legacy", "modern"])
async def test_list_call_and_cancel(kind: str, agents: str) -> None:
    """C082: a server of the official SDK that has this transport alone is used by agents of either era, whether its
    entry says so or asks for Streamable HTTP; its row says what it is, progress comes, and a cancelled call is
    cancelled there."""
    async with far("--sse") as server, running({"far": entry(server.url, kind)}) as hub, attached(hub) as agent:
        report = await hub.until_state("far")
        found = row(report, "far")
        assert (found["transport"], found["command"], found["pid"]) == (kind, [server.url], None)
        assert (found["era"], found["tools"]) == ("legacy", 3)
        assert any("HTTP+SSE" in warning for warning in found["warnings"]) == (kind == "http")
        tools = await agent.tools(era=agents)
        assert [tool["name"] for tool in tools] == ["mcp__far__count", "mcp__far__echo", "mcp__far__slow"]
        for said in ("漢🙂", "", "x" * 100_000):
            assert text(await agent.call("mcp__far__echo", {"text": said}, era=agents)) == said
        params = {"name": "mcp__far__slow", "arguments": {"seconds": 0}}
        token = {"progressToken": "p1"}
        if agents == "modern":
            done = await agent.modern("tools/call", params, meta=token)
        else:
            done = await agent.request("tools/call", {**params, "_meta": token})
        assert text(done) == "slow"
        progress = [n["params"]["progress"] for n in agent.notifications if n["method"] == "notifications/progress"]
        assert progress == [1, 2, 3]
        for word in ("begun", "done"):
            await server.says(word)
        mid = await agent.start("tools/call", {"name": "mcp__far__slow", "arguments": {}})
        await server.says("begun")
        await agent.notify("notifications/cancelled", {"requestId": mid, "reason": "enough"})
        await server.says("cancelled")
        assert text(await agent.call("mcp__far__echo", {"text": "next"})) == "next"
        assert mid not in agent.responses


async def test_several_agents_at_once() -> None:
    """C084, C159: answers to many calls of many agents share one stream, and each reaches the agent that asked."""
    async with far("--sse") as server, running({"far": entry(server.url)}) as hub:
        await hub.until_state("far")

        async def ask(number: int) -> None:
            async with attached(hub) as agent:
                wanted = {await agent.start(
                    "tools/call", {"name": "mcp__far__echo", "arguments": {"text": f"{number}-{n}"}}
                ): f"{number}-{n}" for n in range(20)}  # fmt: skip
                for mid, said in wanted.items():
                    assert text(await agent.response(mid)) == said

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                for number in range(8):
                    tasks.start_soon(ask, number)


async def test_timers_of_calls_on_one_stream() -> None:
    """C084: each call has a timer of its own: what one of them brings on the stream that all share holds up no other's,
    and one that is late is ended alone."""
    mcp = OrdinaryMcp(era="sse")
    servers = {"far": {**entry(""), "timeout": 1000}}
    async with RudeHttp(mcp, path="/sse") as server:
        servers["far"]["url"] = server.url
        async with running(servers) as hub, attached(hub) as agent:
            await hub.until_state("far")
            server.on("tools/call", body(b"Accepted", "text/plain", status=202), times=2)
            params = {"name": "mcp__far__echo", "arguments": {}}
            busy = await agent.start("tools/call", {**params, "_meta": {"progressToken": "busy"}})
            late = await agent.start("tools/call", {**params, "_meta": {"progressToken": "late"}})
            await server.until(lambda: len(server.sent("tools/call")) == 2)
            first = server.sent("tools/call")[0]
            token = first.params["_meta"]["progressToken"]
            for step in range(1, 9):
                said = {"progressToken": token, "progress": step}
                mcp.feeds[-1].send(
                    event(encoded({"jsonrpc": "2.0", "method": "notifications/progress", "params": said}))
                )
                with anyio.move_on_after(0.3):  # more often than each call's second of silence
                    await server.until(lambda: False)
            assert "within 1 s" in (await agent.response(late))["error"]["message"]
            await server.until(lambda: server.sent("notifications/cancelled"))
            result = {"content": [{"type": "text", "text": "after all"}]}
            mcp.feeds[-1].send(event(first.result(result)))
            assert text(await agent.response(busy)) == "after all"


async def test_a_server_that_is_killed_and_comes_back() -> None:
    """C089, C091: with the stream a call in flight ends at once with an unknown outcome and is not sent again; the next
    server is found with an endpoint and a handshake of its own, and its changed tools are told."""
    async with far("--sse") as first, running({"far": entry(first.url)}) as hub, attached(hub) as agent:
        await hub.until_state("far")
        mid = await agent.start("tools/call", {"name": "mcp__far__slow", "arguments": {}})
        await first.says("begun")
        await first.kill()
        with anyio.fail_after(2):
            lost = await agent.response(mid)
        assert lost["error"]["data"]["dev.mcphub/error"]["kind"] == "outcome_unknown"
        async with far("--sse", "--port", str(first.port), "--tools", "added") as second:
            while text(response := await agent.call("mcp__far__count", {"text": "back"})) != "back":
                assert response["result"]["isError"] is True
                await agent.request("ping")
            await second.says("count")
            await hub.until(lambda report: row(report, "far")["tools"] == 4)
            await agent.notification(CHANGED)
            assert "mcp__far__added" in [tool["name"] for tool in await agent.tools()]


@asynccontextmanager
async def everything() -> AsyncIterator[str]:
    """The official example server on Node in its `sse` mode, by its URL."""
    index = INSTALLED / "node_modules" / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
    env = {"PATH": os.environ["PATH"], "PORT": "0"}
    command = [node(), str(index), "sse"]
    async with await anyio.open_process(command, env=env, stdout=subprocess.DEVNULL, stderr=None) as process:
        try:
            found = psutil.Process(process.pid)
            await eventually(lambda: bool(found.net_connections("tcp")), timeout=20)
            yield f"http://127.0.0.1:{found.net_connections('tcp')[0].laddr.port}/sse"
        finally:
            process.kill()


@pytest.mark.counterparts
@pytest.mark.parametrize("kind", ["sse", "http"])
async def test_the_example_server_of_the_other_sdk(kind: str) -> None:
    """C082: the official server on Node in this transport: found, listed and called, its prompts and resources too."""
    async with everything() as url, running({"far": entry(url, kind)}) as hub, attached(hub) as agent:
        report = await hub.until_state("far")
        assert row(report, "far")["era"] == "legacy"
        assert "through the hub" in text(await agent.call("mcp__far__echo", {"message": "through the hub"}))
        names = [tool["name"] for tool in await agent.tools()]
        assert len(names) == row(report, "far")["tools"] > 5
        assert (await agent.request("prompts/list"))["result"]["prompts"]
        assert (await agent.request("resources/list"))["result"]["resources"]
