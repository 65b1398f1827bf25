"""Tables for which transport an entry asks for, and what it says in vain."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.config.names import shown_name
from mcphub.spec import ServerSpec
from tests.config.entries.written import USER, parsed, problem


@pytest.mark.parametrize(
    ("raw", "key", "part"),
    [
        ({"url": "https://h.example/mcp"}, "type", 'url without type; add "type": "http"'),
        ({"command": "x", "url": "https://h.example"}, "url", "both command and url are set"),
        ({"type": "stdio", "url": "https://h.example"}, "url", "type 'stdio' is a program, which has no url"),
        ({"type": "stdio", "command": "x", "url": "https://h.example"}, "url", "both command and url"),
        ({"type": "http", "command": "x"}, "command", "type 'http' is a remote server, which has no command"),
        ({"type": "http", "command": "x", "url": "https://h"}, "command", "which has no command"),
        ({"type": "http"}, "url", "missing; a server of type 'http' needs it"),
        ({"type": "http", "url": "h.example"}, "url", "expected an address that begins with http:// or https://"),
        ({"type": "ws", "url": "https://h"}, "url", "expected an address that begins with ws://"),
        ({"type": "stdio"}, "command", "missing"),
        ({"type": "sdk", "command": "x"}, "type", "a server inside the daemon, which has no command"),
        ({"type": "ws-ide", "url": "https://h"}, "url", "expected an address that begins with ws://"),
        ({"type": "HTTP", "url": "https://h"}, "type", "unknown type 'HTTP'"),
        ({"type": 1, "command": "x"}, "type", "expected a string, found a number"),
        ({"type": None, "command": "x"}, "type", "expected a string, found null"),
        ({"url": 5}, "url", "expected a string, found a number"),
        ({"type": "http", "url": None}, "url", "expected a string, found null"),
    ],
)
def test_transport_is_never_guessed(raw: dict[str, Any], key: str, part: str) -> None:
    """C011: a missing or contradictory transport is an error with a hint: a guess would decide whether code runs
    here."""
    message = problem(raw)
    assert message.startswith(f"cannot use server s: {USER}:1 mcpServers.s.{key}: ")
    assert part in message


@pytest.mark.parametrize(
    ("key", "part"),
    [
        ("alwaysLoad", "not used yet"),
        ("headers", "not used by a server that is a program"),
        ("autoApprove", "unknown key, not used"),
        ("a\u001b", "unknown key, not used"),
    ],
)
def test_unused_keys_are_warnings(key: str, part: str) -> None:
    """A key that does nothing here is kept and named."""
    result = parsed({"command": "x", key: True})
    assert isinstance(result.outcome, ServerSpec)
    assert result.warnings == (f"{USER}:1 mcpServers.s.{shown_name(key)}: {part}",)
