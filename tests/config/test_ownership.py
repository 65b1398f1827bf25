"""Whose a file is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcphub.config.ownership import strangers


@pytest.fixture
def file(tmp_path: Path) -> Path:
    directory = tmp_path / "d"
    directory.mkdir(mode=0o755)
    path = directory / ".mcp.json"
    path.write_text("{}")
    path.chmod(0o644)
    return path


@pytest.mark.parametrize(
    ("mode", "directory", "said"),
    [
        (0o600, 0o700, ""),
        (0o664, 0o775, ""),
        (0o666, 0o755, "can be written by everybody"),
        (0o644, 0o777, "its directory can be written by everybody"),
        (0o644, 0o1777, ""),
        (0o666, 0o777, "can be written by everybody and its directory can be written by everybody"),
    ],
)
def test_modes(file: Path, mode: int, directory: int, said: str) -> None:
    """C137: a file that everybody can write, or put another in the place of; a link is what it leads to."""
    file.chmod(mode)
    file.parent.chmod(directory)
    assert strangers(str(file)) == said
    link = file.parent.parent / "link"
    link.symlink_to(file)
    assert strangers(str(link)) == said


def test_owners(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C137: what belongs to another person is named with its owner; what is root's or ours is not."""
    assert strangers(str(file)) == ""
    owner = file.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: 64_321)
    assert ("belongs to" in strangers(str(file))) is (owner != 0)


@pytest.mark.parametrize("uid", [64_321, 1])
def test_a_strangers_file(file: Path, monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    """C137: by name where the system knows it, else by number; a stranger's directory counts as the file does."""
    real = os.stat

    def stat_as(path: str) -> os.stat_result:
        values = list(real(path))
        values[4] = uid if path.endswith(".json") else os.geteuid()
        return os.stat_result(values)

    monkeypatch.setattr(os, "stat", stat_as)
    assert strangers(str(file)).startswith("belongs to ")
    assert f"uid {uid}" in strangers(str(file))


def test_nothing_there(tmp_path: Path) -> None:
    """What cannot be looked at is no news."""
    assert strangers(str(tmp_path / "no" / "file")) == ""
