"""The handlers of the nouns vault and secret."""

from __future__ import annotations

import pytest

from mcphub.control.handlers.vault import (
    delete_secret,
    get_secrets,
    get_vault,
    post_rotate,
    post_secret,
    post_unlock,
)
from mcphub.control.wire import Request, RotateBody, SecretBody, UnlockBody
from mcphub.errors import ControlError
from mcphub.transport.peer import Peer
from tests.fakes.canned_hub import CannedHub

pytestmark = pytest.mark.anyio


def told(body: bytes = b"", name: str = "") -> Request:
    return Request(Peer(0, 0, None), {"name": name}, {"workspace": "/w"}, body)


async def test_what_is_asked_comes_to_the_hub() -> None:
    """Every route passes on what its body says; no answer has a value."""
    hub = CannedHub()
    hub.locked = True
    assert (await get_vault(hub, told())).report["state"] == "locked"  # type: ignore[index]
    assert (await post_unlock(hub, told(b'{"passphrase":"horse"}'))).report["state"] == "open"  # type: ignore[index]
    await post_unlock(hub, told(b'{"start_over":true}'))
    await post_rotate(hub, told(b'{"passphrase":"other"}'))
    await post_rotate(hub, told())
    kept = await post_secret(hub, told(b'{"name":"gh","value":"tok-1","workspace":"/v"}'))
    assert (await get_secrets(hub, told())).report == {"secrets": [{"name": "gh", "servers": ["time"]}], "live": True}
    await delete_secret(hub, told(name="gh"))
    assert hub.asked == [
        ("unlock", "horse", "False"),
        ("unlock", "None", "True"),
        ("rotate", "other"),
        ("rotate", "None"),
        ("set", "/v", "gh", "tok-1"),
        ("unset", "/w", "gh"),
    ]
    assert "tok-1" not in repr(kept)


@pytest.mark.parametrize(
    "body", [b"", b'{"name":"a"}', b'{"name":"a","value":7}', b'{"name":"a","value":"tok-1","key":"tok-1"}', b"tok-1"]
)
async def test_what_is_not_understood(body: bytes) -> None:
    """It changes nothing, and the message has no value."""
    hub = CannedHub()
    with pytest.raises(ControlError) as caught:
        await post_secret(hub, told(body))
    assert (caught.value.status, hub.asked) == (400, [])
    assert "tok-1" not in str(caught.value)


def test_bodies_do_not_print() -> None:
    """S12: a traceback that shows one shows no secret."""
    bodies = (UnlockBody(passphrase="tok-1"), RotateBody(passphrase="tok-1"), SecretBody(name="a", value="tok-1"))
    assert "tok-1" not in repr(bodies) and "tok-1" not in str(bodies)
