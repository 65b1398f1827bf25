"""Which file a person's change goes into, and the change there."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mcphub.config.load import load
from mcphub.config.places import Places
from mcphub.config.writable import holders, place_for, places_of
from mcphub.errors import ConfigError
from mcphub.spec import Scope


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(str(tmp_path / "home"), str(tmp_path / "config"), str(tmp_path / "state"))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "sub").mkdir()
    return tmp_path / "repo"


def servers(path: str | Path) -> Any:
    return json.loads(Path(path).read_bytes())["mcpServers"]


def loaded_from(places: Places, workspace: Path, name: str) -> str:
    """The file that the entry in force comes from."""
    return load(str(workspace), {}, places).resolved.servers[name].origin.path


def test_user(places: Places, repository: Path) -> None:
    """One private file, for every workspace, also where there is none."""
    place = place_for(Scope.USER, "", places)
    assert place == place_for(Scope.USER, str(repository), places)
    place.put("a", {"command": "x"}, replace=False)
    assert Path(place.path).stat().st_mode & 0o777 == 0o600
    assert loaded_from(places, repository, "a") == place.path == places.servers


def test_project(places: Places, repository: Path) -> None:
    """The nearest file that is there, else one at the root of the repository: readable by others, nothing beside it."""
    umask = os.umask(0o027)
    try:
        place = place_for(Scope.PROJECT, str(repository / "sub"), places)
        place.put("a", {"command": "x"}, replace=False)
    finally:
        os.umask(umask)
    assert place.path == str(repository / ".mcp.json")
    assert Path(place.path).stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(repository)) == [".git", ".mcp.json", "sub"]
    (repository / "sub" / ".mcp.json").write_text("{}")
    nearer = place_for(Scope.PROJECT, str(repository / "sub"), places)
    assert nearer.path == str(repository / "sub" / ".mcp.json")
    nearer.put("a", {"command": "y"}, replace=False)
    found = holders("a", str(repository / "sub"), places)
    assert [one.path for one in found] == [nearer.path, place.path]
    assert loaded_from(places, repository / "sub", "a") == nearer.path


def test_a_project_cannot_say_where_to_write(places: Places, repository: Path, tmp_path: Path) -> None:
    """A link that a repository brings is not followed out of it."""
    (tmp_path / "precious").write_text("{}")
    (repository / ".mcp.json").symlink_to("../precious")
    with pytest.raises(ConfigError, match="a link that leads out of"):
        place_for(Scope.PROJECT, str(repository), places).put("a", {"command": "x"}, replace=True)
    assert (tmp_path / "precious").read_text() == "{}"


def test_local(places: Places, repository: Path) -> None:
    """Outside of the repository, of all its directories the same file; a linked worktree uses its repository's."""
    place = place_for(Scope.LOCAL, str(repository / "sub"), places)
    assert place == place_for(Scope.LOCAL, str(repository), places)
    place.put("a", {"command": "x"}, replace=False)
    assert Path(place.path).is_relative_to(places.state_dir)
    assert Path(place.path).stat().st_mode & 0o777 == 0o600
    assert json.loads(Path(place.path).read_bytes())["version"] == 1
    assert loaded_from(places, repository / "sub", "a") == place.path


def test_local_of_a_worktree(places: Places, tmp_path: Path) -> None:
    """What is set up for a repository is for its worktrees too."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path / "main")]
    subprocess.run(["git", "init", "-q", str(tmp_path / "main")], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(tmp_path / "linked")], check=True)
    place = place_for(Scope.LOCAL, str(tmp_path / "linked"), places)
    assert place == place_for(Scope.LOCAL, str(tmp_path / "main"), places)
    place.put("a", {"command": "x"}, replace=False)
    assert loaded_from(places, tmp_path / "linked", "a") == place.path
    assert [one.path for one in holders("a", str(tmp_path / "linked"), places)] == [place.path]


def test_no_directory(places: Places) -> None:
    """What is for a directory cannot be where there is none."""
    for scope in (Scope.PROJECT, Scope.LOCAL):
        assert places_of(scope, "", places) == []
        with pytest.raises(ConfigError, match=f"cannot use scope {scope}: it needs a directory"):
            place_for(scope, "", places)
    with pytest.raises(ConfigError, match="cannot use scope plugin"):
        place_for(Scope.PLUGIN, "/w", places)


def test_an_entry_is_there_or_not(places: Places) -> None:
    """A name is taken once, replaced on demand, and removed once; a key of an entry too."""
    place = place_for(Scope.USER, "", places)
    assert not place.has("a")
    assert not place.remove("a")
    assert not os.path.exists(place.path)
    place.put("a", {"command": "x", "enabled": False}, replace=False)
    with pytest.raises(ConfigError, match="it already exists in scope user"):
        place.put("a", {"command": "y"}, replace=False)
    assert place.has("a")
    assert place.remove_member("a", "enabled")
    assert not place.remove_member("a", "enabled")
    assert servers(place.path) == {"a": {"command": "x"}}
    place.put("a", {"command": "y"}, replace=True)
    assert servers(place.path) == {"a": {"command": "y"}}
    assert place.remove("a")
    assert servers(place.path) == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"cannot change .*mcp.json:1:2: .*; mend it first"),
        ('{"mcpServers": []}', r"cannot change .*mcp.json: expected an object at mcpServers, found a list"),
        ('{"mcpServers": {"b": {}, "b": {}}}', r"duplicate key 'b'.*; mend it first"),
        ("[]", "expected an object at the top"),
    ],
)
def test_a_file_that_is_wrong_is_not_touched(places: Places, content: str, message: str) -> None:
    """It is named with the place of what is wrong, and stays as it is."""
    place = place_for(Scope.USER, "", places)
    os.makedirs(places.config_dir)
    Path(place.path).write_text(content)
    with pytest.raises(ConfigError, match=message):
        place.put("a", {"command": "x"}, replace=False)
    assert Path(place.path).read_text() == content


def test_a_newer_file_is_not_touched(places: Places, repository: Path) -> None:
    """A local file that a newer mcphub wrote is left alone."""
    place = place_for(Scope.LOCAL, str(repository), places)
    os.makedirs(os.path.dirname(place.path))
    Path(place.path).write_text('{"version": 2, "mcpServers": {"a": {}}}')
    for change in (lambda: place.put("b", {}, replace=True), lambda: place.remove("a")):
        with pytest.raises(ConfigError, match="it has version 2 and this mcphub knows up to 1"):
            change()
    assert "b" not in Path(place.path).read_text()


def test_comments_stay(places: Places) -> None:
    """C025: what a person wrote is there after a change, `${...}` as it was."""
    place = place_for(Scope.USER, "", places)
    os.makedirs(places.config_dir)
    text = '// mine\n{\n  "mcpServers": {\n    "a": { "command": "x", "env": { "K": "${K}" } }, // keep\n  },\n}\n'
    Path(place.path).write_text(text)
    place.put("b", {"command": "y"}, replace=False)
    made = Path(place.path).read_text()
    assert made == text.replace("// keep\n", '// keep\n    "b": {\n      "command": "y"\n    },\n')
    assert place.remove("b")
    assert Path(place.path).read_text() == text
