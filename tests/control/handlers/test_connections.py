"""The handlers of the noun connection."""

from __future__ import annotations

import pytest

from mcphub.control.handlers.connections import get_url, post_reconnect
from mcphub.control.wire import Request
from mcphub.errors import ControlError
from mcphub.transport.peer import Peer
from tests.fakes.canned_hub import CannedHub, server

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("body", "names"), [(b"", ["a", "b"]), (b'{"name":null}', ["a", "b"]), (b'{"name":"b"}', ["b"])]
)
async def test_one_or_all(body: bytes, names: list[str]) -> None:
    """No name is every server."""
    hub = CannedHub([server("a"), server("b")])
    assert (await post_reconnect(hub, Request(Peer(0, 0, None), {}, {}, body))).report == {"reconnected": names}
    assert hub.asked == [("reconnect", "", *names)]


async def test_where_agents_come() -> None:
    """The question goes on as it was asked; an unknown server is 404."""
    hub = CannedHub([server("a")])
    query = {"workspace": "/w", "server": "a"}
    report = (await get_url(hub, Request(Peer(0, 0, None), {}, query, b""))).report
    assert report == {"url": "http://127.0.0.1:1/t/x/mcp/s/a", "socket": "/run/h", "path": "/mcp/s/a"}
    assert hub.asked == [("url", "/w", "a")]
    with pytest.raises(ControlError):
        await get_url(hub, Request(Peer(0, 0, None), {}, {"server": "b"}, b""))
