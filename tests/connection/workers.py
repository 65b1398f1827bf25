"""Owns a worker of a real program for one test: what it starts, what it said, waiting for what it becomes.

It must not know what is tested.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from msgspec.structs import replace

from mcphub.connection import legacy_sessions
from mcphub.connection.backoff import Backoff
from mcphub.connection.client import Client
from mcphub.connection.handshake import Ignored
from mcphub.connection.machine import Connected, Failed, TurnedOff
from mcphub.connection.pulse import USUAL, Health
from mcphub.connection.rest import Known
from mcphub.connection.worker import Worker
from mcphub.protocol.envelope import HUB_META_MEMBER
from mcphub.protocol.jsonrpc import Raw
from mcphub.spec import HttpSpec, Origin, Scope, Secret, ServerSpec, StdioSpec
from mcphub.transport.link import Surroundings
from mcphub.transport.process import Launcher
from mcphub.transport.wire import Batch

STDIO_SERVER = Path(__file__).parent.parent / "fakes" / "stdio_server.py"
#: No delay between attempts is longer than a test may wait.
QUICK = Backoff(attempts=3, first=0.02, most=0.05)

#: A server that answers nothing of the handshake; a process that ends for nothing but SIGKILL; a log message.
HANGS: dict[str, Any] = {"on": {"server/discover": [], "initialize": []}}
STUBBORN = {"eof": "ignore", "term": "ignore"}
MESSAGE = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n'


def fake(script: Mapping[str, Any], *, log: Path | None = None, name: str = "fake", **more: Any) -> ServerSpec:
    """A scripted server; `log` is where it writes what it gets, and beside it counts its starts."""
    if log is not None:
        script = {"log": str(log), "counter": f"{log}.starts", **script}
    argv = ["-I", "-S", str(STDIO_SERVER), json.dumps(script)]
    transport = StdioSpec(sys.executable, tuple(map(Secret, argv)))
    return ServerSpec(name, Origin(Scope.USER, "/mcp.json", name), transport, **more)


def received(log: Path) -> list[Any]:
    """What the server got: messages, and `#start PID`, `#eof`, `#term` as text."""
    lines = log.read_bytes().splitlines() if log.exists() else []
    return [line.decode() if line.startswith(b"#") else json.loads(line) for line in lines]


def methods(log: Path) -> list[str]:
    return [line["method"] for line in received(log) if isinstance(line, dict) and "method" in line]


def starts(log: Path) -> int:
    return sum(1 for line in received(log) if isinstance(line, str) and line.startswith("#start"))


@asynccontextmanager
async def surroundings(**more: Any) -> AsyncIterator[Surroundings]:
    async with Launcher() as launcher:
        around = Surroundings(launcher, Batch(), lambda: {"PATH": os.environ["PATH"]}, grace=0.1)
        yield replace(around, **more)


class Bench:
    """A worker and all it said. `on_said` is called inside the read callback, as the gateway would be."""

    def __init__(
        self,
        spec: ServerSpec,
        around: Surroundings,
        limiter: anyio.CapacityLimiter | None = None,
        backoff: Backoff = QUICK,
        on_said: Callable[[Worker, str], None] | None = None,
        session_idle: float = legacy_sessions.IDLE,
        known: Known | None = None,
        health: Health = USUAL,
    ) -> None:
        self.limiter = limiter or anyio.CapacityLimiter(3)
        self.logged: list[str] = []
        self.said: list[str] = []
        #: The connection that each of these came on.
        self.said_on: list[Client] = []
        self.states: list[str] = []
        self._on_said = on_said
        self._news = anyio.Event()
        self.worker = Worker(
            spec,
            around,
            self.limiter,
            backoff,
            self.changed,
            self,
            lambda level, text: self.logged.append(text),
            session_idle=session_idle,
            known=known,
            health=health,
        )

    def changed(self) -> None:
        state = type(self.worker.state).__name__
        if self.states[-1:] != [state]:
            self.states.append(state)
        self._tell()

    def server_said(self, worker: Worker, client: Client, method: str, params: Raw) -> None:
        self.said.append(method)
        self.said_on.append(client)
        self._tell()
        if self._on_said is not None:
            self._on_said(worker, method)

    def server_asked(
        self, worker: Worker, client: Client, mid: bytes, method: str, params: Raw, current: int | None
    ) -> bool:
        return False

    def _tell(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    async def until(self, condition: Callable[[Worker], bool], timeout: float = 10) -> None:
        """Wait until it is true of the worker, which is looked at whenever its view is another one."""
        with anyio.fail_after(timeout):
            while not condition(self.worker):
                await self._news.wait()

    async def connected(self, timeout: float = 10) -> None:
        await self.until(lambda w: isinstance(w.state, Connected), timeout)

    async def failed(self, timeout: float = 10) -> str:
        """Wait until it has given up; what is said of the last fault."""
        await self.until(lambda w: isinstance(w.state, Failed), timeout)
        assert isinstance(self.worker.state, Failed)
        return self.worker.state.fault.message

    async def lost(self) -> None:
        await self.until(lambda w: not isinstance(w.state, Connected))


@asynccontextmanager
async def working(bench: Bench, patience: float = 5) -> AsyncIterator[Bench]:
    """Its task runs meanwhile, and ends in order: at most `patience` seconds after it was turned off."""
    async with anyio.create_task_group() as tasks:
        ended = anyio.Event()

        async def run() -> None:
            await bench.worker.run()
            ended.set()

        tasks.start_soon(run)
        yield bench
        bench.worker.post(TurnedOff("stopping"))
        with anyio.fail_after(patience):
            await ended.wait()
    assert bench.limiter.borrowed_tokens == 0
    assert bench.worker.client is None
    assert bench.worker.pid is None


async def eventually(condition: Callable[[], bool], timeout: float = 10) -> None:
    """Wait for what another process writes, which gives no event."""
    with anyio.fail_after(timeout):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.005)


def poke(bench: Bench) -> None:
    """Let a server that is connected do what its script has for `ping`."""
    assert bench.worker.client is not None
    bench.worker.client.start(Ignored(float("inf")), "ping")


def remote(url: str, headers: dict[str, str] | None = None, **more: Any) -> ServerSpec:
    """A server at this URL."""
    secrets = {name: Secret(value) for name, value in (headers or {}).items()}
    return ServerSpec("far", Origin(Scope.USER, "/mcp.json", "far"), HttpSpec(Secret(url), secrets, url), **more)


class Call:
    """A call of an agent, as far as a worker is concerned."""

    def __init__(self) -> None:
        self.deadline = self.hard = float("inf")
        self.idle = 600.0
        self.told: list[str] = []
        #: What it was told with the last of these.
        self.message = ""
        self.done = anyio.Event()

    def answered(self, env: Any) -> None:
        self.told.append("error" if env.error else "answered")
        self.done.set()

    def unanswered(self, kind: str, message: str) -> None:
        self.told.append(kind)
        self.message = message
        self.done.set()

    def progressed(self, params: Any) -> None:
        pass

    def moved(self, client: Any) -> None:
        self.told.append("moved")


def start_call(bench: Bench) -> Call:
    """A call on the worker's own connection."""
    call = Call()
    client = bench.worker.client
    assert client is not None
    tail = HUB_META_MEMBER if client.era == "modern" else b""
    client.call_tool(call, b'"echo"', b'{"text":"x"}', tail)
    return call


async def outcome(call: Call) -> list[str]:
    """All that it was told, once it has ended."""
    with anyio.fail_after(10):
        await call.done.wait()
    return call.told
