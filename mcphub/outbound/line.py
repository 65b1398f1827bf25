"""Owns one HTTP/1.1 connection as an asyncio protocol: a request out in one write, its answer in as it comes.

It must not know servers, nor which connection is used for what: the pool does. Source: RFC 9112. What it raises has the
names that httpcore2 gives, so that a failure is called the same whichever way the request went.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncGenerator
from typing import cast

import httpcore2
import httptools

Header = tuple[bytes, bytes]

#: Bytes of the head of an answer.
MAX_HEAD = 100 * 1024
#: Bytes of an answer's body that wait to be taken; then the server has to wait too.
HIGH = 1 << 18

#: How an alert of TLS begins (RFC 8446, 5.1), with which a server says that it wanted TLS.
TLS_ALERT = b"\x15\x03"
LOOKS_LIKE_TLS = "it answers in TLS"
_NOTHING = "Server disconnected without sending a response."
_HALF = "peer closed connection without sending complete message body"


class Line(asyncio.Protocol):
    """One connection. `ask` begins a request; then `status`, `headers` and the body are those of its answer, until
    `release`."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[Header] = []
        #: Monotonic seconds from which on nobody has used it.
        self.idle_since = 0.0
        #: It is gone.
        self.lost = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._fd = -1
        self._busy = False
        self._head: asyncio.Future[None] | None = None
        self._news: asyncio.Future[None] | None = None
        self._begin_answer()

    def _begin_answer(self) -> None:
        self.status = 0
        self.headers = []
        self._size = 0
        self._chunks: list[bytes] = []
        self._held = 0
        self._begun = self._whole = self._open_end = self._stays = self._paused = False
        self._error: Exception | None = None

    # --- for the pool ------------------------------------------------------------------------------------------------

    async def ask(self, data: bytes) -> None:
        """Send a request, head and body, and wait for the head of its answer. Raises what httpcore2 would."""
        assert self._transport is not None
        self._begin_answer()
        self._busy = True
        self._head = self._loop.create_future()
        self._transport.write(data)
        await self._head

    def usable(self, since: float) -> bool:
        """Whether it can take another request; not where it was idle before SINCE, or the server has said something
        meanwhile, which is mostly that it closes."""
        if self.lost.is_set() or self._busy or self.idle_since < since or self._transport is None:
            return False
        if self._transport.is_closing():
            return False
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return not poll.poll(0)

    def release(self) -> bool:
        """The answer is done with; True where the connection can be used again. Otherwise it is closed."""
        if not self._busy:
            return False
        self._busy = False
        transport = self._transport
        assert transport is not None
        if self._whole and self._stays and not self.lost.is_set() and not transport.get_write_buffer_size():
            self.idle_since = self._loop.time()
            return True
        transport.abort()
        return False

    def abort(self) -> None:
        """Close at once."""
        self._busy = False
        if self._transport is not None:
            self._transport.abort()

    # --- the answer --------------------------------------------------------------------------------------------------

    def whole(self) -> bytes | None:
        """The rest of the body where all of it is here, as it often is; else None."""
        if not self._whole or self._error is not None:
            return None
        chunks, self._chunks = self._chunks, []
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def aiter_stream(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes. Raises what httpcore2 would."""
        while True:
            while self._chunks:
                chunks, self._chunks, self._held = self._chunks, [], 0
                for chunk in chunks:
                    yield chunk
            if self._error is not None:
                raise self._error
            if self._whole:
                return
            if self._paused and self._transport is not None:
                self._paused = False
                self._transport.resume_reading()
            self._news = self._loop.create_future()
            await self._news

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
        if self._head is not None and not self._head.done():
            self._head.set_exception(error)
        self._wake()

    # --- asyncio.Protocol --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # By what it can do: a transport over TLS is one only by its methods.
        self._transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        self._fd = sock.fileno() if sock is not None else -1

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            self.abort()  # nobody has asked
            return
        if data.startswith(TLS_ALERT) and not self.status:
            self._fail(httpcore2.RemoteProtocolError(LOOKS_LIKE_TLS))
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as e:
            # A callback's own error is behind the parser's.
            cause = e.__context__ if isinstance(e.__context__, httpcore2.RemoteProtocolError) else None
            self._fail(cause or httpcore2.RemoteProtocolError(str(e) or "it changes the protocol"))
            assert self._transport is not None
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()
        if not self._busy or self._whole:
            return
        if self._begun and self._open_end and exc is None:
            self._whole = True  # its end is that of the connection
            self._wake()
        elif exc is not None:
            error = httpcore2.ReadError(str(exc))
            error.__cause__ = exc
            self._fail(error)
        else:
            self._fail(httpcore2.RemoteProtocolError(_HALF if self._begun else _NOTHING))

    # --- httptools ---------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._whole:
            self._stays = False  # an answer that nobody has asked for

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._begun:
            return  # a trailer
        self._size += len(name) + len(value)
        if self._size > MAX_HEAD:
            raise httpcore2.RemoteProtocolError("the head of its answer is too large")
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._whole:
            return
        if 100 <= status < 200:
            self.headers = []  # what comes before the answer
            return
        self.status = status
        self._begun = True
        names = {name for name, _ in self.headers}
        self._open_end = b"content-length" not in names and b"transfer-encoding" not in names
        if self._head is not None and not self._head.done():
            self._head.set_result(None)

    def on_body(self, body: bytes) -> None:
        if self._whole:
            return
        self._chunks.append(body)
        self._held += len(body)
        if self._held > HIGH and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        if not self._begun or self._whole:
            return
        self._whole = True
        self._stays = self._parser.should_keep_alive()
        self._wake()
