"""Owns where agents come over HTTP: a Unix socket always, the loopback where it is open, and who may come.

It must not know messages. On the Unix socket the kernel says who asks; on the loopback everybody on this machine can
ask, so a token is required there.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio

from mcphub.httpserver.connection import Admit, Terms
from mcphub.httpserver.serve import GRACE, serving
from mcphub.sessions.http_endpoint import HttpEndpoint, refusal
from mcphub.sessions.loopback import Loopback
from mcphub.transport.peer import peer_of

#: Connections at once, on each of the two. A legacy agent has one open all the time, and one more for each call.
MAX_CONNECTIONS = 512
#: Seconds that a connection may stay open between two requests: clients keep them in pools.
KEEP_ALIVE = 120

Log = Callable[[str, str], None]


@asynccontextmanager
async def http_listener(
    endpoint: HttpEndpoint, unix: socket.socket, loopback: Loopback, log: Log
) -> AsyncIterator[None]:
    """Serve agents on the listening Unix socket, and on the loopback those who bring its token.

    At the end answers and streams are ended in order; no task stays.
    """
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(endpoint.running())
        doors: list[tuple[socket.socket, Admit]] = []
        if loopback.sock is not None:
            doors.append((stack.enter_context(loopback.sock), _by_token(loopback.token)))
        doors.append((unix, _by_uid(log)))
        for sock, admit in doors:
            terms = Terms(admit, MAX_CONNECTIONS, refusal, endpoint.at_once)
            await stack.enter_async_context(serving(sock, endpoint, terms, endpoint.close, keep_alive=KEEP_ALIVE))
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await endpoint.finish(GRACE)


def _by_token(token: str) -> Admit:
    def admit(transport: asyncio.Transport) -> dict[str, Any]:
        return {"principal": "token", "pid": None, "token": token}

    return admit


def _by_uid(log: Log) -> Admit:
    def admit(transport: asyncio.Transport) -> dict[str, Any] | None:
        peer = peer_of(transport.get_extra_info("socket"))
        if peer is None or peer.uid != os.geteuid():
            log("warning", f"refused an agent of uid {peer.uid if peer else 'unknown'} on the HTTP socket")
            return None
        return {"principal": f"uid {peer.uid}", "pid": peer.pid, "token": None}

    return admit
