"""The life of the control API."""

from __future__ import annotations

import asyncio
import json
import logging
import os

import anyio
import pytest

from mcphub.control.handlers import status
from mcphub.httpserver import serve
from tests.fakes.canned_hub import CannedHub, answering
from tests.fakes.raw_http import ask, connected, read_all, request

pytestmark = pytest.mark.anyio

WATCH = request("GET", "/v1/status/watch")


async def read_lines(stream: anyio.abc.ByteStream, count: int) -> list[bytes]:
    """The first lines of a chunked body, without the frames of the chunks."""
    data = b""
    while True:
        data += await stream.receive()
        body = data.partition(b"\r\n\r\n")[2]
        frames = body.split(b"\r\n")
        lines = b"".join(frames[1::2]).split(b"\n")
        if len(lines) > count:
            return lines[:count]


async def test_a_stream_brings_each_change(hub: CannedHub, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first report at once, the next when the revision changed, an empty line when nothing does."""
    monkeypatch.setattr(status, "HEARTBEAT", 0.05)
    with anyio.fail_after(5):
        async with connected(path) as stream:
            await stream.send(WATCH)
            first, beat = await read_lines(stream, 2)
            assert (json.loads(first)["revision"], beat) == (1, b"")
        async with connected(path) as stream:
            await stream.send(WATCH)
            hub.changed()
            hub.changed()
            while json.loads((await read_lines(stream, 1))[0])["revision"] != 3:
                pass


async def test_stopping_with_open_streams_is_quick_and_orderly(
    path: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams end with their last chunk, at once; no task, descriptor or file stays, and the
    log has nothing to complain about."""
    monkeypatch.setattr(serve, "GRACE", 60.0)  # nobody has to be waited for
    tasks, descriptors = len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))
    hub = CannedHub()
    streams = []
    with anyio.fail_after(5), caplog.at_level(logging.DEBUG):
        async with answering(hub, path):
            for _ in range(5):
                streams.append(await anyio.connect_unix(path))
                await streams[-1].send(WATCH)
                await streams[-1].receive()
            idle = await anyio.connect_unix(path)
            streams.append(idle)
        ends = [await read_all(stream) for stream in streams]
        assert all(end.endswith(b"0\r\n\r\n") for end in ends[:-1])
        assert ends[-1] == b""
        for stream in streams:
            await stream.aclose()
    assert not await anyio.Path(path).exists()
    assert len(asyncio.all_tasks()) == tasks
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []


async def test_a_client_that_does_not_read_does_not_keep_it_from_stopping(path: str) -> None:
    """What is not taken is dropped after the grace."""
    hub = CannedHub()
    hub.lines = ["x" * 1000] * 2000
    with anyio.fail_after(5):
        async with answering(hub, path):
            stream = await anyio.connect_unix(path)
            await stream.send(request("GET", "/v1/logs/time?lines=2000"))
            await stream.receive()
        await stream.aclose()


async def test_a_cancelled_daemon_closes_it_too(path: str) -> None:
    """The end is the same when the daemon's own scope is cancelled around it."""
    with anyio.fail_after(5):
        with anyio.CancelScope() as scope:
            async with answering(CannedHub(), path), connected(path) as stream:
                await stream.send(WATCH)
                await stream.receive()
                scope.cancel()
                await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert not await anyio.Path(path).exists()


async def test_it_can_be_served_again(path: str) -> None:
    """A restart within the process, or by a successor, finds a free path."""
    for _ in range(3):
        async with answering(CannedHub(), path):
            assert (await ask(path, "GET", "/v1/status"))[0] == 200


async def test_a_thousand_requests_leave_nothing(path: str) -> None:
    """Neither descriptors nor tasks grow with use."""
    hub = CannedHub()
    with anyio.fail_after(50):
        async with answering(hub, path):
            await ask(path, "GET", "/v1/status")
            descriptors, tasks = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())

            async def some() -> None:
                for _ in range(125):
                    assert (await ask(path, "GET", "/v1/status"))[0] == 200

            async with anyio.create_task_group() as group:
                for _ in range(8):
                    group.start_soon(some)
            while len(asyncio.all_tasks()) > tasks:
                await anyio.lowlevel.checkpoint()
            assert len(os.listdir("/proc/self/fd")) <= descriptors


async def test_a_connection_of_the_last_moment_is_closed(path: str) -> None:
    """One that was in the queue when the server stopped does not outlive it."""
    with anyio.fail_after(5):
        async with answering(CannedHub(), path):
            streams = [await anyio.connect_unix(path) for _ in range(20)]
        for stream in streams:
            assert await read_all(stream) == b""
            await stream.aclose()
