"""What comes before the daemon, and that nothing of it stays where the daemon does not come."""

from __future__ import annotations

import argparse

import pytest

from mcphub import ahead, daemon
from mcphub.transport.launcher import start as module
from mcphub.transport.launcher.start import Started

ARGS = argparse.Namespace()


def test_the_launcher_is_there_before_the_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon gets a launcher that runs, and its status is the verb's."""
    got: list[Started | None] = []

    def main(args: argparse.Namespace, started: Started | None) -> int:
        got.append(started)
        assert started is None or started.process.poll() is None
        return 7

    monkeypatch.setattr(daemon, "main", main)
    assert ahead.main(ARGS) == 7
    [started] = got
    if started is not None:
        assert started.process.returncode == 0
        assert started.sock.fileno() == -1


def test_a_daemon_that_fails_leaves_no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with it."""
    got: list[Started | None] = []

    def main(args: argparse.Namespace, started: Started | None) -> int:
        got.append(started)
        raise MemoryError

    monkeypatch.setattr(daemon, "main", main)
    with pytest.raises(MemoryError):
        ahead.main(ARGS)
    assert got[0] is None or got[0].process.returncode == 0


def test_a_launcher_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon is run all the same: it finds out for itself, and says so."""

    def start() -> Started:
        raise OSError("no more processes")

    def main(args: argparse.Namespace, started: Started | None) -> int:
        assert started is None
        return 0

    monkeypatch.setattr(module, "start", start)
    monkeypatch.setattr(daemon, "main", main)
    assert ahead.main(ARGS) == 0
