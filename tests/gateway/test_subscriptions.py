"""The listen requests of one agent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp_types.methods import parse_server_notification

from mcphub.gateway.subscriptions import KINDS, LIST_CHANGED, Listens

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def frames(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines()]


def test_what_is_watched_is_granted() -> None:
    """The exposed URIs that are watched are part of the acknowledgement; none leaves the member out."""
    for uris in (["mcphub://s/x:1"], []):
        [ack] = frames(Listens().open(b"1", {"resourceSubscriptions": ["x:1"]}, uris))
        assert ack["params"]["notifications"] == ({"resourceSubscriptions": uris} if uris else {})


@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        ({"toolsListChanged": True}, {"toolsListChanged": True}),
        (
            {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["x"], "taskIds": []},
            {"toolsListChanged": True, "promptsListChanged": True},
        ),
        ({"promptsListChanged": True}, {"promptsListChanged": True}),
        ({"resourcesListChanged": True, "x": True}, {"resourcesListChanged": True}),
        ({"toolsListChanged": False}, {}),
        ({"toolsListChanged": 1}, {}),
        ({"toolsListChanged": "true"}, {}),
        ({}, {}),
        (None, {}),
        ([1], {}),
        ("x", {}),
    ],
)
def test_what_is_granted(asked: Any, granted: Any) -> None:
    """The acknowledgement names what was asked for and is offered, and only that is sent."""
    listens = Listens()
    (acknowledged,) = frames(listens.open(b'"a"', asked))
    parse_server_notification(acknowledged["method"], "2026-07-28", acknowledged["params"])
    expected = {"toolsListChanged": True} if granted is ... else granted
    assert acknowledged["params"] == {"notifications": expected, "_meta": {SUBSCRIPTION: "a"}}
    for kind, flag in KINDS.items():
        assert len(frames(listens.changed(kind))) == (flag in expected)


def test_several_listens() -> None:
    """Each listen hears under its own id, in its own type, as long as it is open."""
    listens = Listens()
    for mid, asked in ((b"1", True), (b'"1"', True), (b"2", False)):
        listens.open(mid, {"toolsListChanged": asked})
    assert len(listens) == 3
    assert b"1" in listens
    assert b"3" not in listens
    changed = frames(listens.changed("tools"))
    assert [m["params"]["_meta"][SUBSCRIPTION] for m in changed] == [1, "1"]
    for message in changed:
        parse_server_notification(message["method"], "2026-07-28", message["params"])
    assert listens.cancel(b"1")
    assert not listens.cancel(b"1")
    assert [m["params"]["_meta"][SUBSCRIPTION] for m in frames(listens.changed("tools"))] == ["1"]


def test_the_end_from_our_side() -> None:
    """Each open listen gets its result and then a cancel; afterwards there is none."""
    listens = Listens()
    assert listens.end() == b""
    listens.open(b"1", {})
    listens.open(b'"x"', {"toolsListChanged": True})
    ended = frames(listens.end())
    assert [m.get("id", m.get("params", {}).get("requestId")) for m in ended] == [1, 1, "x", "x"]
    assert [m["result"]["_meta"][SUBSCRIPTION] for m in ended if "result" in m] == [1, "x"]
    assert listens.end() == listens.changed("tools") == b""
    assert len(listens) == 0


def test_the_legacy_form() -> None:
    """A legacy agent is told by a bare notification."""
    for kind in KINDS:
        (message,) = frames(LIST_CHANGED[kind])
        assert message == {"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed"}
        parse_server_notification(message["method"], "2025-11-25", message.get("params"))


def test_tasks_that_are_told_of() -> None:
    """B77: they are named by the agent's ids, where there are any."""
    frame = Listens().open(b"1", {"taskIds": ["a", "b"]}, (), ["a"])
    assert json.loads(frame)["params"]["notifications"] == {"taskIds": ["a"]}
