"""The handlers of the noun server."""

from __future__ import annotations

import pytest

from mcphub.control.handlers.servers import delete_server, post_server
from mcphub.control.wire import Request
from mcphub.errors import ControlError
from mcphub.transport.peer import Peer
from tests.fakes.canned_hub import CannedHub

pytestmark = pytest.mark.anyio


def told(body: bytes = b"", name: str = "", workspace: str = "") -> Request:
    query = {"workspace": workspace} if workspace else {}
    return Request(Peer(0, 0, None), {"name": name}, query, body)


async def test_add_and_remove() -> None:
    """The entry comes as it is; for whom it is stands in the body alone, as every request names where it came from."""
    hub = CannedHub()
    report = (await post_server(hub, told(b'{"name":"a","entry":{"command":"x"}}', workspace="/w"))).report
    assert report == {
        "name": "a", "workspace": "", "kept": False, "state_text": "pending", "reason": "", "shadows": [],
    }  # fmt: skip
    await post_server(hub, told(b'{"name":"b","entry":{},"keep":true,"workspace":"/v"}'))
    assert (await delete_server(hub, told(name="a", workspace="/w"))).report == {"name": "a", "workspace": "/w"}
    assert hub.asked == [
        ("add", "", "a", '{"command": "x"}', "False"),
        ("add", "/v", "b", "{}", "True"),
        ("remove", "/w", "a"),
    ]


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"name":"a"}', b'{"name":"a","entry":[]}', b'{"name":"a","entry":{},"kept":true}', b"\xff"]
)
async def test_what_says_nothing(body: bytes) -> None:
    """A body that is not understood whole changes nothing."""
    hub = CannedHub()
    with pytest.raises(ControlError) as caught:
        await post_server(hub, told(body))
    assert (caught.value.status, hub.asked) == (400, [])
