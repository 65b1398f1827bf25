"""What readers and other writers see while a file changes."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mcphub.errors import ConfigError
from mcphub.store import atomicfile

ADD = """
import json, sys
from mcphub.store import atomicfile

def add(old):
    value = json.loads(old)
    value[sys.argv[2]] = "x" * 2000
    if sys.argv[3:]:
        print("inside", flush=True)
        sys.stdin.read()
    return json.dumps(value).encode()

sys.stdin.readline()
atomicfile.update(sys.argv[1], add)
"""


def writer(path: Path, name: str, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", ADD, str(path), name, *more]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.timeout(60)
def test_racing_writers(tmp_path: Path) -> None:
    """C012: of twenty processes that add at once, one killed in the middle, nineteen arrive; the file is whole at every
    instant, keeps its mode, and nothing is left beside it but the lock."""
    path = tmp_path / "mcp.json"
    path.write_text("{}")
    path.chmod(0o640)
    victim = writer(path, "victim", "stop")
    others = [writer(path, f"s{number}") for number in range(19)]
    try:
        assert victim.stdin is not None and victim.stdout is not None
        victim.stdin.write(b"\n")
        victim.stdin.flush()
        assert victim.stdout.readline() == b"inside\n"
        for other in others:
            assert other.stdin is not None
            other.stdin.write(b"\n")
            other.stdin.flush()
        victim.kill()
        assert victim.wait(10) == -signal.SIGKILL
        while any(other.poll() is None for other in others):
            json.loads(path.read_bytes())
        assert [other.returncode for other in others] == [0] * 19
    finally:
        for process in (victim, *others):
            process.kill()
            process.communicate()
    assert json.loads(path.read_bytes()).keys() == {f"s{number}" for number in range(19)}
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == [".mcp.json.lock", "mcp.json"]


KEEP_ADDING = """
import json, sys
from mcphub.store import atomicfile

while True:
    atomicfile.update(sys.argv[1], lambda old: json.dumps([*json.loads(old), "x" * 50_000][-5:]).encode())
    print(flush=True)
"""


@pytest.mark.timeout(60)
def test_writers_killed_in_a_loop(tmp_path: Path) -> None:
    """C012: whenever a writer is killed, the file is whole, and the next writer is not held up by what it left."""
    path = tmp_path / "mcp.json"
    path.write_text("[]")
    path.chmod(0o640)
    for turn in range(12):
        command = [sys.executable, "-c", KEEP_ADDING, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            try:
                for _ in range(1 + turn):
                    assert process.stdout.readline() == b"\n"
            finally:
                process.kill()
        value = json.loads(path.read_bytes())
        assert value == ["x" * 50_000] * len(value)
        assert path.stat().st_mode & 0o777 == 0o640
    atomicfile.update(str(path), lambda old: (old or b"") + b"\n")
    assert sorted(os.listdir(tmp_path)) == [".mcp.json.lock", "mcp.json"]


def test_a_link_out_of_place_is_refused(tmp_path: Path) -> None:
    """A link that a repository brings cannot choose what is written; one that stays inside is followed."""
    project = tmp_path / "project"
    (project / "sub").mkdir(parents=True)
    (tmp_path / "precious").write_bytes(b"keep")
    (project / "inside").symlink_to("sub/file")
    for name, target in (("file", "../precious"), ("new", "../not-there"), ("abs", tmp_path / "precious")):
        (project / name).symlink_to(target)
        with pytest.raises(ConfigError, match="a link that leads out of"):
            atomicfile.update(str(project / name), lambda old: b"x", within=str(project))
    (project / "folder").symlink_to("..")
    with pytest.raises(ConfigError, match="a link that leads out of"):
        atomicfile.update(str(project / "folder" / "precious"), lambda old: b"x", within=str(project))
    assert (tmp_path / "precious").read_bytes() == b"keep"
    assert not (tmp_path / "not-there").exists()
    atomicfile.update(str(project / "inside"), lambda old: b"x", within=str(project))
    assert (project / "sub" / "file").read_bytes() == b"x"


def test_the_owner_stays(tmp_path: Path) -> None:
    """Root that changes a file of somebody does not take it away from them."""
    path = tmp_path / "file"
    path.write_bytes(b"1")
    owner = (65534, 65534) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(path, *owner)
    atomicfile.replace(str(path), b"2")
    assert (path.stat().st_uid, path.stat().st_gid) == owner


def test_the_lock_may_be_elsewhere(tmp_path: Path) -> None:
    """Nothing but the file itself is left in a directory that others see."""
    (tmp_path / "project").mkdir()
    lock = tmp_path / "state" / "locks" / "one"
    atomicfile.update(str(tmp_path / "project" / "file"), lambda old: b"x", mode=0o644, lock=str(lock))
    assert os.listdir(tmp_path / "project") == ["file"]
    assert (tmp_path / "project" / "file").stat().st_mode & 0o777 == 0o644
    assert lock.exists()


def test_a_private_file_is_closed(tmp_path: Path) -> None:
    """What holds secrets is for its owner alone after a change, even where it says what it said."""
    path = tmp_path / "environment"
    path.write_bytes(b"A=1")
    for new in (b"A=2", b"A=2"):
        path.chmod(0o644)
        atomicfile.update(str(path), lambda old, new=new: new, private=True)  # type: ignore[misc]
        assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == b"A=2"


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    """A FIFO in the place of the file is named at once, and stays."""
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ConfigError, match="not a regular file"):
        atomicfile.replace(str(tmp_path / "fifo"), b"x")
    assert (tmp_path / "fifo").is_fifo()


def test_a_new_file_is_private(tmp_path: Path) -> None:
    """C012: a file that did not exist gets mode 0600, in directories of mode 0700 that are made for it."""
    path = tmp_path / "a" / "b" / "file"
    atomicfile.replace(str(path), b"1")
    assert path.read_bytes() == b"1"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.parent.parent.stat().st_mode & 0o777 == 0o700


def test_a_failure_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C012: neither a change that raises nor a disk that fails loses the old content or leaves a temporary file."""
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def failing(old: bytes | None) -> bytes:
        assert old == b"old"
        raise KeyError("no")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(KeyError):
        atomicfile.update(str(path), failing)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match=f"cannot write {path}: No space left on device"):
        atomicfile.replace(str(path), b"new")
    assert path.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == [".file.lock", "file"]


