"""Owns what is kept of streams of events so that an agent whose connection broke can have it again, and how much of it.

It must not know HTTP, sessions, or what a frame asks for. Sources: MCP spec 2025-11-25, basic/transports (resumability
and redelivery; polling); HTML standard, server-sent events.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

#: Seconds after which an answer of 2025-11-25 becomes a stream: until it has an id nothing can be taken up again.
OPENS_AFTER = 0.15
#: Milliseconds that a client is asked to wait before it comes back.
RETRY = 1000
#: Seconds for which a stream is kept after its last response.
KEPT_FOR = 300.0
#: Bytes that are kept, and streams; beyond either the stream that ended first is forgotten, or the oldest.
MAX_BYTES = 32 << 20
MAX_STREAMS = 2000
#: Bytes of a message above which its stream is not kept.
MAX_MESSAGE = 16 << 20
#: Notifications, and bytes of them, that are kept of one stream; beyond either its oldest are forgotten.
MAX_NOTES = 1000
MAX_NOTE_BYTES = 1 << 20
#: Digits of an event's number; longer ones are none.
MAX_DIGITS = 12

_NOTIFICATION = b'{"jsonrpc":"2.0","method":'


def is_notification(frame: bytes) -> bool:
    return frame.startswith(_NOTIFICATION)


def data_of(frame: bytes) -> bytes:
    """A frame as the data of an event, and the event's end. A carriage return, which is white space in JSON, would end
    the line."""
    return b"data: " + (frame.replace(b"\r", b" ") if b"\r" in frame else frame) + b"\n"


def number_in(event_id: str) -> tuple[str, int] | None:
    """(name of the stream, number of the event) in the id of an event; None where it is none of ours."""
    name, _, number = event_id.rpartition("-")
    if not name or not (number.isascii() and number.isdigit()) or len(number) > MAX_DIGITS:
        return None
    return name, int(number)


class Track:
    """One stream: its events are numbered from 1 on, and 0 is its beginning. `forgotten` is called once, when nothing
    of it is kept any more; it goes on counting then. `primes`: its client knows events that have an id and no data."""

    __slots__ = ("_forgotten", "_frames", "_note_bytes", "_notes", "_shelf", "last", "name", "primes", "size")

    def __init__(self, shelf: Shelf, name: str, primes: bool, forgotten: Callable[[], None]) -> None:
        self.name = name
        self.primes = primes
        #: The number of the newest event.
        self.last = 0
        #: Bytes that are kept.
        self.size = 0
        self._shelf = shelf
        self._forgotten: Callable[[], None] | None = forgotten
        self._frames: dict[int, bytes] = {}
        self._notes: deque[int] = deque()
        self._note_bytes = 0

    @property
    def kept(self) -> bool:
        return self._forgotten is not None

    def put(self, frame: bytes) -> None:
        """Give it a number, and keep it as long as there is room."""
        self.last += 1
        if self._forgotten is None:
            return
        if len(frame) > MAX_MESSAGE:
            self.forget()
            return
        self._frames[self.last] = frame
        grown = len(frame)
        if is_notification(frame):
            self._notes.append(self.last)
            self._note_bytes += len(frame)
            while len(self._notes) > MAX_NOTES or self._note_bytes > MAX_NOTE_BYTES:
                old = self._frames.pop(self._notes.popleft())
                self._note_bytes -= len(old)
                grown -= len(old)
        self.size += grown
        self._shelf.grown(grown)

    def say(self, frames: Iterable[bytes]) -> bytes:
        """These frames as events, which are kept from now on."""
        out = []
        for frame in frames:
            self.put(frame)
            out.append(self._event(self.last, frame))
        return b"".join(out)

    def again(self, after: int) -> bytes:
        """What came after this number, as the same events."""
        return b"".join(self._event(number, frame) for number, frame in self._frames.items() if number > after)

    def prime(self, number: int = 0) -> bytes:
        """An event that says no more than where the stream is, and when to come back; b"" for who does not know it."""
        return b"id: %b-%d\nretry: %d\ndata: \n\n" % (self.name.encode(), number, RETRY) if self.primes else b""

    def _event(self, number: int, frame: bytes) -> bytes:
        return b"event: message\nid: %b-%d\n" % (self.name.encode(), number) + data_of(frame)

    def ended(self) -> None:
        """Its last response has come; it is kept for a while. Harmless where that is known."""
        self._shelf.ended(self)

    def forget(self) -> None:
        """Nothing of it is kept any more. Harmless where that is known."""
        forgotten, self._forgotten = self._forgotten, None
        if forgotten is not None:
            self._shelf.removed(self)
            self._frames.clear()
            self._notes.clear()
            self.size = 0
            forgotten()


class Shelf:
    """All tracks of one endpoint, within the bounds above."""

    def __init__(self) -> None:
        #: Bytes that are kept.
        self.size = 0
        self._loop = asyncio.get_running_loop()
        self._open: dict[Track, None] = {}
        self._ended: dict[Track, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open) + len(self._ended)

    def begin(self, name: str, primes: bool, forgotten: Callable[[], None]) -> Track:
        track = Track(self, name, primes, forgotten)
        self._open[track] = None
        self._make_room()
        return track

    def grown(self, size: int) -> None:
        self.size += size
        if self.size > MAX_BYTES:
            self._make_room()

    def ended(self, track: Track) -> None:
        if track in self._open:
            del self._open[track]
            self._ended[track] = self._loop.time()
            if self._timer is None:
                self._timer = self._loop.call_later(KEPT_FOR, self._late)

    def removed(self, track: Track) -> None:
        """Called by the track."""
        self._open.pop(track, None)
        self._ended.pop(track, None)
        self.size -= track.size

    def _make_room(self) -> None:
        while self.size > MAX_BYTES or len(self) > MAX_STREAMS:
            next(iter(self._ended or self._open)).forget()

    def _late(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._ended:
            track, since = next(iter(self._ended.items()))
            left = since + KEPT_FOR - now
            if left > 0:
                self._timer = self._loop.call_later(left, self._late)
                return
            track.forget()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for track in [*self._open, *self._ended]:
            track.forget()
