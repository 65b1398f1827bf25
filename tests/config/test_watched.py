"""Which directories must be watched for which paths, with real directories and links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcphub.config.readfile import Reader, Stamp
from mcphub.config.watched import Watched, any_shared, watched


def of(*paths: Path, presence: bool = False) -> Watched:
    return watched(Stamp(str(path), presence=presence) for path in paths)


def text(*paths: Path) -> set[str]:
    return set(map(str, paths))


def test_a_file(tmp_path: Path) -> None:
    """Its directory is watched, with what tells it from another of that name; of what is in it the file alone
    matters, and so does the directory's own end."""
    found = of(tmp_path / "a")
    status = tmp_path.stat()
    assert found.directories == {str(tmp_path): (status.st_dev, status.st_ino)}
    assert found.concerns(str(tmp_path / "a"))
    assert found.concerns(str(tmp_path))
    assert not found.concerns(str(tmp_path / "a~"))
    assert not found.concerns(str(tmp_path / "a" / "b"))


@pytest.mark.parametrize("blocked", [False, True])
def test_what_is_not_there_yet(tmp_path: Path, blocked: bool) -> None:
    """The next step of the way is waited for in the last directory there is; a file in its place is replaced there."""
    if blocked:
        (tmp_path / "x").touch()
    found = of(tmp_path / "x" / "y" / "z")
    assert set(found.directories) == text(tmp_path)
    assert found.names == text(tmp_path / "x")
    assert not found.concerns(str(tmp_path / "y"))


def test_links(tmp_path: Path) -> None:
    """Each link on the way may be turned elsewhere, and what it leads to may change: both directories are watched."""
    (tmp_path / "home").mkdir()
    (tmp_path / "dotfiles" / "mcphub").mkdir(parents=True)
    (tmp_path / "dotfiles" / "mcphub" / "mcp.json").symlink_to("../../store/1.json")
    (tmp_path / "store").mkdir()
    (tmp_path / "home" / "mcphub").symlink_to(tmp_path / "dotfiles" / "mcphub")
    found = of(tmp_path / "home" / "mcphub" / "mcp.json")
    assert set(found.directories) == text(tmp_path / "home", tmp_path / "dotfiles" / "mcphub", tmp_path / "store")
    links = tmp_path / "home" / "mcphub", tmp_path / "dotfiles" / "mcphub" / "mcp.json"
    assert found.names == text(*links, tmp_path / "store" / "1.json")


def test_links_without_end(tmp_path: Path) -> None:
    """They end nowhere, and so does the way; what could mend them is watched."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert of(tmp_path / "a").names == text(tmp_path / "a", tmp_path / "b")


def test_a_directory(tmp_path: Path) -> None:
    """Of one that is looked into everything matters; of one whose presence is asked only that."""
    inside, marker = tmp_path / "plugins", tmp_path / ".git"
    inside.mkdir()
    marker.mkdir()
    assert of(inside).concerns(str(inside / "new"))
    found = of(marker, presence=True)
    assert set(found.directories) == text(tmp_path)
    assert found.concerns(str(marker))
    assert not found.concerns(str(marker / "index"))


def test_paths_of_a_reader(tmp_path: Path) -> None:
    """What a reader was asked about is what is watched."""
    (tmp_path / "d").mkdir()
    reader = Reader()
    reader.read(str(tmp_path / "a"))
    reader.names(str(tmp_path / "d"))
    reader.exists(str(tmp_path / "e"))
    found = watched(reader.stamps)
    assert set(found.directories) == text(tmp_path, tmp_path / "d")
    assert found.names == text(tmp_path / "a", tmp_path / "d", tmp_path / "e")


def test_paths_that_are_none() -> None:
    """A relative path, or one that no file can have, is not followed anywhere."""
    assert watched([Stamp("relative"), Stamp("/a\0b")]) == Watched()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("36 35 98:0 / /home rw,noatime shared:1 - nfs4 server:/home rw", True),
        ("36 35 98:0 / /home rw - fuse.sshfs server:/ rw", True),
        ("36 35 98:0 / /home rw master:1 - ext4 /dev/root rw", False),
        ("36 35 98:1 / /home rw - nfs4 server:/home rw", False),
        ("", False),
        ("- nfs4", False),
        ("36 - nfs4", False),
    ],
)
def test_file_systems_of_others(tmp_path: Path, line: str, expected: bool) -> None:
    """The table of mounts says which devices another machine may write to; a line that is none says nothing."""
    (tmp_path / "mountinfo").write_text(line + "\n")
    assert any_shared([os.makedev(98, 0)], str(tmp_path / "mountinfo")) is expected
    assert any_shared([os.makedev(98, 0)], str(tmp_path / "none")) is False
