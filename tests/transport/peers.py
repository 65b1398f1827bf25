"""Owns the far ends of wires in tests: a receiver that keeps what it is told, a peer on raw descriptors, a clean loop.

It must not know what is tested.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from io import FileIO
from typing import Any

import anyio

from mcphub.transport.wire import Batch, PipeReadSide, Wire, WriteSide

KINDS = ("socket", "sockets", "pipes")

# Every test that is to be clean asks the collector: what was imported by now need not be looked at each time.
gc.collect()
gc.freeze()


class Recorder:
    """A receiver: copies of the lines, the reasons. `on_frame` is called with each view before it is copied."""

    def __init__(self, on_frame: Callable[[bytes | memoryview], None] | None = None, *, keep: bool = True) -> None:
        self.lines: list[bytes] = []
        self.count = 0
        self.reasons: list[str] = []
        self.too_long_ones: list[tuple[bytes, str]] = []
        self._on_frame = on_frame
        self._keep = keep
        self._news = anyio.Event()

    def frame(self, line: bytes | memoryview) -> None:
        if self._on_frame is not None:
            self._on_frame(line)
        self.count += 1
        if self._keep:
            self.lines.append(bytes(line))
        self._tell()

    def too_long(self, head: bytes, message: str) -> None:
        self.too_long_ones.append((head, message))

    def unanswered(self, request_id: int, kind: str, message: str) -> None:
        raise AssertionError("a channel that is one stream says this of no request")

    def lost(self, reason: str) -> None:
        self.reasons.append(reason)
        self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    async def until(self, count: int) -> None:
        """Wait for so many lines."""
        while self.count < count:
            await self._news.wait()

    async def until_lost(self) -> str:
        while not self.reasons:
            await self._news.wait()
        return self.reasons[0]


class Peer:
    """The far end of a wire on one or two raw descriptors; `read` and `write` wait, nothing is buffered."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading = reading
        self.writing = writing
        for fd in {reading, writing}:
            os.set_blocking(fd, False)

    async def write(self, data: bytes, chunk: int = 1 << 20) -> None:
        """All of it, in pieces of `chunk` bytes. Raises BrokenPipeError, ConnectionResetError."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.writing, view[:chunk]) :]
            except BlockingIOError:
                await anyio.wait_writable(self.writing)
            if chunk < 100:
                await anyio.lowlevel.checkpoint()

    async def read(self, size: int = 1 << 20) -> bytes:
        """Some bytes, b"" at the end."""
        while True:
            try:
                return os.read(self.reading, size)
            except BlockingIOError:
                await anyio.wait_readable(self.reading)

    async def lines(self, count: int) -> list[bytes]:
        """So many lines, or fewer at the end."""
        data = b""
        while data.count(b"\n") < count and (more := await self.read()):
            data += more
        return data.splitlines()

    async def rest(self) -> bytes:
        """Everything until the end; a reset is an end too."""
        data = b""
        try:
            while more := await self.read():
                data += more
        except ConnectionResetError:
            pass
        return data

    def close_writing(self) -> None:
        if self.writing == self.reading:
            with socket.socket(fileno=os.dup(self.writing)) as sock:
                sock.shutdown(socket.SHUT_WR)
        elif self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    def close_reading(self) -> None:
        if self.reading >= 0:
            os.close(self.reading)
            if self.writing == self.reading:
                self.writing = -1
            self.reading = -1

    def close(self) -> None:
        for fd in {self.reading, self.writing} - {-1}:
            os.close(fd)
        self.reading = self.writing = -1


async def attach(kind: str, wire: Wire) -> Peer:
    """Connect a wire to a new peer. `kind`: one socket, two sockets, two pipes."""
    loop = asyncio.get_running_loop()
    if kind == "socket":
        ours, theirs = socket.socketpair()
        await loop.create_connection(lambda: wire, sock=ours)
        fd = theirs.detach()
        return Peer(fd, fd)
    if kind == "sockets":
        ours_in, theirs_in = socket.socketpair()
        ours_out, theirs_out = socket.socketpair()
        await loop.create_connection(lambda: WriteSide(wire), sock=ours_in)
        await loop.create_connection(lambda: wire, sock=ours_out)
        return Peer(theirs_in.detach(), theirs_out.detach())
    read_theirs, write_ours = os.pipe()
    read_ours, write_theirs = os.pipe()
    await loop.connect_write_pipe(lambda: WriteSide(wire), FileIO(write_ours, "wb"))
    await loop.connect_read_pipe(lambda: PipeReadSide(wire), FileIO(read_ours, "rb"))
    return Peer(read_theirs, write_theirs)


@asynccontextmanager
async def wired(
    kind: str, recorder: Recorder, *, batch: Batch | None = None, **options: Any
) -> AsyncIterator[tuple[Wire, Peer]]:
    """A wire with a peer; after it both are gone."""
    wire = Wire(batch or Batch(), recorder, **options)
    peer = await attach(kind, wire)
    try:
        yield wire, peer
    finally:
        wire.abort()
        peer.close()
        with anyio.fail_after(5), anyio.CancelScope(shield=True):
            await wire.closed.wait()


def opened() -> set[tuple[int, int]]:
    """The number and inode of each descriptor that this process has open."""
    found = set()
    for name in os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"):
        try:
            found.add((int(name), os.fstat(int(name)).st_ino))
        except OSError:
            pass  # that of the listing itself
    return found


def descriptors() -> int:
    """How many this process has open."""
    return len(os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"))


@contextmanager
def only(free: int) -> Iterator[None]:
    """So many descriptors are left for this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    fillers = []
    while (fd := os.open(os.devnull, os.O_RDONLY)) < highest:
        fillers.append(fd)
    os.close(fd)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (fd + free, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for filler in fillers:
            os.close(filler)


@asynccontextmanager
async def clean() -> AsyncIterator[None]:
    """What runs in it leaves no descriptor, and nothing for the loop's exception handler or the collector to say."""
    loop = asyncio.get_running_loop()
    said: list[str] = []
    loop.set_exception_handler(lambda _, context: said.append(f"{context['message']}: {context.get('exception')!r}"))
    await anyio.lowlevel.checkpoint()
    before, tasks = opened(), len(asyncio.all_tasks())
    yield
    for _ in range(5):  # transports that were aborted close their descriptors in the next turns
        await anyio.lowlevel.checkpoint()
    gc.collect()
    loop.set_exception_handler(None)
    assert said == []
    # What somebody before us left to the collector may have gone meanwhile.
    assert opened() - before == set()
    assert len(asyncio.all_tasks()) == tasks
