"""From resolved sets and decisions to what shall run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcphub.config.document import parse_file
from mcphub.config.entries.context import Context
from mcphub.config.layer import Layer
from mcphub.config.resolve import ResolvedSet, resolve
from mcphub.desired import desired_state, instance_key, rows, visible
from mcphub.policy.approval import subject
from mcphub.spec import Broken, InstanceKey, Off, Scope, Want
from mcphub.store.approvals import Decision


def layer(scope: Scope, directory: str, servers: Mapping[str, Any]) -> Layer:
    data = json.dumps({"mcpServers": servers}).encode()
    return parse_file(data, scope=scope, path=f"{directory}/mcp.json", directory=directory)


USER = layer(
    Scope.USER,
    "/u",
    {
        "own": {"command": "own"},
        "db": {"command": "db"},
        "off": {"command": "x", "enabled": False},
        "bad": {"command": 1},
        "blank": {"url": ""},
    },
)
PROJECT = layer(Scope.PROJECT, "/w", {"db": {"command": "evil"}, "wrong": "x"})


def sets() -> dict[str, ResolvedSet]:
    return {
        "": resolve([USER], Context()),
        "/w/sub": resolve([PROJECT, USER], Context(), workspace="/w/sub"),
        "/w": resolve([PROJECT, USER], Context(), workspace="/w"),
    }


def by_name(desired: Mapping[InstanceKey, Want | Off | Broken]) -> dict[tuple[str, str], Want | Off | Broken]:
    assert len({(key.name, key.workspace) for key in desired}) == len(desired)
    return {(key.name, key.workspace): value for key, value in desired.items()}


def test_every_entry_has_its_row() -> None:
    """What may run is wanted once for all workspaces, the rest is off or broken with its reason."""
    desired = by_name(desired_state(sets(), {}))
    assert set(desired) == {("own", ""), ("db", ""), ("off", ""), ("bad", ""), ("db", "/w"), ("wrong", "/w")}
    assert isinstance(desired["own", ""], Want)
    assert isinstance(desired["db", ""], Want)
    off = desired["off", ""]
    assert isinstance(off, Off)
    assert off.because == "person"
    assert isinstance(desired["bad", ""], Broken)
    assert isinstance(desired["wrong", "/w"], Broken)
    waiting = desired["db", "/w"]
    assert isinstance(waiting, Off)
    assert (waiting.because, waiting.spec.workspace) == ("approval", "/w")
    assert "mcphub approve db" in waiting.detail


def test_a_decision_is_an_input() -> None:
    """C136: a project's server is wanted after approval, off again after a change or a rejection, nothing else
    moves."""
    resolved = sets()["/w"].servers["db"]
    asked = subject(resolved)
    assert asked is not None
    key = resolved.spec.key() if resolved.spec else None
    assert key is not None
    before = desired_state(sets(), {})
    after = desired_state(sets(), {("/w", "db"): Decision((asked.content(),))})
    assert isinstance(after[key], Want)
    assert {one for one in before if before[one] != after[one]} == {key}
    rejected = desired_state(sets(), {("/w", "db"): Decision((asked.content(),), rejected=True)})[key]
    assert isinstance(rejected, Off)
    assert "rejected" in rejected.detail


def test_visible_names() -> None:
    """C007: agents of a workspace see each name once, sorted, with the instance of the entry that won."""
    found = sets()
    assert [(name, key.workspace) for name, key in visible(found["/w"])] == [
        ("bad", ""),
        ("db", "/w"),
        ("off", ""),
        ("own", ""),
        ("wrong", "/w"),
    ]
    assert visible(found["/w"]) == visible(found["/w/sub"])
    assert dict(visible(found[""]))["own"] == dict(visible(found["/w"]))["own"]
    assert all(key in desired_state(found, {}) for one in found.values() for _, key in visible(one))


def test_rows_know_what_they_shadow() -> None:
    """C007: who shows an instance can say where it comes from and what it hides."""
    found = rows(sets())
    key = dict(visible(sets()["/w"]))["db"]
    assert [str(origin) for origin in found[key].shadows] == ["/u/mcp.json:1 mcpServers.db"]


def test_a_broken_entry_keeps_its_row_until_it_changes() -> None:
    """The same fault is the same row; another fault is another, and a mended entry is a new instance."""
    keys = [
        instance_key(resolve([layer(Scope.USER, "/u", {"a": {"command": value}})], Context()).servers["a"])
        for value in (1, 1, True, "x")
    ]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
    assert keys[0] is not None
    assert keys[0].digest.startswith("broken-")


def test_nothing_configured() -> None:
    """No set, no instances."""
    assert desired_state({}, {}) == {}
