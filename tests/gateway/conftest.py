"""What the tests of the surface beyond tools share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from mcphub.connection.backoff import Backoff
from mcphub.gateway import telling
from tests.gateway.bench import Bench, gateway
from tests.transport.peers import clean


@pytest.fixture
async def shelves(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """A gateway; the test has a bounded time, and leaves nothing."""
    monkeypatch.setattr(telling, "DEBOUNCE", 0.02)
    async with clean():
        with anyio.fail_after(20):
            async with gateway(monkeypatch, backoff=Backoff(attempts=3, first=0.01, most=0.02)) as bench:
                yield bench


@pytest.fixture
async def nothing_is_left() -> AsyncIterator[None]:
    async with clean():
        with anyio.fail_after(20):
            yield


@pytest.fixture
async def bench(nothing_is_left: None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(telling, "DEBOUNCE", 0.02)
    async with gateway(monkeypatch) as bench:
        yield bench
