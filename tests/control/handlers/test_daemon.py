"""The handlers of the noun daemon."""

from __future__ import annotations

import os

import pytest

from mcphub.control.handlers.daemon import post_reload, post_stop
from mcphub.control.wire import Request
from mcphub.errors import ControlError
from mcphub.transport.peer import Peer
from tests.fakes.canned_hub import CannedHub

pytestmark = pytest.mark.anyio


async def test_stop_comes_after_its_answer() -> None:
    """The client learns the pid first; then the hub is told."""
    hub = CannedHub()
    reply = await post_stop(hub, Request(Peer(0, 0, None), {}, {}, b""))
    assert reply.report == {"pid": os.getpid()}
    assert hub.asked == []
    assert reply.then is not None
    reply.then()
    assert hub.asked == [("stop",)]


async def test_reload_answers_when_it_is_done() -> None:
    """Whoever changed a file learns that it was read; the body holds nothing."""
    hub = CannedHub()
    reply = await post_reload(hub, Request(Peer(0, 0, None), {}, {}, b""))
    assert reply.report == {"revision": 1}
    assert hub.asked == [("reload",)]
    with pytest.raises(ControlError, match="now"):
        await post_reload(hub, Request(Peer(0, 0, None), {}, {}, b'{"now":true}'))


async def test_stop_takes_nothing() -> None:
    """A field that it does not know may have meant something else."""
    with pytest.raises(ControlError, match="when"):
        await post_stop(CannedHub(), Request(Peer(0, 0, None), {}, {}, b'{"when":"tomorrow"}'))
