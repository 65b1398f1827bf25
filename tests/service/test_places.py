"""Where the files of the service are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mcphub.service import places


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(places, "SYSTEM_UNITS", (str(tmp_path / "etc"), str(tmp_path / "usr")))
    return tmp_path


@pytest.mark.parametrize(
    ("platform", "config", "found"),
    [
        ("linux", "", ".config/systemd/user"),
        ("linux", "relative", ".config/systemd/user"),
        ("linux", "/c", "/c/systemd/user"),
        ("darwin", "/c", "Library/LaunchAgents"),
    ],
)
def test_where_a_persons_services_are(
    platform: str, config: str, found: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd.unit(5) follows XDG_CONFIG_HOME where it is absolute; launchd knows one place."""
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("XDG_CONFIG_HOME", config)
    assert places.directory() == str(home / found)


@pytest.mark.parametrize(
    ("platform", "name"),
    [("linux", "mcphub.socket"), ("linux", "mcphub.service"), ("darwin", "dev.mcphub.daemon.plist")],
)
def test_every_file_ships(platform: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are inside of the package, so that an installed one has them."""
    monkeypatch.setattr(sys, "platform", platform)
    assert name in places.names()
    assert "mcphub" in places.shipped(name)


def test_whether_it_is_installed(home: Path) -> None:
    """By the person, by the administrator or by a package: in this order."""
    assert places.installed() == ""
    for folder in ("usr", "etc", ".config/systemd/user"):
        (home / folder).mkdir(parents=True)
        (home / folder / "mcphub.service").touch()
        before = places.installed()
        (home / folder / "mcphub.socket").touch()
        assert places.installed() == str(home / folder / "mcphub.socket") != before
