"""The files of what the tools of each server looked like."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mcphub.errors import ConfigError
from mcphub.store.pins import Pin, Pinned, PinStore

ONE = Pinned("/w", "a", {"x": Pin("d1", '{"title":"x"}'), "y": Pin("d2")}, "a 1.0")


@pytest.fixture
def store(tmp_path: Path) -> PinStore:
    return PinStore(str(tmp_path / "state" / "pins"))


def test_nothing_is_known_at_first(store: PinStore, tmp_path: Path) -> None:
    """No file is no pins and no problem, and looking makes no file."""
    assert store.load("/w", "a") == (None, "")
    assert not (tmp_path / "state").exists()


def test_what_was_saved_comes_back(store: PinStore) -> None:
    """By directory and name, from a private file with a version; the next one takes its place."""
    store.save(ONE)
    store.save(Pinned("", "a", {"z": Pin("d3")}))
    assert store.load("/w", "a") == (ONE, "")
    assert store.load("", "a") == (Pinned("", "a", {"z": Pin("d3")}), "")
    assert store.load("/v", "a") == (None, "")
    path = Path(store.path("/w", "a"))
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_bytes())["version"] == 1
    store.save(Pinned("/w", "a"))
    assert store.load("/w", "a") == (Pinned("/w", "a"), "")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff",
        b'{"version":1}',
        b'{"version":1,"workspace":"/w","server":"b"}',
        b'{"version":1,"tools":3}',
    ],
)
def test_a_damaged_file_is_not_the_same_as_none(store: PinStore, content: bytes) -> None:
    """C172: it is named, and nothing is trusted anew because of it; the next decision replaces it."""
    store.save(ONE)
    Path(store.path("/w", "a")).write_bytes(content)
    found, problem = store.load("/w", "a")
    assert found is None
    assert store.path("/w", "a") in problem
    assert "it is damaged" in problem and "no tool of this server counts as known" in problem
    store.save(ONE)
    assert store.load("/w", "a") == (ONE, "")


def test_a_newer_version_is_left_alone(store: PinStore) -> None:
    """C172: what a newer mcphub wrote cannot be used here and is not touched."""
    store.save(ONE)
    path = Path(store.path("/w", "a"))
    path.write_bytes(b'{"version": 2}')
    assert "it has version 2 and this mcphub knows up to 1" in store.load("/w", "a")[1]
    with pytest.raises(ConfigError, match="version 2"):
        store.save(ONE)
    assert path.read_bytes() == b'{"version": 2}'


def test_what_cannot_be_read(store: PinStore) -> None:
    """C172: something else in the place of the file is a problem, neither a crash nor a fresh start."""
    path = store.path("/w", "a")
    os.makedirs(path)
    found, problem = store.load("/w", "a")
    assert found is None
    assert problem.startswith(f"cannot read {path}: ")
    with pytest.raises(ConfigError, match="cannot write"):
        store.save(ONE)
