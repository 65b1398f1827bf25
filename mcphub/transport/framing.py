"""Owns newline framing: bytes in any chunking to whole lines, without copying a line more than once.

It must not know sockets or what a line says. Lines are split at 0x0A only; a trailing 0x0D is cut; a BOM counts at the
start of the stream only (MCP spec, basic/transports/stdio).
"""

from __future__ import annotations

from collections.abc import Sequence

#: The largest message, both ways, the same in any chunking.
MAX_MESSAGE = 64 << 20
#: The receive buffer of an idle connection.
SMALL = 1 << 16
_LEAST_ROOM = 1 << 15
#: Lines are split all at once, and copied, where those that are whole have together so many bytes at most.
_SPLIT = 1 << 16
_BOM = b"\xef\xbb\xbf"


#: Of a line that is too long, so much is kept, and so many times the limit is thrown away before it counts as endless.
HEAD = 4096
ENDLESS = 4


class LineTooLong(ValueError):
    """A line has passed the limit. `head` is its beginning: the line is thrown away up to its newline and the next one
    can be taken; None = there is no end of it, the connection cannot go on (cases C049, C050)."""

    def __init__(self, limit: int, head: bytes | None) -> None:
        longer = f"a line is longer than {limit >> 20} MiB"
        super().__init__(longer if head is not None else f"{longer}, and does not end")
        self.head = head


