"""What is said of variables that agents bring."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.desired import instance_key
from mcphub.questions.brought import brought, instances, needs_an_agent
from mcphub.spec import InstanceKey, Scope
from tests.fakes.canned_hub import failed, server
from tests.questions.machine import USER, resolved, servers

LISTED = ("GH_TOKEN", "B", "A")


@pytest.mark.parametrize(
    ("scope", "entry", "names"),
    [
        (Scope.USER, {"command": "x", "args": ["${A}", "${B:-b}", "${C}"]}, ("A", "B")),
        (Scope.USER, {"command": "x", "description": "${A}", "args": ["$A ${A%.*}"]}, ()),
        (Scope.USER, {"type": "http", "url": "https://h.example/${A}", "headers": {"K": "${GH_TOKEN}"}},
         ("A", "GH_TOKEN")),
        (Scope.PROJECT, {"type": "http", "url": "https://h.example/${A}", "headers": {"K": "${GH_TOKEN}"}}, ("A",)),
    ],
)  # fmt: skip
def test_which_variables(scope: Scope, entry: dict[str, Any], names: tuple[str, ...]) -> None:
    """C023: those that the settings list and the entry looks up; what a repository sends away reads no credential."""
    one = resolved(servers(scope, {"a": entry})).servers["a"]
    assert brought(one, LISTED) == names
    assert brought(one, ()) == ()


def test_what_only_agents_can_give() -> None:
    """C023: an entry that lacks something else as well runs for nobody."""
    one = resolved(servers(Scope.USER, {"a": {"command": "x", "args": ["${A}", "${C}"]}})).servers["a"]
    assert needs_an_agent(one, ("A",)) == ()
    assert needs_an_agent(one, ("A", "C")) == ("A", "C")
    one = resolved(servers(Scope.USER, {"a": {"command": "${A:-x}"}})).servers["a"]
    assert needs_an_agent(one, ("A",)) == ()
    one = resolved(servers(Scope.USER, {"a": {"command": 1}})).servers["a"]
    assert needs_an_agent(one, ("A",)) == ()


def test_the_instances() -> None:
    """C023: of this entry alone, each with who uses it by name."""
    one = resolved(servers(Scope.USER, {"a": {"command": "x", "args": ["${A}"]}})).servers["a"]
    own = instance_key(one)
    assert own is not None
    place = {"scope": "user", "path": USER, "key": "mcpServers.a", "line": 2}
    rows: dict[InstanceKey, Any] = {
        own: {**failed("a"), "origin": place, "reason": "it lacks A"},
        InstanceKey("a", "1", ""): {**server("a"), "origin": place, "used_by": [1, 2]},
        InstanceKey("a", "2", "/w"): {**server("a"), "origin": {**place, "path": "/w/.mcp.json"}},
        InstanceKey("b", "3", ""): {**server("b"), "origin": place},
    }
    assert list(instances(one, own, rows, {1: "claude (1)"})) == [
        {"brings": False, "state": "failed", "reason": "it lacks A", "agents": []},
        {"brings": True, "state": "connected", "reason": "", "agents": ["claude (1)", "agent (2)"]},
    ]
