"""Owns the routes of the noun status.

It must not know how a row comes about, nor how a stream is written.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio

from mcphub.control.hub import Hub
from mcphub.control.wire import Reply, Request

#: Seconds without news after which a stream sends an empty line, so that either side notices a dead one.
HEARTBEAT = 15.0
#: Least seconds between two reports: fifty servers that start at once are a few reports, not hundreds.
BREATH = 0.1
#: And so many times what one took, so many seconds at most: a report of a thousand servers is no small matter.
BREATH_SHARE, BREATH_MOST = 4.0, 2.0


async def get_status(hub: Hub, request: Request) -> Reply:
    """What runs and why not: the rows of the servers, the daemon, the attached sessions, the files with problems.

    Query: `workspace` (directory whose servers are meant, default none), `name` (only this server).
    Answers: `StatusReport`; 404 for an unknown name.
    """
    return Reply(hub.status(request.workspace, request.query.get("name") or None))


async def watch_status(hub: Hub, request: Request) -> AsyncGenerator[object, None]:
    """The same as a stream of NDJSON: one report a line, the first at once, the next whenever the revision changed.

    An empty line is a heartbeat: it comes when 15 seconds brought no news. The stream ends with the daemon; when a
    server that was asked for by name is gone, it ends with a line `{"error": ...}`.

    Query: `workspace`, `name`, as above.
    Answers: lines of `StatusReport`; 404 for an unknown name.
    """
    name = request.query.get("name") or None
    began = anyio.current_time()
    report = hub.status(request.workspace, name)
    while True:
        yield report
        took = anyio.current_time() - began
        await anyio.sleep(max(BREATH, min(took * BREATH_SHARE, BREATH_MOST)))
        revision = report["revision"]
        while revision == report["revision"]:
            with anyio.move_on_after(HEARTBEAT) as silence:
                revision = await hub.wait_newer(report["revision"])
            if silence.cancelled_caught:
                yield None
        began = anyio.current_time()
        report = hub.status(request.workspace, name)
