"""The memory of a session: whatever happens at whatever moment, what is read back is what a next daemon must know."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.channel import Data
from mcphub.gateway.standing import Owed, Standing, encoded
from mcphub.sessions import journal as module
from mcphub.sessions import resumption
from mcphub.sessions.journal import Journal, answered
from mcphub.transport.framing import LineBuffer


def call(mid: int, size: int = 10) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t","arguments":{"x":"%b"}}}\n' % (
        mid,
        b"x" * size,
    )


def answer(mid: int, size: int = 10) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"result":"%b"}\n' % (mid, b"x" * size)


class Play:
    """A session that knows its calls by their ids, and a wire that hands lines on when it is told to."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.buffer = LineBuffer()
        self.queued: list[Data] = []
        self.journal = Journal(self.standing, self.buffer.rest, lambda: self.queued)

    def standing(self, pending: list[bytes]) -> bytes:
        owed = [Owed(str(mid)) for mid in self.calls] + [Owed(mid.decode()) for mid in pending]
        return encoded(Standing(owed=owed))

    def comes(self, data: bytes, hand_on: bool = True) -> None:
        while data:
            room = self.journal.room()
            part, data = data[: len(room)], data[len(room) :]
            room[: len(part)] = part
            self.buffer.feed(self.journal.came(len(part)))
            if hand_on:
                self.hand_on()

    def hand_on(self) -> None:
        for line in self.buffer.take(10_000):
            self.calls.append(int(bytes(line).split(b'"id":')[1].split(b",")[0]))
        if self.journal.over:
            self.journal.turn()

    def answers(self, mid: int, size: int = 10, waiting: int = 0) -> None:
        self.calls.remove(mid)
        self.journal.wrote(answer(mid, size), waiting)

    def back(self) -> resumption.Resumption:
        return resumption.read(self.journal.fd)

    def owed(self) -> list[int]:
        return sorted(int(owed.mid) for owed in self.back().standing.owed)


@pytest.fixture
def play() -> Iterator[Play]:
    play = Play()
    yield play
    play.journal.close()


def test_what_is_in_flight(play: Play) -> None:
    """A call is, until its answer is taken; half a line is kept as it is."""
    play.comes(call(1) + call(2) + call(3)[:30])
    assert (play.owed(), play.back().tail, play.back().torn) == ([1, 2], call(3)[:30], False)
    play.answers(1)
    play.comes(call(3)[30:])
    assert (play.owed(), play.back().tail) == ([2, 3], b"")


def test_what_was_not_counted_yet(play: Play) -> None:
    """The process ends between the system's read and ours: what was read is there."""
    play.comes(call(1))
    play.journal.room()[:20] = call(2)[:20]
    assert (play.owed(), play.back().tail) == ([1], call(2)[:20])


def test_what_waits_to_be_taken(play: Play) -> None:
    """An answer that is not taken whole is none, and the agent may have half a line of it."""
    play.comes(call(1) + call(2))
    size = len(answer(1))
    play.answers(1, waiting=size)
    play.answers(2, waiting=2 * size)
    assert (play.owed(), play.back().cut) == ([1, 2], True)
    play.journal.took(size + 5)
    assert play.owed() == [1, 2]
    play.journal.took(size - 5)
    assert (play.owed(), play.back().cut) == ([2], True)
    play.journal.turn()
    assert play.owed() == [2]
    play.journal.took(0)
    assert (play.owed(), play.back().cut) == ([], False)


@pytest.mark.parametrize("size", [100_000, 1_000_000])
def test_a_long_line(play: Play, size: int) -> None:
    """It is not kept whole: its beginning is, and that something is missing."""
    play.comes(call(1) + call(2, size)[:-100])
    back = play.back()
    assert (play.owed(), back.torn, back.tail[:30]) == ([1], True, call(2)[:30])
    play.comes(call(2, size)[-100:] + call(3)[:9], hand_on=False)
    assert play.owed() == [1, 2]
    play.hand_on()
    assert (play.owed(), play.back().torn, play.back().tail) == ([1, 2], False, call(3)[:9])


@given(st.lists(st.tuples(st.sampled_from("cccaab"), st.sampled_from([1, 50, 3000, 40_000, 200_000])), max_size=60))
def test_any_course(course: list[tuple[str, int]]) -> None:
    """Calls, answers and halves of calls of any size, in any order."""
    play, mid, half = Play(), 0, b""
    try:
        for kind, size in course:
            if kind == "a" and play.calls:
                play.answers(play.calls[0], size)
            elif kind == "b" and not half:
                mid += 1
                half = call(mid, size)
                play.comes(half[: len(half) // 2])
                half = half[len(half) // 2 :]
            else:
                whole = half
                half = b""
                if not whole:
                    mid += 1
                    whole = call(mid, size)
                play.comes(whole)
            assert play.owed() == sorted(play.calls)
            assert bool(play.back().tail) == bool(half)
    finally:
        play.journal.close()


def test_ids() -> None:
    """Only answers count, and only at the beginning of a line."""
    frames = answer(1) + b'{"jsonrpc":"2.0","id":"a\\"b","error":{}}\n'
    frames += b'{"jsonrpc":"2.0","method":"x","params":{"id":7}}\n'
    assert answered(frames + b'{"jsonrpc":"2.0","id":-3,"result":[') == [b"1", b'"a\\"b"', b"-3"]


@pytest.mark.parametrize("data", [b"", b"x" * 200, bytes(module.SIZE), b"\xff" * 8192])
def test_what_is_no_journal(data: bytes) -> None:
    """Whatever comes, it is an error with a name."""
    read, write = os.pipe()
    os.close(write)
    fds = [read]
    if hasattr(os, "memfd_create"):
        fds.append(os.memfd_create("x"))
        os.write(fds[1], data)
    for fd in fds:
        with pytest.raises(resumption.UnreadableJournal):
            resumption.read(fd)
        os.close(fd)


def test_nobody_makes_it_smaller(play: Play) -> None:
    """Who holds it could else end the daemon."""
    if sys.platform == "linux":
        assert fcntl.fcntl(play.journal.fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
        with pytest.raises(PermissionError):
            os.ftruncate(play.journal.fd, 0)


def test_whose_outcome_journal() -> None:
    """The next daemon knows which one this daemon had: it looks for calls in no other."""
    for epoch in (0, 0xFFFFFFFF):
        journal = Journal(lambda pending: encoded(Standing()), lambda most: (b"", b""), list, epoch)
        assert resumption.read(journal.fd).outcomes == epoch
        journal.close()
