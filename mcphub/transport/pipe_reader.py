"""Owns the reading of a pipe into memory that the protocol names, which asyncio's own transport for pipes cannot.

It must not know what is read. It calls the wire as asyncio's transport for sockets does.
"""

from __future__ import annotations

import asyncio
import os
from io import FileIO

from mcphub.transport.wire import Wire


class PipeReader(asyncio.ReadTransport):
    """The reading end of a pipe, not blocking, for `protocol`; begins to read in the next turn of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pipe: FileIO, protocol: Wire) -> None:
        super().__init__()
        self._loop = loop
        self._pipe = pipe
        self._fd = pipe.fileno()
        self._protocol = protocol
        self._closing = False
        self._paused = False
        os.set_blocking(self._fd, False)
        protocol.read_from(self)
        loop.call_soon(self._begin)

    def _begin(self) -> None:
        if not self._closing and not self._paused:
            self._loop.add_reader(self._fd, self._ready)

    def _ready(self) -> None:
        try:
            n = os.readv(self._fd, [self._protocol.get_buffer(-1)])
        except (BlockingIOError, InterruptedError):
            return
        except OSError as e:
            self._end(e)
            return
        if self._closing:
            return  # there was no room
        if n:
            self._protocol.buffer_updated(n)
        else:
            self._protocol.eof_received()
            self._end(None)

    def pause_reading(self) -> None:
        if not self._closing and not self._paused:
            self._paused = True
            self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        if not self._closing and self._paused:
            self._paused = False
            self._loop.add_reader(self._fd, self._ready)

    def is_reading(self) -> bool:
        return not self._paused and not self._closing

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        if not self._closing:
            self._closing = True
            self._loop.remove_reader(self._fd)
            self._loop.call_soon(self._lost, error)

    def _lost(self, error: Exception | None) -> None:
        self._pipe.close()
        self._protocol.connection_lost(error)
