"""Log messages of servers on their way to agents."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types.methods import parse_server_notification

from mcphub.gateway import messages
from mcphub.protocol.envelope import LOG_LEVELS
from mcphub.protocol.jsonrpc import Raw


@pytest.mark.parametrize(
    ("params", "level", "shown"),
    [
        ({"level": "info", "data": "x"}, "info", {"logger": "s", "data": "x"}),
        ({"level": "error", "logger": "db", "data": [1]}, "error", {"logger": "s/db", "data": [1]}),
        ({"level": "debug", "logger": "", "data": None}, "debug", {"logger": "s", "data": None}),
        ({"level": "debug", "logger": None, "data": 1}, "debug", {"logger": "s", "data": 1}),
        ({"level": "alert"}, "alert", {"logger": "s", "data": None}),
        ({"level": "info", "data": 1, "_meta": {"a": 1}, "x": 2}, "info", {"logger": "s", "data": 1}),
        ({"level": "info", "logger": 'q"\u6f22', "data": {}}, "info", {"logger": 's/q"\u6f22', "data": {}}),
    ],
)
def test_messages_are_named(params: dict[str, Any], level: str, shown: dict[str, Any]) -> None:
    """The server's name stands before its logger; nothing else of the hop crosses."""
    found = messages.named("s", Raw(json.dumps(params).encode()))
    assert found is not None
    assert found[0] == level
    message = json.loads(found[1])
    assert message == {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": level} | shown}
    for version in ("2025-11-25", "2026-07-28"):
        parse_server_notification(message["method"], version, message["params"])


def test_data_keeps_its_bytes() -> None:
    """What a server logs is passed as it wrote it."""
    found = messages.named("s", Raw(b'{"data":{ "a":1.0e2,"b":"\\u00e9"},"level":"info"}'))
    assert found is not None
    assert b'{ "a":1.0e2,"b":"\\u00e9"}' in found[1]


@pytest.mark.parametrize(
    "params",
    ["", "null", "[]", "{}", '{"level":5}', '{"level":null}', '{"level":"INFO"}', '{"level":"loud"}']
    + ['{"level":"info","logger":5}', '{"level":"info","data":' + "[" * 100_000 + "]" * 100_000 + "}", "{"],
)
def test_what_is_no_log_message(params: str) -> None:
    """Anything else is dropped, not passed on and not raised."""
    assert messages.named("s", Raw(params.encode())) is None


def test_levels() -> None:
    """The order of severity is that of the specification (RFC 5424)."""
    for (i, level), (j, threshold) in itertools.product(enumerate(LOG_LEVELS), repeat=2):
        assert messages.passes(level, threshold) == (i >= j)
    assert all(messages.is_level(level) for level in LOG_LEVELS)
    odd: tuple[object, ...] = ("INFO", "", None, 5, [], "info ")
    assert not any(messages.is_level(level) for level in odd)
    assert messages.is_level(messages.DEFAULT_LEVEL)


@given(st.lists(st.sampled_from(LOG_LEVELS)))
def test_the_most_verbose_level(levels: list[str]) -> None:
    """Everybody hears what they asked for at the level that is chosen; nobody asked is no level."""
    found = messages.most_verbose(levels)
    assert (found == "") == (not levels)
    assert all(messages.passes(level, found) for level in levels)
    assert not levels or found in levels
