"""Owns the routes of the noun log: a server's stderr.

It must not know where the lines are kept.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from mcphub.control.hub import Hub
from mcphub.control.wire import Reply, Request, whole_number

DEFAULT_LINES = 100
#: Seconds without news after which a stream sends an empty line, so that either side notices a dead one.
HEARTBEAT = 15.0


async def get_logs(hub: Hub, request: Request) -> Reply:
    """The kept tail of what a server wrote to stderr, oldest line first, as the server wrote it (not escaped). Lines
    marked `[stdout]` it wrote to stdout, and they are no messages; of many only some are kept.

    Query: `workspace`, `lines` (how many at most, default 100).
    Answers: `LogsReport`; 404 for an unknown name.
    """
    lines = whole_number(request.query, "lines", DEFAULT_LINES)
    return Reply(hub.logs(request.workspace, request.path["name"], lines))


async def follow_logs(hub: Hub, request: Request) -> AsyncGenerator[object, None]:
    """The same as a stream of NDJSON: the tail at once, and then each line that comes, several together where they do.

    An empty line is a heartbeat: it comes when 15 seconds brought no news. The stream goes on over restarts of the
    server and changes of its entry, and ends with the daemon.

    Query: `workspace`, `lines`, as above.
    Answers: lines of `LogsReport`; 404 for an unknown name.
    """
    lines = whole_number(request.query, "lines", DEFAULT_LINES)
    async with aclosing(hub.follow_logs(request.workspace, request.path["name"], lines, HEARTBEAT)) as reports:
        async for report in reports:
            yield report
