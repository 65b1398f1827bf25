"""The files of the service on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mcphub.errors import ConfigError
from mcphub.service import installation
from mcphub.service.installation import File, look, remove, write

NAMES = ["mcphub.service", "mcphub.socket"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


def files(**env: str) -> list[File]:
    return look(env, "/log")


def states(**env: str) -> dict[str, str]:
    return {os.path.basename(file.path): file.state for file in files(**env)}


def installed(home: Path) -> list[str]:
    return write(files(), str(home / "lock"))


def test_from_nothing_and_back(home: Path) -> None:
    """They run this very program, everybody may read them, only what differs is written, and nothing else is left."""
    folder = home / ".config/systemd/user"
    assert states() == dict.fromkeys(NAMES, "missing")
    assert installed(home) == [str(folder / name) for name in NAMES]
    assert f"ExecStart={sys.executable} -P -m mcphub serve\n" in (folder / NAMES[0]).read_text()
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == dict.fromkeys(NAMES, 0o644)
    assert states() == dict.fromkeys(NAMES, "current")
    assert installed(home) == []
    assert remove(files()) == [str(folder / name) for name in NAMES]
    assert list(folder.iterdir()) == []
    assert remove(files()) == []


def test_places_of_its_own_go_along(home: Path) -> None:
    """A service manager knows nothing of what a profile sets; a relative path does not count (XDG base directories)."""
    wanted = files(XDG_STATE_HOME="/s", XDG_CONFIG_HOME="c", XDG_RUNTIME_DIR="/r", SECRET="s")
    assert [line for line in wanted[0].text.splitlines() if line.startswith("Environment")] == [
        'Environment="XDG_STATE_HOME=/s"'
    ]


def test_another_version(home: Path) -> None:
    """What mcphub wrote is replaced: for another program, or with other variables."""
    installed(home)
    assert states(XDG_DATA_HOME="/d") == {"mcphub.service": "outdated", "mcphub.socket": "current"}
    assert [os.path.basename(path) for path in write(files(XDG_DATA_HOME="/d"), str(home / "lock"))] == NAMES[:1]


def test_what_a_person_changed(home: Path) -> None:
    """It is neither overwritten nor removed, nor is anything else; the difference is there to be shown."""
    installed(home)
    path = home / ".config/systemd/user/mcphub.service"
    mine = path.read_text() + "# mine\n"
    path.write_text(mine)
    (path.parent / "mcphub.socket").unlink()
    assert "-# mine" in installation.difference(files())
    with pytest.raises(ConfigError, match=r"mcphub\.service was changed since mcphub wrote it.*--force"):
        installed(home)
    with pytest.raises(ConfigError, match="--force"):
        remove(files())
    assert path.read_text() == mine
    assert states() == {"mcphub.service": "changed", "mcphub.socket": "missing"}
    assert len(write(files(), str(home / "lock"), force=True)) == 2
    assert states() == dict.fromkeys(NAMES, "current")
    path.write_bytes(b"\xff")
    assert len(remove(files(), force=True)) == 2


def test_what_cannot_be_read(home: Path) -> None:
    """It is said with the path."""
    (home / ".config/systemd/user/mcphub.socket").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"cannot read .*mcphub\.socket"):
        files()


def test_a_program_for_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvx and pipx run: the service would lose it some day."""
    assert installation.short_lived() == ""
    monkeypatch.setattr(sys, "executable", "/h/.cache/uv/archive-v0/x/bin/python")
    assert "uv tool install" in installation.short_lived()
