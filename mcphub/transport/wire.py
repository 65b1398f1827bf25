"""Owns a byte stream of frames on asyncio protocols: one buffered read, many frames, one write a peer.

It must not know what a frame says or who is at the other end. No task, future or stream per message: frames are handed
to the receiver inside the read callback, and everything they cause to be sent leaves in one write per wire at its end.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Protocol

import anyio

from mcphub.channel import Data, Receiver
from mcphub.transport.framing import MAX_MESSAGE, LineBuffer, LineTooLong

#: Frames one connection may bring in one turn of the loop, so that a flood does not starve its neighbours.
FRAME_BUDGET = 64
#: The same where it brought more than that: what it has sent by then waits anyway, and the others need not.
FLOOD_BUDGET = 16
#: Frames of one read after which what they caused is written, so that the peers begin to work while the rest is read;
#: twice as many each further time, since then they have something to do.
FLUSH_EVERY = 8
#: Frames that are offered together to who takes several at once, at most, which takes as long as FLUSH_EVERY single
#: ones; and at least, since for fewer it takes longer.
BURST = 32
SEVERAL = 4
#: Turns in a row with a spent budget after which the connection rests for REST seconds between turns.
PATIENCE = 16
REST = 0.001
#: An agent that brings more frames at once is a flood, and the same one that brings fewer is none again so many seconds
#: later.
FEW = 8
CALM = 0.05
#: Where there is a flood beside an agent that is none, each connection has no more than so many seconds a turn, but one
#: frame in any case; and a flood rests after fewer turns. So what came of the others waits for a short portion, and
#: their processes wait for a core until the next rest at most.
PORTION = 0.00015
SHORT_PATIENCE = 8
#: For how long after either was read last that is so, seconds.
LATELY = 1.0
#: Parts from this size on are written as they are; smaller ones are joined first.
LARGE = 1 << 15
#: A write that a pipe takes as a whole or not at all.
SMALL = 4096
#: Unsent bytes at which a peer counts as not reading, and at which it is cut off.
FULL_AT = 8 << 20
ABORT_AT = 1 << 30
#: How long a peer that closed its reading side may go on writing, seconds.
DRAIN = 0.25
#: How long a peer that has ended may take nothing of what is still to be written, seconds.
LINGER = 5.0
#: How often a journal is told what a slow peer has taken meanwhile, seconds.
FOLLOW = 0.002

# From 3.12 on, asyncio's transports keep the memoryview they could not send; before, they copied it.
_KEEPS_VIEWS = sys.version_info >= (3, 12)


class Journal(Protocol):
    """Who keeps what came and what was taken, for whoever has the wire's descriptors after this process."""

    #: Whether it is time for `turn`, once what came has been handed on.
    over: bool

    @property
    def behind(self) -> bool:
        """Whether something is not known to be taken."""

    def room(self) -> memoryview:
        """Where the next bytes are to be read into."""

    def came(self, n: int) -> memoryview:
        """So many bytes were; valid until the next `room`."""

    def turn(self) -> None:
        """What came has been handed on."""

    def risks(self) -> None:
        """What is written next may be taken in part."""

    def wrote(self, part: Data, waiting: int, more: bool = False) -> None:
        """This was given to be written; of all that was, so many bytes are not taken yet. `more` will be at once."""

    def took(self, waiting: int) -> None:
        """Nothing more was given; so many bytes are not taken yet."""


