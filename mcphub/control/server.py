"""Owns the life of the control API: from a path to an answering socket, and its end.

It must not know routes, nor what is answered. uvicorn's HTTP protocol is used without uvicorn's server, which polls
ten times a second, waits for open streams and takes over signals.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
from uvicorn.config import Config

from mcphub.control.app import build_app
from mcphub.control.http_protocol import ControlProtocol, ControlState
from mcphub.control.hub import Hub
from mcphub.control.interrupt import Interruptible
from mcphub.control.routes import ROUTES
from mcphub.transport.unix_socket import listening

#: Seconds that open requests get to end in order.
GRACE = 1.0


@asynccontextmanager
async def control_server(hub: Hub, path: str) -> AsyncIterator[None]:
    """Answer the control API at `path` while the context is open.

    At the end open requests are ended: a stream in order, a call with status 503; then every connection is closed,
    and no task is left. Raises ControlError where the socket cannot be had (see `listening`).
    """
    app = Interruptible(build_app(hub, ROUTES, os.geteuid()))
    config = Config(
        app, interface="asgi3", ws="none", lifespan="off", log_config=None, access_log=False, proxy_headers=False
    )
    config.load()
    state = ControlState()
    loop = asyncio.get_running_loop()
    with listening(path) as sock:
        server = await loop.create_unix_server(lambda: ControlProtocol(config, state), sock=sock)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                server.close()
                state.closing = True
                app.close()
                await _drain(state)
                await server.wait_closed()


async def _drain(state: ControlState) -> None:
    """Let what is open end, for a while; then abort it."""
    for _ in range(3):  # a connection that was accepted in this very turn is not in the set yet
        await anyio.lowlevel.checkpoint()
    for connection in state.open:
        connection.shutdown()
    with anyio.move_on_after(GRACE):
        await _all_closed(state)
    for connection in state.open:
        connection.transport.abort()
    await _all_closed(state)
    if state.tasks:
        await asyncio.wait(state.tasks, timeout=GRACE)


async def _all_closed(state: ControlState) -> None:
    while state.open:
        await next(iter(state.open)).closed.wait()
