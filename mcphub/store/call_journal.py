"""Owns the file of the outcome journal: a ring of records that is written before calls are sent and outlives a SIGKILL.

It must not know agents, servers or what a call is for. Blocking calls; `begin` and `close` never wait for a disk.

The file has a fixed size, which is taken from the disk when it is made: CALLS records, of which the oldest that has
ended makes place for the next call, and UNKNOWN_CALLS copies of those whose outcome is not known, where the oldest
makes place for the next such. What is stored is in the system's memory at once, so a killed process loses nothing;
`sync` puts it on the disk. Where a file system writes in place, the file is mapped and a record is one store; elsewhere
(there a store can find the disk full, which is a SIGBUS) it is one pwrite(2).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import heapq
import mmap
import os
import stat
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import and_
from time import monotonic, sleep, time_ns
from typing import NamedTuple
from zlib import crc32

import msgspec

from mcphub.errors import ConfigError

from . import call_record
from .call_record import (
    ANSWERED,
    BODY,
    CHECK,
    END,
    HEAD,
    OPEN,
    REASON_OF,
    RECORD,
    UNKNOWN,
    CallRecord,
    Unreadable,
    public_id,
)

#: Calls that are kept, a power of two; and those of them whose outcome is not known, which are kept for longer.
CALLS = 8192
UNKNOWN_CALLS = 1024
_MASK = CALLS - 1
#: Seconds to wait for a daemon that was killed, and is not gone yet.
LOCK_SECONDS = 0.5
_RETRY_SECONDS = 0.005
#: So long, seconds, what a killed daemon left open is told to agents that come back, by whatever daemon.
LEFT_SECONDS = 600.0
#: Bytes before the first record: which form, epoch, numbers of records, how it was closed, the last number, and a check
#: of these.
HEADER = 4096
_MAGIC = b"mcphub calls "
_FORM = _MAGIC + b"1\n\0"
_HEADER = struct.Struct("<16sIIIIQ")
#: How it was closed: not at all, in order, in order while calls were open. Beside it: its daemon has recorded each call
#: that it was told of.
_RUNNING, _CLOSED, _CLOSED_OPEN = range(3)
_WHOLE = 0x100
SIZE = HEADER + (CALLS + UNKNOWN_CALLS) * RECORD
_UNKNOWNS = HEADER + CALLS * RECORD
#: File systems that write in place what was taken before: a store into them always finds its block.
_IN_PLACE = frozenset({"ext2", "ext3", "ext4", "xfs", "tmpfs"})
_FIRST = struct.Struct("<IBBHQI")
_body, _first, _end_into = BODY.pack, _FIRST.pack, END.pack_into
_HALF = 0xFFFFFFFF
_NO_TRACE = bytes(16)
#: Where the record of a slot begins.
_PLACES = range(HEADER, _UNKNOWNS, RECORD)
#: Of a record from there on: epoch, number, when it was sent, who asked for it.
_BODY_AT = END.size + CHECK.size
_WHO = struct.Struct("<IQQI").unpack_from
_LEFT = frozenset({REASON_OF["killed"], REASON_OF["stopped"]})
#: Most that is read of a file that is not ours to begin with.
_MOST = 4 * SIZE


class Form(NamedTuple):
    """What calls of one agent to one tool have in common. `into` stores a record."""

    names: bytes
    check: int
    to_modern: bool
    into: Callable[..., None]


class CallJournal:
    """The journal at `path`, opened for writing. Raises ConfigError where there can be none; then nothing is changed.

    `problem` says what of the file could not be used, "" = nothing; `left` are the calls that the daemon before left
    open, which are `unknown` now, `left_before` those of the daemons before that one in the last LEFT_SECONDS.
    `whole_of` is the epoch of the daemon before, if each call that it was told of was recorded, else 0.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.problem = ""
        self.left: tuple[CallRecord, ...] = ()
        self.left_before: tuple[CallRecord, ...] = ()
        self.whole_of = 0
        #: Each call that this daemon was told of is recorded: _WHOLE, else 0.
        self._whole = _WHOLE
        #: Calls that were not recorded, since there was no place.
        self.missed = 0
        #: Of each place whether its call is open, and whose it is.
        self._open = bytearray(CALLS)
        self._numbers = [0] * CALLS
        #: The number of the newest call.
        self.last = 0
        #: The copies of unknown ones: (number, place), the oldest first; and the place of each.
        self._heap = [(0, place) for place in range(UNKNOWN_CALLS)]
        self._kept: dict[int, int] = {}
        self._memory: mmap.mmap | None = None
        try:
            self._fd = _opened(path)
            try:
                self._begin_with(_whole(self._fd))
                if _in_place(self._fd):
                    self._memory = mmap.mmap(self._fd, SIZE)
            except BaseException:
                os.close(self._fd)
                self._fd = -1
                raise
        except OSError as error:
            raise ConfigError(f"cannot keep {path}: {error.strerror or error}") from error

    @property
    def mapped(self) -> bool:
        """A record is a store into memory."""
        return self._memory is not None

    # --- calls -------------------------------------------------------------------------------------------------------

    def begin(
        self, names: bytes, check: int, request: int, size: int, digest: bytes, trace: bytes, modern: bool, to: bool
    ) -> int:
        """A call is about to be sent. `names` as `call_record.names` gives them, `check` their crc32; digest and trace
        have 16 bytes; `modern` and `to` are the eras of agent and server. Returns its number, 0 = it is not recorded.
        Raises OSError."""
        number = self.last + 1
        slot = number & _MASK
        if self._open[slot] or self._fd < 0:
            number = self._free(number)
            if not number:
                return 0
            slot = number & _MASK
        body = _body(self._epoch, number, time_ns(), request, size & _HALF, digest, trace, modern, to)
        record = _first(number & _HALF, OPEN, 0, 1, 0, crc32(body, check)) + body + names
        at = HEADER + slot * RECORD
        memory = self._memory
        if memory is not None:
            memory[at : at + len(record)] = record
        else:
            os.pwrite(self._fd, record, at)
        self.last = self._numbers[slot] = number
        self._open[slot] = 1
        return number

    def form(self, names: bytes, check: int, to_modern: bool) -> Form:
        """What calls of legacy agents have in common for `begin_all`; the arguments are as for `begin`."""
        first = struct.Struct(f"{_FIRST.format}{BODY.size}s{len(names)}s")
        return Form(names, check, to_modern, first.pack_into)

    def begin_all(
        self, form: Form, requests: Sequence[int], sizes: Sequence[int], digests: Sequence[bytes]
    ) -> Sequence[int]:
        """`begin` for several calls, without a trace, that are about to be sent. Returns their numbers; none = nothing
        was recorded, since they have no places side by side, or the file is not mapped."""
        count, first, memory = len(requests), self.last + 1, self._memory
        slot = first & _MASK
        if memory is None or slot + count > CALLS or self._open.find(1, slot, slot + count) >= 0:
            return ()
        numbers, slots = range(first, first + count), slice(slot, slot + count)
        bodies = list(
            map(
                _body,
                repeat(self._epoch),
                numbers,
                repeat(time_ns()),
                requests,
                sizes,
                digests,
                repeat(_NO_TRACE),
                repeat(False),
                repeat(form.to_modern),
            )
        )
        stores = map(
            form.into,
            repeat(memory),
            _PLACES[slots],
            map(and_, numbers, repeat(_HALF)),
            repeat(OPEN),
            repeat(0),
            repeat(1),
            repeat(0),
            map(crc32, bodies, repeat(form.check)),
            bodies,
            repeat(form.names),
        )
        deque(stores, 0)
        self.last = numbers[-1]
        self._numbers[slots] = numbers
        self._open[slots] = b"\1" * count
        return numbers

    def answered_all(self, numbers: Sequence[int]) -> bool:
        """`close` for calls that were sent once and have been answered; False = nothing was done, since one of them has
        made place for another, or was unknown, or the file is not mapped."""
        memory = self._memory
        slots = list(map(and_, numbers, repeat(_MASK)))
        if memory is None or not self._kept.keys().isdisjoint(numbers):
            return False
        if list(map(self._numbers.__getitem__, slots)) != list(numbers) or 0 in numbers:
            return False
        ends = map(
            _end_into,
            repeat(memory),
            map(_PLACES.__getitem__, slots),
            map(and_, numbers, repeat(_HALF)),
            repeat(ANSWERED),
            repeat(0),
            repeat(1),
            repeat(time_ns()),
        )
        deque(ends, 0)
        deque(map(self._open.__setitem__, slots, repeat(0)), 0)
        return True

    def _free(self, number: int) -> int:
        """The first number from this one on whose place is free, 0 = there is none."""
        slot = number & _MASK
        free = self._open.find(0, slot)
        if free < 0:
            free = self._open.find(0, 0, slot)
        if free < 0 or self._fd < 0:
            self.missed += 1
            self.doubt()
            return 0
        return number + (free - slot) % CALLS

    def again(self, number: int, attempts: int) -> bool:
        """It is sent once more; False where its record has made place for others meanwhile. Raises OSError."""
        slot = number & _MASK
        if self._numbers[slot] != number or self._fd < 0:
            return False
        self._put(HEADER + slot * RECORD, END.pack(number & _HALF, OPEN, 0, min(attempts, 0xFFFF), 0))
        self._open[slot] = 1
        return True

    def is_open(self, number: int) -> bool:
        """Whether its outcome is still to come."""
        slot = number & _MASK
        return bool(self._open[slot]) and self._numbers[slot] == number

    def close(self, number: int, outcome: int, attempts: int = 1, reason: str = "") -> None:
        """What has come of it. An unknown one gets a copy that stays. Raises OSError."""
        slot = number & _MASK
        if self._numbers[slot] != number or self._fd < 0:
            return  # the ring has gone round meanwhile
        memory = self._memory
        if memory is not None and not reason and number not in self._kept:
            _end_into(memory, HEADER + slot * RECORD, number & _HALF, outcome, 0, attempts & 0xFFFF, time_ns())
        else:
            end = END.pack(number & _HALF, outcome, REASON_OF[reason], attempts & 0xFFFF, time_ns())
            if outcome == UNKNOWN or number in self._kept:
                self._keep(number, slot, end)
            self._put(HEADER + slot * RECORD, end)
        self._open[slot] = 0

    def _keep(self, number: int, slot: int, end: bytes) -> None:
        """Copy it to where only unknown ones are."""
        place = self._kept.get(number)
        if place is None:
            oldest, place = self._heap[0]
            if oldest > number:
                return  # all that are there are newer: the ring itself has to do
            heapq.heapreplace(self._heap, (number, place))
            self._kept.pop(oldest, None)
            self._kept[number] = place
        record = self._get(HEADER + slot * RECORD, RECORD)
        self._put(_UNKNOWNS + place * RECORD, end + record[END.size :])

    def doubt(self) -> None:
        """Some call may not be recorded: what is not in the file may have been sent all the same."""
        if self._fd >= 0:
            self._whole = 0
            with contextlib.suppress(OSError):
                self._put(0, self._header(_RUNNING))

    def sync(self) -> None:
        """Put what was stored on the disk; may take long, and may run beside the others. Raises OSError."""
        fd = self._fd
        if fd >= 0 and sys.platform == "linux":
            os.fdatasync(fd)  # of mapped pages, too
        elif fd >= 0:
            os.fsync(fd)

    def end(self) -> None:
        """Nothing more is stored. What is open is told by the next one: it was stopped before the answer came."""
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()
        with contextlib.suppress(OSError):
            os.pwrite(fd, self._header(_CLOSED_OPEN if any(self._open) else _CLOSED), 0)
        os.close(fd)

    # --- reading -----------------------------------------------------------------------------------------------------

    def records(self) -> Iterator[CallRecord]:
        """All that are kept, newest first. May be called, and used up, in another thread. Raises OSError."""
        fd = os.dup(self._fd) if self._fd >= 0 else -1
        if fd < 0:
            return iter(())
        try:
            return found_in(_whole(fd))
        finally:
            os.close(fd)

    def requests_of(self, epoch: int) -> tuple[frozenset[int], bool]:
        """Who asked for the calls of the daemon with this epoch, as `CallRecord.request` says it; and whether some of
        its records may have made place for later ones. Raises OSError."""
        data = _whole(self._fd)
        numbers, requests = [], []
        for at in range(HEADER + _BODY_AT, min(SIZE, len(data)) - RECORD + _BODY_AT + 1, RECORD):
            of, number, _, request = _WHO(data, at)
            if of == epoch:
                numbers.append(number)
                requests.append(request)
        return frozenset(requests), bool(numbers) and self.last - min(numbers) + 1 >= CALLS

    @property
    def epoch(self) -> int:
        """Says which daemon's a record is; never 0."""
        return self._epoch

    def id_of(self, number: int) -> str:
        """Its public id."""
        return public_id(self._epoch, number)

    # -----------------------------------------------------------------------------------------------------------------

    def _put(self, at: int, data: bytes) -> None:
        if self._memory is not None:
            self._memory[at : at + len(data)] = data
        else:
            os.pwrite(self._fd, data, at)

    def _get(self, at: int, size: int) -> bytes:
        if self._memory is not None:
            return self._memory[at : at + size]
        return os.pread(self._fd, size, at)

    def _header(self, closed: int) -> bytes:
        head = _HEADER.pack(
            _FORM.ljust(16, b"\0"), self._epoch, CALLS, UNKNOWN_CALLS, closed | self._whole, self.last
        )
        return head + CHECK.pack(crc32(head))

    def _begin_with(self, data: bytes) -> None:
        """Go on with what the file holds. Raises ConfigError, OSError."""
        if data.startswith(_MAGIC) and not data.startswith(_FORM):
            raise ConfigError(
                f"cannot use {self.path}: another version of mcphub wrote it; use that one, or move the file away"
            )
        # Each daemon has its own: what a power failure took of the file may have numbers that were given out, which are
        # given again then.
        self._epoch = int.from_bytes(os.urandom(4), "little") or 1
        found, damaged = _look(data)
        header = _read_header(data)
        if header is None and not data.strip(b"\0"):
            self._make({})  # nothing was written to it yet
            return
        newest = max([number for number, _ in found.values()], default=0)
        if header is not None:
            closed, last, whole_of = header
            self.whole_of = 0 if damaged else whole_of
            self.last = max(last, newest)
        else:
            closed, self.last = _RUNNING, newest
        if header is not None and closed == _RUNNING and len(damaged) == 1 and self._half(data, damaged[0], found):
            self._put(damaged[0], bytes(HEAD))
            self.problem = f"the last record of the journal of calls {self.path} cannot be read: mcphub was killed "
            self.problem += "while it wrote it, so that this call was most likely not sent"
        elif header is None or damaged:
            self._mend(data, found, len(damaged), header is not None)
        for at, (number, _) in found.items():
            if at < _UNKNOWNS:
                self._numbers[number & _MASK] = number
        kept = dict.fromkeys(range(UNKNOWN_CALLS), 0)
        kept |= {(at - _UNKNOWNS) // RECORD: number for at, (number, _) in found.items() if at >= _UNKNOWNS}
        self._heap = sorted((number, place) for place, number in kept.items())
        self._kept = {number: place for number, place in self._heap if number}
        self.left_before = _left_lately(data, found)
        self._leave(found, "stopped" if closed == _CLOSED_OPEN else "killed")
        self._put(0, self._header(_RUNNING))

    def _half(self, data: bytes, at: int, found: Mapping[int, tuple[int, int]]) -> bool:
        """Whether what was killed was just writing the record at this place: its beginning is that of the one that
        was to come next. What had been written before has been damaged since."""
        tag, outcome = END.unpack_from(data, at)[:2]
        being = {number for where, (number, outcome) in found.items() if outcome == OPEN and where < _UNKNOWNS}
        if at >= _UNKNOWNS:
            return tag in {number & _HALF for number in being}  # a copy, which comes before the record's end
        taken = {number & _MASK for number in being}
        number = self.last + 1
        while number & _MASK in taken:
            number += 1
        # A store begins with clearing its place, and may write a number byte by byte.
        begun = {number & (1 << bits) - 1 for bits in (0, 8, 16, 24, 32)}
        return at == HEADER + (number & _MASK) * RECORD and outcome in (0, OPEN) and tag in begun

    def _make(self, records: dict[int, bytes]) -> None:
        """A new file, with these bytes at their places."""
        os.ftruncate(self._fd, 0)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._fd, 0, SIZE)
        else:
            os.pwrite(self._fd, bytes(SIZE), 0)
        for at, record in records.items():
            os.pwrite(self._fd, record, at)
        os.pwrite(self._fd, self._header(_RUNNING), 0)

    def _mend(self, data: bytes, found: Mapping[int, tuple[int, int]], damaged: int, whole: bool) -> None:
        """Set a damaged file aside, and go on with a new one that has what can be read of it."""
        aside, temporary, old = f"{self.path}.damaged", f"{self.path}.new", self._fd
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(temporary, flags, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._fd = fd
            self._make({at: data[at : at + RECORD] for at in found})
            os.fsync(fd)
            os.rename(self.path, aside)
            os.rename(temporary, self.path)
        except BaseException:
            self._fd = old
            os.close(fd)
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        os.close(old)
        what = f"{damaged} of its records cannot be read" if whole else "it was cut, or mcphub did not write it"
        calls = len({number for number, _ in found.values()})
        self.problem = f"the journal of calls {self.path} is damaged ({what}): {calls} calls of it are kept, and all "
        self.problem += f"of it is set aside as {aside}"

    def _leave(self, found: Mapping[int, tuple[int, int]], reason: str) -> None:
        """Nobody waits for what is open any more."""
        left = []
        for at in sorted(at for at, (_, outcome) in found.items() if outcome == OPEN and at < _UNKNOWNS):
            record = call_record.read(self._get(at, RECORD))
            if record is not None:
                self.close(record.number, UNKNOWN, record.attempts, reason)
                left.append(record)
        self.left = tuple(left)


def found_in(data: bytes) -> Iterator[CallRecord]:
    """The records in the bytes of a journal, newest first, each once; what cannot be read is left out."""
    places: dict[int, int] = {}
    for at, (number, _) in _look(data)[0].items():
        places.setdefault(number, at)
    for number in sorted(places, reverse=True):
        at = places[number]
        with contextlib.suppress(Unreadable):
            record = call_record.read(data[at : at + RECORD])
            if record is not None:
                yield record


def _look(data: bytes) -> tuple[dict[int, tuple[int, int]], list[int]]:
    """(number, outcome) of each record by its place in the bytes of a journal, and the places that hold none that can
    be read."""
    found: dict[int, tuple[int, int]] = {}
    damaged = []
    for at in range(HEADER, min(len(data), SIZE), RECORD):
        try:
            number, outcome = call_record.look(data, at)
        except Unreadable:
            damaged.append(at)
            continue
        if number and at < _UNKNOWNS and number & _MASK != (at - HEADER) // RECORD:
            damaged.append(at)
        elif number:
            found[at] = number, outcome
    return found, damaged


def _left_lately(data: bytes, found: Mapping[int, tuple[int, int]]) -> tuple[CallRecord, ...]:
    """What daemons left open, and those that came after them closed in the last LEFT_SECONDS, each once."""
    since = time_ns() - int(LEFT_SECONDS * 1e9)
    left: dict[int, CallRecord] = {}
    for at, (number, outcome) in found.items():
        if outcome != UNKNOWN or number in left:
            continue
        _, _, reason, _, ended = END.unpack_from(data, at)
        if ended >= since and reason in _LEFT:
            with contextlib.suppress(Unreadable):
                if (record := call_record.read(data[at : at + RECORD])) is not None:
                    left[number] = record
    return tuple(left.values())


def read_file(path: str) -> Iterator[CallRecord]:
    """What a journal holds that no daemon has open, newest first; the file is not changed. What is open there is as
    the next daemon will see it. Raises ConfigError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        data = _whole(fd)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    finally:
        os.close(fd)
    if data.startswith(_MAGIC) and not data.startswith(_FORM):
        raise ConfigError(f"cannot read {path}: another version of mcphub wrote it")
    header = _read_header(data)
    reason = "stopped" if header is not None and header[0] == _CLOSED_OPEN else "killed"
    for record in found_in(data):
        if record.outcome == OPEN:
            record = msgspec.structs.replace(record, outcome=UNKNOWN, reason=reason)
        yield record


def _read_header(data: bytes) -> tuple[int, int, int] | None:
    """(how it was closed, last number, epoch of a daemon that recorded all or 0), None where the file is not as long as
    it says, or says nothing."""
    if len(data) != SIZE:
        return None
    form, epoch, calls, unknown, closed, last = _HEADER.unpack_from(data)
    (check,) = CHECK.unpack_from(data, _HEADER.size)
    if not form.startswith(_FORM) or (calls, unknown) != (CALLS, UNKNOWN_CALLS) or not epoch:
        return None
    if crc32(data[: _HEADER.size]) != check:
        return None
    return closed & ~_WHOLE, last, epoch if closed & _WHOLE else 0


def _opened(path: str) -> int:
    """The file, locked. Raises OSError."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    fd = os.open(path, flags, 0o600)
    try:
        is_now = os.fstat(fd)
        if not stat.S_ISREG(is_now.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if is_now.st_mode & 0o077:
            os.fchmod(fd, 0o600)
        until = monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if monotonic() > until:
                    raise OSError(errno.EBUSY, "another program has it locked") from None
                sleep(_RETRY_SECONDS)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _whole(fd: int) -> bytes:
    """All of a file, or so much that it is known to be none of ours. Raises OSError."""
    size = min(os.fstat(fd).st_size, _MOST)
    parts = []
    at = 0
    while at < size and (part := os.pread(fd, size - at, at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def _in_place(fd: int) -> bool:
    """Whether the file system of this file is one that writes in place."""
    device = os.fstat(fd).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                words = line.split()
                if len(words) > 2 and words[2] == wanted and "-" in words:
                    return words[words.index("-") + 1] in _IN_PLACE
    except OSError:
        pass
    return False
