"""What all files of mcphub's own state do alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mcphub.errors import ConfigError
from mcphub.store.state_file import Damaged, NewerVersion, StateFile


class Notes(msgspec.Struct, frozen=True):
    notes: tuple[str, ...] = ()


def text_to_list(old: dict[str, Any]) -> dict[str, Any]:
    return {"texts": [old["text"]]}


def texts_to_notes(old: dict[str, Any]) -> dict[str, Any]:
    return {"notes": old["texts"]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "notes.json"


@pytest.fixture
def file(path: Path) -> StateFile[Notes]:
    migrations = {1: text_to_list, 2: texts_to_notes}
    return StateFile(str(path), Notes, version=3, migrations=migrations, lost="nothing is noted")


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


def add(text: str) -> Any:
    return lambda old: Notes((*old.notes, text))


def test_no_file_is_the_empty_value(file: StateFile[Notes], path: Path) -> None:
    """Looking makes no file; the first change makes a private one with a version."""
    assert file.load() == (Notes(), ())
    assert not path.exists()
    assert file.change(add("a")) == Notes(("a",))
    assert json.loads(path.read_bytes()) == {"version": 3, "notes": ["a"]}
    assert path.stat().st_mode & 0o777 == 0o600
    assert file.load() == (Notes(("a",)), ())


def test_an_older_version_is_migrated(file: StateFile[Notes], path: Path) -> None:
    """It is read step by step, stays as it is until something changes, and is then written in the new form."""
    for old in (b'{"version": 1, "text": "a"}', b'{"version": 2, "texts": ["a"]}'):
        write(path, old)
        assert file.load() == (Notes(("a",)), ())
        assert path.read_bytes() == old
        assert file.change(lambda value: value) == Notes(("a",))
        assert json.loads(path.read_bytes()) == {"version": 3, "notes": ["a"]}


def test_a_newer_version_is_left_alone(file: StateFile[Notes], path: Path) -> None:
    """It counts as empty, is named with both versions, and no change touches it."""
    content = b'{"version": 4, "notes": {"more": true}}'
    write(path, content)
    value, problems = file.load()
    assert value == Notes()
    assert problems == (
        f"cannot use {path}: it has version 4 and this mcphub knows up to 3; use the newer mcphub that wrote it, or "
        "move the file away; nothing is noted",
    )
    with pytest.raises(NewerVersion):
        file.change(add("b"))
    assert path.read_bytes() == content
    assert sorted(os.listdir(path.parent)) == [".notes.json.lock", "notes.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff",
        b'{"version": 3, "notes": ["\xff"]}',
        b'{"version": "3"}',
        b'{"version": true}',
        b'{"version": 0}',
        b'{"version": -1}',
        b'{"version": 1}',
        b'{"version": 2, "texts": 7}',
        b'{"version": 3, "notes": 7}',
        b'{"version": 3, "notes": ' + b"[" * 100_000,
    ],
)
def test_a_damaged_file_is_set_aside(file: StateFile[Notes], path: Path, content: bytes) -> None:
    """It counts as empty and is named; the next change keeps its bytes beside the new file."""
    write(path, content)
    value, problems = file.load()
    assert value == Notes()
    assert len(problems) == 1
    assert problems[0].startswith(f"cannot use {path}: it is damaged")
    assert problems[0].endswith("; nothing is noted")
    with pytest.raises(Damaged):
        file.decode(content)
    assert file.understand(content) == (value, problems)
    assert path.read_bytes() == content
    file.change(add("a"))
    assert file.load() == (Notes(("a",)), ())
    assert (path.parent / "notes.json.damaged").read_bytes() == content


def test_what_cannot_be_read(file: StateFile[Notes], path: Path) -> None:
    """A directory or a FIFO in its place is a problem and no hang."""
    os.makedirs(path)
    assert file.load()[1][0].startswith(f"cannot read {path}: ")
    os.rmdir(path)
    os.mkfifo(path)
    assert file.load() == (Notes(), (f"cannot read {path}: it is not a regular file; nothing is noted",))
    with pytest.raises(ConfigError, match="not a regular file"):
        file.change(add("a"))


def test_a_change_that_fails_changes_nothing(file: StateFile[Notes], path: Path) -> None:
    """What the caller raises comes out, and the file is as it was; no change writes nothing."""

    def failing(old: Notes) -> Notes:
        raise KeyError(old.notes[0])

    file.change(add("a"))
    before = path.stat()
    with pytest.raises(KeyError, match="a"):
        file.change(failing)
    file.change(lambda old: old)
    assert path.stat() == before


WRITER = """
import sys
sys.path.insert(0, sys.argv[3])
from tests.store.test_state_file import Notes, StateFile, add
file = StateFile(sys.argv[1], Notes, version=3, lost="")
for number in range(5):
    file.change(add(f"{sys.argv[2]}-{number}"))
"""


def test_two_programs_lose_nothing(file: StateFile[Notes], path: Path) -> None:
    """C012: what several processes write at once is all there."""
    root = str(Path(__file__).parents[2])
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name, root]) for name in "abc"]
    assert [writer.wait(30) for writer in writers] == [0, 0, 0]
    assert sorted(file.load()[0].notes) == [f"{name}-{number}" for name in "abc" for number in range(5)]


def test_a_trial_of_a_change(file: StateFile[Notes], path: Path) -> None:
    """It fails just where a change would."""
    file.check()
    write(path, b"damaged")
    file.check()
    lasting = StateFile(str(path), Notes, lost="nothing", mend=False)
    for one, content in ((lasting, b"damaged"), (file, b'{"version": 99}')):
        write(path, content)
        with pytest.raises(ConfigError):
            one.check()
        with pytest.raises(ConfigError):
            one.change(lambda old: old)
    assert path.read_bytes() == b'{"version": 99}'
