"""Owns one job for the official Python client (`mcp`): connect, list, call, report as one JSON line.

It must not know mcphub: the job (argv[1], JSON) says which command to start and in which mode to connect.
Job: {command, args, env, mode: "legacy" | "auto" | "2026-07-28", calls: [{name, arguments}]}
"""

from __future__ import annotations

import json
import sys

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import get_default_environment


async def main() -> None:
    job = json.loads(sys.argv[1])
    parameters = StdioServerParameters(
        command=job["command"], args=job["args"], env={**get_default_environment(), **job["env"]}
    )
    async with Client(parameters, mode=job["mode"], read_timeout_seconds=30) as client:
        listed = await client.list_tools()
        results = [await client.call_tool(call["name"], call["arguments"]) for call in job["calls"]]
        info = client.server_info
        report = {
            "version": client.protocol_version,
            "server": info.model_dump(mode="json", by_alias=True, exclude_none=True) if info else None,
            "tools": [tool.name for tool in listed.tools],
            "results": [r.model_dump(mode="json", by_alias=True, exclude_none=True) for r in results],
            "errors": [],
        }
    print(json.dumps(report))


anyio.run(main)
