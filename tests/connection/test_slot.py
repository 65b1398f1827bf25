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
