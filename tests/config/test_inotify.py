"""What the kernel tells of directories, on Linux; asked about files that are really written, moved and removed."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcphub.config.inotify import Inotify


@pytest.fixture
def kernel() -> Iterator[Inotify]:
    with Inotify() as kernel:
        yield kernel


def told(kernel: Inotify) -> set[str]:
    found = kernel.read()
    assert found is not None
    return {os.path.basename(path) for path in found}


def test_what_is_told(kernel: Inotify, tmp_path: Path) -> None:
    """Writing, replacing, changing of mode, links that lead nowhere, removing; reading is not."""
    path = tmp_path / "a"
    assert kernel.follow([str(tmp_path)])
    path.write_bytes(b"1")
    assert told(kernel) == {"a"}
    with path.open("ab") as file:
        file.write(b"2")
        file.flush()
        assert told(kernel) == set()
    assert told(kernel) == {"a"}
    path.read_bytes()
    os.listdir(tmp_path)
    assert told(kernel) == set()
    path.chmod(0o600)
    assert told(kernel) == {"a"}
    (tmp_path / "l").symlink_to("nowhere")
    assert told(kernel) == {"l"}
    path.rename(tmp_path / "b")
    assert told(kernel) == {"a", "b"}
    (tmp_path / "b").unlink()
    assert told(kernel) == {"b"}


@pytest.mark.parametrize("how", ["removed", "moved"])
def test_a_directory_that_ends(kernel: Inotify, tmp_path: Path, how: str) -> None:
    """It is told by its own name; another one in its place is watched once that is asked for."""
    folder = tmp_path / "d"
    folder.mkdir()
    kernel.follow([str(folder)])
    folder.rmdir() if how == "removed" else folder.rename(tmp_path / "e")
    assert told(kernel) == {"d"}
    folder.mkdir()
    assert kernel.follow([str(folder)])
    (folder / "a").touch()
    assert "a" in told(kernel)


def test_following_others(kernel: Inotify, tmp_path: Path) -> None:
    """What is followed no more is told no more; what still is loses nothing by that; what is no directory is left
    out."""
    for name in "ab":
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    assert kernel.follow([str(tmp_path / "a"), str(tmp_path / "b")])
    (tmp_path / "b" / "before").touch()
    assert kernel.follow([str(tmp_path / "b"), str(tmp_path / "file"), str(tmp_path / "none")])
    (tmp_path / "a" / "x").touch()
    (tmp_path / "b" / "y").touch()
    assert told(kernel) == {"before", "y"}


def test_names_that_are_no_text(kernel: Inotify, tmp_path: Path) -> None:
    """They are told as the rest of the system has them."""
    kernel.follow([str(tmp_path)])
    name = os.fsdecode(b"\xff\n")
    (tmp_path / name).touch()
    assert told(kernel) == {name}


def test_more_than_the_kernel_keeps(kernel: Inotify, tmp_path: Path) -> None:
    """Nobody knows what it was, and that is told."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    kernel.follow([str(tmp_path)])
    path = str(tmp_path / "a")
    for _ in range(limit // 2 + 1):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
        os.unlink(path)
    assert kernel.read() is None


class Refusing:
    """A C library whose kernel refuses."""

    def __init__(self, number: int) -> None:
        self.number = number

    def inotify_add_watch(self, *arguments: object) -> int:
        ctypes.set_errno(self.number)
        return -1


def test_the_limits_of_the_system(kernel: Inotify, tmp_path: Path) -> None:
    """Too many watches are an error that names the setting; a directory that may not be watched is only left out."""
    kernel._libc = Refusing(errno.ENOSPC)  # type: ignore[assignment]
    with pytest.raises(OSError, match="max_user_watches"):
        kernel.follow([str(tmp_path)])
    kernel._libc = Refusing(errno.EACCES)  # type: ignore[assignment]
    assert not kernel.follow([str(tmp_path)])


def test_too_many_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the setting."""

    class Full:
        def inotify_init1(self, flags: int) -> int:
            ctypes.set_errno(errno.EMFILE)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Full())
    with pytest.raises(OSError, match="max_user_instances"):
        Inotify()
