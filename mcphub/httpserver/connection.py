"""Owns one HTTP connection: whether it is let in, and the limits that the HTTP parser itself does not have.

It must not know what is served, nor who may come: it is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from starlette.types import ASGIApp
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from mcphub.httpserver.document import Refusal

#: Bytes of request line and headers together.
MAX_HEAD = 64 * 1024
#: Seconds in which request line and headers must have come, counted from the connection's start.
HEAD_TIMEOUT = 10.0
#: Seconds that a client may leave an answer unread.
STALL_TIMEOUT = 60.0
#: Parts of an answer are joined up to this size.
LARGE = 1 << 15
#: Bytes of a body up to which a request may be answered without a task.
SHORT = 1 << 16

_NOT_HTTP = (400, "cannot read the request: it is not HTTP")
#: uvicorn tells only the newest request of a connection that its client is gone; an older one would run on.
_PIPELINED = (400, "cannot read the request: the one before it is not answered yet")
_HEAD_TOO_LARGE = (431, f"cannot read the request: its headers are longer than {MAX_HEAD} bytes")

#: What a connection brings into the ASGI scope under `state`, None = it is not let in (and that was logged).
Admit = Callable[[asyncio.Transport], dict[str, Any] | None]


class Terms(msgspec.Struct, frozen=True):
    """On which terms a server takes connections: who may come, how many at once, how a refusal is worded."""

    admit: Admit
    most: int
    refusal: Refusal
    #: What may answer a request without a task: called with its connection and body once all of it is here; True = it
    #: has taken it, and `answer_at_once` or `run` follows.
    at_once: Callable[[Connection, bytes], bool] | None = None


class Connections(ServerState):
    """What the connections of one server share."""

    def __init__(self) -> None:
        super().__init__()
        self.open: set[Connection] = set()
        #: Connections that come now are not served any more.
        self.closing = False


class _Joining:
    """A transport that writes the head of an answer together with what follows it in the same turn of the loop: each
    write is a call of the system, and the largest part of a small answer's cost."""

    __slots__ = ("_held", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""

    def write(self, data: bytes) -> None:
        if not self._held:
            self._held = data
            self._loop.call_soon(self.flush)
        elif len(self._held) + len(data) < LARGE:
            self._held += data
        else:
            self.flush()
            self._transport.write(data)

    def flush(self) -> None:
        held, self._held = self._held, b""
        if held:
            self._transport.write(held)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()


class Connection(HttpToolsProtocol):
    """uvicorn's protocol without its server, plus a check of who comes and limits on size, time and number.

    It is in the ASGI scope under `state["connection"]`.
    """

    def __init__(self, config: Config, state: Connections, terms: Terms) -> None:
        super().__init__(config=config, server_state=state, app_state={})
        #: Set when the connection is gone.
        self.closed = asyncio.Event()
        #: Called when nobody waits for the answer to the present request any more.
        self.on_lost: Callable[[], None] | None = None
        self._state = state
        self._terms = terms
        self._refused = _NOT_HTTP
        self._head = 0
        self._in_head = True
        self._head_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._joining: _Joining | None = None
        self._length = -1
        self._held: ASGI3Application | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._joining = _Joining(transport, self.loop)
        self._state.open.add(self)
        admitted = self._terms.admit(transport)
        if admitted is None or self._state.closing:
            transport.abort()
            return
        self.app_state.update(admitted, connection=self)
        # A last few bytes that nobody reads would otherwise keep a closing connection for ever.
        transport.set_write_buffer_limits(high=0)
        if len(self._state.open) > self._terms.most:
            self._refuse(503, f"cannot answer: {self._terms.most} connections are open already")
            return
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_timer = _cancelled(self._head_timer)
        self._stall_timer = _cancelled(self._stall_timer)
        self._unset_keepalive_if_required()  # uvicorn does so after an orderly end only
        super().connection_lost(exc)
        self._let_go()
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
            elif self._head_timer is None:  # not with each request: most heads come whole
                self._head_timer = self.loop.call_later(HEAD_TIMEOUT, self._too_slow)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head = 0
        self._length = -1
        self._held = None

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head += len(name) + len(value) + 4  # trailers come this way too
        if self._head > MAX_HEAD:
            self._count(0)
        # As uvicorn's own, which is called for each header of each request.
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        elif name == b"content-length":
            self._length = int(value)
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_timer = _cancelled(self._head_timer)
        if self.cycle is not None and not self.cycle.response_complete:
            self._refused = _PIPELINED
            raise ValueError(_PIPELINED[1])
        super().on_headers_complete()
        self.cycle.transport = self._joining  # type: ignore[assignment]

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        if self._terms.at_once is not None and 0 < self._length <= SHORT and not self.expect_100_continue:
            self._held = app  # until its body is here
        else:
            super()._start_asgi_task(cycle, app)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        app, self._held = self._held, None
        if app is None:
            return
        cycle, at_once = self.cycle, self._terms.at_once
        if at_once is None or not at_once(self, bytes(cycle.body)):
            super()._start_asgi_task(cycle, app)

    def run(self, app: ASGIApp) -> None:
        """Let this go on, in a task, with a request that `at_once` has taken."""
        super()._start_asgi_task(self.cycle, app)  # type: ignore[arg-type]

    def answer_at_once(self, status: int, fields: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        """Write a whole document as the answer to the present request; False where that must go the long way.

        The same as the two messages of ASGI, in one write and without their checks: `fields` are the server's own.
        """
        cycle = self.cycle
        if cycle.response_started or cycle.disconnected or self.flow.write_paused:
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        out = [STATUS_LINE[status]]
        for name, value in fields:
            out += (name, b": ", value, b"\r\n")
        out.append(b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n")
        if len(body) < LARGE:
            out.append(body)
            self.transport.write(b"".join(out))
        else:
            self.transport.write(b"".join(out))
            self.transport.write(body)
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()
        return True

    def take_body(self) -> bytes | None:
        """The body of the present request where all of it has come; None = it must be waited for."""
        cycle = self.cycle
        if cycle.more_body or cycle.disconnected or cycle.waiting_for_100_continue:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        cycle.message_event.clear()
        return body

    def shutdown(self) -> None:
        """End this connection once its present answer is written."""
        if self._joining is not None:
            self._joining.flush()
        super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn for whatever the parser, or a callback of it, refused."""
        self._refuse(*self._refused)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall_timer = self.loop.call_later(STALL_TIMEOUT, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stall_timer = _cancelled(self._stall_timer)

    def _let_go(self) -> None:
        on_lost, self.on_lost = self.on_lost, None
        if on_lost is not None:
            on_lost()

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
            self._let_go()
        if self._joining is not None:
            self._joining.flush()
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = self._terms.refusal(status, message)
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
