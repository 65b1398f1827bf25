"""Descriptors of an agent: how they are received, which are taken, and what they are like when they are given back."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from mcphub.sessions.handover import HandedOver, receive
from mcphub.transport.wire import Batch, Wire
from tests.transport.peers import Recorder, clean, only

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    async with clean():
        with anyio.fail_after(10):
            yield


@contextmanager
def closing(*fds: int) -> Iterator[None]:
    try:
        yield
    finally:
        for fd in set(fds):
            os.close(fd)


def sent(data: bytes, fds: list[int]) -> tuple[bytes, list[int]]:
    """What is received of this message."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket.send_fds(theirs, [data], fds)
        return receive(ours)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
async def test_what_came_with_the_first_bytes(count: int) -> None:
    """C026: the descriptors are for this process alone: no server inherits them."""
    read, write = os.pipe()
    with closing(read, write):
        data, fds = sent(b"hello", [read, write, read][:count])
        with closing(*fds):
            assert data == b"hello"
            assert len(fds) == count
            assert [os.get_inheritable(fd) for fd in fds] == [False] * count
            for fd, original in zip(fds, (read, write, read), strict=False):
                assert os.path.samestat(os.fstat(fd), os.fstat(original))


@pytest.mark.parametrize("count", [4, 5, 50])
async def test_more_than_three(count: int) -> None:
    """They are refused, not cut to the first three, and all of them closed."""
    read, write = os.pipe()
    with closing(read, write), pytest.raises(OSError, match="more than three descriptors"):
        sent(b"hello", [read] * count)


async def test_no_room_for_two(nothing_is_left: None) -> None:
    """A process that has one descriptor left does not go on with one."""
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    with ours, theirs, closing(read, write):
        socket.send_fds(theirs, [b"hello"], [read, write])
        with only(1), pytest.raises(OSError, match="no room"):
            receive(ours)


def dgram() -> tuple[int, int]:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return one.detach(), other.detach()


def swapped() -> tuple[int, int]:
    read, write = os.pipe()
    return write, read


def null() -> tuple[int, int]:
    return os.open(os.devnull, os.O_RDWR), os.open(os.devnull, os.O_RDWR)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.pipe, ""),
        (swapped, "one way"),
        (dgram, "must be streams"),
        (os.openpty, "pipes or sockets"),
        (null, "pipes or sockets"),
    ],
)
async def test_what_can_be_taken(make: object, said: str) -> None:
    """Pipes in their direction and stream sockets; whatever else it is, the bridge copies."""
    fds = list(make())  # type: ignore[operator]
    handed = HandedOver(fds)
    assert said in handed.usable() and bool(handed.usable()) == bool(said)
    handed.close()
    handed.close()


async def test_a_fifo_that_is_open_both_ways(tmp_path: Path) -> None:
    """It would count as broken as soon as something is written to it."""
    os.mkfifo(tmp_path / "fifo")
    fds = [os.open(tmp_path / "fifo", os.O_RDWR) for _ in range(2)]
    handed = HandedOver(fds)
    assert "one way" in handed.usable()
    handed.close()


@pytest.mark.parametrize("count", [0, 1])
async def test_fewer_than_two(count: int) -> None:
    """Nobody can know which is which."""
    handed = HandedOver([os.open(os.devnull, os.O_RDONLY) for _ in range(count)])
    assert handed.usable() == f"{count} descriptors came, not two"
    handed.close()


def ends(kind: str) -> tuple[list[int], int, int]:
    """The agent's stdin and stdout as they are handed over, and what the host has to write to and to read from."""
    if kind == "pipes":
        stdin, to = os.pipe()
        back, stdout = os.pipe()
        return [stdin, stdout], to, back
    if kind == "socket":
        ours, theirs = socket.socketpair()
        fd = theirs.detach()
        return [fd, os.dup(fd)], (host := ours.detach()), host
    if kind == "sockets":
        (host_in, agent_in), (host_out, agent_out) = socket.socketpair(), socket.socketpair()
        return [agent_in.detach(), agent_out.detach()], host_in.detach(), host_out.detach()
    stdin, to = os.pipe()
    back_socket, stdout_socket = socket.socketpair()
    return [stdin, stdout_socket.detach()], to, back_socket.detach()


KINDS = pytest.mark.parametrize("kind", ["pipes", "socket", "sockets", "mixed"])


@KINDS
@pytest.mark.parametrize("blocking", [True, False])
async def test_an_agent_behind_its_descriptors(kind: str, blocking: bool) -> None:
    """They carry lines both ways, and whoever shares them finds them afterwards as they were."""
    fds, to, back = ends(kind)
    shared = [os.dup(fd) for fd in fds]
    for fd in fds:
        os.set_blocking(fd, blocking)
    with closing(to, back, *shared):
        handed, recorder = HandedOver(fds), Recorder()
        assert handed.usable() == ""
        wire = Wire(Batch(), recorder)
        await handed.attach(wire)
        assert [os.get_blocking(fd) for fd in shared] == [False, False]
        os.write(to, b"question\n")
        await recorder.until(1)
        wire.send(b"answer\n")
        await anyio.wait_readable(back)
        assert os.read(back, 100) == b"answer\n"
        wire.finish()
        await wire.closed.wait()
        handed.close()
        assert [os.get_blocking(fd) for fd in shared] == [blocking, blocking]


@KINDS
async def test_no_descriptor_left(kind: str) -> None:
    """What cannot be attached is given back whole."""
    for free in range(5):
        fds, to, back = ends(kind)
        with closing(to, back):
            handed, recorder = HandedOver(fds), Recorder()
            wire = Wire(Batch(), recorder)
            with only(free):
                try:
                    await handed.attach(wire)
                except OSError:
                    assert free < 2
            wire.abort()
            await wire.closed.wait()
            handed.close()


@KINDS
async def test_cancelled_at_every_point(kind: str) -> None:
    """The daemon may end in the middle of it."""
    for turns in range(6):
        fds, to, back = ends(kind)
        with closing(to, back):
            handed, recorder = HandedOver(fds), Recorder()
            wire = Wire(Batch(), recorder)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(handed.attach, wire)
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
            wire.abort()
            await wire.closed.wait()
            handed.close()
