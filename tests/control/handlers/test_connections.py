"""The handlers of the noun connection."""

from __future__ import annotations

import pytest

from mcphub.control.handlers.connections import post_reconnect
from mcphub.control.wire import Request
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
