"""Files that only the administrator can have written: who owns what, links, and what is no file."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from mcphub.config.readfile import MAX_BYTES, Reader, changed
from mcphub.config.trusted_file import Trust, read_trusted, trusted_names
from mcphub.errors import ConfigError


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A directory below a root of trust that belongs to whoever runs the tests."""
    directory = tmp_path / "etc" / "mcphub"
    directory.mkdir(parents=True)
    for one in (tmp_path, tmp_path / "etc", directory):
        one.chmod(0o755)
    return directory


def trust(system: Path) -> Trust:
    return Trust(os.geteuid(), str(system.parents[1]))


def written(path: Path, text: str = "{}", mode: int = 0o644) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_good_file(system: Path) -> None:
    """Its bytes; and nothing where there is no file, no directory, or something in the place of a directory."""
    path = written(system / "a.json", "{1}")
    assert read_trusted(str(path), trust(system), Reader()) == b"{1}"
    for missing in (system / "b.json", system / "no" / "b.json", path / "b.json"):
        assert read_trusted(str(missing), trust(system), Reader()) is None
    assert trusted_names(str(system), trust(system), Reader()) == ("a.json",)
    assert trusted_names(str(system / "no"), trust(system), Reader()) is None


def mode(which: Callable[[Path], Path], bits: int) -> Callable[[Path], None]:
    return lambda path: which(path).chmod(bits)


def linked(path: Path) -> None:
    path.rename(path.parents[2] / "theirs.json")
    path.symlink_to(path.parents[2] / "theirs.json")


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent / "nothing")


def linked_directory(path: Path) -> None:
    path.parent.rename(path.parents[2] / "theirs")
    path.parent.symlink_to(path.parents[2] / "theirs")


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def large(path: Path) -> None:
    os.truncate(path, MAX_BYTES + 1)


TABLE = {
    "file others can write": (
        mode(lambda path: path, 0o666), r"others can write to it \(mode 0666\); run: chmod go-w PATH"
    ),
    "file its group can write": (mode(lambda path: path, 0o664), r"others can write to it \(mode 0664\)"),
    "directory others can write": (
        mode(lambda path: path.parent, 0o777), r"others can write to DIR \(mode 0777\); run: chmod go-w DIR"
    ),
    "sticky directory": (
        mode(lambda path: path.parent, 0o1777),
        r"others can write to DIR \(mode 1777\); move the file to where only root can write",
    ),
    "directory above": (mode(lambda path: path.parents[1], 0o775), r"others can write to \S+/etc \(mode 0775\)"),
    "link": (linked, r"it is a symbolic link, not a regular file"),
    "dangling link": (dangling, r"it is a symbolic link, not a regular file"),
    "linked directory": (linked_directory, r"DIR is a symbolic link, not a real directory"),
    "FIFO": (fifo, r"it is a FIFO, not a regular file"),
    "directory": (directory, r"it is a directory, not a regular file"),
    "too large": (large, r"larger than 4 MiB"),
}


@pytest.mark.parametrize("damage, cause", TABLE.values(), ids=TABLE)
@pytest.mark.timeout(10)
def test_what_is_not_trusted(system: Path, damage: Callable[[Path], None], cause: str) -> None:
    """C131: the message names the place that is wrong and, where a mode is, what to run; nothing blocks."""
    path = written(system / "a.json")
    damage(path)
    with pytest.raises(ConfigError) as caught:
        read_trusted(str(path), trust(system), Reader())
    expected = cause.replace("PATH", re.escape(str(path))).replace("DIR", re.escape(str(system)))
    assert re.search(f"^cannot trust {re.escape(str(path))}: {expected}", str(caught.value))


def test_the_owner_is_who_counts(system: Path) -> None:
    """C131: a file of another owner, a hard link to one included, is refused, whatever its mode; and its directory."""
    path = written(system / "a.json", mode=0o600)
    other = Trust(os.geteuid() + 1, str(system))
    with pytest.raises(ConfigError, match=f"{system} belongs to uid {os.geteuid()}, not to uid {other.owner}"):
        read_trusted(str(path), other, Reader())
    with pytest.raises(ConfigError, match=f"run: chown {other.owner} {system}"):
        trusted_names(str(system), other, Reader())


def test_the_names_of_a_directory_that_others_can_write_are_not_trusted(system: Path) -> None:
    """C131: what others can write may also lack what stood there."""
    system.chmod(0o777)
    with pytest.raises(ConfigError, match="others can write to it"):
        trusted_names(str(system), trust(system), Reader())
    assert read_trusted(str(system / "no" / "b.json"), trust(system), Reader()) is None


def test_what_cannot_be_looked_at_is_not_absent(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C131: a directory that this user may not enter may hold rules, so it is not as if there was none."""

    def refused(path: str) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, "lstat", refused)
    for ask in (read_trusted, trusted_names):
        said = "cannot look for .*: Permission denied; the daemons of all users must be able to read it"
        with pytest.raises(ConfigError, match=said):
            ask(str(system), trust(system), Reader())


def test_a_place_outside_the_root_of_trust(system: Path) -> None:
    """Nothing outside of it is ever trusted."""
    path = written(system.parents[1] / "a.json")
    with pytest.raises(ConfigError, match=f"it does not lie below {system}"):
        read_trusted(str(path), Trust(os.geteuid(), str(system)), Reader())


def test_what_was_looked_at_is_noted(system: Path) -> None:
    """A change of the file, its mode, or of what stands in the directory makes the stamps stale."""
    path = written(system / "a.json")
    for one in (path, system):
        os.utime(one, ns=(1, 1))
    steps: list[Callable[[], object]] = [
        lambda: path.write_text("{ }"),
        lambda: path.chmod(0o600),
        lambda: (system / "b.json").touch(),
        lambda: system.chmod(0o711),
        path.unlink,
    ]
    for step in steps:
        reader = Reader()
        trusted_names(str(system), trust(system), reader)
        read_trusted(str(path), trust(system), reader)
        assert not changed(reader.stamps)
        step()
        assert changed(reader.stamps)
        for one in (path, system):
            if one.exists():
                os.utime(one, ns=(1, 1))
