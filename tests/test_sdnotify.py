"""What the service manager is told."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator

import pytest

from mcphub import sdnotify
from tests.fakes.raw_http import short_directory


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, dict[str, str]]]:
    """A service manager's socket, and the environment that names it."""
    with short_directory() as directory, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        path = f"{directory}/notify"
        sock.bind(path if request.param == "path" else f"\0{path}")
        sock.settimeout(5)
        yield sock, {"NOTIFY_SOCKET": path if request.param == "path" else f"@{path}"}


def test_each_state_is_one_datagram(manager: tuple[socket.socket, dict[str, str]]) -> None:
    """sd_notify(3): assignments, one a line; a status of several lines must not become more of them."""
    sock, environ = manager
    assert sdnotify.ready(environ, "2 of 3 connected")
    assert sock.recv(1000) == b"READY=1\nSTATUS=2 of 3 connected"
    assert sdnotify.ready(environ)
    assert sock.recv(1000) == b"READY=1"
    assert sdnotify.status(environ, "a\nREADY=1\tb")
    assert sock.recv(1000) == b"STATUS=a READY=1 b"
    assert sdnotify.stopping(environ)
    assert sock.recv(1000) == b"STOPPING=1"


@pytest.mark.parametrize("address", [None, "", "relative", "vsock:1:2", "/nonexistent/socket", "/" + "x" * 200])
def test_without_a_manager_nothing_happens(address: str | None) -> None:
    """A wrong or stale address must not keep the daemon from running."""
    environ = {} if address is None else {"NOTIFY_SOCKET": address}
    assert sdnotify.ready(environ) is False


def test_a_manager_that_does_not_read_is_not_waited_for(manager: tuple[socket.socket, dict[str, str]]) -> None:
    """A full queue loses the message, and returns."""
    _, environ = manager
    told = 0
    while sdnotify.status(environ, "x" * 1000):
        told += 1
        assert told < 100_000
    assert os.path.basename(environ["NOTIFY_SOCKET"]) == "notify"


def test_a_reload_and_the_watchdog(manager: tuple[socket.socket, dict[str, str]]) -> None:
    """A reload says when it began, by the clock that the manager has; a stop says how long it may take."""
    sock, environ = manager
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    assert sdnotify.reloading(environ)
    word, at = sock.recv(1000).decode().split("\n")
    assert (word, at.partition("=")[0]) == ("RELOADING=1", "MONOTONIC_USEC")
    assert before <= int(at.partition("=")[2]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    assert sdnotify.alive(environ)
    assert sock.recv(1000) == b"WATCHDOG=1"
    assert sdnotify.stopping(environ, "stopping", 12.5)
    assert sock.recv(1000) == b"STOPPING=1\nEXTEND_TIMEOUT_USEC=12500000\nSTATUS=stopping"


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "42"}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "43"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-1"}, None),
        ({"WATCHDOG_USEC": "1e6"}, None),
        ({"WATCHDOG_USEC": "\u0661"}, None),
    ],
)
def test_who_waits_for_the_watchdog(environ: dict[str, str], seconds: float | None) -> None:
    """sd_watchdog_enabled(3): microseconds, for one process."""
    assert sdnotify.watchdog_interval(environ, 42) == seconds


def test_what_was_for_us_is_nobody_elses() -> None:
    """A child that had the variables would answer in our name."""
    environ = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "2", "HOME": "/h"}
    assert sdnotify.taken(environ) == {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "2"}
    assert environ == {"HOME": "/h"}
    assert sdnotify.taken(environ) == {}
