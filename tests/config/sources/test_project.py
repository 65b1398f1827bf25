"""Where project files are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcphub.config.places import Places
from mcphub.config.readfile import Reader
from mcphub.config.sources.project import ProjectSource, searched
from mcphub.config.sources.request import Request


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """t/.mcp.json is planted; t/repo is a repository with files at its root and in pkg/web; t/plain is none."""
    for name in ("t", "t/repo", "t/repo/pkg/web", "t/plain/sub", "home"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / ".mcp.json").write_text('{"mcpServers":{"a":{"command":"x"}}}')
    (tmp_path / "t/repo/.git").mkdir()
    return tmp_path


def files(tree: Path, workspace: str, home: str = "home") -> list[str]:
    request = Request(workspace, Places(str(tree / home), "/c", "/s"), Reader())
    layers = ProjectSource().load(request)
    assert all(layer.path == f"{layer.directory}/.mcp.json" for layer in layers)
    return [str(Path(layer.directory).relative_to(tree)) for layer in layers]


def test_from_the_workspace_to_the_root(tree: Path) -> None:
    """C018: files from the workspace up to the repository's root, nearest first, and none above."""
    assert files(tree, str(tree / "t/repo/pkg/web")) == ["t/repo/pkg/web", "t/repo"]
    assert files(tree, str(tree / "t/repo")) == ["t/repo"]
    assert files(tree, str(tree / "t/repo/pkg")) == ["t/repo"]


def test_without_a_repository(tree: Path) -> None:
    """C018: without a root the workspace alone counts, so a planted file above is never read."""
    assert files(tree, str(tree / "t/plain/sub")) == ["t/plain/sub"]
    (tree / "t/plain/sub/.mcp.json").unlink()
    assert files(tree, str(tree / "t/plain/sub")) == []


def test_the_file_of_a_worktree_is_a_root(tree: Path) -> None:
    """C018: a `.git` file ends the search like a directory, so an inner repository does not see the outer one."""
    (tree / "t/repo/pkg/.git").write_text("gitdir: elsewhere")
    assert files(tree, str(tree / "t/repo/pkg/web")) == ["t/repo/pkg/web"]


def test_home_is_nobodys_project(tree: Path) -> None:
    """C018: the search ends below the home directory, even when that is a repository, unless it is the workspace."""
    (tree / "t/.git").mkdir()
    assert files(tree, str(tree / "t/plain/sub"), home="t") == ["t/plain/sub"]
    assert files(tree, str(tree / "t"), home="t") == ["t"]
    assert files(tree, str(tree / "t/plain/sub")) == ["t/plain/sub", "t"]
    (tree / "t/.git").rmdir()
    assert files(tree, str(tree / "t"), home="t") == ["t"]


def test_links_are_followed_to_the_real_directory(tree: Path) -> None:
    """C018: a link into a repository is that repository, so its approval is the same by either way."""
    (tree / "link").symlink_to("t/repo/pkg")
    assert files(tree, str(tree / "link/web")) == ["t/repo/pkg/web", "t/repo"]


@pytest.mark.parametrize("workspace", ["", "relative", ".", "/nul\0"])
def test_no_workspace(workspace: str) -> None:
    """What is no absolute path has no project files."""
    assert searched(workspace, "/h", Reader()) == []


def test_odd_workspaces(tree: Path) -> None:
    """A workspace that is a file, or not there, brings nothing and raises nothing."""
    (tree / "file").write_text("")
    assert files(tree, str(tree / "file")) == []
    assert files(tree, str(tree / "gone/deeper")) == []
    assert searched("/", "/h", Reader()) == ["/"]


def test_a_file_that_others_can_write(tree: Path) -> None:
    """C137: its servers wait for approval as any, and whoever is asked is told whose it is."""
    file = tree / "t/repo/.mcp.json"
    file.chmod(0o666)
    [layer] = ProjectSource().load(Request(str(tree / "t/repo"), Places(str(tree / "home"), "/c", "/s"), Reader()))
    assert layer.warnings == (
        f"{file} can be written by everybody: look twice at what it asks for before you approve it",
    )
    assert [entry.name for entry in layer.entries] == ["a"]
    file.chmod(0o644)
    [layer] = ProjectSource().load(Request(str(tree / "t/repo"), Places(str(tree / "home"), "/c", "/s"), Reader()))
    assert layer.warnings == ()
