"""Owns the routes of the noun daemon: stop.

It must not know how the daemon shuts down.
"""

from __future__ import annotations

import os

from mcphub.control.hub import Hub
from mcphub.control.wire import Reply, Request, StopBody, read_body
from mcphub.status import StopReport


async def post_stop(hub: Hub, request: Request) -> Reply:
    """Shut the daemon down in order. The answer comes first; the process is gone some time after it.

    Body: none, or `{}`.
    Answers: `StopReport` with the pid to wait for.
    """
    read_body(request.body, StopBody)
    return Reply(StopReport(pid=os.getpid()), then=hub.stop)
