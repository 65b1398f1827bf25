"""Owns the servers of a chaos run and every way of hurting one: its process, its network, its honesty.

It must not know who calls. A server at a URL that may be attacked stands behind a relay, so that it keeps its URL when
it starts anew; in a network namespace the relay has an address of its own there, which can be taken away.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from tests.e2e.chaos.liar import HTTP_LIES, LIES
from tests.fakes.hub import eventually

ROOT = Path(__file__).resolve().parents[3]
#: (kind, era, may be attacked), a name each.
SERVERS: dict[str, tuple[str, str, bool]] = {
    "stdio-1": ("stdio", "legacy", True),
    "stdio-2": ("stdio", "modern", True),
    "stdio-3": ("stdio", "legacy", True),
    "stdio-4": ("stdio", "modern", True),
    "http-1": ("http", "legacy", True),
    "http-2": ("http", "modern", True),
    "http-3": ("http", "legacy", True),
    "http-4": ("http", "modern", True),
    "sse-1": ("sse", "sse", True),
    "ws-1": ("ws", "legacy", True),
    "ws-2": ("ws", "modern", True),
    "embed-victim": ("embed", "legacy", True),
    "stdio-legacy": ("stdio", "legacy", False),
    "stdio-modern": ("stdio", "modern", False),
    "http-legacy": ("http", "legacy", False),
    "http-modern": ("http", "modern", False),
    "sse-control": ("sse", "sse", False),
    "ws-legacy": ("ws", "legacy", False),
    "ws-modern": ("ws", "modern", False),
    "embed-control": ("embed", "legacy", False),
}
#: What is done to servers of each kind.
ATTACKS = {
    "stdio": ("kill", "freeze", "lie", "lie-always", "reconnect"),
    "http": ("kill", "freeze", "lie", "lie", "lie-always", "reset", "swallow", "cut", "reconnect"),
    "sse": ("kill", "freeze", "lie", "lie-always", "reset", "swallow", "cut", "reconnect"),
    "ws": ("kill", "freeze", "lie", "lie-always", "reset", "swallow", "cut", "reconnect"),
    "embed": ("lie", "reconnect"),
}


class Relay:
    """In front of one server: connections can be reset, swallowed, or refused with its address."""

    def __init__(self, folder: Path, name: str, host: str) -> None:
        self.host = host
        self.port = 0
        self.away = False
        self._port_file = folder / f"{name}.port"
        self._open: set[anyio.CancelScope] = set()
        self._light = anyio.Event()
        self._light.set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        listener = await anyio.create_tcp_listener(local_host=self.host)
        self.port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, self._serve)
            yield
            tasks.cancel_scope.cancel()

    def reset(self) -> None:
        """All connections are gone."""
        for scope in list(self._open):
            scope.cancel()

    def swallow(self) -> None:
        """Nothing moves any more, and nothing is refused."""
        self._light = anyio.Event()

    def restore(self) -> None:
        self._light.set()

    async def _serve(self, stream: anyio.abc.SocketStream) -> None:
        with anyio.CancelScope() as scope:
            self._open.add(scope)
            try:
                port = int(self._port_file.read_text())
                async with await anyio.connect_tcp("127.0.0.1", port) as other, anyio.create_task_group() as tasks:
                    tasks.start_soon(self._carry, stream, other, scope)
                    tasks.start_soon(self._carry, other, stream, scope)
            except (OSError, ValueError):
                pass
        self._open.discard(scope)
        await anyio.aclose_forcefully(stream)

    async def _carry(
        self, one: anyio.abc.SocketStream, other: anyio.abc.SocketStream, scope: anyio.CancelScope
    ) -> None:
        try:
            while True:
                data = await one.receive()
                await self._light.wait()
                await other.send(data)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            scope.cancel()


class World:
    """All servers. `namespace`: this process has a network of its own."""

    def __init__(self, folder: Path, *, namespace: bool) -> None:
        self.folder = folder
        self.namespace = namespace
        self.relays: dict[str, Relay] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._frozen: set[int] = set()

    # --- life

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            try:
                for at, (name, (kind, _, attacked)) in enumerate(SERVERS.items()):
                    if kind in ("stdio", "embed"):
                        continue
                    self.start(name)
                    if attacked:
                        host = f"127.9.0.{at + 1}" if self.namespace else "127.0.0.1"
                        if self.namespace:
                            self._address("add", host)
                        self.relays[name] = relay = Relay(self.folder, name, host)
                        await stack.enter_async_context(relay.open())
                await eventually(self._all_listen, timeout=20)
                yield
            finally:
                for pid in self._frozen:
                    _signal(pid, signal.SIGCONT)
                for process in self._processes.values():
                    process.kill()
                    process.communicate()

    def _all_listen(self) -> bool:
        return all((self.folder / f"{name}.port").exists() for name in self._processes)

    def start(self, name: str) -> None:
        """A server at a URL, or anew after its end."""
        kind, era, _ = SERVERS[name]
        old = self._processes.get(name)
        if old is not None:
            old.kill()
            old.communicate()
        argv = [sys.executable, "-m", "tests.e2e.chaos.liar", kind, era, "-", name]
        # Its folder is in no argument: it is none of the processes that the daemon must end.
        env = {**os.environ, "CHAOS_FOLDER": str(self.folder)}
        self._processes[name] = subprocess.Popen(
            argv, stdin=subprocess.PIPE, cwd=ROOT, env=env, stderr=subprocess.DEVNULL
        )

    def entries(self) -> dict[str, Any]:
        """What mcp.json says of them, those in the daemon not."""
        found: dict[str, Any] = {}
        for name, (kind, era, attacked) in SERVERS.items():
            if kind == "stdio":
                argv = ["-m", "tests.e2e.chaos.liar", kind, era, str(self.folder), name]
                entry: dict[str, Any] = {
                    "command": sys.executable, "args": argv, "env": {"PYTHONPATH": str(ROOT)},
                }  # fmt: skip
            elif kind == "embed":
                continue
            else:
                relay = self.relays.get(name)
                host = f"{relay.host}:{relay.port}" if relay else f"127.0.0.1:{self._port(name)}"
                path = {"http": "http://{}/mcp", "sse": "http://{}/sse", "ws": "ws://{}/mcp"}[kind]
                entry = {"type": kind, "url": path.format(host)}
            found[name] = {**entry, "timeout": 3000 if attacked else 60_000}
        return found

    def _port(self, name: str) -> str:
        return (self.folder / f"{name}.port").read_text()

    def starts(self, name: str) -> int:
        path = self.folder / f"{name}.starts"
        return len(path.read_text().split()) if path.exists() else 0

    # --- harm

    async def attack(self, name: str, what: str, chance: random.Random) -> str:
        """Hurt it for a while; returns what was done, when it is over. It is whole again afterwards."""
        kind = SERVERS[name][0]
        lasts = chance.uniform(0.2, 3.0)
        match what:
            case "kill":
                self._kill(name)
                if kind != "stdio":
                    await anyio.sleep(lasts / 2)
                    self.start(name)
            case "freeze":
                pid = self._pid(name)
                self._frozen.add(pid)
                _signal(pid, signal.SIGSTOP)
                await _shielded(lasts, lambda: self._thaw(pid))
            case "lie" | "lie-always":
                # At its handshake a server of HTTP that lies is refused for good: then somebody has to ask for it.
                lie = chance.choice(LIES + (HTTP_LIES if kind == "http" else HTTP_LIES[:6] if kind == "sse" else ()))
                self._tell(name, lie, lasts, calls=what == "lie")
                what = f"{what} {lie}"
                await anyio.sleep(lasts)
            case "reset":
                self.relays[name].reset()
            case "swallow":
                self.relays[name].swallow()
                await _shielded(lasts, self.relays[name].restore)
            case "cut":
                await self._cut(self.relays[name], lasts)
        return f"{what} {lasts:.1f} s"

    def _tell(self, name: str, lie: str, lasts: float, *, calls: bool) -> None:
        draft = self.folder / f"{name}.draft"
        draft.write_text(json.dumps({"what": lie, "until": time.monotonic() + lasts, "calls": calls}))
        draft.replace(self.folder / f"{name}.mood")

    def tell_all(self, lie: str, lasts: float) -> None:
        """Each server, those that are left alone too, tells this lie to calls."""
        for name in SERVERS:
            self._tell(name, lie, lasts, calls=True)

    def be_honest(self) -> None:
        """No server lies any more."""
        for mood in self.folder.glob("*.mood"):
            mood.unlink()

    async def _cut(self, relay: Relay, lasts: float) -> None:
        if not self.namespace:
            relay.swallow()
            await _shielded(lasts, relay.restore)
            relay.reset()
            return
        self._address("del", relay.host)
        await _shielded(lasts, lambda: self._address("add", relay.host))

    def _address(self, verb: str, host: str) -> None:
        subprocess.run(["ip", "addr", verb, f"{host}/32", "dev", "lo"], check=True)

    def _pid(self, name: str) -> int:
        if name in self._processes:
            return self._processes[name].pid
        return int((self.folder / f"{name}.starts").read_text().split()[-1])

    def _kill(self, name: str) -> None:
        _signal(self._pid(name), signal.SIGKILL)

    def _thaw(self, pid: int) -> None:
        _signal(pid, signal.SIGCONT)
        self._frozen.discard(pid)


async def _shielded(seconds: float, after: Any) -> None:
    """Wait, and do it in any case."""
    try:
        await anyio.sleep(seconds)
    finally:
        after()


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
