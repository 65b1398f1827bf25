"""Owns one job for the official Python client (`mcp`): connect, list, call, report as one JSON line.

It must not know mcphub: the job (argv[1], JSON) says which command to start, or which URL to connect to (with which
token), and in which mode.
Job: {command, args, env | url, token?, mode: "legacy" | "auto" | "2026-07-28", calls: [{name, arguments}]}
"""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client


async def main() -> None:
    job = json.loads(sys.argv[1])
    server: Any
    if "url" not in job:
        env = {**get_default_environment(), **job["env"]}
        server = StdioServerParameters(command=job["command"], args=job["args"], env=env)
    elif "token" in job:
        headers = {"Authorization": f"Bearer {job['token']}"}
        server = streamable_http_client(job["url"], http_client=create_mcp_http_client(headers=headers))
    else:
        server = job["url"]
    async with Client(server, mode=job["mode"], read_timeout_seconds=30) as client:
        listed = await client.list_tools()
        tools, pages = listed.tools, 1
        while listed.next_cursor is not None:
            listed = await client.list_tools(cursor=listed.next_cursor)
            tools, pages = [*tools, *listed.tools], pages + 1
        results = [await client.call_tool(call["name"], call["arguments"]) for call in job["calls"]]
        info = client.server_info
        report = {
            "version": client.protocol_version,
            "server": info.model_dump(mode="json", by_alias=True, exclude_none=True) if info else None,
            "tools": [tool.name for tool in tools],
            "pages": pages,
            "results": [r.model_dump(mode="json", by_alias=True, exclude_none=True) for r in results],
            "errors": [],
        }
    print(json.dumps(report))


anyio.run(main)
