"""The handlers of the noun log."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.control.handlers.logs import get_logs
from mcphub.control.wire import Request
from mcphub.transport.peer import Peer
from tests.fakes.canned_hub import CannedHub

pytestmark = pytest.mark.anyio


async def _lines(hub: CannedHub, **query: str) -> Any:
    reply = await get_logs(hub, Request(Peer(0, 0, None), {"name": "time"}, query, b""))
    report: Any = reply.report
    return report["lines"]


async def test_the_last_lines() -> None:
    """A hundred unless told otherwise, the newest last, as the server wrote them."""
    hub = CannedHub()
    hub.lines = [f"\x1b[31m{number}" for number in range(150)]
    assert await _lines(hub) == hub.lines[50:]
    assert await _lines(hub, lines="2") == hub.lines[148:]
    assert await _lines(hub, lines="0") == []
