"""Which repository a worktree belongs to, with what git itself writes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mcphub.config.readfile import Reader
from mcphub.config.worktree import main_directory


def git(directory: Path, *args: str) -> None:
    name = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    subprocess.run(["git", *name, *args], cwd=directory, check=True, capture_output=True)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    path = tmp_path / "repo"
    path.mkdir()
    git(path, "init", "-q")
    git(path, "commit", "-q", "--allow-empty", "-m", "one")
    return path


def main(path: Path) -> str:
    return main_directory(str(path), Reader())


def test_a_linked_worktree(repo: Path, tmp_path: Path) -> None:
    """It leads to the directory of its repository; that one, and what is no repository, leads nowhere."""
    git(repo, "worktree", "add", "-q", "../tree")
    assert main(tmp_path / "tree") == str(repo)
    assert main(repo) == ""
    assert main(tmp_path) == ""


def test_a_bare_repository(repo: Path, tmp_path: Path) -> None:
    """Without a main worktree the repository itself is what its worktrees share."""
    git(tmp_path, "clone", "-q", "--bare", "repo", "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "-q", "../tree")
    assert main(tmp_path / "tree") == str(tmp_path / "bare.git")


def test_who_only_claims_to_be_one(repo: Path, tmp_path: Path) -> None:
    """A `.git` file that somebody wrote does not make a directory a part of a repository that does not know it."""
    git(repo, "worktree", "add", "-q", "../tree")
    thief = tmp_path / "thief"
    thief.mkdir()
    (thief / ".git").write_bytes((tmp_path / "tree/.git").read_bytes())
    assert main(thief) == ""


@pytest.mark.parametrize(
    "text",
    [b"", b"gitdir:", b"gitdir: ", b"gitdir: elsewhere", b"gitdir: ../repo/.git", b"gitdir: ../repo/.git/modules/x",
     b"gitdir: a\nb", b"gitdir: a\0b", b"\xff\xfe", b"gitdir: " + b"x" * 9000],
)  # fmt: skip
def test_what_leads_nowhere(repo: Path, tmp_path: Path, text: bytes) -> None:
    """A submodule, and whatever else may stand there, is a project of its own."""
    other = tmp_path / "other"
    other.mkdir()
    (other / ".git").write_bytes(text)
    assert main(other) == ""
