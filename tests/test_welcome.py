"""The server that is there while nothing is configured."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp_types.methods import validate_server_result

from mcphub import welcome
from mcphub.config.document import parse_file
from mcphub.config.layer import Layer
from mcphub.errors import JSONRPCError
from mcphub.spec import Scope

MODERN = "2026-07-28"
LINES: list[str] = []
handle = welcome.server("/home/me/.config/mcphub/mcp.json", lambda: LINES)


def ask(method: str, **params: Any) -> dict[str, Any]:
    """An answer, held against the official types."""
    result = handle(method, params)
    validate_server_result(method, MODERN, result)
    return result


def text(name: str) -> str:
    (block,) = ask("tools/call", name=name, arguments={})["content"]
    return str(block["text"])


def test_it_speaks_what_it_says_it_speaks() -> None:
    """It is a modern server with tools, and claims no version whose handshake it does not know."""
    discovered = ask("server/discover")
    assert discovered["supportedVersions"] == [MODERN]
    assert discovered["capabilities"] == {"tools": {}}
    tools = ask("tools/list")["tools"]
    assert [t["name"] for t in tools] == ["how_to_add_servers", "hub_status"]
    assert all(t["annotations"]["readOnlyHint"] for t in tools)
    for method in ("initialize", "ping", "resources/list"):
        with pytest.raises(JSONRPCError) as refused:
            handle(method, {})
        assert refused.value.code == -32601


def test_what_it_tells_works() -> None:
    """The file it names is the person's, and the example in it is an entry that can be used."""
    told = text("how_to_add_servers")
    assert "/home/me/.config/mcphub/mcp.json" in told
    example = told[told.index("{") : told.rindex("}") + 1]
    layer = parse_file(example.encode(), scope=Scope.USER, path="/x/mcp.json", directory="/x")
    assert isinstance(layer, Layer)
    assert [e.name for e in layer.entries] == list(json.loads(example)["mcpServers"])
    assert not layer.problems


def test_status_is_asked_each_time() -> None:
    """The state of the servers is the one of this moment."""
    assert text("hub_status") == "no servers"
    LINES.append("a: connected")
    assert text("hub_status") == "a: connected"
    LINES.clear()


@pytest.mark.parametrize("name", ["nothing", "", None, 5, ["x"]])
def test_unknown_tools(name: Any) -> None:
    """An unknown tool is refused as the specification says."""
    with pytest.raises(JSONRPCError) as refused:
        handle("tools/call", {"name": name})
    assert refused.value.code == -32602
