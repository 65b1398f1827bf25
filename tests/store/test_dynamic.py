"""What was added while the daemon runs, in memory and in its file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mcphub.errors import ConfigError
from mcphub.store.dynamic import Added, DynamicServers, kept_file


def names(path: Path) -> list[tuple[str, str]]:
    return [(one.name, one.directory) for one in kept_file(str(path)).load()[0].servers]


def test_until_the_daemon_ends(tmp_path: Path) -> None:
    """It is in no file, and another daemon knows nothing of it."""
    path = tmp_path / "dynamic.json"
    one = DynamicServers(str(path))
    one.add(Added("a", {"command": "x"}), keep=False)
    assert [added.name for added in one.added] == ["a"]
    assert not path.exists()
    assert DynamicServers(str(path)).added == ()


def test_kept(tmp_path: Path) -> None:
    """It is in the file, which is the person's alone, and replaces what was added under its name."""
    path = tmp_path / "dynamic.json"
    one = DynamicServers(str(path))
    one.add(Added("a", {"command": "x"}), keep=False)
    one.add(Added("a", {"command": "y", "env": {"T": "t"}}), keep=True)
    one.add(Added("a", {"command": "z"}, "/w"), keep=True)
    assert one.added == ()
    assert names(path) == [("a", ""), ("a", "/w")]
    assert json.loads(path.read_bytes())["version"] == 1
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_taken_away(tmp_path: Path) -> None:
    """From both places, for its directory alone; what is not there is said."""
    path = tmp_path / "dynamic.json"
    one = DynamicServers(str(path))
    for directory in ("", "/w"):
        one.add(Added("a", {}, directory), keep=True)
        one.add(Added("a", {}, directory), keep=False)
    assert one.remove("a", "/w")
    assert (names(path), [added.directory for added in one.added]) == ([("a", "")], [""])
    assert one.remove("a", "")
    assert not one.remove("a", "")
    assert (names(path), one.added) == ([], ())


def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    """Nothing is added to it, and what is in memory stays as it was."""
    path = tmp_path / "dynamic.json"
    path.write_text('{"version": 2, "more": true}')
    one = DynamicServers(str(path))
    one.add(Added("a", {}), keep=False)
    with pytest.raises(ConfigError, match="version 2"):
        one.add(Added("a", {"command": "x"}), keep=True)
    assert [added.entry for added in one.added] == [{}]
    assert path.read_text() == '{"version": 2, "more": true}'


def test_an_entry_does_not_show() -> None:
    """C025: it may hold a token."""
    assert "tok-1" not in repr(Added("a", {"env": {"T": "tok-1"}}))
