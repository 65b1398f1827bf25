"""Short ids of workspaces."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path

import pytest

from mcphub.errors import ConfigError
from mcphub.store import workspace_ids
from mcphub.store.workspace_ids import WorkspaceIds


def test_an_id_stands_for_a_directory_over_restarts(tmp_path: Path) -> None:
    """The same directory has the same id; another one has another; an unknown id is nobody's."""
    path = str(tmp_path / "state" / "workspaces.json")
    ids = WorkspaceIds(path)
    assert ids.problem == ""
    one, other = ids.remember("/home/u/one"), ids.remember("/home/u/\u6f22")
    assert one == hashlib.sha256(b"/home/u/one").hexdigest()[:12]
    assert ids.remember("/home/u/one") == one != other
    again = WorkspaceIds(path)
    assert [again.directory(i) for i in (one, other, "x")] == ["/home/u/one", "/home/u/\u6f22", None]


def test_two_daemons_lose_nothing(tmp_path: Path) -> None:
    """What another process remembered meanwhile stays."""
    path = str(tmp_path / "workspaces.json")
    one, other = WorkspaceIds(path), WorkspaceIds(path)
    made = [one.remember("/a"), other.remember("/b"), one.remember("/c")]
    assert [WorkspaceIds(path).directory(i) for i in made] == ["/a", "/b", "/c"]


def test_many_threads(tmp_path: Path) -> None:
    """Asked from several threads at once, all are kept."""
    path = str(tmp_path / "workspaces.json")
    ids = WorkspaceIds(path)
    threads = [threading.Thread(target=ids.remember, args=(f"/{n}",)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(json.loads((tmp_path / "workspaces.json").read_text("utf-8"))["workspaces"]) == 20


def test_two_directories_that_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second gets a longer id, and keeps it."""
    monkeypatch.setattr(workspace_ids, "DIGITS", 1)
    ids = WorkspaceIds(str(tmp_path / "workspaces.json"))
    made = {f"/{n}": ids.remember(f"/{n}") for n in range(40)}
    assert len(set(made.values())) == 40
    assert all(ids.directory(i) == directory for directory, i in made.items())
    assert all(ids.remember(directory) == i for directory, i in made.items())


def test_the_oldest_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file does not grow without end."""
    monkeypatch.setattr(workspace_ids, "MOST", 2)
    ids = WorkspaceIds(str(tmp_path / "workspaces.json"))
    made = [ids.remember(directory) for directory in ("/a", "/b", "/c")]
    assert [ids.directory(i) for i in made] == [None, "/b", "/c"]


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"version":1}', '{"version":1,"workspaces":{"a":"b"}}', '{"version":1,"workspaces":[]}'],
)
def test_a_damaged_file(tmp_path: Path, content: str) -> None:
    """It is named; ids can be made again, and are the same as before."""
    path = tmp_path / "workspaces.json"
    path.write_text(content, "utf-8")
    ids = WorkspaceIds(str(path))
    assert str(path) in ids.problem
    made = ids.remember("/a")
    assert ids.problem == ""
    assert WorkspaceIds(str(path)).directory(made) == "/a"


def test_a_file_of_a_newer_mcphub(tmp_path: Path) -> None:
    """It is left alone."""
    path = tmp_path / "workspaces.json"
    path.write_text('{"version":2,"workspaces":{}}', "utf-8")
    ids = WorkspaceIds(str(path))
    assert "of version 2" in ids.problem
    with pytest.raises(ConfigError, match="of version 2"):
        ids.remember("/a")
    assert path.read_text("utf-8") == '{"version":2,"workspaces":{}}'


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    """It cannot be an agent's workspace either."""
    with pytest.raises(ConfigError, match="not UTF-8"):
        WorkspaceIds(str(tmp_path / "workspaces.json")).remember("/\udcff")
