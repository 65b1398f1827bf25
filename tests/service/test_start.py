"""Having the service manager start the daemon."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mcphub.service import places
from mcphub.service.start import start
from tests.fakes.stand_in import StandIn

ANSWERS = ("--property=Version", 0, "Version=252\n")


@pytest.fixture
def bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(places, "SYSTEM_UNITS", ())
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def install(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    folder = Path(places.directory())
    folder.mkdir(parents=True)
    (folder / places.names()[-1]).touch()


def test_where_it_is_not_installed(bin: Path) -> None:
    """Nobody is asked at all: most people have no service, and wait for their agent."""
    systemctl = StandIn(bin, "systemctl")
    assert start() is None
    assert systemctl.calls() == []


def test_by_systemd(bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sockets suffice: whoever connects starts the daemon. Where no manager answers, nobody is asked to start."""
    install("linux", monkeypatch)
    systemctl = StandIn(bin, "systemctl")
    systemctl.answers(ANSWERS)
    assert start() == ""
    assert systemctl.calls()[-1][-2:] == ["start", "mcphub.socket"]
    systemctl.answers(ANSWERS, ("start", 1, "it is masked"))
    assert "it is masked" in (start() or "")
    systemctl.answers(("show", 1, "no bus"))
    assert start() is None


def test_by_launchd(bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaded where it is not, and started."""
    install("darwin", monkeypatch)
    launchctl = StandIn(bin, "launchctl")
    assert start() == ""
    assert launchctl.calls()[-1][1] == "kickstart"
