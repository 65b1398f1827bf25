"""What every test shares: the one backend mcphub runs on, and that nothing is left of a run.

It must not know any test. With `-n` each worker answers for its own tests, so that together they are the whole run.
"""

from __future__ import annotations

import gc
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

#: Seconds that what was told to end gets for it.
PATIENCE = 5.0


def pytest_configure() -> None:
    """A shell without job control has SIGINT ignored in what it starts in the background, and that is inherited: what
    the tests start would not hear the Ctrl-C that they press. A handler is not inherited, and does as little here."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda number, frame: None)


def pytest_collection_finish() -> None:
    """What was collected stays until the end: a look for what a test has left open does not go through it each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def anyio_backend() -> str:
    """mcphub runs on asyncio only; its byte streams are asyncio protocols."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_of_the_run() -> Iterator[None]:
    """Behind the last test: no process that a test started, no directory that one made, no port that one opened."""
    made: list[str] = []
    plain = tempfile.mkdtemp

    def noted(*args: Any, **more: Any) -> Any:
        made.append(path := plain(*args, **more))
        return path

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "mkdtemp", noted)
        yield
    until = time.monotonic() + PATIENCE
    while (left := [*_processes(made), *_ports()]) and time.monotonic() < until:
        time.sleep(0.05)
    left += [path for path in made if os.path.exists(path)]
    assert not left, f"left behind by the tests: {left}"


def _processes(made: list[str]) -> list[str]:
    """What runs below this process, or was started in a directory that a test made, wherever it stands now."""
    below = {process.pid for process in psutil.Process().children(recursive=True)}
    around = {os.path.dirname(path) + "/" for path in made}  # thousands were made, few programs name any
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            words = process.cmdline()
            if process.pid not in below:
                words = [*words, process.environ().get("HOME", "")]
                named = [word for word in words if any(place in word for place in around)]
                if not any(path in word for word in named for path in made):
                    continue
            found.append(f"process {process.pid} {words}")
        except psutil.Error:
            continue
    return found


def _ports() -> list[str]:
    """What this process listens at."""
    listening = [one for one in psutil.Process().net_connections("inet") if one.status == psutil.CONN_LISTEN]
    return [f"port {one.laddr.port}" for one in listening]
