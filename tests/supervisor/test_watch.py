"""One value that is replaced as a whole."""

from __future__ import annotations

import anyio
import pytest

from mcphub.supervisor.watch import Watch

pytestmark = pytest.mark.anyio


async def test_the_latest_and_its_revision() -> None:
    """Each publish or touch is a new revision; a reader that is behind does not wait."""
    watch = Watch("a")
    assert (watch.value, watch.revision) == ("a", 1)
    watch.publish("b")
    watch.touch()
    assert (watch.value, watch.revision) == ("b", 3)
    with anyio.fail_after(5):
        assert await watch.newer_than(0) == await watch.newer_than(2) == 3


async def test_every_waiter_is_woken() -> None:
    """All that wait see the newest, and nobody misses one that comes while they look at the last."""
    watch = Watch(0)
    seen: list[list[int]] = [[] for _ in range(5)]

    async def follow(out: list[int]) -> None:
        revision = watch.revision
        while watch.value < 3:
            revision = await watch.newer_than(revision)
            out.append(watch.value)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for out in seen:
                tasks.start_soon(follow, out)
            await anyio.wait_all_tasks_blocked()
            watch.publish(1)
            await anyio.wait_all_tasks_blocked()
            watch.publish(2)
            watch.publish(3)
    assert seen == [[1, 3]] * 5


async def test_a_waiter_that_goes_away() -> None:
    """A wait that is cancelled takes nothing with it."""
    watch = Watch("a")
    with anyio.move_on_after(0.01) as scope:
        await watch.newer_than(1)
    assert scope.cancelled_caught
    watch.publish("b")
    with anyio.fail_after(5):
        assert await watch.newer_than(1) == 2
