"""Owns the server inside the daemon that is there while nothing is configured: it tells how to configure something.

It must not need anything that is not there on a first start. It speaks MCP like any other server, through the
in-process transport.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from mcphub import __version__
from mcphub.connection.machine import Connected, Failed
from mcphub.errors import JSONRPCError
from mcphub.protocol.versions import MODERN
from mcphub.spec import Broken
from mcphub.supervisor.supervisor import Supervisor

NAME = "welcome"
_NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}
_READS = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}


def lines(supervisor: Supervisor) -> list[str]:
    """One line a server: what `hub_status` shows."""
    out = []
    for worker in supervisor.workers.values():
        state = worker.state
        text = "connected" if isinstance(state, Connected) else type(state).__name__.lower()
        why = f": {state.fault.message}" if isinstance(state, Failed) else ""
        out.append(f"{worker.name}: {text}{why}")
    for key, wish in supervisor.snapshot.value.desired.items():
        if isinstance(wish, Broken):
            out.append(f"{key.name}: failed: {wish.problem.message}")
    return out


def server(mcp_json: str, status: Callable[[], list[str]]) -> Callable[[str, dict[str, Any]], dict[str, Any]]:
    """The handler. `mcp_json` is the path of the person's file of servers; `status()` gives a line a server."""
    example = json.dumps({"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}, indent=2)
    tools: dict[str, tuple[str, Callable[[], str]]] = {
        "how_to_add_servers": (
            "Tell how to add MCP servers to mcphub, so that every agent of this user gets their tools.",
            lambda: (
                f"Write the servers into {mcp_json} (mode 0600 is advised), in the usual form:\n{example}\n"
                "Then run `mcphub reconnect --all`. `mcphub status` shows each server's state, `mcphub tools` the "
                "merged tools. A project may bring servers in its own .mcp.json; they run after `mcphub approve`."
            ),
        ),
        "hub_status": (
            "Show the servers that mcphub knows and the state each is in.",
            lambda: "\n".join(status()) or "no servers",
        ),
    }

    def handle(method: str, params: dict[str, Any]) -> dict[str, Any]:
        capabilities: dict[str, Any] = {"tools": {}}
        info = {"name": "mcphub-welcome", "version": __version__}
        complete = {"resultType": "complete"}
        match method:
            case "server/discover":
                meta = {"_meta": {"io.modelcontextprotocol/serverInfo": info}}
                said = {"supportedVersions": list(MODERN), "capabilities": capabilities}
                return {**complete, **meta, **said, "ttlMs": 0, "cacheScope": "private"}
            case "tools/list":
                listed = [
                    {"name": name, "description": text, "inputSchema": _NO_ARGUMENTS, "annotations": _READS}
                    for name, (text, _) in tools.items()
                ]
                return {**complete, "tools": listed, "ttlMs": 0, "cacheScope": "private"}
            case "tools/call":
                tool = tools.get(str(params.get("name")))
                if tool is None:
                    raise JSONRPCError(-32602, "unknown tool")
                return {**complete, "content": [{"type": "text", "text": tool[1]()}]}
            case _:
                raise JSONRPCError(-32601, "Method not found")

    return handle
