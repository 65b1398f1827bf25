"""What is written into the files of the service."""

from __future__ import annotations

import plistlib

import pytest

from mcphub.service import files
from mcphub.service.places import shipped

ARGV = ["/opt/my py/bin/python$3", "-P", "-m", "mcphub", "serve", '100% "$HOME"\\']


def test_a_unit_runs_this_program() -> None:
    """Whatever characters its path has: systemd must read back what was meant (systemd.service(5))."""
    text = files.unit(shipped("mcphub.service"), ARGV, {"XDG_CONFIG_HOME": "/a b/%c", "XDG_DATA_HOME": "/d"})
    lines = text.splitlines()
    assert 'ExecStart="/opt/my py/bin/python$3" -P -m mcphub serve "100%% \\"$$HOME\\"\\\\"' in lines
    assert 'Environment="XDG_CONFIG_HOME=/a b/%%c"' in lines
    assert 'Environment="XDG_DATA_HOME=/d"' in lines
    assert "%h/.local/bin" not in text
    assert [line for line in lines if line.startswith("[")] == ["[Unit]", "[Service]", "[Install]"]


def test_a_unit_without_a_program_stays() -> None:
    """The socket unit."""
    assert files.unit(shipped("mcphub.socket"), ARGV, {"A": "b"}).startswith(shipped("mcphub.socket"))


def test_a_property_list_runs_this_program() -> None:
    """It is one that launchd can read, with the variables and a place for the log."""
    argv = ["/a&b/python", "-m", "<mcphub>"]
    made = files.plist(shipped("dev.mcphub.daemon.plist"), argv, {"XDG_STATE_HOME": "/s&t"}, "/l<og")
    assert plistlib.loads(made.encode()) == {
        "Label": "dev.mcphub.daemon",
        "ProgramArguments": argv,
        "StandardErrorPath": "/l<og",
        "EnvironmentVariables": {"XDG_STATE_HOME": "/s&t"},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ProcessType": "Interactive",
        "ExitTimeOut": 30,
        "ThrottleInterval": 5,
        "WorkingDirectory": "/",
    }
    assert "EnvironmentVariables" not in files.plist(shipped("dev.mcphub.daemon.plist"), argv, {}, "/l")


@pytest.mark.parametrize("name", ["mcphub.service", "mcphub.socket", "dev.mcphub.daemon.plist"])
def test_whether_a_person_has_changed_it(name: str) -> None:
    """As written: no. A line more, a line less, another end, no digest, not ours at all: yes."""
    text = shipped(name)
    made = files.plist(text, ARGV, {}, "/l") if name.endswith("plist") else files.unit(text, ARGV, {})
    assert not files.edited(made)
    lines = made.splitlines(keepends=True)
    for changed in (
        "# mine\n" + made,
        made + "# mine\n",
        "".join(lines[:3] + lines[4:]),
        made.replace("mcphub", "mcphvb", 1),
        text,
        "",
        "[Service]\nExecStart=/bin/true\n",
    ):
        assert files.edited(changed)


def test_the_difference() -> None:
    """What would be lost and what would come, without the digest, which says nothing to a person."""
    made = files.unit(shipped("mcphub.service"), ["/p"], {})
    shown = files.difference("/u/mcphub.service", made.replace("WatchdogSec=60", "WatchdogSec=5"), made)
    assert "-WatchdogSec=5\n+WatchdogSec=60\n" in shown
    assert "--- /u/mcphub.service (as it is)\n+++ /u/mcphub.service (as it would be)\n" in shown
    assert files.MARK not in shown
