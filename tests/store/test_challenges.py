"""Which servers wanted a sign-in, over restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcphub.errors import ConfigError
from mcphub.store import challenges
from mcphub.store.challenges import Challenged, ChallengeStore


def test_what_was_said_is_there_after_a_restart(tmp_path: Path) -> None:
    """C118: each by its key; what is forgotten is gone."""
    path = str(tmp_path / "state" / "challenges.json")
    store = ChallengeStore(path)
    assert store.load() == ({}, ())
    store.keep("one", Challenged(1.0, ("read",)))
    ChallengeStore(path).keep("two", Challenged(2.0))
    assert ChallengeStore(path).load()[0] == {"one": Challenged(1.0, ("read",)), "two": Challenged(2.0)}
    store.forget("one")
    store.forget("nobody")
    assert store.load()[0] == {"two": Challenged(2.0)}
    assert Path(path).stat().st_mode & 0o077 == 0


def test_the_oldest_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has an end."""
    monkeypatch.setattr(challenges, "MOST", 2)
    store = ChallengeStore(str(tmp_path / "c.json"))
    for number in (3, 1, 2):
        store.keep(str(number), Challenged(float(number)))
    assert set(store.load()[0]) == {"2", "3"}


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """It is told, and costs one request for each server, no more."""
    path = tmp_path / "c.json"
    path.write_text("{nonsense", "utf-8")
    path.chmod(0o600)
    found, problems = ChallengeStore(str(path)).load()
    assert found == {} and len(problems) == 1 and "asked again" in problems[0]


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    """It is said."""
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(ConfigError):
        ChallengeStore(str(tmp_path / "file" / "c.json")).keep("k", Challenged(1.0))
