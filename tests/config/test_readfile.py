"""What may stand at the path of a configuration file."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from mcphub.config.readfile import MAX_BYTES, Reader, changed
from mcphub.errors import ConfigError


def aged(path: Path) -> None:
    """Old enough that its time stamp tells changes apart."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - 10**9))


def test_regular_files_are_read(tmp_path: Path) -> None:
    """Content comes whole, through a symbolic link too."""
    (tmp_path / "a").write_bytes(b"x" * MAX_BYTES)
    (tmp_path / "b").symlink_to("a")
    assert Reader().read(str(tmp_path / "b")) == b"x" * MAX_BYTES


def test_missing_files_are_empty(tmp_path: Path) -> None:
    """Nothing there, a path through a file, and a dangling link are all no file."""
    (tmp_path / "f").write_bytes(b"")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("no", "no/deeper", "f/below", "dangling"):
        assert Reader().read(str(tmp_path / name)) is None


@pytest.mark.timeout(10)
def test_other_things_are_refused_without_hanging(tmp_path: Path) -> None:
    """A directory, a FIFO without writer, a socket, a device, a loop of links and a huge file are each named."""
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(MAX_BYTES + 1)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        table = {
            str(tmp_path / "directory"): "it is a directory",
            str(tmp_path / "fifo"): "it is a FIFO",
            str(tmp_path / "socket"): "it is a socket",
            "/dev/zero": "it is a device",
            str(tmp_path / "loop"): "symbolic links",
            str(tmp_path / "huge"): "larger than 4 MiB",
            "/nul\0": "null",
        }
        for path, cause in table.items():
            with pytest.raises(ConfigError, match=cause) as caught:
                Reader().read(path)
            assert str(caught.value).startswith(f"cannot read {path}: ")


def test_no_permission_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that may not be opened is refused with the system's words."""

    def refuse(*args: object, **kwargs: object) -> int:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a").write_bytes(b"")
    # Root may open anything, so the refusal is put in place of the system's.
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ConfigError, match="Permission denied"):
        Reader().read(str(tmp_path / "a"))


def test_changes_are_seen(tmp_path: Path) -> None:
    """Appearing, changing in place, being replaced and disappearing each count; being read does not."""
    path = tmp_path / "a"

    def stamps() -> Reader:
        reader = Reader()
        reader.read(str(path))
        return reader

    absent = stamps()
    assert not changed(absent.stamps)
    path.write_bytes(b"1")
    assert changed(absent.stamps)

    aged(path)
    first = stamps()
    assert not changed(first.stamps)
    path.write_bytes(b"22")
    assert changed(first.stamps)

    aged(path)
    second = stamps()
    assert not changed(second.stamps)
    (tmp_path / "b").write_bytes(b"33")
    aged(tmp_path / "b")
    os.rename(tmp_path / "b", path)
    assert changed(second.stamps)

    third = stamps()
    assert not changed(third.stamps)
    path.unlink()
    assert changed(third.stamps)


def test_a_file_just_written_may_change_unseen(tmp_path: Path) -> None:
    """Within one tick of the clock two contents can look alike, so a fresh file counts as changed."""
    path = tmp_path / "a"
    path.write_bytes(b"1")
    reader = Reader()
    reader.read(str(path))
    assert changed(reader.stamps)


def test_presence_alone_counts_where_only_that_is_asked(tmp_path: Path) -> None:
    """A directory whose content changes is still there."""
    marker = tmp_path / ".git"
    reader = Reader()
    assert not reader.exists(str(marker))
    marker.mkdir()
    assert changed(reader.stamps)
    reader = Reader()
    assert reader.exists(str(marker))
    (marker / "index").write_bytes(b"")
    assert not changed(reader.stamps)
    (marker / "index").unlink()
    marker.rmdir()
    assert changed(reader.stamps)


def test_what_a_directory_holds(tmp_path: Path) -> None:
    """Its names, sorted; nothing where there is none; and something new in it is noticed."""
    for name in ("b", "a"):
        (tmp_path / name).write_bytes(b"")
    aged(tmp_path)
    reader = Reader()
    assert reader.names(str(tmp_path)) == ["a", "b"]
    assert reader.names(str(tmp_path / "a")) == reader.names(str(tmp_path / "no")) == reader.names("\0") == []
    (stamp,) = [one for one in reader.stamps if one.path == str(tmp_path)]
    assert not changed((stamp,))
    (tmp_path / "c").write_bytes(b"")
    assert changed((stamp,))


def test_a_path_that_is_read_in_another_way(tmp_path: Path) -> None:
    """Its stamp is taken all the same: of a file, of a directory, and of what is not there."""
    path = tmp_path / "d"
    reader = Reader()
    reader.note(str(path))
    assert not changed(reader.stamps)
    path.mkdir()
    assert changed(reader.stamps)
    aged(path)
    reader.note(str(path))
    assert not changed(reader.stamps)
    (path / "f").touch()
    assert changed(reader.stamps)
