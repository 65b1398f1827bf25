"""How a flow is driven: its requests in their order, its end the caller's."""

from __future__ import annotations

import anyio
import pytest

from mcphub.auth.drive import drive
from mcphub.auth.failures import FlowFailure, SignInFailed
from mcphub.auth.flow import Answered, Ask, Flow, Reply, get

pytestmark = pytest.mark.anyio
CLOSED: list[str] = []


def two() -> Flow[list[int]]:
    try:
        found = []
        for number in range(2):
            answer = yield get("keys", f"https://as.example/{number}")
            assert isinstance(answer, Answered)
            if answer.status == 500:
                raise SignInFailed(FlowFailure.DISCOVERY_FAILED, "x")
            found.append(answer.status)
        return found
    finally:
        CLOSED.append("closed")


async def test_a_flow_to_its_end() -> None:
    """Each answer goes to the request that it is for."""
    asked: list[str] = []

    async def send(ask: Ask) -> Reply:
        asked.append(ask.url)
        return Answered(200 + len(asked))

    assert await drive(two(), send) == [201, 202]
    assert asked == ["https://as.example/0", "https://as.example/1"]


async def test_a_flow_that_fails() -> None:
    """Its failure is the caller's; nothing more is asked."""

    async def send(ask: Ask) -> Reply:
        return Answered(500)

    with pytest.raises(SignInFailed):
        await drive(two(), send)


async def test_a_flow_that_is_given_up() -> None:
    """Where the caller is cancelled meanwhile the flow is closed."""
    CLOSED.clear()

    async def send(ask: Ask) -> Reply:
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.move_on_after(0):
        await drive(two(), send)
    assert CLOSED == ["closed"]
