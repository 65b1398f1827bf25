"""mcphub's own answers, held against the official types."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp_types.methods import parse_server_notification, validate_server_result

from mcphub.protocol import serving
from mcphub.protocol.envelope import error_data
from mcphub.protocol.versions import ALL, LEGACY

MODERN = "2026-07-28"
IDS = [b"1", b'"1"', b'"a\\"\\n"', b"-5", b"9" * 30]


def frames(data: bytes) -> list[Any]:
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


def test_discover() -> None:
    """All versions, a kind, a name and how long it holds: a DiscoverResult by the official types."""
    result = json.loads(serving.DISCOVER_RESULT)
    validate_server_result("server/discover", MODERN, result)
    assert result["supportedVersions"] == list(ALL)
    assert result["resultType"] == "complete"
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "mcphub"
    assert "tasks" not in result["capabilities"]
    assert result["capabilities"]["extensions"] == {"io.modelcontextprotocol/tasks": {}}
    assert b"\n" not in serving.DISCOVER_RESULT


@pytest.mark.parametrize("asked", [*LEGACY, MODERN, "1900-01-01", 'x"\n'])
def test_initialize(asked: str) -> None:
    """An InitializeResult by the official types, with nothing of the modern era in it."""
    result = json.loads(serving.initialize_result(asked))
    validate_server_result("initialize", result["protocolVersion"], result)
    assert result["protocolVersion"] == (asked if asked in LEGACY else "2025-11-25")
    assert result.keys() == {"protocolVersion", "serverInfo", "capabilities", "instructions"}


@pytest.mark.parametrize(("modern", "version"), [(False, "2025-11-25"), (True, MODERN)])
def test_small_results(modern: bool, version: str) -> None:
    """The empty result and a tool's error have the kind in the modern era, and only there."""
    for result in (json.loads(serving.empty_result(modern)), json.loads(serving.tool_error('a "b"\n\u6f22', modern))):
        assert ("resultType" in result) == modern
        assert ("_meta" in result) == modern
        if result.keys() - {"resultType", "_meta"}:
            validate_server_result("tools/call", version, result)
            assert result["isError"] is True
            assert result["content"] == [{"type": "text", "text": 'a "b"\n\u6f22'}]


@pytest.mark.parametrize("mid", IDS)
def test_a_subscription(mid: bytes) -> None:
    """The acknowledgement, and the end, carry the id of the listen in the type it came in."""
    (acknowledged,) = frames(serving.listen_acknowledged(mid, b'{"toolsListChanged":true}'))
    meta = {"io.modelcontextprotocol/subscriptionId": json.loads(mid)}
    assert acknowledged["params"] == {"notifications": {"toolsListChanged": True}, "_meta": meta}
    parse_server_notification(acknowledged["method"], MODERN, acknowledged["params"])
    result, cancelled = frames(serving.listen_ended(mid))
    assert result["id"] == json.loads(mid)
    assert result["result"]["resultType"] == "complete"
    assert result["result"]["_meta"].items() >= meta.items()
    validate_server_result("subscriptions/listen", MODERN, result["result"])
    assert cancelled["params"]["requestId"] == json.loads(mid)
    parse_server_notification(cancelled["method"], MODERN, cancelled["params"])


def test_a_view_of_one_server_says_so() -> None:
    """An agent that sees one server under its own names is told nothing of prefixes."""
    for raw in (serving.discover_result("db"), serving.initialize_result("2025-11-25", "db")):
        result = json.loads(raw)
        assert "the MCP server db" in result["instructions"]
        assert "mcp__" not in result["instructions"]
    assert serving.discover_result() == serving.DISCOVER_RESULT


def test_instructions_of_servers_come_behind_the_own() -> None:
    """In both handshakes, with and without a server of its own; nothing is added where there are none."""
    for server in ("", "db"):
        plain = json.loads(serving.discover_result(server))["instructions"]
        both = serving.discover_result(server, "## a\n漢"), serving.initialize_result("2025-11-25", server, "## a\n漢")
        for raw in both:
            assert json.loads(raw)["instructions"] == plain + "\n\n## a\n漢"
        assert json.loads(serving.initialize_result("2025-11-25", server))["instructions"] == plain


@pytest.mark.parametrize("modern", [False, True])
def test_a_tool_error_with_its_kind(modern: bool) -> None:
    """C151: programs read of what kind it is, in the `_meta` of either era."""
    result = json.loads(serving.tool_error("x", modern, error_data("validation", "s", tool="t")))
    told = result["_meta"].pop("dev.mcphub/error")
    assert (told["kind"], told["layer"], told["server"], told["tool"]) == ("validation", "agent", "s", "t")
    assert result["_meta"] == json.loads(serving.tool_error("x", True))["_meta"] if modern else result["_meta"] == {}
    assert result["isError"] is True and result["content"] == [{"type": "text", "text": "x"}]
