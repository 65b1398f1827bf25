"""Owns servers that live in the daemon and read and write their messages themselves, behind a channel like a process's.

It must not know what such a server is made with. It gets each frame without its newline, and may write at any time on
the loop; when there are no more frames it should return, and is cancelled if it does not. What it raises, SystemExit
too, is the end of its connection, with that as the reason.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import anyio.abc

from mcphub.channel import Data, Receiver
from mcphub.errors import TransportError
from mcphub.transport.one_stream import OneStream

#: Frames that may wait for the server before the channel is full.
MOST_WAITING = 1000

#: `serve(frames, write)`: read frames until there are no more; `write` takes one frame, without newlines in it.
Serve = Callable[[AsyncIterator[bytes], Callable[[bytes], None]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class StreamServer:
    """A server that speaks for itself; `serve` is called for each connection."""

    serve: Serve


class StreamChannel:
    """A channel whose far end is a coroutine."""

    current: int | None = None

    def __init__(self, receiver: Receiver, on_error: Callable[[BaseException], None] | None = None) -> None:
        self.full = False
        self.closed = anyio.Event()
        self.reason = ""
        self._receiver = receiver
        self._on_error = on_error
        self._waiting: deque[bytes] = deque()
        self._news = anyio.Event()

    def send(self, *parts: Data) -> None:
        if not self.closed.is_set():
            self._waiting.append(b"".join(parts).rstrip(b"\n"))
            self.full = len(self._waiting) > MOST_WAITING
            self._news.set()

    def abort(self) -> None:
        if not self.closed.is_set():
            self.closed.set()
            self._waiting.clear()
            self._news.set()
            self._receiver.lost(self.reason)

    def __aiter__(self) -> StreamChannel:
        """What was sent, until the channel is closed."""
        return self

    async def __anext__(self) -> bytes:
        while not self._waiting:
            if self.closed.is_set():
                raise StopAsyncIteration
            self._news = anyio.Event()
            await self._news.wait()
        frame = self._waiting.popleft()
        self.full = len(self._waiting) > MOST_WAITING
        return frame

    def write(self, frame: bytes) -> None:
        """One frame of the server's."""
        if self.closed.is_set():
            return
        try:
            self._receiver.frame(memoryview(frame))
        except Exception as e:  # a fault of ours in one frame closes this channel only, and does not go unseen
            if self._on_error is not None:
                self._on_error(e)
            self.reason = f"internal error: {type(e).__name__}: {e}"
            self.abort()


def is_cancelled(error: BaseException) -> bool:
    """Whether it stands for a cancellation of the task that runs, and was not raised just so by code of a server."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return anyio.current_effective_deadline() == -math.inf or (task is not None and task.cancelling() > 0)


@asynccontextmanager
async def open_tasks() -> AsyncIterator[anyio.abc.TaskGroup]:
    """Where code of a server runs. A GeneratorExit of a future that it awaits closes the whole task, whatever that
    catches: it is the end of the connection. Raises TransportError (kind `lost`) then."""
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        closed, rest = group.split(GeneratorExit)
        if closed is None:
            raise
        if rest is not None:
            raise rest from None
        raise TransportError("the server failed: GeneratorExit", kind="lost") from None


@dataclass(slots=True)
class StreamLink(OneStream):
    """An open server of this kind. Implements link.Link."""

    channel: StreamChannel
    pid: int | None = None

    async def exit_code(self, wait: float) -> int | None:
        return None


@asynccontextmanager
async def open_stream_server(
    server: StreamServer, receiver: Receiver, grace: float, report: Callable[[BaseException], None] | None = None
) -> AsyncIterator[StreamLink]:
    """Hold a channel to it; it has `grace` seconds to come to its end."""
    channel = StreamChannel(receiver, report)

    async def run() -> None:
        try:
            await server.serve(channel, channel.write)
        except BaseException as e:
            if is_cancelled(e):
                raise
            while isinstance(e, BaseExceptionGroup) and len(e.exceptions) == 1:
                e = e.exceptions[0]  # the task groups of a library wrap what passes through them
            channel.reason = channel.reason or f"the server failed: {type(e).__name__}: {e}"
        finally:
            channel.abort()
            ended.set()

    ended = anyio.Event()
    async with open_tasks() as tasks:
        tasks.start_soon(run)
        try:
            yield StreamLink(channel)
        finally:
            channel.abort()
            with anyio.move_on_after(grace, shield=True):
                await ended.wait()
            tasks.cancel_scope.cancel()
