"""What the end-to-end tests share: one event loop and one daemon a module, a place and an agent a test.

A module may have a fixture of its own in the place of any of these.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fakes.agent import Agent
from tests.fakes.hub import Hub, Place, running


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def hub(request: pytest.FixtureRequest) -> AsyncIterator[Hub]:
    """A daemon that is connected to the module's SERVERS, with the text of its SETTINGS where it has one."""
    servers = request.module.SERVERS
    async with running(servers, settings=getattr(request.module, "SETTINGS", "")) as hub:
        await hub.until_state(*servers)
        yield hub


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    """Where a test may have a daemon of its own."""
    place = Place()
    yield place
    place.remove()


@pytest.fixture
async def agent(hub: Hub) -> AsyncIterator[Agent]:
    """An agent after the legacy handshake; on a byte stream it may use the modern era as well."""
    async with await hub.agent() as agent:
        await agent.initialize()
        yield agent
