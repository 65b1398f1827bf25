"""Owns the routes of the noun daemon: reload, stop.

It must not know which files the daemon reads, nor how it shuts down.
"""

from __future__ import annotations

import os

from mcphub.control.hub import Hub
from mcphub.control.wire import ReloadBody, Reply, Request, StopBody, read_body
from mcphub.status import ReloadReport, StopReport


async def post_reload(hub: Hub, request: Request) -> Reply:
    """Read the files that changed, at once: the daemon finds changes by itself, but whoever made one need not wait.

    Nothing that did not change is touched. Body: none, or `{}`.
    Answers: `ReloadReport`, when what is wanted has been computed again.
    """
    read_body(request.body, ReloadBody)
    return Reply(ReloadReport(revision=await hub.reload()))


async def post_stop(hub: Hub, request: Request) -> Reply:
    """Shut the daemon down in order. The answer comes first; the process is gone some time after it.

    Body: none, or `{"restart": true}` where another daemon comes next: agents behind `mcphub connect` then go on in
    it, and start it where nobody else does.
    Answers: `StopReport` with the pid to wait for.
    """
    body = read_body(request.body, StopBody)
    return Reply(StopReport(pid=os.getpid()), then=hub.restart if body.restart else hub.stop)
