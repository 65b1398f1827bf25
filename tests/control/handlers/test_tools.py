"""The handlers of the noun tool."""

from __future__ import annotations

import pytest

from mcphub.control.handlers.tools import get_tools, post_call
from mcphub.control.wire import Request
from mcphub.transport.peer import Peer
from tests.fakes.canned_hub import CannedHub

pytestmark = pytest.mark.anyio


async def test_tools_with_and_without_schemas() -> None:
    """Schemas are many bytes and come only where asked for."""
    hub = CannedHub()
    without = await get_tools(hub, Request(Peer(0, 0, None), {}, {"query": "now"}, b""))
    assert without.report == {"revision": 1, "tools": [hub.tool_list[0]]}
    schemas = await get_tools(hub, Request(Peer(0, 0, None), {}, {"query": "now", "schemas": "1"}, b""))
    assert schemas.report == {"revision": 1, "tools": [{**hub.tool_list[0], "input_schema": {"type": "object"}}]}


async def test_the_arguments_reach_the_hub_as_they_are() -> None:
    """Numbers keep their digits, keys their order: nothing is parsed on the way but the line breaks."""
    hub = CannedHub()
    body = b'{"arguments": {"text": "x",\n "n": 1.00, "big": 123456789012345678901}, "tool": "echo", "workspace": "/w"}'
    await post_call(hub, Request(Peer(0, 0, None), {}, {}, body))
    arguments = '{"text": "x",  "n": 1.00, "big": 123456789012345678901}'
    assert hub.asked == [("call", "/w", "echo", arguments)]
