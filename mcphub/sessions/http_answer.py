"""Owns the way of frames into an HTTP answer: one JSON document, or a stream of events that may wait.

It must not know sessions or eras; of a frame it knows whether it answers a request, and which. Sources: MCP spec
2026-07-28 and 2025-11-25, Streamable HTTP; HTML standard, server-sent events.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from starlette.types import Send

from mcphub.channel import Data
from mcphub.httpserver.document import send_document
from mcphub.protocol import jsonrpc
from mcphub.sessions import http_replay
from mcphub.sessions.http_replay import Track, data_of, is_notification

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
_response = re.compile(
    rb'\{"jsonrpc":"2\.0","id":(null|-?[0-9]+|"[^"\\]*(?:\\.[^"\\]*)*"),"(result|error)":(?:\{"code":(-?[0-9]+))?'
).match


def frames(parts: tuple[Data, ...]) -> Iterable[bytes]:
    """The frames that were sent at once, each with its newline, as bytes of their own."""
    data = parts[0] if len(parts) == 1 and type(parts[0]) is bytes else b"".join(parts)
    if data.find(b"\n") == len(data) - 1:
        return (data,)
    return [line + b"\n" for line in data.split(b"\n") if line]


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


class Home(Protocol):
    """What a stream belongs to that can be taken up again on another connection."""

    @property
    def primes(self) -> bool:
        """Whether its client knows events that have an id and no data, so that an answer that takes long becomes a
        stream before there is anything to say."""

    def begin(self, answer: Answer) -> Track:
        """This answer becomes a stream."""

    def over(self, answer: Answer) -> None:
        """Nothing more comes of it."""


class Answer:
    """The answer to one POST, to the requests with the ids `mids` (as JSON). Implements session.Outlet.

    Where the responses come before anything else it is a JSON document (an array for a batch), else a stream. With a
    `home` the stream's events have ids, and it outlives its connection.
    """

    def __init__(self, mids: Sequence[bytes], batch: bool = False, home: Home | None = None) -> None:
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
        self._home = home
        self._track: Track | None = None
        #: Where frames go: to who writes them, or to be kept until somebody comes back.
        self._to: Outbox | Track = self._box

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
            self._to.put(frame)
        self._tell()

    def _tell(self) -> None:
        ready = self.on_ready
        if ready is not None and (self._streams or not self.waiting):
            self.on_ready = None
            ready()
        elif self._to is self._track and not self.waiting:
            self._ended()

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

    def gone(self) -> bool:
        """Its connection is over. False where it goes on without, and may be taken up again; else what still comes is
        dropped."""
        if self._track is None:
            self._gone = True
        return self._gone or not self.waiting

    def forgotten(self) -> None:
        """It cannot be taken up again; who reads it now gets it still."""
        if self._to is self._track:
            self._gone = True
            self._ended()

    def forget(self, mid: bytes) -> None:
        """This request is not answered any more."""
        if mid in self.waiting:
            self.waiting.remove(mid)
            self._streams = True  # a document would have to say something
            self._box.wake()
            self._tell()
            if self._track is not None and not self._batch:
                self._track.forget()

    def end(self, text: str, data: bytes) -> None:
        """Answer what waits with an error."""
        for mid in list(self.waiting):
            self.send(jsonrpc.error_frame(mid, jsonrpc.INTERNAL_ERROR, text, data))

    async def write(self, send: Send, status: Callable[[int], int], headers: Sequence[Header] = ()) -> None:
        """Write it whole. `status` gives the HTTP status of a document from its error code, 0 = a result."""
        quiet = http_replay.OPENS_AFTER if self._home is not None and self._home.primes else KEEP_ALIVE
        while self.waiting and not self._streams:
            if not await self._box.news(quiet):
                break
        document = self.document()
        if document is not None:
            code, body = document
            fields = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *headers]
            await send_document(send, status(code), fields, body)
            return
        self._streams = True
        if self._home is None or not self.waiting:
            await begin_events(send, headers)
            await self._follow(send, self._box, b"")
            return
        self._track = self._home.begin(self)
        await self._tracked(send, self._track, self._track.prime(), headers)

    async def resume(self, send: Send, after: int) -> None:
        """Go on after the event with this number, on another connection: whatever had it before has it no more."""
        track, before = self._track, self._box
        assert track is not None
        for frame in before.take():
            track.put(frame)
        self._to = self._box = Outbox()
        before.wake()
        await self._tracked(send, track, track.prime(after) + track.again(after))

    async def _tracked(self, send: Send, track: Track, first: bytes, headers: Sequence[Header] = ()) -> None:
        box = self._box
        try:
            await begin_events(send, headers)
            await self._follow(send, box, first)
        finally:
            if self._box is box:
                for frame in box.take():
                    track.put(frame)
                self._to = track
                if not self.waiting:
                    self._ended()
                elif not track.kept:
                    self.forgotten()

    async def _follow(self, send: Send, box: Outbox, body: bytes) -> None:
        """Write what there is to say, beginning with BODY, until the last response, or another connection has it."""
        say = events if self._track is None else self._track.say
        while True:
            mine = box is self._box
            last = not mine or not self.waiting
            if mine:
                body += say(box.take())
            body = body or (b"" if last else _COMMENT)
            await send({"type": "http.response.body", "body": body, "more_body": not last})
            if last:
                return
            body = b""
            await box.news(KEEP_ALIVE)

    def _ended(self) -> None:
        """Nothing more comes."""
        assert self._track is not None and self._home is not None
        self._track.ended()
        self._home.over(self)


async def begin_events(send: Send, headers: Sequence[Header] = ()) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [*_EVENT_HEADERS, *headers]})


def events(found: Iterable[bytes]) -> bytes:
    """Frames as events without ids."""
    return b"".join([b"event: message\n" + data_of(frame) for frame in found])


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
