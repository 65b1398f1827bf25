"""The handler of the noun calls."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.control.handlers.calls import get_calls
from mcphub.control.wire import Request
from mcphub.errors import ControlError
from mcphub.transport.peer import Peer
from tests.fakes.canned_hub import CannedHub
from tests.store.calls import record

pytestmark = pytest.mark.anyio


async def found(hub: CannedHub, **query: str) -> list[str]:
    reply = await get_calls(hub, Request(Peer(0, 0, None), {}, query, b""))
    report: Any = reply.report
    return [one["operation"] for one in report["calls"]]


async def test_calls() -> None:
    """The newest fifty unless told otherwise."""
    hub = CannedHub()
    hub.records = [record(number, server="ab"[number % 2]) for number in range(60, 0, -1)]
    assert await found(hub) == [one.id for one in hub.records[:50]]
    assert await found(hub, limit="1", server="b", unknown="1", agent="claude") == [record(59).id]
    assert await found(hub, id=record(7).id) == [record(7).id]
    with pytest.raises(ControlError, match="it is not, or no longer, in the journal") as caught:
        await found(hub, id="op_00000000ff")
    assert caught.value.status == 404
    for wrong in ({"limit": "-1"}, {"unknown": "maybe"}):
        with pytest.raises(ControlError, match="cannot read"):
            await found(hub, **wrong)
