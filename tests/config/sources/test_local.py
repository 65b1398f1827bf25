"""The person's own servers for one project."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mcphub.config.layer import Layer
from mcphub.config.places import Places
from mcphub.config.readfile import Reader
from mcphub.config.sources.local import LocalSource, new_document, project_directory
from mcphub.config.sources.request import Request
from mcphub.spec import Scope


class Home:
    """A home with a repository that has a folder `pkg`, and what is kept for either."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.places = Places(str(root / "home"), str(root / "config"), str(root / "state"))
        self.repo = root / "repo"
        (self.repo / "pkg").mkdir(parents=True)
        (self.repo / ".git").mkdir()

    def write(self, directory: Path, servers: dict[str, Any] | bytes, **more: Any) -> Path:
        path = Path(self.places.local(str(directory)))
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {**new_document(str(directory)), "mcpServers": servers, **more}
        path.write_bytes(servers if isinstance(servers, bytes) else json.dumps(document).encode())
        return path

    def request(self, workspace: Path | str) -> Request:
        return Request(str(workspace), self.places, Reader())

    def layers(self, workspace: Path | str) -> list[Layer]:
        return LocalSource().load(self.request(workspace))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_nearest_first(home: Home) -> None:
    """What is kept for a folder counts before what is kept for the repository, and each is for agents in there."""
    home.write(home.repo, {"a": {"command": "far"}})
    home.write(home.repo / "pkg", {"a": {"command": "near"}})
    near, far = home.layers(home.repo / "pkg")
    assert (near.scope, near.directory, far.directory) == (Scope.LOCAL, str(home.repo / "pkg"), str(home.repo))
    assert [entry.raw["command"] for layer in (near, far) for entry in layer.entries] == ["near", "far"]
    assert near.entries[0].origin.key == "mcpServers.a"
    assert [layer.directory for layer in home.layers(home.repo)] == [str(home.repo)]
    assert (near.warnings, near.problems) == ((), ())


def test_never_from_the_project(home: Home) -> None:
    """The files are in mcphub's state directory, whatever the project holds, and two projects of one name have two."""
    other = home.root / "other" / "repo"
    paths = [home.places.local(str(home.repo)), home.places.local(str(other))]
    assert all(path.startswith(f"{home.root}/state/local/repo-") for path in paths)
    assert len(set(paths)) == 2
    assert home.places.local("/").startswith(f"{home.root}/state/local/root-")
    assert "/" not in home.places.local("/a/b c\u00e9\n").removeprefix(f"{home.root}/state/local/")
    home.write(home.repo, {"a": {"command": "x"}})
    assert home.layers(other) == []
    assert home.layers("") == []


def test_a_link_to_the_project(home: Home) -> None:
    """The real path counts, so both ways in have the same servers."""
    home.write(home.repo, {"a": {"command": "x"}})
    (home.root / "link").symlink_to(home.repo)
    assert [layer.directory for layer in home.layers(home.root / "link")] == [str(home.repo)]


def git(directory: Path, *args: str) -> None:
    name = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    subprocess.run(["git", *name, *args], cwd=directory, check=True, capture_output=True)


def test_a_worktree(home: Home) -> None:
    """A linked worktree has its repository's servers too, running in the worktree; its own come first."""
    (home.repo / ".git").rmdir()
    git(home.repo, "init", "-q")
    git(home.repo, "commit", "-q", "--allow-empty", "-m", "one")
    tree = home.root / "tree"
    git(home.repo, "worktree", "add", "-q", str(tree))
    home.write(home.repo, {"a": {"command": "x"}})
    assert [(layer.directory, len(layer.entries)) for layer in home.layers(tree)] == [(str(tree), 1)]
    home.write(tree, {"a": {"command": "own"}})
    assert [layer.entries[0].raw["command"] for layer in home.layers(tree)] == ["own", "x"]
    assert project_directory(home.request(tree)) == str(home.repo)


def test_where_a_new_one_goes(home: Home) -> None:
    """To the repository's root from everywhere in it; without a repository to the directory itself."""
    assert project_directory(home.request(home.repo / "pkg")) == str(home.repo)
    assert project_directory(home.request(home.root)) == str(home.root)
    assert project_directory(home.request("")) == ""


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ({"version": 2}, "it has version 2 and this mcphub knows up to 1"),
        ({"version": "1"}, "it has version 1"),
        ({"project": "/elsewhere"}, "it belongs to another project"),
        (b"[]", "expected an object at the top, found a list"),
        (b'{"mcpServers": {"a": ', ":1:22: "),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_used(home: Home, more: dict[str, Any] | bytes, cause: str) -> None:
    """It gives no server and one problem that names it."""
    servers = {"a": {"command": "x"}}
    path = home.write(home.repo, more) if isinstance(more, bytes) else home.write(home.repo, servers, **more)
    (layer,) = home.layers(home.repo)
    (problem,) = layer.problems
    assert (layer.entries, problem.name) == ((), "")
    assert problem.message.startswith(f"cannot use {path}") and cause in problem.message


def test_no_regular_file(home: Home) -> None:
    """A directory in its place is a problem of that project alone."""
    Path(home.places.local(str(home.repo))).mkdir(parents=True)
    (layer,) = home.layers(home.repo)
    assert "it is a directory" in layer.problems[0].message


def test_what_was_looked_at_is_stamped(home: Home) -> None:
    """A file that appears later is seen."""
    request = home.request(home.repo)
    LocalSource().load(request)
    assert home.places.local(str(home.repo)) in {stamp.path for stamp in request.reader.stamps}