class Batch:
    """The wires that have something to write in this turn of the loop, and whether an agent floods beside another."""

    __slots__ = ("_calm", "_calm_at", "_dirty", "_flood", "_flood_at", "_scheduled", "reading")

    def __init__(self) -> None:
        self._dirty: list[Wire] = []
        self._scheduled = False
        #: The agents that were read last and bring much at once, or little; and when that was.
        self._flood: Wire | None = None
        self._calm: Wire | None = None
        self._flood_at = self._calm_at = 0.0
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

    def brought(self, agent: Wire, much: bool) -> None:
        """This agent was read."""
        now = monotonic()
        if much:
            self._flood, self._flood_at = agent, now
            agent.flooded = now
            if self._calm is agent:
                self._calm = None
        elif now - agent.flooded > CALM:
            self._calm, self._calm_at = agent, now
            if self._flood is agent:
                self._flood = None

    def left(self, agent: Wire) -> None:
        """It will not be read again."""
        if self._flood is agent:
            self._flood = None
        if self._calm is agent:
            self._calm = None

    def uneven(self) -> bool:
        """Whether an agent floods beside one that does not."""
        if self._flood is None or self._calm is None:
            return False
        return monotonic() - min(self._flood_at, self._calm_at) < LATELY

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

    `full` while more than `full_at` bytes wait that the peer does not read; then its own reading is paused too, and
    nothing more that it sent is handed on, unless `keep_reading`, which is for servers: what is not is an agent, or
    whoever else asks. `closed` is set when all is gone.
    """

    current: int | None = None
    #: Frames follow each other: several may be sent at once.
    stream = True

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
        #: What takes several messages at once, if it can, and says whether it has.
        self._burst: Callable[[Sequence[bytes | memoryview]], bool] | None = getattr(receiver, "burst", None)
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
        self._paired = False
        self._resting = False
        self._halted = False
        self._held = False
        self._spent = 0
        self._uneven = False
        #: When it brought much at once, monotonic seconds.
        self.flooded = 0.0
        self._told = False
        self._journal: Journal | None = None
        self._following = False

    # --- asyncio -----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.read_from(transport)
        # A socket can be written to as well, but the writing side of a pair was made before this one.
        if not self._paired:
            self.write_to(transport)

    def read_from(self, transport: asyncio.ReadTransport) -> None:
        self._open += 1
        self._reader = transport
        if self._ended:
            transport.close()  # what was fed before it has ended the wire already
        elif self._resting:
            transport.pause_reading()

    def write_to(self, transport: asyncio.WriteTransport) -> None:
        self._writer = transport
        transport.set_write_buffer_limits(high=self._full_at)
        if self._journal is not None:
            self._follow(transport)
        if self._ended:
            # Not here: a pipe's transport watches its descriptor only after this call.
            asyncio.get_running_loop().call_soon(transport.close)
        elif self._out:
            self._batch.add(self)

    def pair_with(self, transport: asyncio.WriteTransport) -> None:
        """The writing side of a pair; it is made before the reading side."""
        self._open += 1
        self._paired = True
        self.write_to(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._journal is not None:
            return self._journal.room()
        try:
            return self._buffer.room()
        except LineTooLong as e:
            self.fail(str(e))
            return memoryview(bytearray(1 << 16))

    def buffer_updated(self, nbytes: int) -> None:
        if self._ended:
            return
        if self._journal is not None:
            self.feed(self._journal.came(nbytes))
            return
        try:
            self._buffer.filled(nbytes)
        except LineTooLong as e:
            self.fail(str(e))
            return
        self._deliver()

    def feed(self, data: bytes | memoryview) -> None:
        """Bytes from a source that is no buffered protocol (a pipe)."""
        if self._ended:
            return
        try:
            self._buffer.feed(data)
        except LineTooLong as e:
            self.fail(str(e))
            return
        self._deliver()
        if self._journal is not None and self._journal.over:
            self._journal.turn()

    def _deliver(self) -> None:
        batch, buffer, receive, burst = self._batch, self._buffer, self.receiver.frame, self._burst
        batch.reading = True
        left = budget = FLOOD_BUDGET if self._spent else FRAME_BUDGET
        some = FLUSH_EVERY
        lent = spent = False
        uneven = self._uneven = batch.uneven()
        until = monotonic() + PORTION if uneven else 0.0
        try:
            while left and not self._ended:
                if self._held or (self.full and not self._keep_reading):
                    break  # its answers would pile up: the rest waits until it reads
                most = some if burst is None else BURST
                try:
                    lines = buffer.take(1 if uneven else min(most, left))
                except LineTooLong as e:
                    self.receiver.too_long(e.head or b"", str(e))
                    left -= 1
                    continue
                left -= len(lines)
                if burst is None or len(lines) < SEVERAL or type(lines[0]) is not bytes or not burst(lines):
                    at = 0
                    while at < len(lines):
                        if at:
                            lent = batch.flush() or lent
                        for line in lines[at : at + some]:
                            receive(line)
                            if self._told:  # it has ended meanwhile
                                break
                        at = len(lines) if self._told else at + some
                        some *= 2
                if uneven:
                    if not lines and not buffer.short:
                        break
                    if spent := monotonic() >= until:
                        break
                    continue
                if not buffer.pending() or (len(lines) < most and not buffer.short):
                    break
                lent = batch.flush() or lent
        except Exception as e:
            # A fault of ours in one frame must not kill this peer's loop callback for the others' sake, nor go unseen.
            if self._on_error is not None:
                self._on_error(e)
            self.fail(f"internal error: {type(e).__name__}: {e}")
        finally:
            self.frames_in += budget - left
            batch.reading = False
            if (batch.flush() or lent) and _KEEPS_VIEWS:
                buffer.lend()
        if self._ended:
            return
        if not self._keep_reading:
            batch.brought(self, budget - left > FEW or (spent and buffer.pending() > 0))
        if self._stopped() and buffer.pending():
            self._halt()
        elif (left and not spent) or not buffer.pending():
            self._spent = 0
        else:
            self._rest()

    def _halt(self) -> None:
        """What is buffered is handed on when the peer reads again."""
        self._halted = self._resting = True
        if self._reader is not None:
            self._reader.pause_reading()

    def _rest(self) -> None:
        """The budget is spent: let the others have a turn, then go on with what is buffered."""
        self._spent += 1
        if not self._resting:
            self._resting = True
            if self._reader is not None and not self._stopped():
                self._reader.pause_reading()
        loop = asyncio.get_running_loop()
        if self._spent > (SHORT_PATIENCE if self._uneven and not self._keep_reading else PATIENCE):
            loop.call_later(REST, self._go_on)
        else:
            loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._ended:
            return
        before = self._spent
        self._deliver()
        if not self._halted and (self._spent == before or not self._spent):
            self._resting = False
            self._resume()

    def _resume(self) -> None:
        if self._reader is not None and not self._resting and not self._stopped() and not self._reader.is_closing():
            self._reader.resume_reading()

    def _stopped(self) -> bool:
        return self._held or (self.full and not self._keep_reading)

    def hold(self) -> None:
        """Hand on nothing more that the peer sends, for good: it stays where it is, for whoever takes the peer over.
        What is sent to it still goes out."""
        self._held = True
        if self._reader is not None and not self._resting and not self._reader.is_closing():
            self._reader.pause_reading()

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
        if self._ended:
            if self._open <= 0:
                self.closed.set()
        else:
            asyncio.get_running_loop().call_later(DRAIN, self._drained)

    def _drained(self) -> None:
        if not self._ended:
            self.fail("the peer closed its reading side")

    def pause_writing(self) -> None:
        self.full = True
        if not self._keep_reading and self._reader is not None and not self._resting and not self._reader.is_closing():
            self._reader.pause_reading()

    def resume_writing(self) -> None:
        self.full = False
        if self._halted:
            self._halted = False
            asyncio.get_running_loop().call_soon(self._go_on)
        else:
            self._resume()

    # --- channel.Channel ---------------------------------------------------------------------------------------------

    def send(self, *parts: Data) -> None:
        out = self._out
        if not out:  # as it is after the end
            if self._ended:
                return
            self._batch.add(self)
        out += parts

    def flush(self) -> bool:
        """Write what is queued; True if the transport keeps views of it."""
        out, self._out = self._out, []
        writer = self._writer
        if writer is None or writer.is_closing():
            if writer is None and not self._ended:
                self._out = out  # not connected yet: `write_to` sends it
            return False
        if not out:
            return False
        journal = self._journal
        views = False
        if len(out) > 1:
            # Nearly always all are small.
            out = [b"".join(out)] if max(map(len, out)) < LARGE else _in_runs(out)
        if len(out) == 1:
            # A small write is taken whole or not at all, even by a process that is killed.
            if journal is not None and len(out[0]) > SMALL:
                journal.risks()
            writer.write(out[0])
            views = type(out[0]) is memoryview
        else:
            if journal is not None:
                journal.risks()
            last = out[-1]
            for part in out:
                writer.write(part)
                if journal is not None:
                    journal.wrote(part, writer.get_write_buffer_size(), part is not last)
            views = True
        waiting = writer.get_write_buffer_size()
        if journal is not None:
            if len(out) == 1:
                journal.wrote(out[0], waiting)
            if waiting and not self._following:
                self._following = True
                self._look()
        if waiting > ABORT_AT:
            self.fail(f"{waiting >> 20} MiB of answers were not read")
        return views and waiting > 0

    def keep(self, journal: Journal | None) -> None:
        """From now on this journal, or none, is told what comes and what is taken."""
        self._journal = journal

    def unread(self, most: int) -> tuple[bytes, bytes]:
        """What came and was not handed on yet: whole lines, and at most so many bytes of an unfinished one."""
        return self._buffer.rest(most)

    def unwritten(self) -> Sequence[Data]:
        """What was sent and not written yet, however little of it the peer has taken."""
        return self._out

    def _follow(self, transport: asyncio.WriteTransport) -> None:
        """Have the journal told at once what a slow peer takes, where the transport can be made to."""
        write_ready = getattr(transport, "_write_ready", None)
        if write_ready is None:
            return

        def wrote() -> None:
            write_ready()
            self._taken()

        # Nothing public says when a transport writes what it could not write at once, and the next daemon would give an
        # answer again that was taken unnoticed.
        transport._write_ready = wrote  # type: ignore[attr-defined]
        self._following = True

    def _taken(self) -> None:
        journal, writer = self._journal, self._writer
        # One that was aborted has nothing left either, and that was not taken.
        if journal is not None and writer is not None and (not writer.is_closing() or writer.get_write_buffer_size()):
            journal.took(writer.get_write_buffer_size())

    def _look(self) -> None:
        self._taken()
        if self._journal is not None and self._journal.behind and not self.closed.is_set():
            asyncio.get_running_loop().call_later(FOLLOW, self._look)
        else:
            self._following = False

    def fail(self, reason: str) -> None:
        """Close at once, with this reason."""
        self.reason = self.reason or reason
        self.abort()

    def abort(self) -> None:
        for transport in (self._writer, self._reader):
            if isinstance(transport, asyncio.WriteTransport):
                # One that closes with nothing left to write is on its way; a pipe's must not be told twice.
                if not transport.is_closing() or transport.get_write_buffer_size():
                    transport.abort()
            elif transport is not None:
                transport.close()
        self._end(self.reason)
        if self._open <= 0:
            self.closed.set()  # it was never connected, or has ended before

    def finish(self) -> None:
        """Close after what is queued was written; a peer that does not read is the caller's to abort."""
        self.flush()
        self._ended = True
        for transport in (self._writer, self._reader):
            if transport is not None:
                transport.close()
        if self._open <= 0:
            self.abort()  # it was never connected

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
        self._batch.left(self)
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
        if self._writer is not None and (waiting := self._writer.get_write_buffer_size()):
            asyncio.get_running_loop().call_later(LINGER, self._linger, waiting)

    def _linger(self, before: int) -> None:
        """What was answered before the end is still written, as long as somebody takes it."""
        if self._writer is None or self.closed.is_set():
            return
        waiting = self._writer.get_write_buffer_size()
        if 0 < waiting < before:
            asyncio.get_running_loop().call_later(LINGER, self._linger, waiting)
        elif waiting:
            self.abort()


def _in_runs(parts: Sequence[Data]) -> list[Data]:
    """Small parts joined with their neighbours, large ones as they are."""
    out: list[Data] = []
    run: list[Data] = []
    for part in parts:
        if len(part) < LARGE:
            run.append(part)
            continue
        if run:
            out.append(b"".join(run))
            run = []
        out.append(part)
    if run:
        out.append(b"".join(run))
    return out


class WriteSide(asyncio.Protocol):
    """The writing transport of a Wire that has two."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._wire.pair_with(transport)

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
        self._wire.read_from(transport)

    def data_received(self, data: bytes) -> None:
        self._wire.feed(data)

    def eof_received(self) -> None:
        self._wire.eof_received()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._wire.connection_lost(exc)
