"""Owns a running hub without a process of its own for one test: a home, real workers, the agents' socket.

It must not know what is tested. Its files are in a short directory; its only server, until a test writes others, is the
embedded one.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from mcphub import welcome
from mcphub.catalog.cache import Catalog
from mcphub.config.places import Places
from mcphub.config.system_places import SystemPlaces
from mcphub.config.trusted_file import Trust
from mcphub.connection.backoff import Backoff
from mcphub.connection.client import Client
from mcphub.connection.machine import Connected
from mcphub.connection.worker import Worker
from mcphub.gateway.dispatch import Gateway
from mcphub.protocol.jsonrpc import Raw
from mcphub.sessions.unix_listener import AgentListener
from mcphub.sessions.workspaces import Workspaces
from mcphub.store.vault import Vault
from mcphub.supervisor.startup import Limiters
from mcphub.supervisor.supervisor import Supervisor
from mcphub.supervisor.watch import Watch
from mcphub.transport.link import Surroundings
from mcphub.transport.process import Launcher
from mcphub.transport.unix_socket import listening
from mcphub.transport.wire import Batch
from tests.connection.workers import QUICK, fake
from tests.fakes.agent import Agent
from tests.fakes.raw_http import short_directory


class House:
    """The parts, and what they said."""

    def __init__(self, root: str, launcher: Launcher, backoff: Backoff = QUICK) -> None:
        self.root = Path(root)
        system = SystemPlaces(f"{root}/etc", "", "", Trust(os.geteuid(), root))
        self.places = Places(root, f"{root}/config", f"{root}/state", system=system)
        os.mkdir(self.places.config_dir)
        self.socket = f"{root}/agent/agent.sock"
        self.logged: list[str] = []
        self.reported: list[BaseException] = []
        self.hidden: set[str] = set()
        self.launcher = launcher
        self.batch = Batch()
        env = {"PATH": os.environ["PATH"], "HOME": root}
        around = Surroundings(
            launcher, self.batch, lambda: env, {"welcome": welcome.server("mcp.json", list)}, 0.1, self.reported.append
        )
        self.vault = Vault(self.places.vault, f"file:{root}/vault.key", env)
        self.supervisor = Supervisor(around, Limiters.of(5), backoff, self, self.log)
        self.workspaces = Workspaces(
            self.supervisor, self.places, env, lambda: self.gateway.refresh(), self.hidden.update,
            self.vault.file.secret,
        )
        self.catalog = Catalog()
        self.gateway = Gateway(self.supervisor, self.catalog, self.workspaces.visible)
        self.attendance = Watch(None)
        self.listener = AgentListener(
            self.gateway, self.workspaces, self.batch, self.log, self.reported.append, lambda: None,
            self.attendance.touch,
        )
        self.tasks: anyio.abc.TaskGroup
        self.listening = anyio.CancelScope()

    def log(self, level: str, text: str) -> None:
        self.logged.append(f"{level}: {text}")

    def server_said(self, worker: Worker, client: Client, method: str, params: Raw) -> None:
        self.gateway.server_said(worker, client, method, params)

    def server_asked(
        self, worker: Worker, client: Client, mid: bytes, method: str, params: Raw, current: int | None
    ) -> bool:
        return self.gateway.server_asked(worker, client, mid, method, params, current)

    def write(self, servers: Mapping[str, Mapping[str, Any] | None], directory: Path | None = None) -> None:
        """Scripted servers by name into the person's file, or into a project's; None = an entry that is wrong."""
        entries: dict[str, Any] = {}
        for name, script in servers.items():
            if script is None:
                entries[name] = {"command": 5}
                continue
            transport = fake(script).transport
            entries[name] = {"command": transport.command, "args": list(map(str, transport.args))}  # type: ignore[union-attr]
        path = directory / ".mcp.json" if directory is not None else self.root / "config" / "mcp.json"
        draft = path.with_name("draft")
        draft.write_text(json.dumps({"mcpServers": entries}), "utf-8")
        draft.replace(path)

    def project(self, name: str = "project") -> Path:
        path = self.root / name
        path.mkdir()
        (path / ".git").mkdir()
        return path

    async def agent(self, *, client: str = "", workspace: Path | str = "") -> Agent:
        return await Agent.open(self.socket, client=client, workspace=workspace)

    def state(self, name: str) -> str:
        """Of the worker of that name, "" = none."""
        states = [type(w.state).__name__ for w in self.supervisor.workers.values() if w.name == name]
        return states[0] if states else ""

    async def until(self, condition: Any, timeout: float = 10) -> None:
        """Wait until it is true; looked at with every snapshot, and now and then for what gives none."""
        with anyio.fail_after(timeout):
            while not condition():
                with anyio.move_on_after(0.02):
                    await self.supervisor.snapshot.newer_than(self.supervisor.snapshot.revision)

    async def up(self, *names: str) -> None:
        await self.until(lambda: all(self.state(name) == Connected.__name__ for name in names))

    async def end_listening(self) -> None:
        """As the daemon does first when it ends."""
        self.gateway.end()
        self.batch.flush()
        self.listening.cancel()
        await self.until(lambda: not self.listener.sessions)


@asynccontextmanager
async def house() -> AsyncIterator[House]:
    """One that runs, and ends in order."""
    with short_directory() as root:
        async with Launcher() as launcher, anyio.create_task_group() as tasks:
            home = House(root, launcher)
            home.tasks = tasks
            started = anyio.Event()
            tasks.start_soon(home.supervisor.run, started)
            await started.wait()
            await home.workspaces.start()

            async def follow() -> None:
                revision = 0
                while True:
                    revision = await home.supervisor.snapshot.newer_than(revision)
                    home.gateway.refresh()

            async def listen() -> None:
                with home.listening:
                    await home.listener.run(sock)

            with listening(home.socket) as sock:
                async with anyio.create_task_group() as agents:
                    agents.start_soon(follow)
                    agents.start_soon(home.workspaces.run)
                    agents.start_soon(listen)
                    yield home
                    agents.cancel_scope.cancel()
            with anyio.fail_after(5):
                await home.supervisor.stop()
            tasks.cancel_scope.cancel()
    assert home.reported == []
