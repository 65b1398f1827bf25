"""Requests that wait for their connection."""

from __future__ import annotations

from mcphub.connection import held
from mcphub.connection.held import Held
from mcphub.protocol import jsonrpc
from tests.fakes.channel import KeptChannel


def call(mid: int) -> bytes:
    return jsonrpc.request_frame(mid, "tools/call", b'{"name":"t"}')


def test_only_the_handshake_goes_through() -> None:
    """Requests stay, in order; `initialize`, notifications and answers reach the channel behind once there is one."""
    waiting, behind = Held(), KeptChannel()
    waiting.send(call(1))
    waiting.send(jsonrpc.notification_frame("notifications/initialized"))
    waiting.behind = behind
    waiting.send(jsonrpc.request_frame(2, "initialize", b"{}"))
    waiting.send(call(3)[:10], call(3)[10:])
    waiting.send(jsonrpc.notification_frame("notifications/initialized"))
    waiting.send(jsonrpc.result_frame(b"7", b"{}"))
    assert [(m.get("method"), m.get("id")) for m in behind.sent] == [
        ("initialize", 2), ("notifications/initialized", None), (None, 7),
    ]  # fmt: skip
    assert waiting.release() == {1: call(1), 3: call(3)}
    assert waiting.release() == {}


def test_what_is_cancelled_was_never_sent() -> None:
    """A cancellation takes its request away, and goes nowhere itself; one of `initialize` does not go either."""
    waiting, behind = Held(), KeptChannel()
    waiting.behind = behind
    waiting.send(call(1))
    waiting.send(call(2))
    for params in (b'{"requestId":1}', b'{"requestId":9}', b'{"requestId":"x"}', b"{}"):
        waiting.send(jsonrpc.notification_frame("notifications/cancelled", params))
    assert list(waiting.release()) == [2] and behind.sent == []


def test_too_many() -> None:
    """From so many on the server counts as overloaded, until they are released."""
    waiting = Held()
    for mid in range(1, held.FULL_AT + 1):
        assert not waiting.full
        waiting.send(call(mid))
    assert waiting.full
    waiting.release()
    assert not waiting.full


def test_abort() -> None:
    """It ends the channel behind it; before there is one there is nothing to end."""
    waiting, behind = Held(), KeptChannel()
    waiting.abort()
    waiting.behind = behind
    waiting.abort()
    assert behind.aborted


def test_what_is_held_is_untouched() -> None:
    """The server cannot have acted on it, until it is given to somebody else or cancelled."""
    waiting = Held()
    for mid in (1, 2):
        waiting.send(call(mid))
    assert [waiting.untouched(mid) for mid in (1, 2, 3)] == [True, True, False]
    waiting.send(jsonrpc.notification_frame("notifications/cancelled", b'{"requestId":1}'))
    assert [waiting.untouched(mid) for mid in (1, 2)] == [False, True]
    waiting.release()
    assert not waiting.untouched(2)
