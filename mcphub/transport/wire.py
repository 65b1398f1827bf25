"""Owns a byte stream of frames on asyncio protocols: one buffered read, many frames, one write a peer.

It must not know what a frame says or who is at the other end. No task, future or stream per message: frames are handed
to the receiver inside the read callback, and everything they cause to be sent leaves in one write per wire at its end.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import anyio

from mcphub.channel import Data, Receiver
from mcphub.transport.framing import MAX_MESSAGE, LineBuffer, LineTooLong

#: Frames one connection may bring in one turn of the loop, so that a flood does not starve its neighbours.
FRAME_BUDGET = 64
#: Frames after which what they caused is written, so that the peers begin to work while the rest is read.
FLUSH_EVERY = 8
#: Turns in a row with a spent budget after which the connection rests for REST seconds between turns.
PATIENCE = 4
REST = 0.001
#: Parts from this size on are written as they are; smaller ones are joined first.
LARGE = 1 << 15
#: Unsent bytes at which a peer counts as not reading, and at which it is cut off.
FULL_AT = 8 << 20
ABORT_AT = 1 << 30
#: How long a peer that closed its reading side may go on writing.
DRAIN = 0.25

# From 3.12 on, asyncio's transports keep the memoryview they could not send; before, they copied it.
_KEEPS_VIEWS = sys.version_info >= (3, 12)


class Batch:
    """The wires that have something to write in this turn of the loop."""

    __slots__ = ("_dirty", "_scheduled", "reading")

    def __init__(self) -> None:
        self._dirty: list[Wire] = []
        self._scheduled = False
        #: True inside a read callback: its end flushes, nothing needs scheduling.
        self.reading = False

    def add(self, wire: Wire) -> None:
        self._dirty.append(wire)
        if not self.reading and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._later)

    def _later(self) -> None:
        self._scheduled = False
        self.flush()

    def flush(self) -> bool:
        """Write everything; True if a transport keeps views of what it could not send."""
        lent = False
        while self._dirty:
            dirty, self._dirty = self._dirty, []
            for wire in dirty:
                lent = wire.flush() or lent
        return lent


class Wire(asyncio.BufferedProtocol):
    """A duplex stream of frames: one socket, two sockets, or two pipes. Implements channel.Channel.

    `full` while more than `full_at` bytes wait that the peer does not read; then its own reading is paused too, unless
    `keep_reading`. `closed` is set when all is gone.
    """

    def __init__(
        self,
        batch: Batch,
        receiver: Receiver,
        *,
        limit: int = MAX_MESSAGE,
        full_at: int = FULL_AT,
        keep_reading: bool = False,
        on_error: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.receiver = receiver
        self.closed = anyio.Event()
        self.reason = ""
        self.frames_in = 0
        self._batch = batch
        self._buffer = LineBuffer(limit)
        self._full_at = full_at
        self._keep_reading = keep_reading
        self._on_error = on_error
        self._out: list[Data] = []
        self._reader: asyncio.ReadTransport | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._open = 0
        self._ended = False
        self.full = False
        self._resting = False
        self._spent = 0
        self._told = False

    # --- asyncio -----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._open += 1
        if isinstance(transport, asyncio.ReadTransport):
            self._reader = transport
        # A socket can be written to as well, but the writing side of a pair was made before this one.
        if self._writer is None and isinstance(transport, asyncio.WriteTransport):
            self.write_to(transport)

    def write_to(self, transport: asyncio.WriteTransport) -> None:
        self._writer = transport
        transport.set_write_buffer_limits(high=self._full_at)
        if self._out:
            self._batch.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        try:
            return self._buffer.room()
        except LineTooLong as e:
            self.fail(str(e))
            return memoryview(bytearray(1 << 16))

    def buffer_updated(self, nbytes: int) -> None:
        if self._ended:
            return
        self._buffer.filled(nbytes)
        self._deliver()

    def feed(self, data: bytes) -> None:
        """Bytes from a source that is no buffered protocol (a pipe)."""
        if self._ended:
            return
        try:
            self._buffer.feed(data)
        except LineTooLong as e:
            self.fail(str(e))
            return
        self._deliver()

    def _deliver(self) -> None:
        batch, buffer, receive = self._batch, self._buffer, self.receiver.frame
        batch.reading = True
        left = FRAME_BUDGET
        lent = False
        try:
            while left and not self._ended:
                line = buffer.next()
                if line is None:
                    break
                left -= 1
                receive(line)
                if not left % FLUSH_EVERY:
                    lent = batch.flush() or lent
        except LineTooLong as e:
            self.fail(str(e))
        except Exception as e:
            # A fault of ours in one frame must not kill this peer's loop callback for the others' sake, nor go unseen.
            if self._on_error is not None:
                self._on_error(e)
            self.fail(f"internal error: {type(e).__name__}: {e}")
        finally:
            self.frames_in += FRAME_BUDGET - left
            batch.reading = False
            if (batch.flush() or lent) and _KEEPS_VIEWS:
                buffer.lend()
        if left:
            self._spent = 0
        elif not self._ended:
            self._rest()

    def _rest(self) -> None:
        """The budget is spent: let the others have a turn, then go on with what is buffered."""
        self._spent += 1
        if not self._resting:
            self._resting = True
            if self._reader is not None and not self._stopped():
                self._reader.pause_reading()
        loop = asyncio.get_running_loop()
        if self._spent > PATIENCE:
            loop.call_later(REST, self._go_on)
        else:
            loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._ended:
            return
        before = self._spent
        self._deliver()
        if self._spent == before or not self._spent:
            self._resting = False
            self._resume()

    def _resume(self) -> None:
        if self._reader is not None and not self._resting and not self._stopped() and not self._reader.is_closing():
            self._reader.resume_reading()

    def _stopped(self) -> bool:
        return self.full and not self._keep_reading

    def eof_received(self) -> bool:
        self._end("")
        return False

    def connection_lost(self, exc: BaseException | None) -> None:
        self._open -= 1
        self._end("" if exc is None else f"{type(exc).__name__}: {exc}")
        if self._open <= 0:
            self.closed.set()

    def writer_lost(self, exc: BaseException | None) -> None:
        """The writing side of a pair is gone; what the peer still has to say is read for a moment."""
        self._open -= 1
        self._writer = None
        if self._open <= 0:
            self.closed.set()
        elif not self._ended:
            self.reason = self.reason or "the peer closed its reading side"
            asyncio.get_running_loop().call_later(DRAIN, self.abort)

    def pause_writing(self) -> None:
        self.full = True
        if not self._keep_reading and self._reader is not None and not self._resting and not self._reader.is_closing():
            self._reader.pause_reading()

    def resume_writing(self) -> None:
        self.full = False
        self._resume()

    # --- channel.Channel ---------------------------------------------------------------------------------------------

    def send(self, *parts: Data) -> None:
        if self._ended:
            return
        if not self._out:
            self._batch.add(self)
        self._out += parts

    def flush(self) -> bool:
        """Write what is queued; True if the transport keeps views of it."""
        out, self._out = self._out, []
        writer = self._writer
        if writer is None or writer.is_closing():
            if writer is None and not self._ended:
                self._out = out  # not connected yet: `write_to` sends it
            return False
        views = False
        if len(out) == 1:
            writer.write(out[0])
            views = type(out[0]) is memoryview
        else:
            run: list[Data] = []
            for part in out:
                if len(part) < LARGE:
                    run.append(part)
                    continue
                if run:
                    writer.write(b"".join(run))
                    run = []
                writer.write(part)
                views = True
            if run:
                writer.write(b"".join(run))
        waiting = writer.get_write_buffer_size()
        if waiting > ABORT_AT:
            self.fail(f"{waiting >> 20} MiB of answers were not read")
        return views and waiting > 0

    def fail(self, reason: str) -> None:
        """Close at once, with this reason."""
        self.reason = self.reason or reason
        self.abort()

    def abort(self) -> None:
        for transport in (self._writer, self._reader):
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
            elif transport is not None:
                transport.close()
        self._end(self.reason)

    def finish(self) -> None:
        """Close after what is queued was written; a peer that does not read is the caller's to abort."""
        self.flush()
        self._ended = True
        for transport in (self._writer, self._reader):
            if transport is not None:
                transport.close()

    def close_writing(self) -> None:
        """End of file for the peer; its last words are still read."""
        self.flush()
        if self._writer is not None and not self._writer.is_closing():
            if self._open > 1:
                self._writer.close()
            elif self._writer.can_write_eof():
                self._writer.write_eof()

    def _end(self, reason: str) -> None:
        self._ended = True
        self._out.clear()
        if not self._told:
            self._told = True
            self.reason = self.reason or reason
            batch = self._batch
            outer, batch.reading = batch.reading, True
            try:
                self.receiver.lost(self.reason)
            except Exception as e:
                if self._on_error is not None:
                    self._on_error(e)
            finally:
                batch.reading = outer
                if not outer:
                    batch.flush()
        for transport in (self._writer, self._reader):
            if transport is not None and not transport.is_closing():
                transport.close()


class WriteSide(asyncio.Protocol):
    """The writing transport of a Wire that has two."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._wire._open += 1
        self._wire.write_to(transport)

    def pause_writing(self) -> None:
        self._wire.pause_writing()

    def resume_writing(self) -> None:
        self._wire.resume_writing()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._wire.writer_lost(exc)


class PipeReadSide(asyncio.Protocol):
    """The reading transport of a Wire over pipes, which know no buffered protocols."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.ReadTransport)
        self._wire._open += 1
        self._wire._reader = transport

    def data_received(self, data: bytes) -> None:
        self._wire.feed(data)

    def eof_received(self) -> None:
        self._wire.eof_received()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._wire.connection_lost(exc)
