"""Owns the way of frames into an HTTP answer: one JSON document, or a stream of events that may wait.

It must not know sessions or eras; of a frame it knows whether it answers a request, and which. Sources: MCP spec
2026-07-28 and 2025-11-25, Streamable HTTP; HTML standard, server-sent events.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence

from starlette.types import Send

from mcphub.channel import Data
from mcphub.httpserver.document import send_document
from mcphub.protocol import jsonrpc

#: Seconds without a word after which a waiting answer says that it is still there.
KEEP_ALIVE = 15.0
#: Bytes that may wait for a client that does not read; further notifications are dropped, answers never.
BACKLOG = 8 << 20
#: Changes that are kept for a stream that nobody reads yet.
MAX_KEPT = 1000

Header = tuple[bytes, bytes]

_COMMENT = b": still here\n\n"
_EVENT_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
_LASTING = re.compile(rb'\{"jsonrpc":"2\.0","method":"notifications/(?:[a-z]+/list_changed|resources/updated)"').match
_NOTIFICATION = b'{"jsonrpc":"2.0","method":'
_response = re.compile(
    rb'\{"jsonrpc":"2\.0","id":(null|-?[0-9]+|"[^"\\]*(?:\\.[^"\\]*)*"),"(result|error)":(?:\{"code":(-?[0-9]+))?'
).match


def frames(parts: tuple[Data, ...]) -> Iterable[bytes]:
    """The frames that were sent at once, each with its newline, as bytes of their own."""
    data = parts[0] if len(parts) == 1 and type(parts[0]) is bytes else b"".join(parts)
    if data.find(b"\n") == len(data) - 1:
        return (data,)
    return [line + b"\n" for line in data.split(b"\n") if line]


def is_notification(frame: bytes) -> bool:
    return frame.startswith(_NOTIFICATION)


def lasts(frame: bytes) -> bool:
    """Whether it tells of a change, which is still true later."""
    return _LASTING(frame) is not None


class Outbox:
    """Frames that wait for a client. One task takes, callbacks put."""

    __slots__ = ("_frames", "_news", "_quiet", "_size", "dropped")

    def __init__(self) -> None:
        self._quiet = False
        self._frames: list[bytes] = []
        self._size = 0
        self._news = asyncio.Event()
        self.dropped = 0

    def put(self, frame: bytes) -> None:
        if self._size > BACKLOG and is_notification(frame):
            self.dropped += 1
            return
        self._frames.append(frame)
        self._size += len(frame)
        self._news.set()

    def wake(self) -> None:
        """End the wait without a frame."""
        self._news.set()

    async def news(self, limit: float) -> bool:
        """Wait for a frame or a wake-up, for so many seconds; False where none came."""
        self._quiet = False
        timer = asyncio.get_running_loop().call_later(limit, self._too_quiet)  # cheaper than a cancel scope
        try:
            await self._news.wait()
        finally:
            timer.cancel()
        self._news.clear()
        return not self._quiet

    def _too_quiet(self) -> None:
        if not self._news.is_set():
            self._quiet = True
            self._news.set()

    def take(self) -> list[bytes]:
        taken, self._frames, self._size = self._frames, [], 0
        self._news.clear()
        return taken


class Answer:
    """The answer to one POST, to the requests with the ids `mids` (as JSON). Implements session.Outlet.

    Where the responses come before anything else it is a JSON document (an array for a batch), else a stream.
    """

    def __init__(self, mids: Sequence[bytes], batch: bool = False) -> None:
        #: Ids of requests that wait.
        self.waiting = list(mids)
        #: The error code of the last response, 0 = a result.
        self.code = 0
        #: Called once it can be written, if somebody waits for that otherwise than in `write`.
        self.on_ready: Callable[[], None] | None = None
        self._batch = batch
        self._streams = False
        self._gone = False
        self._box = Outbox()

    def send(self, *parts: Data) -> None:
        for frame in frames(parts):
            if self._gone or not self.waiting:
                return  # nobody reads it, or it comes after the last response
            found = _response(frame)
            if found is None:
                self._streams = True
            else:
                self.code = int(found[3]) if found[2] == b"error" and found[3] else 0
                # An error without an id answers whatever could not be read.
                self.waiting.remove(found[1] if found[1] in self.waiting else self.waiting[0])
            self._box.put(frame)
        self._tell()

    def _tell(self) -> None:
        ready = self.on_ready
        if ready is not None and (self._streams or not self.waiting):
            self.on_ready = None
            ready()

    def document(self) -> tuple[int, bytes] | None:
        """(error code, body) where it is one whole document, which is then taken; else None."""
        if self.waiting or self._streams:
            return None
        found = self._box.take()
        return self.code, b"[" + b",".join(found) + b"]" if self._batch else found[0]

    def become_stream(self) -> None:
        """It takes long: there is something to say before the answer."""
        self._streams = True
        self._tell()

    def gone(self) -> None:
        """Nobody reads it any more: what still comes is dropped."""
        self._gone = True

    def forget(self, mid: bytes) -> None:
        """This request is not answered any more."""
        if mid in self.waiting:
            self.waiting.remove(mid)
            self._streams = True  # a document would have to say something
            self._box.wake()
            self._tell()

    def end(self, text: str, data: bytes) -> None:
        """Answer what waits with an error."""
        for mid in list(self.waiting):
            self.send(jsonrpc.error_frame(mid, jsonrpc.INTERNAL_ERROR, text, data))

    async def write(self, send: Send, status: Callable[[int], int], headers: Sequence[Header] = ()) -> None:
        """Write it whole. `status` gives the HTTP status of a document from its error code, 0 = a result."""
        while self.waiting and not self._streams:
            if not await self._box.news(KEEP_ALIVE):
                break
        document = self.document()
        if document is not None:
            code, body = document
            fields = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *headers]
            await send_document(send, status(code), fields, body)
            return
        await begin_events(send, headers)
        while True:
            found = self._box.take()
            last = not self.waiting
            body = events(found) or (b"" if last else _COMMENT)
            await send({"type": "http.response.body", "body": body, "more_body": not last})
            if last:
                return
            await self._box.news(KEEP_ALIVE)


async def begin_events(send: Send, headers: Sequence[Header] = ()) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [*_EVENT_HEADERS, *headers]})


def events(found: Iterable[bytes]) -> bytes:
    """Frames as events. A carriage return, which is white space in JSON, would end the event's line."""
    out = [
        b"event: message\ndata: " + (frame.replace(b"\r", b" ") if b"\r" in frame else frame) + b"\n"
        for frame in found
    ]
    return b"".join(out)


class Stream:
    """A session's stream of what no request of its has caused. While nobody reads it, changes of lists and resources
    are kept, each once; everything else is for now or never."""

    def __init__(self) -> None:
        self.read = False
        self._over = False
        self._box = Outbox()
        self._kept: dict[bytes, None] = {}

    def put(self, frame: bytes) -> bool:
        """False where the frame is dropped."""
        if self.read:
            self._box.put(frame)
        elif lasts(frame) and len(self._kept) < MAX_KEPT:
            self._kept[frame] = None
        else:
            return False
        return True

    def end(self) -> None:
        self._over = True
        self._box.wake()

    async def write(self, send: Send) -> None:
        """Write until the end of the session, or until cancelled. One reader at a time."""
        self.read = True
        try:
            await begin_events(send)
            body = events(self._kept)
            self._kept.clear()
            while True:
                body += events(self._box.take())
                last = self._over
                if body or last:
                    await send({"type": "http.response.body", "body": body, "more_body": not last})
                if last:
                    return
                body = b"" if await self._box.news(KEEP_ALIVE) else _COMMENT
        finally:
            self.read = False
            self._box.take()