def test_what_a_killed_writer_left_is_replaced(tmp_path: Path) -> None:
    """C012: a half-written temporary file, even one that is a link, is in nobody's way."""
    (tmp_path / "precious").write_bytes(b"keep")
    (tmp_path / ".file.new").symlink_to("precious")
    atomicfile.replace(str(tmp_path / "file"), b"1")
    assert (tmp_path / "file").read_bytes() == b"1"
    assert (tmp_path / "precious").read_bytes() == b"keep"
    assert not (tmp_path / ".file.new").is_symlink()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """A configuration that is linked from elsewhere is changed where it really is."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real/file")
    atomicfile.replace(str(tmp_path / "link"), b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "file").read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path / "real")) == [".file.lock", "file"]


def test_no_change_writes_nothing(tmp_path: Path) -> None:
    """The same content keeps the same file, so nobody who watches it wakes up."""
    path = tmp_path / "file"
    path.write_bytes(b"same")
    before = path.stat()
    assert atomicfile.update(str(path), lambda old: old or b"") == b"same"
    assert path.stat().st_ino == before.st_ino


def test_a_lock_that_stays_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that never lets go costs a message, not a hang."""
    monkeypatch.setattr(atomicfile, "LOCK_SECONDS", 0.05)
    with open(tmp_path / ".file.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="another program has kept it locked for 0.05 s"):
            atomicfile.replace(str(tmp_path / "file"), b"1")
    atomicfile.replace(str(tmp_path / "file"), b"1")


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A directory in the place of the file, or a file in the place of its directory, is an error with the path."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "directory", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match=f"cannot write {path}: "):
            atomicfile.replace(str(path), b"1")


def test_a_trial_changes_nothing(tmp_path: Path) -> None:
    """What could be written passes, with no trace but the lock; what could not is refused as it would be later."""
    path = tmp_path / "new" / "mcp.json"
    assert atomicfile.check(str(path)) is None
    assert os.listdir(path.parent) == [".mcp.json.lock"]
    path.write_bytes(b"x")
    before = path.stat()
    assert atomicfile.check(str(path)) == b"x"
    assert (path.stat(), sorted(os.listdir(path.parent))) == (before, [".mcp.json.lock", "mcp.json"])
    with pytest.raises(ConfigError, match="link that leads out"):
        atomicfile.check(str(path), within=str(tmp_path / "other"))
    folder = tmp_path / "folder"
    folder.mkdir()
    for wrong in (path / "below", folder, Path("/proc/mcphub/x")):
        with pytest.raises(ConfigError, match=f"cannot write {wrong}: "):
            atomicfile.check(str(wrong))
    assert sorted(os.listdir(tmp_path)) == [".folder.lock", "folder", "new"]
