"""The handlers of the noun log."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest

from mcphub.control.handlers.logs import follow_logs, get_logs
from mcphub.control.wire import Request
from mcphub.errors import ControlError
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


async def test_following() -> None:
    """The tail first, then a heartbeat or each further line."""
    hub = CannedHub()
    request = Request(Peer(0, 0, None), {"name": "time"}, {"lines": "1"}, b"")
    async with aclosing(follow_logs(hub, request)) as reports:
        found: list[Any] = [await anext(reports) for _ in range(3)]
    assert [report and report["lines"] for report in found] == [["two"], None, ["one more"]]


async def test_following_nobody() -> None:
    """A name that there is not is refused before anything is sent."""
    async with aclosing(follow_logs(CannedHub(), Request(Peer(0, 0, None), {"name": "none"}, {}, b""))) as reports:
        with pytest.raises(ControlError):
            await anext(reports)
