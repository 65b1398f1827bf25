"""Owns the routes of the noun connection: reconnect, and where agents connect.

It must not know workers or their states.
"""

from __future__ import annotations

from mcphub.control.hub import Hub
from mcphub.control.wire import ReconnectBody, Reply, Request, read_body


async def post_reconnect(hub: Hub, request: Request) -> Reply:
    """Close and open again one server, or all; attempts start from zero. Does not wait for the connection.

    Body: `name` (absent or null = all), `workspace` (default none).
    Answers: `ReconnectReport` with the names, for all also with what of the files cannot be used; 404 for an unknown
    name.
    """
    body = read_body(request.body, ReconnectBody)
    return Reply(await hub.reconnect(body.workspace or request.workspace, body.name))


async def get_url(hub: Hub, request: Request) -> Reply:
    """Where agents come over HTTP: a URL that holds the token, so it is for its owner only.

    Query: `workspace` (whose servers the agent sees too, default none), `server` (only this one, under its own names).
    Answers: `UrlReport`; 404 for an unknown server.
    """
    return Reply(await hub.url(request.workspace, request.query.get("server", "")))
