"""Owns the routes of the noun approval: list, approve, reject.

It must not know how decisions are kept, nor ask anybody: the command line asks on its terminal.
"""

from __future__ import annotations

from mcphub.control.hub import Hub
from mcphub.control.wire import ApproveBody, RejectBody, Reply, Request, read_body
from mcphub.status import DecisionReport


async def get_approvals(hub: Hub, request: Request) -> Reply:
    """The servers that the workspace's own files ask for, each with its state and exactly what it would run.

    Query: `workspace`.
    Answers: `ApprovalsReport`.
    """
    return Reply(hub.approvals(request.workspace))


async def post_approve(hub: Hub, request: Request) -> Reply:
    """Let one project server run.

    Body: `name`, `digest` (of what the person was shown), `workspace` (default none).
    Answers: `DecisionReport`; 404 for an unknown name, 409 when the entry is not the one that was shown any more.
    """
    body = read_body(request.body, ApproveBody)
    workspace = body.workspace or request.workspace
    hub.approve(workspace, body.name, body.digest)
    return Reply(DecisionReport(name=body.name, workspace=workspace, state="approved"))


async def post_reject(hub: Hub, request: Request) -> Reply:
    """Never run one project server, and close it if it runs.

    Body: `name`, `workspace` (default none).
    Answers: `DecisionReport`; 404 for an unknown name.
    """
    body = read_body(request.body, RejectBody)
    workspace = body.workspace or request.workspace
    hub.reject(workspace, body.name)
    return Reply(DecisionReport(name=body.name, workspace=workspace, state="rejected"))
