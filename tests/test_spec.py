"""What is wanted: what makes another instance of it, and what never shows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mcphub.spec import HttpSpec, InProcessSpec, InstanceKey, Origin, Scope, Secret, ServerSpec, StdioSpec

ORIGIN = Origin(Scope.USER, "/home/me/mcp.json", "mcpServers.a", 7)
STDIO = StdioSpec("npx", (Secret("-y"), Secret("x")), {"TOKEN": Secret("t0ken"), "A": Secret("1")}, ("npx", "-y", "x"))
SPEC = ServerSpec("a", ORIGIN, STDIO)


def test_a_secret_shows_in_no_repr() -> None:
    """C025: neither alone nor within what holds it; it is a string all the same."""
    secret = Secret("t0ken")
    assert repr(secret) == "'***'" and repr([secret]) == "['***']"
    assert secret == "t0ken" and f"{secret}" == "t0ken" and secret.encode() == b"t0ken"
    for holder in (STDIO, SPEC, replace(STDIO, args=(Secret("--password=t0ken"),))):
        assert "t0ken" not in repr(holder)


@pytest.mark.parametrize(
    "more",
    [
        {"startup_timeout": 31.0},
        {"call_timeout": 1.0},
        {"enabled_tools": ()},
        {"enabled_tools": ("x",)},
        {"disabled_tools": ("x",)},
        {"era": "legacy"},
        {"workspace": "/w"},
        {"name": "b"},
        {"transport": InProcessSpec("x")},
        {"transport": replace(STDIO, command="node")},
        {"transport": replace(STDIO, args=(Secret("-y x"),))},
        {"transport": replace(STDIO, args=(Secret("-y"), Secret("x"), Secret("")))},
        {"transport": replace(STDIO, env={"TOKEN": Secret("t0ken"), "A": Secret("2")})},
        {"transport": replace(STDIO, env={"TOKEN": Secret("t0ken")})},
        {"transport": replace(STDIO, env={**STDIO.env, "B": Secret("")})},
        {"transport": replace(STDIO, env={"A": Secret("1\x01TOKEN=t0ken")})},
        {"transport": replace(STDIO, cwd="/")},
        {"transport": replace(STDIO, stdio="pipe")},
        {"transport": replace(STDIO, inherit_env=True)},
        {"transport": replace(STDIO, inherit_env=("A",))},
    ],
)
def test_what_makes_another_instance(more: dict[str, Any]) -> None:
    """Whatever would make another process of it."""
    assert replace(SPEC, **more).key() != SPEC.key()


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"origin": Origin(Scope.PROJECT, "/elsewhere", "x")},
        {"transport": replace(STDIO, shown=("npx", "-y", "${X}"))},
        {"transport": replace(STDIO, env=dict(reversed(list(STDIO.env.items()))))},
    ],
)
def test_what_does_not(more: dict[str, Any]) -> None:
    """Where it is written, and how, is no reason to start it again."""
    assert replace(SPEC, **more).key() == SPEC.key()


def test_servers_at_urls() -> None:
    """The URL and the headers are what counts, not how they are shown."""
    http = HttpSpec(Secret("https://x/mcp"), {"Authorization": Secret("Bearer t0ken")}, "https://x/mcp")
    key = replace(SPEC, transport=http).key()
    for other in (replace(http, url=Secret("https://x/mcp2")), replace(http, headers={})):
        assert replace(SPEC, transport=other).key() != key
    assert replace(SPEC, transport=replace(http, shown="https://${HOST}/mcp")).key() == key
    assert "t0ken" not in repr(http)


def test_a_key() -> None:
    """It tells no secret, sorts by name, and takes whatever text a file may hold."""
    key = SPEC.key()
    assert (key.name, key.workspace, len(key.digest)) == ("a", "", 16)
    assert sorted([InstanceKey("b", "1"), InstanceKey("a", "2"), InstanceKey("a", "1")])[0] == InstanceKey("a", "1")
    replace(SPEC, transport=replace(STDIO, command="\udcff\ud800漢")).key()


def test_an_origin_is_a_place_to_look_at() -> None:
    """With its line where there is one."""
    assert str(ORIGIN) == "/home/me/mcp.json:7 mcpServers.a"
    assert str(replace(ORIGIN, line=0)) == "/home/me/mcp.json mcpServers.a"
