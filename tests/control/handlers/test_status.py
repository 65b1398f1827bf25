"""The handlers of the noun status."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import anyio
import pytest

from mcphub.control.handlers import status
from mcphub.control.handlers.status import get_status, watch_status
from mcphub.control.wire import Request
from mcphub.errors import ControlError
from mcphub.transport.peer import Peer
from tests.fakes.canned_hub import CannedHub, server

pytestmark = pytest.mark.anyio


def asked(**query: str) -> Request:
    return Request(Peer(0, 0, None), {}, query, b"")


async def test_status_of_all_or_of_one() -> None:
    """An empty name is no name."""
    hub = CannedHub([server("a"), server("b")])
    assert (await get_status(hub, asked(name=""))).report == hub.status("", None)
    assert (await get_status(hub, asked(name="b"))).report == hub.status("", "b")


async def test_watch_reports_a_change_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many revisions between two reports are one report, and silence is None."""
    monkeypatch.setattr(status, "HEARTBEAT", 0.05)
    hub = CannedHub()
    with anyio.fail_after(5):
        async with aclosing(watch_status(hub, asked())) as reports:
            first: Any = await anext(reports)
            hub.changed()
            hub.changed()
            second: Any = await anext(reports)
            assert (first["revision"], second["revision"]) == (1, 3)
            assert await anext(reports) is None
            hub.changed()
            third: Any = await anext(reports)
            assert third["revision"] == 4


async def test_reports_that_cost_much_are_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one comes later by a multiple of what one took, to make and to be read."""
    monkeypatch.setattr(status, "BREATH", 0.0)
    hub = CannedHub()
    with anyio.fail_after(5):
        async with aclosing(watch_status(hub, asked())) as reports:
            await anext(reports)
            await anyio.sleep(0.05)  # whoever reads is slow
            hub.changed()
            began = anyio.current_time()
            await anext(reports)
            assert anyio.current_time() - began >= 0.19


async def test_watch_of_one_that_goes() -> None:
    """A server that left the configuration ends the stream that asked for it."""
    hub = CannedHub()
    with anyio.fail_after(5):
        async with aclosing(watch_status(hub, asked(name="time"))) as reports:
            await anext(reports)
            hub.servers.clear()
            hub.changed()
            with pytest.raises(ControlError, match="no server time"):
                await anext(reports)
