"""Owns a relay on the loopback that can become a blackhole: connections stay, new ones are taken, and nothing moves.

It must not know what is carried. So a peer looks that vanished without a word, or a network that drops everything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc


class Blackhole:
    """`port` is where it listens. `swallow` begins the dark, `restore` ends it for new connections alone."""

    def __init__(self, to: int) -> None:
        self.port = 0
        #: Connections that were taken while it was dark.
        self.swallowed = 0
        self._to = to
        self._light = anyio.Event()
        self._light.set()
        self._dark = anyio.Event()

    def swallow(self) -> None:
        self._light = anyio.Event()
        self._dark.set()

    def restore(self) -> None:
        self._dark = anyio.Event()
        self._light.set()

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        async with stream:
            if self._dark.is_set():
                self.swallowed += 1
                await anyio.sleep_forever()
            async with await anyio.connect_tcp("127.0.0.1", self._to) as other, anyio.create_task_group() as tasks:
                tasks.start_soon(self._carry, stream, other, tasks.cancel_scope)
                tasks.start_soon(self._carry, other, stream, tasks.cancel_scope)

    async def _carry(
        self, one: anyio.abc.SocketStream, other: anyio.abc.SocketStream, whole: anyio.CancelScope
    ) -> None:
        dark = self._dark
        try:
            while True:
                data = await one.receive()
                if dark.is_set():
                    await anyio.sleep_forever()
                await other.send(data)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            whole.cancel()


@asynccontextmanager
async def blackhole(to: int) -> AsyncIterator[Blackhole]:
    """One in front of this port of the loopback; leaving drops all its connections."""
    hole = Blackhole(to)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    hole.port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, hole.serve)
        yield hole
        tasks.cancel_scope.cancel()
