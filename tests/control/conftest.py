"""What the tests of the control API share: a path for the socket, and a hub served there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.fakes.canned_hub import CannedHub, answering
from tests.fakes.raw_http import short_directory


@pytest.fixture
def path() -> Iterator[str]:
    with short_directory() as directory:
        yield f"{directory}/control/control.sock"


@pytest.fixture
async def hub(path: str) -> AsyncIterator[CannedHub]:
    """A canned hub behind the real server at `path`."""
    hub = CannedHub()
    async with answering(hub, path):
        yield hub
