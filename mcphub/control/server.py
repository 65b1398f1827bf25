"""Owns the life of the control API: from a listening socket to an answering one, whom it lets in, and its end.

It must not know routes, nor what is answered.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcphub.control.access import may_connect
from mcphub.control.app import build_app
from mcphub.control.hub import Hub
from mcphub.control.routes import ROUTES
from mcphub.control.wire import write_error
from mcphub.httpserver.connection import Terms
from mcphub.httpserver.interrupt import Interruptible
from mcphub.httpserver.serve import serving
from mcphub.transport.peer import peer_of

#: Connections at once.
MAX_CONNECTIONS = 128

log = logging.getLogger(__name__)


@asynccontextmanager
async def control_server(hub: Hub, sock: socket.socket) -> AsyncIterator[None]:
    """Answer the control API on this listening socket while the context is open.

    At the end open requests are ended: a stream in order, what has no answer yet with status 503; then every connection
    is closed, and no task is left.
    """
    app = Interruptible(build_app(hub, ROUTES, os.geteuid()), write_error)
    async with serving(sock, app, Terms(_admit, MAX_CONNECTIONS, write_error), app.close):
        yield


def _admit(transport: asyncio.Transport) -> dict[str, Any] | None:
    """The peer, for the ASGI scope's `state["peer"]`; None for a stranger."""
    peer = peer_of(transport.get_extra_info("socket"))
    if peer is None or not may_connect(peer, os.geteuid()):
        log.warning("refused a connection to the control socket from %s", peer or "an unknown process")
        return None
    return {"peer": peer}
