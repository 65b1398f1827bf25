"""Owns the route of the noun calls: the outcome journal.

It must not know how a call is recorded.
"""

from __future__ import annotations

from mcphub.control.hub import Hub
from mcphub.control.wire import Reply, Request, flag, whole_number
from mcphub.questions.calls import CallsAsked

DEFAULT_LIMIT = 50


async def get_calls(hub: Hub, request: Request) -> Reply:
    """What became of calls that may have changed something, newest first; those of all workspaces.

    Query: `id` (one operation), `unknown` (1 = only those whose outcome is not known), `server`, `agent` (a part of its
    name), `limit` (how many at most, default 50).
    Answers: `CallsReport`; 404 for an id that is not kept.
    """
    query = request.query
    asked = CallsAsked(
        id=query.get("id", ""),
        unknown=flag(query, "unknown"),
        server=query.get("server", ""),
        agent=query.get("agent", ""),
        limit=whole_number(query, "limit", DEFAULT_LIMIT),
    )
    return Reply(await hub.calls(asked))
