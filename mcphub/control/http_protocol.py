"""Owns one connection on control.sock: whom it lets in, and the limits that the HTTP parser itself does not have.

It must not know routes, handlers or the hub.
"""

from __future__ import annotations

import asyncio
import logging
import os

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from mcphub.control.access import may_connect
from mcphub.control.wire import write_error
from mcphub.transport.peer import peer_of

#: Bytes of request line and headers together.
MAX_HEAD = 64 * 1024
#: Seconds in which request line and headers must have come, counted from the connection's start.
HEAD_TIMEOUT = 10.0
#: Seconds that a client may leave an answer unread.
STALL_TIMEOUT = 60.0
#: Connections at once.
MAX_CONNECTIONS = 128

_NOT_HTTP = (400, "cannot read the request: it is not HTTP")
#: uvicorn tells only the newest request of a connection that its client is gone; an older one would run on.
_PIPELINED = (400, "cannot read the request: the one before it is not answered yet")
_HEAD_TOO_LARGE = (431, f"cannot read the request: its headers are longer than {MAX_HEAD} bytes")

log = logging.getLogger(__name__)


class ControlState(ServerState):
    """What the connections of one server share."""

    def __init__(self) -> None:
        super().__init__()
        self.open: set[ControlProtocol] = set()
        #: Connections that come now are not served any more.
        self.closing = False


class ControlProtocol(HttpToolsProtocol):
    """uvicorn's protocol without its server, plus a check of the peer and limits on size, time and number.

    The peer is in the ASGI scope under `state["peer"]`.
    """

    def __init__(self, config: Config, state: ControlState) -> None:
        super().__init__(config=config, server_state=state, app_state={})
        #: Set when the connection is gone.
        self.closed = asyncio.Event()
        self._state = state
        self._refused = _NOT_HTTP
        self._head = 0
        self._in_head = True
        self._head_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._state.open.add(self)
        peer = peer_of(transport.get_extra_info("socket"))
        if peer is None or not may_connect(peer, os.geteuid()):
            log.warning("refused a connection to the control socket from %s", peer or "an unknown process")
            transport.abort()
            return
        if self._state.closing:
            transport.abort()
            return
        self.app_state["peer"] = peer
        # A last few bytes that nobody reads would otherwise keep a closing connection for ever.
        transport.set_write_buffer_limits(high=0)
        if len(self._state.open) > MAX_CONNECTIONS:
            self._refuse(503, f"cannot answer: {MAX_CONNECTIONS} connections are open already")
            return
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_timer = _cancelled(self._head_timer)
        self._stall_timer = _cancelled(self._stall_timer)
        self._unset_keepalive_if_required()  # uvicorn does so after an orderly end only
        super().connection_lost(exc)
        self._state.open.discard(self)
        self.closed.set()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head += len(data)  # what the parser still holds back
            if self._head > MAX_HEAD:
                self._refuse(*_HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head = 0
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT, self._too_slow)

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)  # trailers come this way too
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_timer = _cancelled(self._head_timer)
        if self.cycle is not None and not self.cycle.response_complete:
            self._refused = _PIPELINED
            raise ValueError(_PIPELINED[1])
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn for whatever the parser, or a callback of it, refused."""
        self._refuse(*self._refused)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall_timer = self.loop.call_later(STALL_TIMEOUT, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stall_timer = _cancelled(self._stall_timer)

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > MAX_HEAD:
            self._refused = _HEAD_TOO_LARGE
            raise ValueError(_HEAD_TOO_LARGE[1])

    def _too_slow(self) -> None:
        self._refuse(408, f"cannot wait any longer for the request: {HEAD_TIMEOUT:g} s are over")

    def _refuse(self, status: int, message: str) -> None:
        """Answer without the application, then close. Nothing is added to an answer that has begun."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = write_error(status, message)
            self.transport.write(
                STATUS_LINE[status]
                + b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
                + body
            )
        self.transport.close()


def _cancelled(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    if timer is not None:
        timer.cancel()
    return None
