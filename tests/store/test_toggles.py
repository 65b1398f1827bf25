"""The file of servers that a person switched off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcphub.errors import ConfigError
from mcphub.store.toggles import Toggle, Toggles, ToggleStore, covers


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "toggles.json"


@pytest.mark.parametrize(
    ("directory", "workspace", "expected"),
    [
        ("", "", True),
        ("", "/w", True),
        ("/w", "/w", True),
        ("/w", "/w/sub", True),
        ("/w", "/w2", False),
        ("/w", "/", False),
        ("/w", "", False),
        ("/", "/w", True),
    ],
)
def test_what_a_toggle_covers(directory: str, workspace: str, expected: bool) -> None:
    """A directory and all below it; none is everywhere."""
    assert covers(directory, workspace) is expected


def test_off_and_on_again(path: Path) -> None:
    """By name and directory; off everywhere is the stronger reason; enabling takes away all that covers the place."""
    store = ToggleStore(str(path))
    assert store.load() == (Toggles(), ())
    store.disable("a")
    store.disable("a", "/w")
    store.disable("b", "/w")
    store.disable("b", "/w")
    store.disable("b", "/v")
    toggles, problems = ToggleStore(str(path)).load()
    assert problems == ()
    assert toggles.switched_off("") == {"a": ""}
    assert toggles.switched_off("/w/sub") == {"a": "", "b": "/w"}
    assert toggles.switched_off("/v") == {"a": "", "b": "/v"}
    assert store.enable("a", "/w/sub") == ("", "/w")
    assert store.enable("a", "/w/sub") == ()
    assert store.enable("b", "/w") == ("/w",)
    assert store.load()[0] == Toggles((Toggle("b", "/v"),))
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_bytes()) == {"version": 1, "off": [{"name": "b", "directory": "/v"}]}


def test_a_damaged_file_is_not_begun_anew(path: Path) -> None:
    """What it said stays in force while mcphub runs, and must not end because another server is switched off."""
    path.write_bytes(damaged := b'{"version":1,"off":[')
    store = ToggleStore(str(path))
    for change in (lambda: store.disable("b"), lambda: store.enable("b")):
        with pytest.raises(ConfigError, match="damaged.*repair it, or move it away.*stays so, and"):
            change()
    assert path.read_bytes() == damaged


def test_a_newer_file_is_left_alone(path: Path) -> None:
    """Nothing is off by it, and it is not changed."""
    path.write_bytes(b'{"version": 2}')
    store = ToggleStore(str(path))
    toggles, problems = store.load()
    assert toggles == Toggles()
    assert "it has version 2" in problems[0]
    assert store.understand(b"{") != (Toggles(), ())
    with pytest.raises(ConfigError, match="version 2"):
        store.disable("a")
