"""Server objects of the official SDK, over the channel that the daemon holds to them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from mcp.server import MCPServer, Server
from mcp.server.mcpserver import Context

from mcphub.errors import TransportError
from mcphub.transport.in_process import open_in_process
from mcphub.transport.sdk_server import low_level, name_of, sdk_server
from tests.transport.peers import Recorder, clean

pytestmark = pytest.mark.anyio

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}}


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    async with clean():
        with anyio.fail_after(10):
            yield


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


async def test_what_is_one() -> None:
    """A low-level server, and what has one; not its class, nor anything else."""
    built, bare = MCPServer("built"), Server("bare")
    low = low_level(built)
    assert low is not None and name_of(low) == "built"
    assert low_level(bare) is bare
    assert low_level(SimpleNamespace(_mcp_server=bare)) is bare
    others: list[object] = [None, Server, MCPServer, lambda method, params: {}, 5, SimpleNamespace(run=print)]
    for other in others:
        assert low_level(other) is None


async def test_a_connection() -> None:
    """What it says by itself comes in front of the answer; its lifespan is the connection's; two are two."""
    lives: list[str] = []

    @asynccontextmanager
    async def lifespan(server: MCPServer) -> AsyncIterator[None]:
        lives.append("begun")
        try:
            yield
        finally:
            lives.append("over")

    mcp = MCPServer("built", lifespan=lifespan)

    @mcp.tool()
    async def work(ctx: Context[Any, Any]) -> str:
        await ctx.report_progress(1, 2, "half")
        await ctx.session.send_tool_list_changed()
        return "done"

    servers = {"x": sdk_server(low_level(mcp))}
    recorder, other = Recorder(), Recorder()
    async with open_in_process("x", servers, recorder) as link, open_in_process("x", servers, other) as second:
        for channel in (link.channel, second.channel):
            channel.send(line(id=1, method="initialize", params=HELLO))
            channel.send(line(method="notifications/initialized"))
        call = {"name": "work", "arguments": {}, "_meta": {"progressToken": 7}}
        link.channel.send(b"rubbish\n")
        link.channel.send(line(id=2, method="tools/call", params=call))
        await recorder.until(4)
        await other.until(1)
        said = [json.loads(text) for text in recorder.lines]
        assert said[0]["result"]["serverInfo"]["name"] == "built"
        assert [one["method"] for one in said[1:3]] == ["notifications/progress", "notifications/tools/list_changed"]
        assert said[1]["params"] == {"progressToken": 7, "progress": 1, "total": 2, "message": "half"}
        assert said[3]["result"]["content"][0]["text"] == "done"
        assert lives == ["begun", "begun"]
    assert lives[2:] == ["over", "over"]
    assert recorder.reasons == other.reasons == [""]


async def test_one_that_fails() -> None:
    """What it raises ends its connection, and is the reason."""

    @asynccontextmanager
    async def lifespan(server: MCPServer) -> AsyncIterator[None]:
        if server.name == "built":
            raise RuntimeError("no database")
        yield

    recorder = Recorder()
    mcp = MCPServer("built", lifespan=lifespan)
    async with open_in_process("x", {"x": sdk_server(low_level(mcp))}, recorder):
        assert await recorder.until_lost() == "the server failed: RuntimeError: no database"


async def test_an_sdk_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused by name; a name that nobody gave fails as ever."""
    monkeypatch.delitem(__import__("sys").modules, "mcp.shared.message")
    with pytest.raises(LookupError, match="needs the package mcp"):
        sdk_server(Server("bare"))
    with pytest.raises(TransportError, match="MODULE:OBJECT"):
        async with open_in_process("x", {}, Recorder()):
            pass
