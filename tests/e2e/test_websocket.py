"""Servers at a WebSocket, those with a headers helper, and those inside the daemon, from an agent's end."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request

from tests.e2e.test_http_upstream import attached
from tests.fakes.agent import text
from tests.fakes.hub import Place, row, running
from tests.fakes.ordinary_mcp import ECHO, INFO, META, MODERN
from tests.fakes.rude_websocket import RudeWebSocket
from tests.fakes.scripted import dumped

pytestmark = pytest.mark.anyio


class McpSocket:
    """An ordinary server of one era. `close` is the code that a call of the tool `bye`, or `early` any message at all,
    is answered with."""

    def __init__(self, era: str = "legacy") -> None:
        self.era = era
        self.valid: str | None = None
        self.refused = 401
        self.close = 1011
        self.early = False
        self.methods: list[str] = []

    def result(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        modern = self.era == "modern"
        complete = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if modern else {}
        match method:
            case "server/discover" if modern:
                return {**complete, "supportedVersions": [MODERN], "capabilities": {"tools": {}},
                        "_meta": {META + "serverInfo": INFO}}  # fmt: skip
            case "initialize" if not modern:
                return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": INFO}
            case "tools/list":
                return {**complete, "tools": [ECHO, {**ECHO, "name": "bye"}]}
            case "tools/call":
                return {**complete, "content": [{"type": "text", "text": params["arguments"].get("text", "")}]}
        return None

    def refuse(self, request: Request) -> tuple[int, dict[str, str]] | None:
        if self.valid is None or request.headers.get("Authorization") == self.valid:
            return None
        # What a careless server says of the token is not to be seen.
        return self.refused, {"Location": "/", "X-Said": request.headers.get("Authorization", "")}

    async def answer(self, connection: ServerConnection, said: str) -> None:
        message = json.loads(said)
        method, params = message.get("method", ""), message.get("params") or {}
        self.methods.append(method)
        if self.early or (method == "tools/call" and params["name"] == "bye"):
            await connection.close(self.close, "enough")
            return
        if "id" not in message:
            return
        result = self.result(method, params)
        body = {"result": result} if result is not None else {"error": {"code": -32601, "message": "Method not found"}}
        await connection.send(dumped({"jsonrpc": "2.0", "id": message["id"], **body}), text=True)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[RudeWebSocket]:
        async with RudeWebSocket(self.answer, refuse=self.refuse) as server:
            yield server


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_list_call_lost_and_back(era: str) -> None:
    """C183: used by agents of either era, whatever it speaks; a call in flight when it closes is named lost with code
    and reason and is not sent again; the next connection has a handshake of its own."""
    mcp = McpSocket(era)
    async with mcp.open() as server, running({"far": {"type": "ws", "url": server.url}}) as hub, attached(hub) as agent:
        found = row(await hub.until_state("far"), "far")
        assert (found["transport"], found["command"], found["era"]) == ("ws", [server.url], era)
        for agents in ("legacy", "modern"):
            assert [tool["name"] for tool in await agent.tools(era=agents)] == ["mcp__far__bye", "mcp__far__echo"]
            for said in ("\u6f22\U0001f642", "", "x" * 100_000):
                assert text(await agent.call("mcp__far__echo", {"text": said}, era=agents)) == said
        answer = await agent.call("mcp__far__bye", {})
        assert "1011 internal error: 'enough'" in json.dumps(answer), answer
        await hub.until(lambda report: row(report, "far")["state"] == "connected" and len(server.handshakes) == 2)
        assert text(await agent.call("mcp__far__echo", {"text": "again"})) == "again"
        assert mcp.methods.count("tools/call") == 8
        begins = "server/discover" if era == "modern" else "initialize"
        assert mcp.methods.count(begins) == 2


async def test_a_server_that_wants_credentials() -> None:
    """C183: 401 at the upgrade, and the close code 4401 at any message, are a rest that waits for a person, not for
    time."""
    mcp = McpSocket()
    mcp.valid = "Bearer right"
    async with mcp.open() as server, running({"far": {"type": "ws", "url": server.url}}) as hub:
        found = row(await hub.until_state("far", state="needs-auth"), "far")
        assert "HTTP 401" in found["reason"]
        mcp.valid, mcp.early, mcp.close = None, True, 4401
        await hub.reconnect("far")
        found = row(await hub.until(lambda r: "4401" in row(r, "far")["reason"]), "far")
        assert found["state"] == "needs-auth"
        mcp.early = False
        await hub.reconnect("far")
        await hub.until_state("far")


@pytest.mark.parametrize("wrong", [False, True])
async def test_a_headers_helper(wrong: bool, tmp_path: Path) -> None:
    """C116: the daemon runs it in the directory of the file; its values are in no status, log or message, whatever the
    server says; refused for good, the server fails by name."""
    place = Place()
    helper = "import json, sys; print('to stderr hush-hush-1', file=sys.stderr); open('ran', 'a').write('x'); "
    helper += 'print(json.dumps({"Authorization": "Bearer hush-hush-1"}))'
    (place.config / "helper.py").write_text(helper)
    mcp = McpSocket()
    mcp.valid = "Bearer other" if wrong else "Bearer hush-hush-1"
    try:
        async with mcp.open() as server:
            entry = {"type": "ws", "url": server.url, "headersHelper": f"'{sys.executable}' -I helper.py"}
            async with running({"far": entry}, place=place) as hub, attached(hub) as agent:
                report = await hub.until_state("far", state="failed" if wrong else "connected")
                if wrong:
                    said = "refuses the credentials that headersHelper printed (HTTP 401 Unauthorized"
                    assert said in row(report, "far")["last_error"]["message"]
                    assert len(server.handshakes) == 2
                else:
                    assert text(await agent.call("mcp__far__echo", {"text": "a"})) == "a"
                _, logs = await hub.control("GET", "/v1/logs/far")
                assert (place.config / "ran").read_text() == ("xx" if wrong else "x")
                for seen in (json.dumps(report), json.dumps(logs), hub.stderr()):
                    assert "hush" not in seen
                assert "to stderr ***" in json.dumps(logs)
    finally:
        place.remove()


async def test_a_projects_helper_waits_for_approval() -> None:
    """Nothing of a repository runs before it is approved: its helper neither."""
    place = Place()
    workspace = place.root / "project"
    (workspace / ".git").mkdir(parents=True)
    mcp = McpSocket()
    try:
        async with mcp.open() as server:
            entry = {"type": "ws", "url": server.url, "headersHelper": f"'{sys.executable}' -c \"open('ran', 'w')\""}
            (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"far": entry}}))
            async with running({}, place=place) as hub, await hub.agent(workspace=workspace) as agent:
                await agent.initialize()
                report = await hub.until_state("far", state="disabled", workspace=workspace)
                assert row(report, "far")["state_text"] == "disabled (approval)"
                assert not (workspace / "ran").exists() and server.handshakes == []
    finally:
        place.remove()


EMBEDDED = '''
import anyio

def clock(method, params):
    complete = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    if method == "server/discover":
        return {**complete, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "clock", "version": "1"}}}
    if method == "tools/list":
        return {**complete, "tools": [{"name": "now", "inputSchema": {"type": "object"}}]}
    return later({**complete, "content": [{"type": "text", "text": "noon"}]})

async def later(result):
    await anyio.lowlevel.checkpoint()
    return result
'''


async def test_a_server_given_to_the_daemon(tmp_path: Path) -> None:
    """A callable of a module is a server like any other, listed as added until the daemon ends; a name of one that was
    not given fails by name."""
    (tmp_path / "clocks.py").write_text(EMBEDDED)
    env = {"PYTHONPATH": str(tmp_path)}
    servers = {"lost": {"type": "sdk"}}
    async with running(servers, env=env, args=["--embed", "tick=clocks:clock"]) as hub, attached(hub) as agent:
        report = await hub.until_state("tick")
        assert row(report, "tick")["transport"] == "in-process"
        assert text(await agent.call("mcp__tick__now", {})) == "noon"
        found = row(await hub.until_state("lost", state="failed"), "lost")
        assert "the daemon was given none of this name" in found["last_error"]["message"]


EXITING = '''
import asyncio

def close():
    raise GeneratorExit

async def late():
    await asyncio.sleep(0)
    raise SystemExit(3)

def handle(method, params):
    complete = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    if method == "server/discover":
        return {**complete, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    if method == "tools/list":
        names = "now late task thread callback fine".split()
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
        return {**complete, "tools": tools}
    name = params["name"]
    if name == "now":
        raise KeyboardInterrupt
    if name == "late":
        return late()
    if name == "task":
        return asyncio.ensure_future(late())
    if name == "thread":
        return asyncio.to_thread(close)
    if name == "callback":
        asyncio.get_running_loop().call_soon(exit, 4)
    return {**complete, "content": [{"type": "text", "text": "done"}]}
'''

EXITING_SDK = '''
from mcp.server import MCPServer

mcp = MCPServer("rude")

@mcp.tool()
async def leave() -> str:
    raise SystemExit(3)

@mcp.tool()
def interrupt() -> str:
    raise KeyboardInterrupt

@mcp.tool()
def fine() -> str:
    return "yes"
'''


async def test_embedded_servers_that_would_end_the_program(tmp_path: Path) -> None:
    """SystemExit and KeyboardInterrupt of an embedded server, wherever it raises them, end its call or its connection:
    the daemon, its agents and the other servers go on, and so does that server."""
    (tmp_path / "exiting.py").write_text(EXITING)
    (tmp_path / "exiting_sdk.py").write_text(EXITING_SDK)
    args = ["--embed", "tick=exiting", "--embed", "exiting_sdk"]
    async with running({}, env={"PYTHONPATH": str(tmp_path)}, args=args) as hub, attached(hub) as agent:
        await hub.until_state("tick", "rude")
        ends = {"now": "KeyboardInterrupt", "late": "SystemExit: 3", "task": "SystemExit: 3", "thread": "GeneratorExit"}
        for tool, said in ends.items():
            assert said in json.dumps(await agent.call(f"mcp__tick__{tool}", {}))
        await hub.until_state("tick")
        assert text(await agent.call("mcp__tick__callback", {})) == "done"
        assert text(await agent.call("mcp__tick__fine", {})) == "done"
        for tool, said in (("leave", "SystemExit: 3"), ("interrupt", "KeyboardInterrupt")):
            assert said in json.dumps(await agent.call(f"mcp__rude__{tool}", {}))
            await hub.until_state("rude")
            assert text(await agent.call("mcp__rude__fine", {})) == "yes"
            assert text(await agent.call("mcp__tick__fine", {})) == "done"


NOTIFYING = '''
def handle(method, params, notify):
    complete = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    if method == "server/discover":
        return {**complete, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "logging": {}}}
    if method == "tools/list":
        return {**complete, "tools": [{"name": "work", "inputSchema": {"type": "object"}}]}
    token = params["_meta"]["progressToken"]
    notify("notifications/progress", {"progressToken": token, "progress": 1, "message": "half"})
    notify("notifications/message", {"level": "error", "data": "odd"})
    return {**complete, "content": [{"type": "text", "text": "done"}]}
'''

WEATHER = '''
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

mcp = MCPServer("weather")

@mcp.tool()
async def sunny(ctx: Context) -> str:
    await ctx.report_progress(1, 2, "looking")
    return "yes"

class Place(BaseModel):
    town: str

@mcp.tool()
async def ask(ctx: Context) -> str:
    return (await ctx.elicit("Where?", Place)).data.town

@mcp.tool()
async def more(ctx: Context) -> str:
    mcp.add_tool(lambda: "rain", name="rainy")
    await ctx.notify_tools_changed()
    return "ok"
'''


async def test_what_embedded_servers_say_by_themselves(tmp_path: Path) -> None:
    """A callable that takes `notify`, and a server object of the official SDK, which has its own name: progress, log
    lines and changed lists reach agents of both eras."""
    (tmp_path / "notifying.py").write_text(NOTIFYING)
    (tmp_path / "weather_module.py").write_text(WEATHER)
    args = ["--embed", "tick=notifying", "--embed", "weather_module"]
    servers = {"asks": {"type": "sdk", "name": "weather", "era": "legacy"}}
    async with running(servers, env={"PYTHONPATH": str(tmp_path)}, args=args) as hub, attached(hub) as agent:
        report = await hub.until_state("tick", "weather", "asks")
        assert row(report, "weather")["server_info"]["name"] == "weather"
        for tool, words, answer in (("tick__work", "half", "done"), ("weather__sunny", "looking", "yes")):
            for era in ("legacy", "modern"):
                params = {"name": f"mcp__{tool}", "arguments": {}}
                meta = {"progressToken": f"{tool} {era}"}
                if era == "legacy":
                    mid = await agent.start("tools/call", {**params, "_meta": meta})
                else:
                    mid = await agent.start_modern("tools/call", params, meta=meta)
                said = await agent.notification("notifications/progress")
                assert (said["params"]["progressToken"], said["params"]["message"]) == (meta["progressToken"], words)
                assert text(await agent.response(mid)) == answer
        assert (await agent.notification("notifications/message"))["params"]["data"] == "odd"
        assert text(await agent.call("mcp__weather__more", {})) == "ok"
        await agent.notification("notifications/tools/list_changed")
        assert "mcp__weather__rainy" in {tool["name"] for tool in await agent.tools()}
        assert text(await agent.call("mcp__weather__rainy", {})) == "rain"
        agent.answers = {"elicitation/create": {"action": "accept", "content": {"town": "Ulm"}}}
        await agent.initialize(capabilities={"elicitation": {}})
        assert text(await agent.call("mcp__asks__ask", {})) == "Ulm"
