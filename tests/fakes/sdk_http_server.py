"""Owns a small MCP server over HTTP on the official SDK, for what an ordinary remote server does in either era.

It must not know mcphub. `sdk_http_server.py --port N` (0 = any free one) prints its URL; `--json` answers with plain
JSON where it can, `--stateless` keeps no sessions, `--tools a,b` lists these beside its own, `--sse` speaks the
HTTP+SSE transport of 2024-11-05 and nothing else.
"""

from __future__ import annotations

import argparse
import socket
import sys
import warnings
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.sse import SseServerTransport
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

Context = ServerRequestContext[Any, Any]
TEXT: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string", "x-mcp-header": "Text"}}}


def log(word: str) -> None:
    """One line for the test to read."""
    print(word, flush=True)


async def call(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    arguments = params.arguments or {}
    if params.name == "count":
        log("count")
    if params.name == "slow":
        log("begun")
        try:
            for step in range(1, 4):
                await context.session.report_progress(step, 3)
            await anyio.sleep(float(arguments.get("seconds", 60)))
        except anyio.get_cancelled_exc_class():
            log("cancelled")
            raise
        log("done")
    return types.CallToolResult(content=[types.TextContent(text=str(arguments.get("text", params.name)))])


def server(names: list[str]) -> Server[Any]:
    tools = [types.Tool(name=name, input_schema=TEXT) for name in ["echo", "slow", "count", *names]]

    async def list_tools(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    return Server("far", version="1", on_list_tools=list_tools, on_call_tool=call)


def older(served: Server[Any]) -> Starlette:
    """The server behind the transport of 2024-11-05."""
    transport = SseServerTransport("/messages/")

    async def listen(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (incoming, outgoing):
            await served.run(incoming, outgoing, served.create_initialization_options())
        return Response()

    return Starlette(routes=[Route("/sse", listen), Mount("/messages/", app=transport.handle_post_message)])


async def serve(args: argparse.Namespace) -> None:
    names = [name for name in args.tools.split(",") if name]
    if args.sse:
        app = older(server(names))
    else:
        app = server(names).streamable_http_app(json_response=args.json, stateless_http=args.stateless)
    # httptools leaves the blanks behind a header's value, which then is not what the body says.
    config = uvicorn.Config(app, http="h11", ws="none", log_level="warning", timeout_graceful_shutdown=1)
    with socket.create_server(("127.0.0.1", args.port)) as listener:
        # asyncio does so by itself only where it made the socket; without it every answer waits 40 ms for an ACK.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/{'sse' if args.sse else 'mcp'}", flush=True)
        await uvicorn.Server(config).serve(sockets=[listener])


def main() -> None:
    parser = argparse.ArgumentParser(prog="sdk_http_server")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--stateless", action="store_true")
    parser.add_argument("--sse", action="store_true")
    parser.add_argument("--tools", default="")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    anyio.run(serve, parser.parse_args())


if __name__ == "__main__":
    main()
