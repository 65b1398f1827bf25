"""The handlers of the noun sign-in."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from mcphub.control.handlers.logins import post_login, post_logout, post_logout_all, post_paste
from mcphub.control.wire import PasteBody, Request
from mcphub.errors import ControlError
from mcphub.status import LoginReport
from mcphub.transport.peer import Peer
from tests.fakes.canned_hub import CannedHub

pytestmark = pytest.mark.anyio


def told(body: bytes = b"", name: str = "") -> Request:
    return Request(Peer(0, 0, None), {"name": name}, {"workspace": "/w"}, body)


async def test_a_sign_in_is_followed() -> None:
    """Each step is a line, silence an empty one; whoever leaves ends it."""
    hub = CannedHub()
    hub.logins = {"a": LoginReport(name="a", state="done", how="browser"), "b": None}
    found = [report async for report in post_login(hub, told(name="a"))]
    assert [one and one["state"] for one in found] == ["starting", None, "waiting", "done"]  # type: ignore[index]
    async with aclosing(post_login(hub, told(b'{"workspace":"/v"}', name="b"))) as reports:
        for _ in range(3):
            await anext(reports)
    assert hub.cancelled.is_set()
    with pytest.raises(ControlError, match="no server c"):
        await anext(post_login(hub, told(name="c")))
    assert hub.asked == [("login", "/w", "a"), ("login", "/v", "b"), ("login", "/w", "c")]


async def test_the_rest() -> None:
    """What is pasted comes to the hub and is in no repr; signing out of one, and of all."""
    hub = CannedHub()
    assert (await post_paste(hub, told(b'{"url":"http://x/?code=s3cr3t"}', "a"))).report == {"name": "a"}
    assert "s3cr3t" not in repr(PasteBody(url="http://x/?code=s3cr3t"))
    await post_logout(hub, told(name="a"))
    await post_logout_all(hub, told(b"{}"))
    assert hub.asked == [
        ("paste", "/w", "a", "http://x/?code=s3cr3t"),
        ("logout", "/w", "a"),
        ("logout", "/w", "None"),
    ]
    for body in (b"", b'{"url":7}', b'{"url":"x","code":"s3cr3t"}'):
        with pytest.raises(ControlError) as caught:
            await post_paste(hub, told(body, "a"))
        assert caught.value.status == 400 and "s3cr3t" not in str(caught.value)
