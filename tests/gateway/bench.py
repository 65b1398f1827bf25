"""Owns a gateway with scripted servers and agents: real workers and sessions, channels that a test speaks for.

It must not know what is tested.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from mcphub.catalog.cache import Catalog
from mcphub.channel import Data, Receiver
from mcphub.config.settings import LimitsSettings
from mcphub.connection.backoff import Backoff
from mcphub.connection.client import Client
from mcphub.connection.worker import Worker
from mcphub.errors import TransportError
from mcphub.gateway.dispatch import Gateway
from mcphub.gateway.telling import DEBOUNCE
from mcphub.protocol.jsonrpc import Raw
from mcphub.sessions.session import Session
from mcphub.spec import InProcessSpec, InstanceKey, Origin, Scope, ServerSpec, Want
from mcphub.supervisor.startup import Limiters
from mcphub.supervisor.supervisor import Supervisor
from mcphub.transport.kinds import TRANSPORTS
from mcphub.transport.link import Surroundings
from mcphub.transport.one_stream import OneStream
from mcphub.transport.process import Launcher
from mcphub.transport.stderr import StderrRing
from mcphub.transport.wire import SEVERAL, Batch
from tests.fakes.agent import strict_json

Message = dict[str, Any]
META = "io.modelcontextprotocol/"
MODERN_META = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}


def call(name: str = "mcp__s__t", **more: Any) -> dict[str, Any]:
    """The params of a call to a tool."""
    return {"name": name, "arguments": {}, **more}


def _compact(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()


def bring(receiver: Receiver, lines: Sequence[bytes]) -> bool:
    """Messages that came in one read, as a wire hands them on; whether they were taken together."""
    together = len(lines) >= SEVERAL and bool(receiver.burst(lines))  # type: ignore[attr-defined]
    if not together:
        for line in lines:
            receiver.frame(line)
    return together


class Server(OneStream):
    """A server that shakes hands by itself and keeps every call. Implements channel.Channel and link.Link.

    `refuses` makes an opening fail; `hold` keeps the answer to its first message back until `let_go`.
    """

    def __init__(
        self,
        name: str,
        *,
        era: str = "legacy",
        tools: tuple[str, ...] = ("t",),
        hold: bool = False,
        logging: bool = False,
    ) -> None:
        self.name = name
        self.tools = tools
        self.full = False
        self.current: int | None = None
        self.pid = None
        self.refuses = False
        #: What it says of its list of tools beside them.
        self.beside: Message = {}
        self.messages: list[Message] = []
        self._era = era
        self._hold = hold
        self._held: list[Message] = []
        self._capabilities: Message = {"tools": {"listChanged": True}, **({"logging": {}} if logging else {})}
        self._receiver: Receiver | None = None
        self._news = anyio.Event()

    @property
    def spec(self) -> ServerSpec:
        return ServerSpec(self.name, Origin(Scope.USER, "/mcp.json", self.name), InProcessSpec(self.name))

    # -- as transport

    @asynccontextmanager
    async def open(self, receiver: Receiver) -> AsyncIterator[Server]:
        if self.refuses:
            raise TransportError("cannot start: refused by the test", kind="spawn")
        self._receiver = receiver
        try:
            yield self
        finally:
            self.lose("")

    @property
    def channel(self) -> Server:
        return self

    async def exit_code(self, wait: float) -> int | None:
        return None

    def send(self, *parts: Data) -> None:
        for line in b"".join(parts).splitlines():
            message = strict_json(line)
            self.messages.append(message)
            if self._hold and "id" in message:
                self._held.append(message)
            else:
                asyncio.get_running_loop().call_soon(self._answer, message)
        news, self._news = self._news, anyio.Event()
        news.set()

    def abort(self) -> None:
        self.lose("")

    # -- as server

    def _answer(self, message: Message) -> None:
        method, mid = message["method"], message.get("id")
        modern = {"resultType": "complete"} if self._era == "modern" else {}
        if method == "server/discover" and self._era == "modern":
            self.result(mid, {**modern, "supportedVersions": ["2026-07-28"], "capabilities": self._capabilities})
        elif method == "server/discover":
            self.say({"jsonrpc": "2.0", "id": mid, "error": {"code": -32601, "message": "Method not found"}})
        elif method == "initialize":
            self.result(mid, {"protocolVersion": "2025-11-25", "capabilities": self._capabilities})
        elif method == "tools/list":
            tools = [{"name": t, "inputSchema": {"type": "object"}} for t in self.tools]
            self.result(mid, {**modern, "tools": tools, **self.beside})
        elif method == "logging/setLevel":
            self.result(mid, {})

    def hold_back(self) -> None:
        """From now on, as `hold`."""
        self._hold = True

    def let_go(self) -> None:
        self._hold = False
        held, self._held = self._held, []
        for message in held:
            self._answer(message)

    def say(self, message: Message) -> None:
        if self._receiver is not None:
            self._receiver.frame(memoryview(json.dumps(message).encode()))

    def say_all(self, messages: Sequence[Message]) -> bool:
        """Say these in one write, compactly; whether they were taken together."""
        assert self._receiver is not None
        return bring(self._receiver, [_compact(m) for m in messages])

    def result(self, mid: Any, result: Message) -> None:
        self.say({"jsonrpc": "2.0", "id": mid, "result": result})

    def text(self, call: Message, text: str) -> None:
        """Answer a call."""
        kind = {"resultType": "complete"} if self._era == "modern" else {}
        self.result(call["id"], {**kind, "content": [{"type": "text", "text": text}]})

    def notify(self, method: str, params: Message) -> None:
        self.say({"jsonrpc": "2.0", "method": method, "params": params})

    def give_back(self, message: Message) -> None:
        """Say of a request that the session was over before it was acted on."""
        if self._receiver is not None:
            self._receiver.unanswered(message["id"], "session", "the session is over")

    def lose(self, reason: str) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.lost(reason)

    def of(self, method: str) -> list[Message]:
        return [message for message in self.messages if message.get("method") == method]

    async def call(self, number: int = 1) -> Message:
        """The `number`th call so far, waiting for it."""
        while len(self.of("tools/call")) < number:
            await self._news.wait()
        return self.of("tools/call")[number - 1]

    async def got(self, method: str, number: int = 1) -> Message:
        while len(self.of(method)) < number:
            await self._news.wait()
        return self.of(method)[number - 1]


class Agent:
    """A session whose channel is this. `ask` sends and returns the answer if it came at once."""

    def __init__(self, bench: Bench, number: int, workspace: str = "") -> None:
        self.full = False
        self.current: int | None = None
        self.got: list[Message] = []
        self.session = Session(number, bench.gateway, client="", workspace=workspace, pid=None, since=0.0)
        self.session.use(self)
        self._bench = bench
        bench.gateway.join(self.session)

    # -- as channel

    def send(self, *parts: Data) -> None:
        for line in b"".join(parts).splitlines():
            found = strict_json(line)
            self.got.append(found)

    def abort(self) -> None:
        pass

    # -- as agent

    def write(self, line: bytes | str | Message | list[Any]) -> None:
        if isinstance(line, dict | list):
            line = json.dumps(line)
        self.session.frame(memoryview(line.encode() if isinstance(line, str) else line))

    def write_all(self, messages: Sequence[Message]) -> bool:
        """Write these at once, compactly; whether they were taken together."""
        return bring(self.session, [_compact(m) for m in messages])

    def ask(self, method: str, params: Any = None, *, id: Any = 1) -> Any:
        """Send a request; the answers to it that came at once, [] if none did."""
        before = len(self.got)
        message: Message = {"jsonrpc": "2.0", "id": id, "method": method}
        self.write({**message, **({"params": params} if params is not None else {})})
        return self.got[before:]

    def one(self, method: str, params: Any = None, *, id: Any = 1) -> Message:
        """The one answer, which came at once, under the same id."""
        [answer] = self.ask(method, params, id=id)
        assert answer["id"] == id and type(answer["id"]) is type(id)
        assert isinstance(answer, dict)
        return answer

    def error(self, method: str, params: Any = None, *, id: Any = 1) -> tuple[int, str]:
        error = self.one(method, params, id=id)["error"]
        return error["code"], error["message"]

    def modern(self, method: str, params: Message | None = None, *, id: Any = 1, meta: Message | None = None) -> Any:
        return self.ask(method, {**(params or {}), "_meta": {**MODERN_META, **(meta or {})}}, id=id)

    def notify(self, method: str, params: Any = None) -> None:
        self.write({"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})})

    def initialize(self, version: str = "2025-11-25") -> Agent:
        info = {"name": "test", "version": "1"}
        answer = self.one("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": info}, id="init")
        assert answer["result"]["protocolVersion"] == version
        return self

    def tools(self) -> list[str]:
        """The names of the list, which came at once."""
        return [tool["name"] for tool in self.one("tools/list", id="list")["result"]["tools"]]

    def of(self, method: str) -> list[Message]:
        return [message for message in self.got if message.get("method") == method]

    def answers(self, id: Any) -> list[Message]:
        return [m for m in self.got if "method" not in m and m["id"] == id and type(m["id"]) is type(id)]

    def leave(self) -> None:
        self.session.lost("")


class Bench:
    """The gateway, and what it stands on."""

    def __init__(
        self,
        supervisor: Supervisor,
        servers: dict[str, Server],
        list_wait: float,
        catalog: Catalog | None = None,
        limits: LimitsSettings | None = None,
    ) -> None:
        self.supervisor = supervisor
        self.servers = servers
        self.visible: Callable[[str], Mapping[str, InstanceKey]] = lambda workspace: {
            key.name: key for key in supervisor.snapshot.value.desired
        }
        self.gateway = Gateway(
            supervisor,
            catalog or Catalog(),
            lambda workspace: self.visible(workspace),
            list_wait,
            b"key",
            limits=limits,
        )
        self._numbers = iter(range(1, 10_000))

    def agent(self, workspace: str = "") -> Agent:
        return Agent(self, next(self._numbers), workspace)

    def want(self, *servers: Server) -> None:
        self.servers.update((server.name, server) for server in servers)
        self.supervisor.want({server.spec.key(): Want(server.spec) for server in servers})
        self.gateway.refresh()

    def worker(self, server: Server) -> Worker:
        return self.supervisor.workers[server.spec.key()]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until it is true, which is looked at with every snapshot that the gateway has got."""
        with anyio.fail_after(5):
            while not condition():
                await self.supervisor.snapshot.newer_than(self.supervisor.snapshot.revision)
                await anyio.lowlevel.checkpoint()

    async def up(self, *servers: Server) -> None:
        """Want these, and wait until all are connected."""
        self.want(*servers)
        await self.until(lambda: all(self.worker(server).client is not None for server in servers))
        self.gateway.refresh()


