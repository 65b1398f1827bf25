"""Owns newline framing: bytes in any chunking to whole lines, without copying a line more than once.

It must not know sockets or what a line says. Lines are split at 0x0A only; a trailing 0x0D is cut; a BOM counts at the
start of the stream only (MCP spec, basic/transports/stdio).
"""

from __future__ import annotations

#: The largest message, both ways, the same in any chunking.
MAX_MESSAGE = 64 << 20
#: The receive buffer of an idle connection.
SMALL = 1 << 16
_LEAST_ROOM = 1 << 15
_BOM = b"\xef\xbb\xbf"


class LineTooLong(ValueError):
    """The unfinished line has passed the limit; the connection cannot go on."""


class LineBuffer:
    """A receive buffer: `room()` is where to read into, `filled(n)` says how much came, `take(n)` gives lines.

    A line is a view into the buffer, valid until the next `room()`. A buffer whose views somebody still holds (a
    transport with an unsent tail) must be given away with `lend()` before the next read.
    """

    __slots__ = ("_buf", "_end", "_limit", "_scan", "_start", "_started")

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._buf = bytearray(SMALL)
        self._start = self._end = self._scan = 0
        self._limit = limit
        self._started = False

    def room(self) -> memoryview:
        """Where the next bytes go; never empty. Raises LineTooLong."""
        buf, size = self._buf, len(self._buf)
        if size - self._end < _LEAST_ROOM:
            kept = self._end - self._start
            # Whole lines that nobody took yet do not count: only the unfinished one can be too long.
            last = buf.rfind(b"\n", self._start, self._end) if kept > self._limit else -1
            if kept > self._limit and self._end - max(last + 1, self._start) > self._limit:
                raise LineTooLong(f"a line is longer than {self._limit >> 20} MiB")
            # A new buffer, not a resize: views of the old one may be alive. Large lines grow in few steps.
            grown = size * 4 if size < 1 << 20 else size + max(4 << 20, size // 2)
            new = bytearray(size if kept <= size // 2 else grown)
            memoryview(new)[:kept] = memoryview(buf)[self._start : self._end]  # not new[:kept]: that copies twice
            self._buf = buf = new
            self._scan -= self._start
            self._start, self._end = 0, kept
        return memoryview(buf)[self._end :]

    def filled(self, n: int) -> None:
        """`n` bytes were read into the last `room()`."""
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

    def take(self, most: int) -> list[memoryview]:
        """The next whole lines without their newlines, at most so many; fewer mean that there are no more. Blank lines
        are passed over. Raises LineTooLong for a whole line above the limit, so that the result is the same in any
        chunking; the lines before it come first."""
        buf, start, scan, end = self._buf, self._start, self._scan, self._end
        view = memoryview(buf)
        out: list[memoryview] = []
        while len(out) < most:
            i = buf.find(b"\n", scan, end)
            if i < 0:
                self._start, self._scan = start, end
                if start == end:
                    self._start = self._end = self._scan = 0
                    if len(buf) > 1 << 20:
                        self._buf = bytearray(SMALL)  # give a large message's buffer back
                return out
            self._started = True
            if i - start > self._limit:
                if out:
                    break
                self._start = self._scan = i + 1
                raise LineTooLong(f"a line is longer than {self._limit >> 20} MiB")
            stop = i - 1 if i > start and buf[i - 1] == 13 else i
            if stop > start:
                out.append(view[start:stop])
            start = scan = i + 1
        self._start = self._scan = start
        return out

    def next(self) -> memoryview | None:
        """The next whole line, None when there is none. Raises LineTooLong."""
        lines = self.take(1)
        return lines[0] if lines else None

    def pending(self) -> int:
        """Bytes of the unfinished line."""
        return self._end - self._start

    def lend(self) -> None:
        """Somebody keeps views of this buffer: go on in a new one."""
        kept = self._end - self._start
        new = bytearray(max(SMALL, kept * 2))
        memoryview(new)[:kept] = memoryview(self._buf)[self._start : self._end]
        self._scan -= self._start
        self._start, self._end = 0, kept
        self._buf = new
