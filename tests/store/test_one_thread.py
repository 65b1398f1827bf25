"""Calls that may block for ever, in a thread that nobody waits for."""

from __future__ import annotations

import threading
import time

import anyio
import pytest

from mcphub.store.one_thread import OneThread, Overdue

pytestmark = pytest.mark.anyio


class Ends:
    """Counts the calls that ended."""

    def __init__(self) -> None:
        self.count = 0
        self.news = anyio.Event()

    def __call__(self) -> None:
        self.count += 1
        self.news.set()
        self.news = anyio.Event()


async def test_results_and_failures() -> None:
    """What the call returns or raises comes to whoever waits; calls are made one at a time, in order."""
    thread, ends, order = OneThread(), Ends(), []

    def call(number: int) -> int:
        order.append(number)
        if number == 2:
            raise ValueError(number)
        return number

    assert await thread.run(lambda: call(1), 5, ends) == 1
    with pytest.raises(ValueError, match="2"):
        await thread.run(lambda: call(2), 5, ends)
    async with anyio.create_task_group() as tasks:
        for number in range(3, 9):
            tasks.start_soon(thread.run, lambda number=number: call(number), 5, ends)
    assert order == list(range(1, 9)) and ends.count == 8


async def test_one_that_blocks() -> None:
    """After the deadline nobody waits, not even the next ones, until the thread has ended; then all is as before."""
    thread, ends, free = OneThread(), Ends(), threading.Event()
    began = time.monotonic()
    with pytest.raises(Overdue):
        await thread.run(lambda: free.wait(30), 0.05, ends)
    for _ in range(3):
        with pytest.raises(Overdue):
            await thread.run(lambda: None, 30, ends)
    assert time.monotonic() - began < 5
    news = ends.news
    free.set()
    with anyio.fail_after(5):
        await news.wait()
    assert await thread.run(lambda: 1, 5, ends) == 1


async def test_a_caller_that_leaves() -> None:
    """What it began goes on to its end, and the next one waits for that."""
    thread, ends, free, done = OneThread(), Ends(), threading.Event(), []

    def call() -> None:
        free.wait(30)
        done.append(1)

    with anyio.move_on_after(0.05):
        await thread.run(call, 30, ends)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(thread.run, lambda: done.append(2), 30, ends)
        await anyio.lowlevel.checkpoint()
        assert done == []
        free.set()
    assert done == [1, 2]


def test_the_end_waits_for_no_thread() -> None:
    """A loop, and a process, can end while a call blocks; what it brings then is for nobody."""
    free = threading.Event()

    async def main() -> None:
        with pytest.raises(Overdue):
            await OneThread().run(lambda: free.wait(30), 0.05, lambda: None)

    began = time.monotonic()
    anyio.run(main)
    assert time.monotonic() - began < 5
    (thread,) = [one for one in threading.enumerate() if one.name == "mcphub vault"]
    assert thread.daemon
    free.set()
    thread.join(5)
    assert not thread.is_alive()
