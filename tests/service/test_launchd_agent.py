"""Asking launchd."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcphub.errors import ConfigError
from mcphub.service import launchd_agent
from tests.fakes.stand_in import StandIn

DOMAIN = f"gui/{os.getuid()}"
JOB = f"{DOMAIN}/dev.mcphub.daemon"
NOT_LOADED = ("print", 113, "Could not find service\n")


@pytest.fixture
def launchctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return StandIn(tmp_path, "launchctl")


def test_loading(launchctl: StandIn) -> None:
    """What is loaded is unloaded first: launchd reads the file only then."""
    launchd_agent.load("/f.plist")
    print_, bootout, bootstrap = launchctl.calls()
    assert print_[1:] == ["print", JOB]
    assert (bootout[1:], bootstrap[1:]) == (["bootout", JOB], ["bootstrap", DOMAIN, "/f.plist"])
    launchctl.answers(NOT_LOADED)
    launchd_agent.unload()
    assert [call[1] for call in launchctl.calls()] == ["print"]


def test_starting(launchctl: StandIn) -> None:
    """It is loaded only where it is not; what launchctl refuses is told."""
    launchd_agent.start("/f.plist")
    assert [call[1] for call in launchctl.calls()] == ["print", "kickstart"]
    launchctl.answers(NOT_LOADED, ("bootstrap", 5, "Input/output error\n"))
    with pytest.raises(ConfigError, match=rf"launchctl bootstrap {DOMAIN} /f.plist: Input/output error"):
        launchd_agent.start("/f.plist")


def test_whose_process(launchctl: StandIn) -> None:
    """The pid of the job; 0 where none runs, or nobody answers."""
    launchctl.answers(("print", 0, f"{JOB} = {{\n\tactive count = 1\n\tpid = 321\n\tprogram = /x\n}}\n"))
    assert (launchd_agent.pid(), launchd_agent.loaded()) == (321, True)
    launchctl.answers(NOT_LOADED)
    assert (launchd_agent.pid(), launchd_agent.loaded()) == (0, False)


def test_nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no launchctl nothing is loaded."""
    monkeypatch.setenv("PATH", "/nonexistent")
    assert not launchd_agent.loaded()
    with pytest.raises(ConfigError, match="cannot run launchctl"):
        launchd_agent.start("/f.plist")
