"""Servers in the daemon that read and write their messages themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import anyio
import pytest

from mcphub.transport import in_process_stream as module
from mcphub.transport.in_process_stream import StreamServer, open_stream_server
from tests.transport.peers import Recorder, clean

pytestmark = pytest.mark.anyio

Write = Callable[[bytes], None]


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    async with clean():
        with anyio.fail_after(5):
            yield


async def echo(frames: AsyncIterator[bytes], write: Write) -> None:
    async for frame in frames:
        write(frame)


async def test_frames() -> None:
    """Each goes there and back whole, in order and in any parts; the end is the end, twice as once."""
    recorder = Recorder()
    async with open_stream_server(StreamServer(echo), recorder, 1.0) as link:
        assert link.pid is None and await link.exit_code(0) is None
        link.channel.send(b"a", b"b\n")
        link.channel.send(b"c\n")
        assert recorder.count == 0, "not within the call that sends"
        await recorder.until(2)
        link.channel.abort()
        link.channel.abort()
        link.channel.send(b"d\n")
        link.channel.write(b"e")
    assert recorder.lines == [b"ab", b"c"]
    assert recorder.reasons == [""]


async def test_the_end_of_the_server() -> None:
    """When it returns the channel is lost; what it raises is the reason."""

    async def once(frames: AsyncIterator[bytes], write: Write) -> None:
        write(await anext(frames))

    async def fails(frames: AsyncIterator[bytes], write: Write) -> None:
        async with anyio.create_task_group():
            raise ValueError("boom")

    async def exits(frames: AsyncIterator[bytes], write: Write) -> None:
        async with anyio.create_task_group():
            raise SystemExit(3)

    async def cancels(frames: AsyncIterator[bytes], write: Write) -> None:
        raise asyncio.CancelledError

    ends = (
        (once, ""),
        (fails, "the server failed: ValueError: boom"),
        (exits, "the server failed: SystemExit: 3"),
        (cancels, "the server failed: CancelledError: "),
    )
    for serve, reason in ends:
        recorder = Recorder()
        async with open_stream_server(StreamServer(serve), recorder, 1.0) as link:
            link.channel.send(b"x\n")
            assert await recorder.until_lost() == reason


async def test_one_that_does_not_end() -> None:
    """It has its time, and is cancelled then."""
    ended: list[str] = []

    async def stays(frames: AsyncIterator[bytes], write: Write) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    async with open_stream_server(StreamServer(stays), Recorder(), 0.05):
        await anyio.wait_all_tasks_blocked()
    assert ended == ["cancelled"]


async def test_one_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The channel is full, until it reads again."""
    monkeypatch.setattr(module, "MOST_WAITING", 2)
    go = anyio.Event()

    async def later(frames: AsyncIterator[bytes], write: Write) -> None:
        await go.wait()
        await echo(frames, write)

    recorder = Recorder()
    async with open_stream_server(StreamServer(later), recorder, 1.0) as link:
        for _ in range(3):
            link.channel.send(b"x\n")
        assert link.channel.full
        go.set()
        await recorder.until(3)
        assert not link.channel.full


async def test_a_receiver_that_raises() -> None:
    """A fault in taking a frame closes this channel only, with the reason, and is reported."""

    def fault(line: bytes | memoryview) -> None:
        raise ValueError("boom")

    recorder, reported = Recorder(fault), list[BaseException]()
    async with open_stream_server(StreamServer(echo), recorder, 1.0, reported.append) as link:
        link.channel.send(b"x\n")
        assert await recorder.until_lost() == "internal error: ValueError: boom"
    assert [str(error) for error in reported] == ["boom"]
