"""The servers that were added while the daemon runs, as layers."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcphub.config.layer import Layer
from mcphub.config.places import Places
from mcphub.config.readfile import Reader
from mcphub.config.sources.dynamic import PLACE, DynamicSource
from mcphub.config.sources.request import Request
from mcphub.spec import Scope
from mcphub.store.dynamic import Added, DynamicServers


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "repo/.git").mkdir(parents=True)
    (tmp_path / "repo/pkg").mkdir()
    return tmp_path


def servers(state: Path) -> DynamicServers:
    return DynamicServers(str(state / "dynamic.json"))


def layers(state: Path, workspace: str = "", added: tuple[Added, ...] = ()) -> list[Layer]:
    return DynamicSource().load(Request(workspace, Places("/h", "/c", str(state)), Reader(), dynamic=added))


def commands(found: list[Layer]) -> list[str]:
    return [entry.raw["command"] for layer in found for entry in layer.entries]


def test_nothing_was_added(state: Path) -> None:
    """No layer, with and without a workspace."""
    assert layers(state) == layers(state, str(state / "repo")) == []


def test_the_order(state: Path) -> None:
    """What ends with the daemon before what is kept, the nearest directory before what is for all."""
    repo = str(state / "repo")
    one = servers(state)
    added = [("kept-all", "", True), ("all", "", False), ("kept", repo, True), ("here", repo, False)]
    for command, directory, keep in added:
        one.add(Added("a", {"command": command}, directory), keep=keep)
    found = layers(state, f"{repo}/pkg", one.added)
    assert commands(found) == ["here", "kept", "all", "kept-all"]
    assert [layer.directory for layer in found] == [repo, repo, "", ""]
    assert {layer.scope for layer in found} == {Scope.DYNAMIC}
    assert [str(layer.entries[0].origin) for layer in found] == [
        f"{PLACE} servers.a",
        f"{state}/dynamic.json servers.a",
        f"{PLACE} servers.a",
        f"{state}/dynamic.json servers.a",
    ]
    assert commands(layers(state, "", one.added)) == ["all", "kept-all"]
    assert commands(layers(state, str(state), one.added)) == ["all", "kept-all"]


def test_a_name_that_no_server_has(state: Path) -> None:
    """C006: a file that somebody edited brings it: it is refused alone."""
    (state / "dynamic.json").write_text('{"version":1,"servers":[{"name":"a b","entry":{}},{"name":"b","entry":{}}]}')
    (layer,) = layers(state)
    assert [entry.name for entry in layer.entries] == ["b"]
    assert "a name has 1 to 64" in layer.problems[0].message


@pytest.mark.parametrize("text", ["{", '{"version":2}', "[]", '{"version":1,"servers":{}}'])
def test_a_file_that_cannot_be_used(state: Path, text: str) -> None:
    """What was added to this daemon stays; the file is a problem."""
    (state / "dynamic.json").write_text(text)
    found = layers(state, "", (Added("a", {"command": "x"}),))
    assert commands(found) == ["x"]
    assert [problem.message for layer in found for problem in layer.problems][0].startswith("cannot use ")
    (state / "dynamic.json").unlink()
    (state / "dynamic.json").mkdir()
    assert "a directory" in layers(state)[0].problems[0].message
