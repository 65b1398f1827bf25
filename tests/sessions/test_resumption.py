"""What a session was, from what it was before and what has come and gone since."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcphub.gateway.standing import Owed, Standing
from mcphub.sessions.resumption import Resumption, resumption, torn_id

INIT = {"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}, "clientInfo": {"name": "a"}}


def line(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}, separators=(",", ":")).encode() + b"\n"


def request(mid: Any, method: str, **params: Any) -> bytes:
    return line(id=mid, method=method, params=params)


def done(mid: Any, **result: Any) -> bytes:
    return line(id=mid, result=result)


def read(came: bytes, taken: bytes = b"", before: Standing | None = None, **more: Any) -> Resumption:
    return resumption(before or Standing(), came, taken, **more)


def test_the_handshake() -> None:
    """It is known once it was answered; one that was not is answered anew."""
    came = request(0, "initialize", **INIT) + line(method="notifications/initialized")
    assert read(came, done(0)).standing.initialize == INIT
    unanswered = read(came)
    assert unanswered.standing.initialize is None
    assert unanswered.again == [request(0, "initialize", **INIT)[:-1]]


def test_what_lasts() -> None:
    """Levels, subscriptions and listens, as far as they were granted and not ended."""
    key = "io.modelcontextprotocol/subscriptionId"
    came = (
        request(1, "logging/setLevel", level="debug")
        + request(2, "resources/subscribe", uri="a")
        + request(3, "resources/subscribe", uri="b")
        + request(4, "resources/unsubscribe", uri="a")
        + request(5, "resources/subscribe", uri="bad")
        + request("l", "subscriptions/listen", notifications={"toolsListChanged": True})
        + request("m", "subscriptions/listen", notifications={})
        + request("n", "subscriptions/listen", notifications={})
        + line(method="notifications/cancelled", params={"requestId": "n"})
    )
    taken = b"".join([done(1), done(2), done(3), done(4), line(id=5, error={"code": 1, "message": ""})])
    taken += b"".join(
        line(method="notifications/subscriptions/acknowledged", params={"notifications": {}, "_meta": {key: m}})
        for m in "lm"
    )
    found = read(came, taken + done("m"))
    assert found.standing == Standing(
        log_level="debug", watches=["b"], listens={'"l"': {"toolsListChanged": True}}
    )
    assert found.again == []


def test_each_request_once() -> None:
    """What was sent to a server is owed a word; what only reads is asked again; an id may come again."""
    came = request(1, "tools/call", name="t") + request(2, "tools/list") + request(1, "tools/call", name="u")
    found = read(came, done(1), Standing(owed=[Owed("9", "x", True)]))
    assert found.standing.owed == [Owed("9", "x", True), Owed("1", "tools/call u", tool="u", first=True)]
    assert found.again == [request(2, "tools/list")[:-1]]
    assert read(came, done(1) + done(2) + done(1) + done(9)).standing.owed == []


@pytest.mark.parametrize(
    "garbage", [b"\n", b"{}\n", b"[1]\n", b"nonsense\n", b'{"jsonrpc":"2.0","id":1}\n', b"\xff\n", line(id=1, result=1)]
)
def test_what_says_nothing(garbage: bytes) -> None:
    """Lines that are no request are answered by nobody."""
    found = read(garbage + request(2, "ping"), b"\n{}\nnonsense\n" + garbage + done(2))
    assert (found.standing, found.again, found.tail) == (Standing(), [], b"")


@pytest.mark.parametrize(
    ("whole", "mid"),
    [
        (line(id=7, method="tools/call", params={"x": "y" * 100}), "7"),
        (line(method="tools/call", params={"x": "y" * 100}, id="a"), '"a"'),
        (b'{"method":"tools/call","params":{"id":5},"jsonrpc":"2.0","id":8}\n', "8"),
        (b'{"method":"tools/call","params":{"x":{"id":5},"y":1}}\n', ""),
    ],
)
def test_a_torn_line(whole: bytes, mid: str) -> None:
    """Its id is found where those who write JSON put it; what comes behind it is whole."""
    head, end = whole[:24], whole[40:]
    assert torn_id(head, end[:-1]) == mid
    first = request(1, "tools/call", name="t")
    found = read(first + head + end + request(2, "ping") + b"{", gap=len(first) + len(head))
    assert {owed.mid for owed in found.standing.owed} == {"1", mid} - {""}
    assert (found.again, found.tail, found.torn) == ([request(2, "ping")[:-1]], b"{", False)
    open_line = read(head, gap=24)
    assert (open_line.tail, open_line.torn) == (head, True)


@pytest.mark.parametrize(
    ("more", "first"), [({}, True), ({"requestState": "s"}, False), ({"inputResponses": {}}, False)]
)
def test_what_a_call_says(more: dict[str, Any], first: bool) -> None:
    """Its trace goes with it, and whether it is one as it came, or a round of another."""
    meta = {"traceparent": f"00-{'ab' * 16}-00f067aa0ba902b7-01"}
    [owed] = read(request(1, "tools/call", name="t", _meta=meta, **more)).standing.owed
    assert (owed.tool, owed.trace, owed.first) == ("t", "ab" * 16, first)
    [owed] = read(request(1, "tools/call", name="t", _meta=5)).standing.owed
    assert (owed.trace, owed.first) == ("", True)
