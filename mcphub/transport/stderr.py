"""Owns what is kept of a server's stderr: a bounded tail over restarts, read so that the server never has to wait.

It must not judge the text: stderr is free text and says nothing about a server's health (MCP spec, transports, stdio).
"""

from __future__ import annotations

import asyncio
import os

import anyio

#: Bytes kept a server.
KEPT = 1 << 20
#: Bytes after which a line without end is cut; what follows is shown as the next line.
LINE = 4096
#: What a line begins with that was not written to stderr, and how that is shown.
_OTHER, OTHER = b"\0stdout\0", "[stdout] "
#: Bytes of one read, one a turn of the loop: a server that floods must not starve the others.
_READ = 1 << 16


class StderrRing:
    """The last `kept` bytes of text. A line that rewrites itself with carriage returns is kept as it stood last."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._lines = bytearray()  # whole lines, each with its newline
        self._open = b""  # the line still being written, at most LINE bytes
        #: Bytes that came before what is kept and were let go.
        self.dropped = 0
        #: Whole lines that ever came.
        self.count = 0
        self._news: anyio.Event | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes, cut anywhere."""
        data = self._open + data
        rewrites = b"\r" in data
        if rewrites:
            data = data.replace(b"\r\n", b"\n")
        lines = data.split(b"\n")
        if rewrites:
            # A carriage return at the very end may be half of \r\n: it stays until more comes.
            last = lines[-1]
            lines = [rewritten(line) if b"\r" in line else line for line in lines]
            if last.endswith(b"\r"):
                lines[-1] += b"\r"
        if len(data) > LINE and max(map(len, lines)) > LINE:
            lines = [piece for line in lines for piece in _cut(line)]
        self._open = lines.pop()
        if lines:
            self._lines += b"\n".join(lines)
            self._lines += b"\n"
            self._let_go()
            self._counted(len(lines))

    def end_line(self) -> None:
        """The writer is gone: what comes next begins a new line."""
        if self._open:
            self._lines += self._open.rstrip(b"\r") + b"\n"
            self._open = b""
            self._let_go()
            self._counted(1)

    def put(self, line: bytes) -> None:
        """Keep a line, without its newline, that was written to stdout and is no message; it is marked as such. It
        comes before a line of stderr that is still being written."""
        self._lines += b"%b%b\n" % (_OTHER, rewritten(line[:LINE]))
        self._let_go()
        self._counted(1)

    def tail(self, count: int, *, alone: bool = False) -> list[str]:
        """The last `count` lines, oldest first, fit to be shown: invalid UTF-8 and control characters are escaped.
        `alone`: those of stderr only."""
        if count <= 0:
            return []
        lines = []
        end = len(self._lines)
        if self._open:
            lines.append(shown(self._open.rstrip(b"\r")))
        while end > 0 and len(lines) < count:
            start = self._lines.rfind(b"\n", 0, end - 1) + 1
            line = bytes(self._lines[start : end - 1])
            end = start
            if not line.startswith(_OTHER):
                lines.append(shown(line))
            elif not alone:
                lines.append(OTHER + shown(line[len(_OTHER) :]))
        lines.reverse()
        return lines

    def after(self, count: int) -> list[str]:
        """The whole lines that came after the first `count` of all and are still kept, as `tail` shows them."""
        new = self.count - count
        if new <= 0:
            return []
        found = self.tail(new + 1)
        return (found[:-1] if self._open else found)[-new:]

    async def newer_than(self, count: int) -> int:
        """Wait until more than `count` whole lines have come; returns how many. May be cancelled."""
        while self.count <= count:
            if self._news is None:
                self._news = anyio.Event()
            await self._news.wait()
        return self.count

    def _counted(self, lines: int) -> None:
        self.count += lines
        if self._news is not None:
            news, self._news = self._news, None
            news.set()

    def __len__(self) -> int:
        """Bytes kept now."""
        return len(self._lines) + len(self._open)

    def _let_go(self) -> None:
        excess = len(self._lines) - self._kept
        if excess > 0:
            cut = self._lines.find(b"\n", excess - 1) + 1
            del self._lines[:cut]
            self.dropped += cut


def rewritten(line: bytes) -> bytes:
    """What a terminal shows of a line with carriage returns, roughly: what follows the last one."""
    return line.rstrip(b"\r").rpartition(b"\r")[2]


def _cut(line: bytes) -> list[bytes]:
    if len(line) <= LINE:
        return [line]
    return [line[i : i + LINE] for i in range(0, len(line), LINE)]


def shown(line: bytes) -> str:
    """Bytes as printable text: nothing in it can move a cursor, hide itself or change its direction."""
    text = line.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\t\xa0\u3000" else _escape(c) for c in text)


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


class StderrReader:
    """Reads a pipe into a ring until its end or `close`. Made, used and closed on the event loop's thread.

    Takes over `fd`. `ended` is set at the end of the pipe, which may be long after the direct child: any process of its
    tree may hold the other end.
    """

    def __init__(self, fd: int, ring: StderrRing) -> None:
        self.ended = anyio.Event()
        self._fd = fd
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._read)

    def drain(self) -> None:
        """Take what is in the pipe now, so that the last words of a process are there when its exit is reported."""
        for _ in range(16):  # a pipe holds 64 KiB, 1 MiB where somebody enlarged it
            if self._fd < 0 or not self._read():
                return

    def close(self) -> None:
        """Take what is there and let go of the pipe. Safe to call twice."""
        self.drain()
        self._release()

    def _read(self) -> bool:
        try:
            data = os.read(self._fd, _READ)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if not data:
            self._release()
            return False
        self._ring.feed(data)
        return True

    def _release(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._ring.end_line()
            self.ended.set()
