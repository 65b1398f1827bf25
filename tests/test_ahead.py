"""What comes before the daemon, and that nothing of it stays where the daemon does not come."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

from mcphub import ahead, daemon
from mcphub.transport.launcher import start as module
from mcphub.transport.launcher.start import Started

#: Modules of mcphub that the daemon imports before it starts servers. Each costs a fifth of a millisecond before the
#: first of them is there; a new one has its worth, and raising this is a decision.
BUDGET = 232
#: Whole packages, and modules, that nobody needs whose servers are programs.
NOT_YET = (
    "mcphub.auth.bearer",
    "mcphub.auth.credential",
    "mcphub.auth.discovery",
    "mcphub.auth.headers_helper",
    "mcphub.auth.sign_in",
    "mcphub.catalog",
    "mcphub.connection.legacy_sessions",
    "mcphub.control",
    "mcphub.gateway",
    "mcphub.hub",
    "mcphub.httpserver",
    "mcphub.login.loopback_http",
    "mcphub.net",
    "mcphub.policy.document",
    "mcphub.policy.matchers",
    "mcphub.questions.explain",
    "mcphub.report",
    "mcphub.sessions.http_endpoint",
    "mcphub.sessions.unix_listener",
    "mcphub.status",
    "mcphub.transport.http_request",
    "mcphub.transport.http_sse",
    "mcphub.transport.in_process",
    "mcphub.transport.sdk_server",
    "mcphub.transport.streamable_http",
    "mcphub.transport.websocket",
    "cryptography",
    "httpx2",
    "joserfc",
    "jsonschema_rs",
    "keyring",
    "rich",
    "starlette",
    "uvicorn",
    "websockets",
)

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


def test_a_start_loads_what_it_needs() -> None:
    """The daemon's imports, in an interpreter of their own."""
    program = "import sys; import mcphub.daemon; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    loaded = done.stdout.split()
    early = [name for name in loaded if any(name == one or name.startswith(one + ".") for one in NOT_YET)]
    assert not early
    assert len([name for name in loaded if name.partition(".")[0] == "mcphub"]) <= BUDGET
