"""What the tests of real workers share: surroundings, and that nothing is left of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcphub.transport.link import Surroundings
from tests.connection.workers import surroundings
from tests.transport.peers import clean


@pytest.fixture
async def nothing_is_left() -> AsyncIterator[None]:
    async with clean():
        yield


@pytest.fixture
async def around(nothing_is_left: None) -> AsyncIterator[Surroundings]:
    async with surroundings() as around:
        yield around


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"
