"""Tables for the entries that editors' extensions write."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.config.entries.ide import AUTH_HEADER
from mcphub.spec import HttpSpec, Ide, Scope, SseSpec, WsSpec
from tests.config.entries.written import parsed, problem, spec

WS = {"type": "ws-ide", "url": "ws://127.0.0.1:9/", "ideName": "VS Code", "authToken": "tok-12345"}
SSE = {"type": "sse-ide", "url": "http://127.0.0.1:9/sse", "ideName": "Editor", "ideRunningInWindows": True}


@pytest.mark.parametrize(
    ("raw", "kind", "ide", "headers"),
    [
        (WS, WsSpec, Ide("VS Code"), {AUTH_HEADER: "tok-12345"}),
        (SSE, SseSpec, Ide("Editor", True), {}),
        ({"type": "ws-ide", "url": "ws://h/", "headers": {"A": "b"}}, WsSpec, Ide(), {"A": "b"}),
    ],
)
def test_entries_of_editors(raw: Any, kind: type[HttpSpec], ide: Ide, headers: dict[str, str]) -> None:
    """They are reached like any other of their transport; who the editor is is kept, and its token is sent."""
    transport = spec(raw).transport
    assert type(transport) is kind
    assert (transport.ide, transport.headers) == (ide, headers)
    assert "tok-" not in repr(transport)
    assert [text for text in parsed(raw).warnings if "plain" not in text] == []


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ({"ideName": 1}, "expected a string"),
        ({"ideRunningInWindows": "yes"}, "expected true or false"),
        ({"authToken": 1}, "expected a string"),
        ({"url": "http://h/"}, "expected an address that begins with ws://"),
    ],
)
def test_wrong_entries(more: dict[str, Any], cause: str) -> None:
    """Each is an error at its key."""
    assert cause in problem({**WS, **more})


def test_where_they_have_no_meaning() -> None:
    """A repository does not speak for an editor; without the type the keys are unknown."""
    assert "works only where the editor itself says so" in problem(WS, Scope.PROJECT)
    [warning] = parsed({"type": "ws", "url": "wss://h/", "ideName": "x"}).warnings
    assert "ideName: unknown key" in warning