class LineBuffer:
    """A receive buffer: `room()` is where to read into, `filled(n)` says how much came, `take(n)` gives lines.

    A small line is a copy; a large one is a view into the buffer, valid until the next `room()`. A buffer whose views
    somebody still holds (a transport with an unsent tail) must be given away with `lend()` before the next read.
    """

    __slots__ = (
        "_at", "_buf", "_dropped", "_end", "_gap", "_head", "_limit", "_lines", "_scan", "_split_most", "_start",
        "_started", "short",
    )

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._buf = bytearray(SMALL)
        self._start = self._end = self._scan = 0
        self._limit = limit
        self._started = False
        # Lines that were split and not taken yet, from `_at` on.
        self._lines: list[bytes] = []
        self._at = 0
        self._split_most = min(limit, _SPLIT)
        # A line that is too long: its beginning, the bytes thrown away so far (0 = its end has come), where it stood.
        self._head = b""
        self._dropped = 0
        self._gap = -1
        #: The lines last taken are not all that are there, though they are fewer than might have been.
        self.short = False

    def room(self) -> memoryview:
        """Where the next bytes go; never empty. Raises LineTooLong."""
        buf, size = self._buf, len(self._buf)
        if size - self._end < _LEAST_ROOM:
            kept = self._end - self._start
            if kept > self._limit:
                # Whole lines that nobody took yet do not count: only the unfinished one can be too long.
                begins = max(buf.rfind(b"\n", self._start, self._end) + 1, self._start)
                if self._end - begins > self._limit:
                    self._drop_from(begins)
                    return self.room()
            # A new buffer, not a resize: views of the old one may be alive. Large lines grow in few steps.
            grown = size * 4 if size < 1 << 20 else size + max(4 << 20, size // 2)
            new = bytearray(size if kept <= size // 2 else grown)
            memoryview(new)[:kept] = memoryview(buf)[self._start : self._end]  # not new[:kept]: that copies twice
            self._buf = buf = new
            self._scan -= self._start
            self._gap -= self._start if self._gap >= 0 else 0
            self._start, self._end = 0, kept
        return memoryview(buf)[self._end :]

    def _drop_from(self, begins: int) -> None:
        """The unfinished line is too long: throw it away, and what is still to come of it."""
        if self._gap >= 0:
            raise LineTooLong(self._limit, None)  # nobody was told of the one before
        self._head = bytes(memoryview(self._buf)[begins : begins + HEAD])
        self._dropped = self._end - begins
        self._gap = self._end = begins
        self._scan = min(self._scan, begins)

    def _drop(self, n: int) -> None:
        """Of `n` bytes that were just read, those that belong to the line that is thrown away."""
        buf, end = self._buf, self._end
        stop = buf.find(b"\n", end, end + n)
        if stop < 0:
            self._dropped += n
            if self._dropped > self._limit * ENDLESS:
                raise LineTooLong(self._limit, None)
            return
        rest = end + n - stop - 1
        memoryview(buf)[end : end + rest] = bytes(memoryview(buf)[stop + 1 : end + n])
        self._end = end + rest
        self._dropped = 0

    def filled(self, n: int) -> None:
        """`n` bytes were read into the last `room()`. Raises LineTooLong where they are of a line without end."""
        if self._dropped:
            self._drop(n)
            return
        self._end += n
        if not self._started and self._end - self._start >= 3:
            self._started = True
            if self._buf[self._start : self._start + 3] == _BOM:
                self._start += 3
                self._scan = max(self._scan, self._start)

    def feed(self, data: bytes | memoryview) -> None:
        """Copy `data` in, for sources that bring their own bytes. Raises LineTooLong."""
        view = memoryview(data)
        while view:
            room = self.room()
            n = min(len(room), len(view))
            room[:n] = view[:n]
            self.filled(n)
            view = view[n:]

    def take(self, most: int) -> Sequence[bytes | memoryview]:
        """The next whole lines without their newlines, at most so many; fewer mean that there are no more, unless it is
        `short`. Blank lines are passed over. Raises LineTooLong for a line above the limit, so that the result is the
        same in any chunking; the lines before it come first, and those behind it by the next call."""
        self.short = False
        if self._gap >= 0:
            return self._seek_to_gap(most)
        if self._at < len(self._lines) or self._split():
            out = self._lines[self._at : self._at + most]
            self._at += len(out)
            # What was read since these were split comes after them.
            self.short = len(out) < most and self._buf.find(b"\n", self._scan, self._end) >= 0
            return out
        return self._seek(most)

    def _seek_to_gap(self, most: int) -> Sequence[bytes | memoryview]:
        """The lines before one that is too long; then that, once its end has come; then the rest."""
        if ahead := self._lines[self._at : self._at + most]:
            self._at += len(ahead)
            self.short = True
            return ahead
        end, self._end = self._end, self._gap
        try:
            out = self._seek(most, keep=True)
        finally:
            self._end = end
        if out or self._dropped:
            self.short = not self._dropped
            return out
        head, self._head, self._gap = self._head, b"", -1
        self._scan = self._start
        raise LineTooLong(self._limit, head)

    def _split(self) -> bool:
        """Many small lines at once, which is what a busy peer sends; False where the lines must be sought singly."""
        buf, start, scan = self._buf, self._start, self._scan
        last = buf.rfind(b"\n", scan, self._end)
        if last < 0 or last - start > self._split_most or buf.find(b"\n", scan, last) < 0:
            return False
        chunk = bytes(memoryview(buf)[start:last])
        if b"\r" in chunk:
            return False
        lines = chunk.split(b"\n")
        self._lines = [line for line in lines if line] if b"" in lines else lines
        self._at = 0
        self._started = True
        self._start = self._scan = last + 1
        if last + 1 == self._end:
            self._start = self._end = self._scan = 0
        return True

    def _seek(self, most: int, keep: bool = False) -> list[memoryview]:
        buf, start, scan, end = self._buf, self._start, self._scan, self._end
        view = memoryview(buf)
        out: list[memoryview] = []
        while len(out) < most:
            i = buf.find(b"\n", scan, end)
            if i < 0:
                self._start, self._scan = start, end
                if start == end and not keep:
                    self._start = self._end = self._scan = 0
                    if len(buf) > 1 << 20:
                        self._buf = bytearray(SMALL)  # give a large message's buffer back
                return out
            self._started = True
            if i - start > self._limit:
                if out:
                    self.short = True
                    break
                self._start = self._scan = i + 1
                raise LineTooLong(self._limit, bytes(view[start : start + HEAD]))
            stop = i - 1 if i > start and buf[i - 1] == 13 else i
            if stop > start:
                out.append(view[start:stop])
            start = scan = i + 1
        self._start = self._scan = start
        return out

    def next(self) -> bytes | memoryview | None:
        """The next whole line, None when there is none. Raises LineTooLong."""
        lines = self.take(1)
        return lines[0] if lines else None

    def pending(self) -> int:
        """Bytes that are not taken yet; of lines that were split before, their number stands for them."""
        return self._end - self._start + len(self._lines) - self._at

    def rest(self, most: int) -> tuple[bytes, bytes]:
        """What is not taken yet: the whole lines with their newlines, and the first bytes of the unfinished one, at
        most so many."""
        ahead = b"".join([line + b"\n" for line in self._lines[self._at :]])
        view = memoryview(self._buf)
        cut = self._buf.rfind(b"\n", self._scan, self._end) + 1 or self._start
        return ahead + bytes(view[self._start : cut]), bytes(view[cut : min(self._end, cut + most)])

    def lend(self) -> None:
        """Somebody keeps views of this buffer: go on in a new one."""
        kept = self._end - self._start
        new = bytearray(max(SMALL, kept * 2))
        memoryview(new)[:kept] = memoryview(self._buf)[self._start : self._end]
        self._scan -= self._start
        self._gap -= self._start if self._gap >= 0 else 0
        self._start, self._end = 0, kept
        self._buf = new
