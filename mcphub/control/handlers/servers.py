"""Owns the routes of the noun server: add one while the daemon runs, take it away.

It must not know what an entry means, nor write any file that a person wrote.
"""

from __future__ import annotations

from mcphub.control.hub import Hub
from mcphub.control.wire import AddServerBody, Reply, Request, read_body
from mcphub.status import RemovedReport


async def post_server(hub: Hub, request: Request) -> Reply:
    """Add a server, or replace the one that was added under its name. It ends with the daemon, or is kept.

    Body: `name`, `entry` (as in mcp.json), `keep` (default false), `workspace` (the directory whose agents see it,
    default none: all do).
    Answers: `AddedReport`; 400 for an entry that cannot be used, 403 where the organisation does not allow it, 409
    where an entry of the organisation has that name.
    """
    body = read_body(request.body, AddServerBody)
    return Reply(await hub.add_server(body.workspace, body.name, body.entry, body.keep))


async def delete_server(hub: Hub, request: Request) -> Reply:
    """Take away a server that was added: the one for agents of the workspace, or else the one for all.

    Query: `workspace`.
    Answers: `RemovedReport`; 404 where none of that name was added.
    """
    name = request.path["name"]
    return Reply(RemovedReport(name=name, workspace=await hub.remove_server(request.workspace, name)))
