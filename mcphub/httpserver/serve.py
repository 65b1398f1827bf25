"""Owns the life of an HTTP server: from a listening socket to answers, and the end of both.

It must not know what is answered. uvicorn's HTTP protocol is used without uvicorn's server, which polls ten times a
second, waits for open streams and takes over signals.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
from starlette.types import ASGIApp
from uvicorn.config import Config

from mcphub.httpserver.connection import Connection, Connections, Terms

#: Seconds that open requests get to end in order.
GRACE = 1.0
#: Seconds that a connection may stay open between two requests.
KEEP_ALIVE = 5


@asynccontextmanager
async def serving(
    sock: socket.socket, app: ASGIApp, terms: Terms, close: Callable[[], None], *, keep_alive: int = KEEP_ALIVE
) -> AsyncIterator[None]:
    """Answer on a listening socket, Unix or TCP, while the context is open.

    At the end `close` is called, which is to end every open request; then every connection is closed, and no task is
    left. The socket stays the caller's.
    """
    config = Config(
        app,
        interface="asgi3",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=keep_alive,
    )
    config.load()
    state = Connections()
    loop = asyncio.get_running_loop()
    if sock.family == socket.AF_UNIX:
        # The file is the caller's too, and may be a service manager's; from Python 3.13 on it would be removed here.
        keep: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        server = await loop.create_unix_server(lambda: Connection(config, state, terms), sock=sock, **keep)
    else:
        # Inherited by every connection. asyncio sets it only on sockets that name their protocol, and without it a body
        # waits for the acknowledgement of its head, 40 ms.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = await loop.create_server(lambda: Connection(config, state, terms), sock=sock)
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            server.close()
            state.closing = True
            close()
            await _drain(state)
            await server.wait_closed()


async def _drain(state: Connections) -> None:
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


async def _all_closed(state: Connections) -> None:
    while state.open:
        await next(iter(state.open)).closed.wait()
