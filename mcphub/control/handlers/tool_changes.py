"""Owns the routes of the noun tool change: show what has become of a server's tools, and take them as they are.

It must not know what makes a change, nor ask anybody: the command line asks on its terminal.
"""

from __future__ import annotations

from mcphub.control.hub import Hub
from mcphub.control.wire import ApproveToolsBody, Reply, Request, read_body
from mcphub.status import DecisionReport


async def get_tool_changes(hub: Hub, request: Request) -> Reply:
    """The tools of a server that are not as they were when it was first used or last approved, each with a diff.

    Query: `workspace`.
    Answers: `ToolChangesReport`; 404 for an unknown name, 409 while its tools are not known.
    """
    return Reply(hub.tool_changes(request.workspace, request.path["name"]))


async def post_approve_tools(hub: Hub, request: Request) -> Reply:
    """Take the tools of a server as they are; those that were withheld are listed.

    Body: `name`, `digest` (of what the person was shown), `workspace` (default none).
    Answers: `DecisionReport`; 404 for an unknown name, 409 when they are not those that were shown any more.
    """
    body = read_body(request.body, ApproveToolsBody)
    workspace = body.workspace or request.workspace
    hub.approve_tools(workspace, body.name, body.digest)
    return Reply(DecisionReport(name=body.name, workspace=workspace, state="approved"))
