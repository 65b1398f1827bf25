"""The key of the seals."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcphub.store.sealkey import SIZE, load_or_create


def test_it_is_made_once(tmp_path: Path) -> None:
    """The second start finds the key of the first, in a file for its owner only."""
    path = tmp_path / "state" / "mcphub" / "seal.key"
    key, problem = load_or_create(str(path))
    assert len(key) == SIZE and problem == ""
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_or_create(str(path)) == (key, "")


@pytest.mark.parametrize("content", [b"", b"short", b"x" * (SIZE + 1), b"x" * 1_000_000])
def test_a_file_that_holds_something_else(tmp_path: Path, content: bytes) -> None:
    """It is left alone, named, and the key lives as long as the process."""
    path = tmp_path / "seal.key"
    path.write_bytes(content)
    key, problem = load_or_create(str(path))
    assert len(key) == SIZE and str(path) in problem
    assert key != load_or_create(str(path))[0]
    assert path.read_bytes() == content


def test_what_cannot_be_read_or_kept(tmp_path: Path) -> None:
    """A directory in its place, or a file in the place of its directory: a key for this process, and the problem."""
    key, problem = load_or_create(str(tmp_path))
    assert len(key) == SIZE and str(tmp_path) in problem
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "seal.key"
    key, problem = load_or_create(str(path))
    assert len(key) == SIZE and str(path) in problem


def test_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    """It is not followed to make a file elsewhere."""
    path = tmp_path / "seal.key"
    os.symlink(tmp_path / "elsewhere", path)
    key, problem = load_or_create(str(path))
    assert len(key) == SIZE and problem
    assert not (tmp_path / "elsewhere").exists()
