"""The handlers of the noun tool change."""

from __future__ import annotations

import pytest

from mcphub.control.handlers.tool_changes import get_tool_changes, post_approve_tools
from mcphub.control.wire import Request
from mcphub.errors import ControlError
from mcphub.status import ToolChange
from mcphub.transport.peer import Peer
from tests.fakes.canned_hub import CannedHub

pytestmark = pytest.mark.anyio


def told(body: bytes = b"", name: str = "time") -> Request:
    return Request(Peer(0, 0, None), {"name": name}, {"workspace": "/w"}, body)


async def test_show_and_take() -> None:
    """C172: what has changed is shown, and what was shown is taken, by its digest."""
    hub = CannedHub()
    hub.tool_changed = [
        ToolChange(tool="x", grade="new", change="new", parts=[], withheld=True, diff=["+ title: x"])
    ]
    report = (await get_tool_changes(hub, told())).report
    assert isinstance(report, dict)
    assert (report["changes"], report["workspace"]) == (hub.tool_changed, "/w")
    taken = await post_approve_tools(hub, told(b'{"name":"time","digest":"digest-of-tools"}'))
    assert taken.report == {"name": "time", "workspace": "/w", "state": "approved"}
    await post_approve_tools(hub, told(b'{"name":"time","digest":"digest-of-tools","workspace":"/v"}'))
    assert hub.asked == [("approve-tools", where, "time", "digest-of-tools") for where in ("/w", "/v")]


async def test_only_what_was_shown_is_taken() -> None:
    """C172: tools that changed between the question and the answer are a conflict."""
    hub = CannedHub()
    with pytest.raises(ControlError) as caught:
        await post_approve_tools(hub, told(b'{"name":"time","digest":"other"}'))
    assert caught.value.status == 409
    with pytest.raises(ControlError) as caught:
        await get_tool_changes(hub, told(name="nobody"))
    assert caught.value.status == 404
    assert hub.asked == []
