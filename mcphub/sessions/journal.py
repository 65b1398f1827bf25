"""Owns the memory that a session shares with its bridge: what of it must outlive the daemon, also one that is killed.

It must not know what a message means, nor read a journal back: `resumption` does that, in the next daemon.

The journal has two halves, of which one counts. A half begins with what the session is (`standing`); then what comes
from the agent is read right into it, and what the agent has taken is copied to it, as it is, with one store for each
read and each write; when it is full, the other half begins with what the session is by then. So nothing is stored for a
message, and no byte is ever in the memory of the daemon alone. The bridge holds the same memory, and hands it to the
next daemon.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
from collections.abc import Callable, Sequence

from mcphub.channel import Data

#: Says that it is one, and of which form.
MAGIC = int.from_bytes(b"mcphubJ1", "little")
#: Bytes of each half for what came, for what was taken, and for what the session is.
CAME = 512 << 10
TAKEN = 32 << 10
STANDING = 4 << 20
HEAD = 4096
HALF = CAME + TAKEN + STANDING
SIZE = HEAD + 2 * HALF
#: So much of what came is kept until the other half is begun; a single read may be more, up to ROOM.
ENOUGH, ROOM = 32 << 10, 128 << 10
#: Fields of the head, 8 bytes each: the form, the half that counts, whether something may have been written in part;
#: then of each half the lengths of standing, input and output, and where something is missing of the input, 1 being its
#: beginning and 0 nowhere; then the epoch of the outcome journal of this daemon, 0 = it has none.
FORM, ACTIVE, BEHIND, LENGTHS, FIELDS = 0, 1, 2, 3, 4
OUTCOMES = LENGTHS + 2 * FIELDS
#: An unfinished line that is longer than this is kept by so much of its beginning.
UNFINISHED, KEPT_HEAD = 16 << 10, 4 << 10
#: Parts of output from this size on are kept by their beginning.
LARGE = 8 << 10
LARGE_HEAD = 512

#: A frame of ours that answers a request, and the id in it as JSON.
ANSWER = re.compile(rb'(?:^|(?<=\n))\{"jsonrpc":"2\.0","id":(-?\d+|"(?:[^"\\]|\\.)*"),"(?:result|error)":')


def answered(frames: bytes) -> list[bytes]:
    """The ids, as JSON, that these frames answer; they begin at a frame's beginning, and may be cut."""
    return [match[1] for match in ANSWER.finditer(frames)]


