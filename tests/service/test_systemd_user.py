"""Asking systemd's manager of one person."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcphub.errors import ConfigError
from mcphub.service import systemd_user
from tests.fakes.stand_in import StandIn

ANSWERS = ("--property=Version", 0, "Version=252\n")


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return StandIn(tmp_path, "systemctl")


def test_whether_one_answers(systemctl: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Yes, or why not in the words of systemctl; a system without it is named as such."""
    systemctl.answers(ANSWERS)
    assert systemd_user.absent() == ""
    systemctl.answers(("show", 1, "hint\nFailed to connect to bus: No such file or directory\n"))
    assert systemd_user.absent() == "Failed to connect to bus: No such file or directory"
    systemctl.answers(("show", 1, ""))
    assert "status 1" in systemd_user.absent()
    monkeypatch.setenv("PATH", "/nonexistent")
    assert systemd_user.absent() == systemd_user.NO_SYSTEMCTL


def test_what_it_knows_of_a_unit(systemctl: StandIn) -> None:
    """Properties as they are, an `=` in them too; nothing where none answers."""
    systemctl.answers(("show", 0, "ActiveState=active\nStatusText=a=b\n\nbroken\n"))
    assert systemd_user.show("mcphub.service") == {"ActiveState": "active", "StatusText": "a=b"}
    [[name, *words]] = systemctl.calls()
    assert (name, words[:2], words[-1]) == ("systemctl", ["--user", "--no-ask-password"], "mcphub.service")
    systemctl.answers(("show", 1, "ActiveState=active\n"))
    assert systemd_user.show("mcphub.service") == {}


def test_a_request(systemctl: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says when it refuses is kept, on one line; one that does not end is not waited for."""
    systemd_user.ask("start", "mcphub.socket")
    assert systemctl.calls()[0][-2:] == ["start", "mcphub.socket"]
    systemctl.answers(("start", 5, "Unit mcphub.socket\n  is masked.\n"))
    with pytest.raises(ConfigError, match=r"systemctl --user start mcphub.socket: Unit mcphub.socket is masked\."):
        systemd_user.ask("start", "mcphub.socket")
    (systemctl.directory / "systemctl").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(systemd_user, "PATIENCE", 0.1)
    with pytest.raises(ConfigError, match=r"no answer within 0\.1 s"):
        systemd_user.ask("start", "mcphub.socket")


@pytest.mark.parametrize(("said", "lingers"), [("Linger=yes\n", True), ("Linger=no\n", False), ("", None)])
def test_whether_services_outlive_the_login(systemctl: StandIn, said: str, lingers: bool | None) -> None:
    """As loginctl says; it may not know."""
    StandIn(systemctl.directory, "loginctl").answers(("Linger", 0, said))
    assert systemd_user.lingers() is lingers


def test_nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container: no answer is no fault."""
    monkeypatch.setenv("PATH", "/nonexistent")
    assert systemd_user.lingers() is None
    assert systemd_user.show("mcphub.service") == {}
    with pytest.raises(ConfigError, match="cannot run systemctl"):
        systemd_user.ask("daemon-reload")


def test_where_the_manager_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts start their children without XDG_RUNTIME_DIR: the usual place is taken, where it is there."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/r")
    assert systemd_user.environment()["XDG_RUNTIME_DIR"] == "/r"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    own = f"/run/user/{os.getuid()}"
    assert systemd_user.environment().get("XDG_RUNTIME_DIR") == (own if os.path.isdir(own) else None)
