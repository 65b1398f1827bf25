"""A pipe that is read into its wire's own memory: order, pauses, ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from io import FileIO

import anyio
import anyio.lowlevel
import pytest

from mcphub.transport.pipe_reader import PipeReader
from mcphub.transport.wire import Batch, Wire
from tests.transport.peers import Recorder, clean

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    async with clean():
        with anyio.fail_after(10):
            yield


async def test_lines_and_the_end() -> None:
    """Everything that was written comes, in order, and then the end; while it is paused nothing does."""
    read, write = os.pipe()
    recorder = Recorder()
    wire = Wire(Batch(), recorder)
    reader = PipeReader(asyncio.get_running_loop(), FileIO(read, "rb"), wire)
    reader.pause_reading()
    os.write(write, b"one\ntw")
    await anyio.lowlevel.checkpoint()
    assert (recorder.lines, reader.is_reading()) == ([], False)
    reader.resume_reading()
    os.write(write, b"o\nhalf")
    os.close(write)
    await wire.closed.wait()
    assert recorder.lines == [b"one", b"two"]
    assert reader.is_closing() and not reader.is_reading()
    reader.close()


async def test_closed_before_it_began() -> None:
    """Nothing of it is read, and it is closed once."""
    read, write = os.pipe()
    wire = Wire(Batch(), Recorder())
    reader = PipeReader(asyncio.get_running_loop(), FileIO(read, "rb"), wire)
    reader.close()
    await wire.closed.wait()
    with pytest.raises(BrokenPipeError):
        os.write(write, b"x")
    os.close(write)
