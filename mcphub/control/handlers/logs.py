"""Owns the routes of the noun log: a server's stderr.

It must not know where the lines are kept.
"""

from __future__ import annotations

from mcphub.control.hub import Hub
from mcphub.control.wire import Reply, Request, whole_number

DEFAULT_LINES = 100


async def get_logs(hub: Hub, request: Request) -> Reply:
    """The kept tail of what a server wrote to stderr, oldest line first, as the server wrote it (not escaped).

    Query: `workspace`, `lines` (how many at most, default 100).
    Answers: `LogsReport`; 404 for an unknown name.
    """
    lines = whole_number(request.query, "lines", DEFAULT_LINES)
    return Reply(hub.logs(request.workspace, request.path["name"], lines))
