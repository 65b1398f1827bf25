"""The verb service, before a systemctl that the test plays."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Place
from tests.fakes.canned_hub import CannedHub, served
from tests.fakes.stand_in import StandIn

HERE = ("--property=Version", 0, "Version=252\n")
UNITS = ["mcphub.service", "mcphub.socket"]


@pytest.fixture
def systemctl(home: Place, tmp_path: Path) -> StandIn:
    home.environment["PATH"] = f"{tmp_path}:{home.environment['PATH']}"
    home.environment["SHELL"] = "/usr/sbin/nologin"
    StandIn(tmp_path, "loginctl").answers(("Linger", 0, "Linger=no\n"))
    systemctl = StandIn(tmp_path, "systemctl")
    systemctl.answers(HERE)
    return systemctl


def folder(home: Place) -> str:
    return f"{home.root}/config/systemd/user"


def asked(systemctl: StandIn) -> list[list[str]]:
    """What was asked of systemctl that changes something."""
    return [list(call[4:]) for call in systemctl.calls() if call[0] == "systemctl" and call[4] != "show"]


def unit(**properties: str) -> str:
    return "".join(f"{name}={value}\n" for name, value in properties.items())


def test_install(home: Place, systemctl: StandIn) -> None:
    """Files, then the manager, the sockets before the daemon; a second time changes nothing; when it ends is said."""
    out, err, status = home.run("service", "install")
    assert status == 0
    written = [f"written: {folder(home)}/{name}" for name in UNITS]
    assert out.splitlines() == [*written, "the service is installed and started"]
    assert "loginctl enable-linger" in err
    assert "this account has none" in err  # the login shell, which was asked for its PATH
    steps = [["daemon-reload"], ["enable", "--now", "mcphub.socket"], ["enable", "--now", "mcphub.service"]]
    assert asked(systemctl) == steps
    out, _, status = home.run("service", "install", "--on-demand", "--json")
    report = json.loads(out)
    assert (status, report["written"], report["started"], report["handed_over"]) == (0, [], True, None)
    assert asked(systemctl) == steps[:2]


def test_another_version_takes_the_place(home: Place, systemctl: StandIn) -> None:
    """Of one that runs: its agents go on in the new one."""
    home.run("service", "install")
    home.environment["XDG_CACHE_HOME"] = f"{home.root}/elsewhere"
    systemctl.answers(HERE, ("show", 0, unit(ActiveState="active", MainPID="77")))
    systemctl.calls()
    assert home.run("service", "install")[2] == 0
    assert asked(systemctl)[1] == ["try-restart", "mcphub.service"]


def test_a_daemon_that_runs_by_hand(home: Place, systemctl: StandIn, hub: CannedHub) -> None:
    """It is told apart from the service's, and never ended twice: one of the service itself stays."""
    with served(hub, home.socket):
        report = json.loads(home.run("service", "status", "--json")[0])
        assert (report["daemon_pid"], report["daemon_is_service"], report["installed"]) == (4711, False, False)
        assert "`mcphub service install` hands over" in report["notes"][0]
        systemctl.answers(HERE, ("show", 0, unit(MainPID="4711", ActiveState="active")))
        out, _, _ = home.run("service", "status")
        assert "daemon: pid 4711, the service's" in out


def test_what_a_person_changed(home: Place, systemctl: StandIn) -> None:
    """The difference is shown, the file stays, the manager is not asked; --force overwrites it."""
    home.run("service", "install")
    path = Path(folder(home), "mcphub.service")
    mine = path.read_text().replace("WatchdogSec=60", "WatchdogSec=5")
    path.write_text(mine)
    asked(systemctl)
    for action in ("install", "uninstall"):
        _, err, status = home.run("service", action)
        assert (status, "--force" in err) == (1, True)
        assert ("-WatchdogSec=5\n+WatchdogSec=60\n" in err) is (action == "install")
        assert path.read_text() == mine
        assert asked(systemctl) == []
    assert "changed by hand" in home.run("service", "status")[1]
    assert home.run("service", "install", "--force")[2] == 0
    assert path.read_text() != mine


