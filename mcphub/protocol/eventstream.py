"""Owns the event-stream grammar: bytes in any chunking to events, in time linear in the bytes.

It must not read sockets or know what an event's data says. Source: WHATWG HTML, "server-sent events", 9.2.5 and 9.2.6,
but for one thing: an event without data counts where it has an id or a retry of its own, since that is how a server of
MCP 2025-11-25 says from where a stream can be resumed.
"""

from __future__ import annotations

import msgspec

#: The largest event: bytes of its data and of what stands beside it.
MAX_EVENT = 64 << 20
#: Milliseconds a server may ask for before it is asked again; longer numbers are no number.
MAX_RETRY_DIGITS = 12

_BOM = b"\xef\xbb\xbf"
_LF, _CR = b"\n", b"\r"


class EventTooLarge(ValueError):
    """The unfinished event has passed the limit; the stream cannot go on."""


class ServerSentEvent(msgspec.Struct, frozen=True):
    """One event. `name` "" means `message`. `last_id` is the last id said on the stream so far, "" = none.

    `data` is None where the event has no data line, or only an empty one: it says nothing but id and retry.
    """

    name: str = ""
    data: bytes | None = None
    last_id: str = ""


class EventDecoder:
    """One stream. `retry` is the last reconnection time it asked for in seconds, None = none; `last_id` the last id.

    Lines end at CR LF, LF or CR. Of a CR at the end of a chunk the line is complete; an LF that follows is dropped.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self.last_id = ""
        self.retry: float | None = None
        self._limit = limit
        self._parts: list[bytes] = []  # of the line that is not complete
        self._size = 0  # bytes of the unfinished event, its incomplete line included
        self._begun = False
        self._after_cr = False
        self._data: list[bytes] = []
        self._name = ""
        self._id = ""
        self._said = False

    def resume_from(self, last_id: str) -> None:
        """The stream goes on where another one ended: until it says an id, that one's last id counts."""
        self.last_id = self._id = last_id

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """The events that this chunk completes. Raises EventTooLarge."""
        if not self._begun:
            chunk = self._without_bom(chunk)
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk[:1] == _LF:
                chunk = chunk[1:]
        if not chunk:
            return []
        found: list[ServerSentEvent] = []
        crs = _CR in chunk
        if crs and chunk.endswith(_CR):
            self._after_cr = True
        if crs:
            # bytes.splitlines() splits at CR LF, LF and CR alone, unlike that of str.
            lines = chunk.splitlines()
            lines.append(b"" if chunk[-1:] in (_LF, _CR) else lines.pop())
        else:
            lines = chunk.split(_LF)
        rest = lines.pop()
        for line in lines:
            self._size += len(line)
            self._check()
            if self._parts:
                self._parts.append(line)
                line = b"".join(self._parts)
                self._parts.clear()
            if line:
                self._field(line)
            else:
                event = self._dispatch()
                if event is not None:
                    found.append(event)
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            self._check()
        return found

    def _check(self) -> None:
        if self._size > self._limit:
            raise EventTooLarge(f"an event is larger than {self._limit >> 20} MiB")

    def _without_bom(self, chunk: bytes) -> bytes:
        """The chunk without a byte order mark at the very start, which may come in pieces."""
        head = b"".join(self._parts) + chunk
        self._parts.clear()
        self._size = 0
        if len(head) < len(_BOM) and _BOM.startswith(head):
            if head:
                self._parts.append(head)
                self._size = len(head)
            return b""
        self._begun = True
        return head.removeprefix(_BOM)

    def _field(self, line: bytes) -> None:
        name, colon, value = line.partition(b":")
        if not name and colon:
            self._size -= len(line)  # a comment; an endless stream of them is no large event
            return
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
                self._said = True
        elif name == b"retry" and value.isdigit() and len(value) <= MAX_RETRY_DIGITS:
            self.retry = int(value) / 1000
            self._said = True

    def _dispatch(self) -> ServerSentEvent | None:
        said, name = self._said, self._name
        data = b"\n".join(self._data) if len(self._data) > 1 else self._data[0] if self._data else b""
        self.last_id = self._id
        self._data.clear()
        self._name = ""
        self._said = False
        self._size = 0
        if not data and not said:
            return None
        return ServerSentEvent(name, data or None, self.last_id)
