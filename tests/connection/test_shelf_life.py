"""For how long the lists of a server that is away are shown."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from mcphub.connection import shelf_life as module
from mcphub.connection.doubts import MOST
from mcphub.connection.shelf_life import ShelfLife

pytestmark = pytest.mark.anyio


async def test_it_counts_from_the_connection() -> None:
    """Not from the last failure to open another one; a connection ends it."""
    loop = asyncio.get_running_loop()
    life = ShelfLife(loop, lambda: None)
    now = loop.time()
    life.begin(now)
    life.begin(now + 100)
    assert (life.seen, life.left(now + 10), life.left(now + MOST + 1)) == (now, MOST - 10, 0)
    life.cancel()
    assert (life.seen, life.over, life.left(now)) == (None, False, 0)
    life.begin(now + 200)
    assert life.seen == now + 200
    life.cancel()


async def test_its_end_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the time was over before it began; until a connection it does not begin again."""
    monkeypatch.setattr(module, "MOST", 0.0)
    told = anyio.Event()
    loop = asyncio.get_running_loop()
    life = ShelfLife(loop, told.set)
    life.begin(loop.time() - 5)
    with anyio.fail_after(5):
        await told.wait()
    assert life.over and life._timer is None
    life.begin(loop.time())
    assert life._timer is None
    life.cancel()
    assert not life.over