class Journal:
    """`standing(pending)` gives what the session is by now, `pending` being ids whose answers are made and not yet
    taken; `rest(most)` what came and was not looked at yet, as whole lines and at most so many bytes of an unfinished
    one; `queued()` what is not yet given to be written. `outcomes` is the epoch of the outcome journal.
    Raises OSError where the system has no such memory."""

    def __init__(
        self,
        standing: Callable[[list[bytes]], bytes],
        rest: Callable[[int], tuple[bytes, bytes]],
        queued: Callable[[], Sequence[Data]],
        outcomes: int = 0,
    ) -> None:
        self.fd = _memory()
        try:
            self._memory = mmap.mmap(self.fd, SIZE)
        except BaseException:
            os.close(self.fd)
            raise
        self._view = memoryview(self._memory)
        self._head = self._view[:HEAD].cast("Q")
        self._standing = standing
        self._rest = rest
        self._queued = queued
        #: What was given to be written and is not known to be taken: as it is kept, and its true length.
        self._behind: list[tuple[bytes, int]] = []
        #: Bytes of the first of them that have been taken and kept already.
        self._kept = 0
        self._risky = False
        #: Whether it is time for the other half, once what came has been handed on.
        self.over = False
        #: Bytes that came into each half, which are there until it is cleared.
        self._used = [0, 0]
        self._half = 1
        self._in_start = self._in = self._in_end = self._in_most = self._out = self._out_end = 0
        self.turn()
        self._head[OUTCOMES] = outcomes
        self._head[FORM] = MAGIC

    def close(self) -> None:
        """Nothing more is kept; what the bridge holds is its own."""
        if self.fd >= 0:
            self._head.release()
            self._view.release()
            try:
                self._memory.close()
            except BufferError:
                pass  # a read that was given up still holds its room, for a moment
            os.close(self.fd)
            self.fd = -1

    # --- what comes --------------------------------------------------------------------------------------------------

    def room(self) -> memoryview:
        """Where the next bytes are to be read into: they are kept as soon as they are there."""
        if self._in_end - self._in < ROOM:
            self.turn()
        return self._view[self._in : self._in + ROOM]

    def came(self, n: int) -> memoryview:
        """So many bytes were read into the last `room()`; they stay there until the next."""
        at = self._in
        self._in = end = at + n
        self._head[self._in_field] = end - self._in_start
        if end > self._in_most:
            self.over = True
        return self._view[at:end]

    # --- what is taken -----------------------------------------------------------------------------------------------

    def risks(self) -> None:
        """What is written next may be taken in part."""
        self._risky = True
        self._head[BEHIND] = 1

    def wrote(self, part: Data, waiting: int, more: bool = False) -> None:
        """This was given to be written; of all that was, so many bytes are not taken yet. `more` will be at once."""
        if waiting or self._behind:
            self._behind.append((_short(part), len(part)))
            self.took(waiting, more)
        else:
            self._keep(_short(part) if len(part) >= LARGE else part)
            if self._risky and not more:
                self._risky = False
                self._head[BEHIND] = 0

    def took(self, waiting: int, more: bool = False) -> None:
        """Of all that was given to be written, so many bytes are not taken yet."""
        behind = self._behind
        left = waiting
        whole = len(behind)
        while whole and left >= behind[whole - 1][1]:
            left -= behind[whole - 1][1]
            whole -= 1
        if waiting:
            self._head[BEHIND] = 1
        if whole and left:
            whole -= 1
            form, length = behind[whole]
            taken = length - left if len(form) == length else 0
        else:
            taken = 0
        done = [form for form, _ in behind[:whole]]
        if done:
            done[0] = done[0][self._kept :]
            self._kept = 0
        del behind[:whole]
        if taken > self._kept:
            done.append(behind[0][0][self._kept : taken])
            self._kept = taken
        if done:
            self._keep(b"".join(done))
        if not waiting and not more:
            self._risky = False
            self._head[BEHIND] = 0

    @property
    def behind(self) -> bool:
        """Whether something is not known to be taken."""
        return bool(self._behind)

    def _keep(self, data: Data) -> None:
        at = self._out
        end = at + len(data)
        if end > self._out_end:
            self.turn(bytes(data))
            return
        self._memory[at:end] = data
        self._out = end
        self._head[self._in_field + 1] = end - self._in_end

    # --- the other half ----------------------------------------------------------------------------------------------

    def turn(self, taken: bytes = b"") -> None:
        """Go on in the other half, with what the session is now. `taken` was so just now."""
        open_frame = b""
        if self._out:
            frames = self._memory[self._in_end : self._out] + taken
            open_frame = frames[frames.rfind(b"\n") + 1 :]
        pending = answered(
            open_frame + b"".join([form for form, _ in self._behind])[self._kept :]
            + b"".join([_short(part) for part in self._queued()])
        )
        standing = self._standing(pending)
        if len(standing) > STANDING:
            self._head[FORM] = 0  # nothing that could be gone on with
            standing = b""
        rest, unfinished = self._rest(UNFINISHED + 1)
        torn = len(unfinished) > UNFINISHED
        rest = (rest + (unfinished[:KEPT_HEAD] if torn else unfinished))[: CAME - ROOM]
        open_frame = open_frame[: 2 * LARGE_HEAD]
        left, used = self._half, self._in - self._in_start
        half = 1 - left
        start = HEAD + half * HALF
        self._clear(half)
        self._in_start, self._in_end, self._out_end = start, start + CAME, start + CAME + TAKEN
        memory, head, field = self._memory, self._head, LENGTHS + half * FIELDS
        memory[start : start + len(rest)] = rest
        memory[self._in_end : self._in_end + len(open_frame)] = open_frame
        memory[self._out_end : self._out_end + len(standing)] = standing
        head[field], head[field + 1], head[field + 2], head[field + 3] = (
            len(standing),
            len(rest),
            len(open_frame),
            len(rest) + 1 if torn else 0,
        )
        self._in, self._out, self._in_field = start + len(rest), self._in_end + len(open_frame), field + 1
        self._in_most = start + max(ENOUGH, len(rest))
        self._half, self.over = half, False
        head[ACTIVE] = half
        self._used[left] = used
        if used > 2 * ENOUGH:
            self._clear(left)

    def _clear(self, half: int) -> None:
        """What is behind the end of what came must be zero: what is not was read and not counted any more."""
        start, used = HEAD + half * HALF, self._used[half]
        if used > 2 * ENOUGH and hasattr(mmap, "MADV_REMOVE"):
            self._memory.madvise(mmap.MADV_REMOVE, start, CAME)
        elif used:
            self._memory[start : start + used] = bytes(used)
        self._used[half] = 0


def _short(part: Data) -> bytes:
    """A part of output as it is kept: of a large one of a single frame only its beginning, and the newline at its
    end."""
    if len(part) < LARGE or (isinstance(part, bytes) and part.find(b"\n", 0, len(part) - 1) >= 0):
        return bytes(part)
    return bytes(part[:LARGE_HEAD]) + (b"\n" if part[-1] == 10 else b"")


def _memory() -> int:
    """Memory with a descriptor, of SIZE bytes, which nobody who holds it can make smaller where the system can seal it:
    a store into what is gone would end the daemon. Raises OSError."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("mcphub-session", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    else:
        import tempfile

        fd, path = tempfile.mkstemp(prefix="mcphub-session-")
        os.unlink(path)
    try:
        os.ftruncate(fd, SIZE)
        if hasattr(os, "memfd_create"):
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    except BaseException:
        os.close(fd)
        raise
    return fd