def test_uninstall(home: Place, systemctl: StandIn) -> None:
    """The manager ends and forgets it before the files go; without any it is no error."""
    home.run("service", "install")
    systemctl.answers(HERE, ("show", 0, unit(FragmentPath="/f")))
    asked(systemctl)
    out, err, status = home.run("service", "uninstall")
    assert (out.splitlines(), err, status) == ([f"removed: {folder(home)}/{name}" for name in UNITS], "", 0)
    assert asked(systemctl) == [["disable", "--now", "mcphub.socket", "mcphub.service"], ["daemon-reload"]]
    assert os.listdir(folder(home)) == []
    systemctl.answers(HERE)
    assert home.run("service", "uninstall") == ("the service was not installed\n", "", 0)


STATES: list[tuple[dict[str, str], dict[str, str], int, list[str]]] = [
    (
        {"ActiveState": "active", "UnitFileState": "enabled", "MainPID": "77", "StatusText": "3 servers connected"},
        {"ActiveState": "active", "UnitFileState": "enabled"},
        0,
        ["mcphub.service: enabled, active: 3 servers connected", "daemon: pid 77, the service's"],
    ),
    (
        {"ActiveState": "inactive", "UnitFileState": "disabled", "MainPID": "0", "StatusText": "stopping"},
        {"ActiveState": "active", "UnitFileState": "enabled"},
        0,
        ["mcphub.service: not enabled, inactive", "daemon: none runs; it starts when somebody connects"],
    ),
    (
        {"ActiveState": "failed", "Result": "watchdog", "MainPID": "0", "NeedDaemonReload": "yes", "DropInPaths": "/d"},
        {"ActiveState": "inactive", "LoadState": "masked", "FragmentPath": "/dev/null"},
        1,
        ["(watchdog): journalctl --user -u mcphub.service", "daemon-reload", "unmask mcphub.socket", "with /d"],
    ),
]


@pytest.mark.parametrize(("service", "sockets", "status", "said"), STATES, ids=["runs", "waits", "failed"])
def test_status(
    home: Place, systemctl: StandIn, service: dict[str, str], sockets: dict[str, str], status: int, said: list[str]
) -> None:
    """Whatever the manager knows of it, and what to do where something is wrong; 0 while it is in use."""
    home.run("service", "install")
    systemctl.answers(
        HERE, ("mcphub.service", 0, unit(**service)), ("mcphub.socket", 0, unit(**sockets)), ("show", 0, "")
    )
    out, err, found = home.run("service", "status")
    assert found == status
    for text in said:
        assert text in out + err
    assert "without a login: ends" in out


def test_no_manager_and_no_systemd(home: Place, systemctl: StandIn) -> None:
    """As in a container: what to run later is said where the files are of use, and nothing is written where not."""
    systemctl.answers(("show", 1, "Failed to connect to bus: No such file or directory\n"))
    out, err, status = home.run("service", "install", "--json")
    report: dict[str, Any] = json.loads(out)
    assert (status, report["started"], len(report["written"])) == (1, False, 2)
    assert "No such file or directory" in report["notes"][-1]
    assert "enable --now mcphub.socket && systemctl --user enable --now mcphub.service" in report["notes"][-1]
    assert home.run("service", "status")[2] == 1
    _, err, status = home.run("service", "uninstall")
    assert (status, "daemon-reload" in err) == (0, True)
    home.environment["PATH"] = "/nonexistent"
    _, err, status = home.run("service", "install")
    assert (status, "this system has no systemctl. Nothing was written" in err) == (1, True)
    assert os.listdir(folder(home)) == []


def test_words_that_do_not_fit(home: Place, systemctl: StandIn) -> None:
    """Usage is said before anything is done."""
    assert home.run("service", "status", "--on-demand")[2] == 2
    assert home.run("service")[2] == 2
    assert asked(systemctl) == []
