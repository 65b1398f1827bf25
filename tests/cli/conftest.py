"""What the tests of the command line share: a home, a canned hub behind the real control server, the real command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal

from tests.fakes.canned_hub import CannedHub, served
from tests.fakes.raw_http import short_directory
from tests.fakes.terminal import Terminal

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Place:
    """A directory to work in, and the environment that leads to its own control socket."""

    root: str
    environment: dict[str, str]

    @property
    def socket(self) -> str:
        return f"{self.root}/mcphub/control/control.sock"

    @property
    def workspace(self) -> str:
        return f"{self.root}/work"

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "mcphub", *arguments]

    def run(self, *arguments: str, stdin: bytes = b"") -> tuple[str, str, int]:
        """stdout, stderr and exit status of one command line, without a terminal."""
        done = subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            env=self.environment,
            cwd=self.workspace,
            timeout=20,
            start_new_session=True,
        )
        return done.stdout.decode(), done.stderr.decode(), done.returncode

    def terminal(self, *arguments: str, columns: int = 200) -> Terminal:
        return Terminal(self.command(*arguments), self.environment, self.workspace, columns)


@pytest.fixture
def place() -> Iterator[Place]:
    with short_directory() as root:
        os.mkdir(f"{root}/work")
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "HOME": "/home/u",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "XDG_RUNTIME_DIR": root,
        }
        yield Place(root, environment)


@pytest.fixture
def home(place: Place) -> Place:
    """The place, with files of its own too: what verbs write stays in it."""
    for name, folder in (("CONFIG", "config"), ("STATE", "state"), ("DATA", "data"), ("CACHE", "cache")):
        place.environment[f"XDG_{name}_HOME"] = f"{place.root}/{folder}"
    place.environment["HOME"] = f"{place.root}/home"
    os.mkdir(f"{place.root}/home")
    os.mkdir(f"{place.workspace}/.git")
    return place


@pytest.fixture
def hub() -> CannedHub:
    hub = CannedHub()
    hub.pid = 4711
    return hub


@pytest.fixture
def portal(hub: CannedHub, place: Place) -> Iterator[BlockingPortal]:
    """The hub, served; call its methods through this."""
    with served(hub, place.socket) as portal:
        yield portal