@asynccontextmanager
async def gateway(
    monkeypatch: pytest.MonkeyPatch,
    *,
    list_wait: float = 5.0,
    backoff: Backoff | None = None,
    catalog: Catalog | None = None,
    limits: LimitsSettings | None = None,
) -> AsyncIterator[Bench]:
    """A running bench."""
    servers: dict[str, Server] = {}

    def opener(spec: ServerSpec, around: Surroundings, receiver: Receiver, stderr: StderrRing) -> Any:
        return servers[spec.name].open(receiver)

    class Sink:
        def server_said(self, worker: Worker, client: Client, method: str, params: Raw) -> None:
            bench.gateway.server_said(worker, client, method, params)

        def server_asked(
            self, worker: Worker, client: Client, mid: bytes, method: str, params: Raw, current: int | None
        ) -> bool:
            return bench.gateway.server_asked(worker, client, mid, method, params, current)

    monkeypatch.setitem(TRANSPORTS, "in-process", opener)
    around = Surroundings(Launcher(), Batch(), dict)
    supervisor = Supervisor(around, Limiters.of(10), backoff or Backoff(attempts=0), Sink(), lambda level, text: None)
    bench = Bench(supervisor, servers, list_wait, catalog, limits)

    async def follow() -> None:
        revision = 0
        while True:
            revision = await supervisor.snapshot.newer_than(revision)
            bench.gateway.refresh()

    async with anyio.create_task_group() as tasks:
        started = anyio.Event()
        tasks.start_soon(supervisor.run, started)
        tasks.start_soon(follow)
        await started.wait()
        yield bench
        with anyio.fail_after(5):
            await supervisor.stop()
        tasks.cancel_scope.cancel()


async def settle() -> None:
    """Until what has changed by now is told: timers of the loop fire in order, so one that is set now for the time in
    which changes are collected fires behind any that was set before."""
    await anyio.wait_all_tasks_blocked()
    await anyio.sleep(DEBOUNCE)
