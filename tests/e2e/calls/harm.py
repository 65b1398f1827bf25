"""Owns the servers' processes and what is done to them, by a seed: killed, cut off, told to die at the worst moment.

It must not know who calls, nor judge. Whatever was done is written down with its moment.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import psutil

from tests.e2e.calls.ledger import Ledger
from tests.e2e.calls.work import SERVERS, Work
from tests.fakes.hub import Hub, Report, eventually, row

SERVER = Path(__file__).with_name("server.py")
#: What is done to servers of each kind; the next call of a server does those of DONE_BY_CALL to it.
HARMS = {
    "stdio": ("kill", "kill", "stop-kill", "die", "act-die", "half", "hangup", "reconnect"),
    "http": ("kill", "kill", "stop-kill", "die", "act-die", "half", "cut", "act-cut", "act-cut", "resets", "reconnect"),
}
DONE_BY_CALL = frozenset(["die", "act-die", "half", "hangup", "cut", "act-cut"])
#: Of those, what leaves the process as it was.
STAYS = frozenset(["cut", "act-cut", "resets", "reconnect"])
#: Seconds until the next harm to one server, and until somebody asks for one that is away.
PAUSE = (0.2, 1.2)
AWAY = (0.02, 0.15)
#: Seconds for a server to be there again.
BACK = 40.0
#: Seconds in which a process that was hurt is gone.
HAPPENS = 2.0


class Harm:
    """All servers; `harms` counts what was done."""

    def __init__(self, folder: Path, ledger: Ledger) -> None:
        self.folder = folder
        self.ledger = ledger
        self.harms: Counter[str] = Counter()
        #: Seconds between harms are this many times longer.
        self.pace = 1.0
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    # --- life

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """The servers at a URL run."""
        try:
            for name, target in SERVERS.items():
                if target.kind == "http":
                    self._start(name)
            await eventually(lambda: all(self._port(name) for name in self._processes), timeout=20)
            yield
        finally:
            for process in self._processes.values():
                process.kill()
                process.communicate()

    def _command(self, name: str) -> list[str]:
        target = SERVERS[name]
        # One at a URL has its folder in no argument: it is none of the processes that the daemon must end.
        where = str(self.folder) if target.kind == "stdio" else "-"
        argv = ["-I", "-S", str(SERVER), target.kind, target.era, name, where]
        return [*argv, "--slow", str(target.slow)] if target.slow else argv

    def _start(self, name: str) -> None:
        old = self._processes.get(name)
        if old is not None:
            old.kill()
            old.communicate()
        argv = [sys.executable, *self._command(name), "--port", self._port(name) or "0"]
        env = {**os.environ, "CALLS_FOLDER": str(self.folder)}
        self._processes[name] = process = subprocess.Popen(argv, stdin=subprocess.PIPE, env=env)
        (self.folder / f"{name}.pid").write_text(str(process.pid))

    def _port(self, name: str) -> str:
        path = self.folder / f"{name}.port"
        return path.read_text() if path.exists() else ""

    def entries(self) -> dict[str, Any]:
        """What mcp.json says of them."""
        found: dict[str, Any] = {}
        for name, target in SERVERS.items():
            if target.kind == "stdio":
                entry: dict[str, Any] = {"command": sys.executable, "args": self._command(name)}
            else:
                entry = {"type": "http", "url": f"http://127.0.0.1:{self._port(name)}/mcp"}
            found[name] = {**entry, "timeout": 10_000}
        return found

    def lines(self, name: str) -> Iterator[bytes]:
        """What it has written down."""
        path = self.folder / f"{name}.done"
        if path.exists():
            with path.open("rb") as file:
                yield from file

    # --- harm

    async def hurt(self, name: str, hub: Hub, work: Work, seed: str) -> None:
        """One thing after the other, as long as there is work; then it is whole."""
        chance = random.Random(f"{seed} {name}")
        kind = SERVERS[name].kind
        while True:
            end = anyio.current_time() + chance.uniform(*PAUSE) * self.pace
            with suppress(TimeoutError):
                await eventually(lambda: work.over, timeout=end - anyio.current_time())
            if work.over:
                break
            what = chance.choice(HARMS[kind])
            if await self._done(name, what, hub, work, chance):
                self.harms[what] += 1
                await self._whole(name, hub, chance)
        work.hurts[name].clear()
        await self._whole(name, hub, chance)

    async def _done(self, name: str, what: str, hub: Hub, work: Work, chance: random.Random) -> bool:
        """Whether it was done: what a call is to do may be withdrawn, or go to a server that is away."""
        pid = self._pid(name)
        if what in DONE_BY_CALL:
            work.hurts[name].append(what)
            while work.hurts[name]:
                if work.over:
                    return False
                await anyio.sleep(0.002)
        elif what == "reconnect":
            await hub.reconnect(name)
        elif what == "resets":
            _signal(pid, signal.SIGUSR1)
        else:
            if what == "stop-kill":
                _signal(pid, signal.SIGSTOP)
                await anyio.sleep(chance.uniform(0.02, 0.15))
            _signal(pid, signal.SIGKILL)
        self.ledger.harms.append((time.monotonic(), name, f"{what} ({pid})"))
        if what not in STAYS:
            try:
                await eventually(lambda: not _lives(pid), timeout=HAPPENS)
            except TimeoutError:
                return False
        return True

    async def _whole(self, name: str, hub: Hub, chance: random.Random) -> None:
        """It runs again, and the hub has it, after a moment; somebody asks for it, since the hub waits ever longer for
        one that dies so often."""
        await anyio.sleep(chance.uniform(*AWAY))
        end = anyio.current_time() + BACK
        while True:
            if name in self._processes and not _lives(self._pid(name)):
                # Each time that it died: a call that killed it may be sent again.
                await anyio.to_thread.run_sync(self._start, name)
            found = row(await hub.status(), name)
            if found["state"] == "connected" and _lives(self._pid(name)):
                break
            if anyio.current_time() > end:
                raise AssertionError(f"{name} is not connected {BACK:g} s later: {_shown(found)}")
            if found["state"] == "failed" or found["retry_in"]:
                await hub.reconnect(name)
            await anyio.sleep(0.05)
        self.ledger.harms.append((time.monotonic(), name, f"is connected ({self._pid(name)})"))

    def _pid(self, name: str) -> int:
        return int((self.folder / f"{name}.pid").read_text())


def _shown(found: Report) -> str:
    return f"{found['state_text']} {found['reason']} {found['last_error']}"


def _lives(pid: int) -> bool:
    """Whether this is a server's process still."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and str(SERVER) in process.cmdline()
    except psutil.Error:
        return False


def _signal(pid: int, number: int) -> None:
    if _lives(pid):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
