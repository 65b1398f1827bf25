"""A place in the start-up limiter."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from mcphub.connection.machine import TurnedOff
from mcphub.connection.slot import Slot
from mcphub.transport.link import Surroundings
from tests.connection.workers import (
    Bench,
    eventually,
    fake,
    starts,
    working,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


async def test_turned_off_while_it_waits_for_its_turn(around: Surroundings, log: Path) -> None:
    """The start-up limiter is nobody's business any more, and whoever holds the slot keeps it."""
    limiter = anyio.CapacityLimiter(1)
    other = object()
    limiter.acquire_on_behalf_of_nowait(other)
    bench = Bench(fake({}, log=log), around, limiter)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.worker.run)
        await eventually(lambda: limiter.statistics().tasks_waiting == 1)
        bench.worker.post(TurnedOff("stopping"))
    assert limiter.borrowed_tokens == 1
    assert starts(log) == 0
    limiter.release_on_behalf_of(other)


async def test_who_waits_says_so_and_how_many_are_before_it(around: Surroundings, log: Path) -> None:
    """C184: one that was never begun is not called starting; a place that comes free, and one that is left, count."""
    limiter = anyio.CapacityLimiter(1)
    first, second, third = Slot(limiter), Slot(limiter), Slot(limiter)
    await first.take()
    assert first.waits == ""
    bench = Bench(fake({}, log=log), around, limiter)
    async with anyio.create_task_group() as tasks, working(bench):
        await bench.until(lambda w: True)
        await eventually(lambda: bench.worker.waits != "")
        assert bench.worker.waits == "waits for its turn: 1 start now, and 0 wait before it"
        tasks.start_soon(second.take)
        await eventually(lambda: second.waits == "waits for its turn: 1 start now, and 1 wait before it")
        with anyio.CancelScope() as given_up:
            given_up.cancel()
            await third.take()
        assert third.waits == ""
        first.give_back()
        await bench.connected()
        assert bench.worker.waits == ""
        await eventually(lambda: limiter.borrowed_tokens == 1 and second.waits == "")
        second.give_back()


async def test_a_place_is_given_back_once() -> None:
    """However often it is said; before it was taken there is nothing to give back."""
    limiter = anyio.CapacityLimiter(2)
    one, other = Slot(limiter), Slot(limiter)
    one.give_back()
    await one.take()
    await other.take()
    assert limiter.borrowed_tokens == 2
    for _ in range(3):
        one.give_back()
    assert limiter.borrowed_tokens == 1
    await one.take()
    one.give_back()
    other.give_back()
    assert limiter.borrowed_tokens == 0
