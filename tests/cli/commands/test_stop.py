"""The verb stop."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mcphub.cli.commands import stop
from mcphub.cli.commands.stop import ended
from tests.cli.conftest import ROOT, Place
from tests.fakes.canned_hub import CannedHub, served


@pytest.fixture
def daemon(place: Place) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon in a process of its own."""
    command = [sys.executable, "-m", "tests.fakes.canned_hub", place.socket]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


@pytest.mark.parametrize("as_json", [False, True])
def test_it_waits_until_the_process_is_gone(place: Place, daemon: subprocess.Popen[bytes], as_json: bool) -> None:
    """After it, a new daemon can be started at once."""
    out, err, status = place.run("stop", *["--json"] * as_json)
    assert (err, status) == ("", 0)
    assert out == (f'{{\n  "pid": {daemon.pid}\n}}\n' if as_json else f"the daemon (pid {daemon.pid}) has stopped\n")
    assert daemon.wait(5) == 0
    assert not os.path.exists(place.socket)


def test_the_wait_is_bounded() -> None:
    """By the pidfd, and by polling where there is none; a pid without a process is gone."""
    sleeper = subprocess.Popen([sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE)
    with sleeper:
        assert ended(sleeper.pid, 0.05) is False
        assert stop._polled(sleeper.pid, 0) is False
        sleeper.communicate(b"\n")
    assert ended(sleeper.pid, 1) is True


def test_polling_sees_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on systems without pidfd."""
    monkeypatch.delattr(os, "pidfd_open")
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", ""]) as process:
        process.wait(10)
    assert ended(process.pid, 5) is True


def test_a_daemon_that_does_not_end_is_said(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 1, and the pid to look for. The process that serves here is this one."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", place.root)
    monkeypatch.setattr(stop, "PATIENCE", 0.01)
    with served(CannedHub(), place.socket):
        assert stop.run(argparse.Namespace(json=False, restart=False)) == 1
    assert f"(pid {os.getpid()}) is still shutting down after 0.01 s" in capsys.readouterr().err
