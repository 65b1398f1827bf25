"""Owns the routes of the noun tool: list and call.

It must not know which server a tool belongs to, nor what a result means.
"""

from __future__ import annotations

from mcphub.control.hub import Hub
from mcphub.control.wire import CallBody, Reply, Request, flag, one_line, read_body


async def get_tools(hub: Hub, request: Request) -> Reply:
    """The merged tools as an agent of the workspace sees them.

    Query: `workspace`, `query` (words to look for in names and descriptions, default all), `schemas` (1 = with
    `input_schema`, default 0).
    Answers: `ToolsReport`.
    """
    return Reply(hub.tools(request.workspace, request.query.get("query", ""), flag(request.query, "schemas")))


async def post_call(hub: Hub, request: Request) -> Reply:
    """Call one tool and wait for its result. Hanging up cancels the call.

    Body: `tool` (exposed name), `arguments` (object, default `{}`), `workspace` (default none).
    Answers: `CallReport`, also when the tool or its server reports an error; 404 for an unknown tool.
    """
    body = read_body(request.body, CallBody)
    return Reply(await hub.call(body.workspace or request.workspace, body.tool, one_line(body.arguments)))
