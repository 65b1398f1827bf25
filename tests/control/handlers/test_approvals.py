"""The handlers of the noun approval."""

from __future__ import annotations

import pytest

from mcphub.control.handlers.approvals import get_approvals, post_approve, post_reject
from mcphub.control.wire import Request
from mcphub.errors import ControlError
from mcphub.transport.peer import Peer
from tests.fakes.canned_hub import CannedHub, waiting

pytestmark = pytest.mark.anyio


def told(body: bytes) -> Request:
    return Request(Peer(0, 0, None), {}, {}, body)


async def test_list_approve_reject() -> None:
    """Each decision names the workspace, and the answer says what holds now."""
    hub = CannedHub()
    hub.items = [waiting("x"), waiting("y")]
    assert (await get_approvals(hub, told(b""))).report == {"items": hub.items}
    approved = await post_approve(hub, told(b'{"workspace":"/w","name":"x","digest":"digest-of-x"}'))
    assert approved.report == {"name": "x", "workspace": "/w", "state": "approved"}
    rejected = await post_reject(hub, told(b'{"workspace":"/w","name":"y"}'))
    assert rejected.report == {"name": "y", "workspace": "/w", "state": "rejected"}
    assert hub.asked == [("approve", "/w", "x", "digest-of-x"), ("reject", "/w", "y")]


async def test_only_what_was_shown_is_approved() -> None:
    """A file that changed between the question and the answer is a conflict, not an approval."""
    hub = CannedHub()
    hub.items = [waiting("x")]
    with pytest.raises(ControlError) as caught:
        await post_approve(hub, told(b'{"workspace":"/w","name":"x","digest":"other"}'))
    assert caught.value.status == 409
    assert hub.asked == []
