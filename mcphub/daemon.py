"""Owns the daemon's life: builds the parts, wires them, waits for the end, shuts down in reverse. It decides nothing.

It must not hold state of its own, and nothing imports it but `ahead`.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, NamedTuple

import anyio
import anyio.abc
import anyio.to_thread
import msgspec

from mcphub import embed, sdnotify, welcome
from mcphub.catalog.cache import Catalog
from mcphub.catalog.pinned import Pins
from mcphub.config.places import Places, places
from mcphub.config.runtime_dir import unused
from mcphub.config.settings import HubSettings
from mcphub.connection.backoff import Backoff
from mcphub.connection.client import Client
from mcphub.connection.worker import Worker
from mcphub.errors import ConfigError, ControlError, McphubError
from mcphub.gateway.dispatch import Gateway
from mcphub.observe.logging import configure
from mcphub.policy.tools import tool_rules
from mcphub.protocol.jsonrpc import Raw
from mcphub.sessions.connectors import ConnectorsRefresher
from mcphub.sessions.login_path import LoginPathRefresher
from mcphub.sessions.loopback import Loopback, open_loopback
from mcphub.sessions.remote_settings import RemoteSettingsRefresher
from mcphub.sessions.unix_listener import AgentListener
from mcphub.sessions.workspaces import Workspaces
from mcphub.store.pins import PinStore
from mcphub.store.sealkey import load_or_create
from mcphub.store.workspace_ids import WorkspaceIds
from mcphub.supervisor.startup import Limiters
from mcphub.supervisor.supervisor import Supervisor
from mcphub.transport.in_process import Handler
from mcphub.transport.link import Surroundings
from mcphub.transport.process import Launcher, Started, become_subreaper
from mcphub.transport.unix_socket import listening
from mcphub.transport.wire import Batch

if TYPE_CHECKING:
    from mcphub.control.hub import Hub
    from mcphub.hub import RunningHub
    from mcphub.sessions.http_endpoint import HttpEndpoint, Log

log = logging.getLogger("mcphub")

#: How long an orderly stop may take beyond the servers' own grace, seconds.
STOP_MARGIN = 5.0
#: Memory is given back to the system so long after it was freed, seconds.
TRIM_AFTER = 0.5
#: The parts that HTTP needs are loaded so many seconds after the start at the latest.
QUIET_AT_MOST = 5.0


def main(args: argparse.Namespace, started: Started | None = None) -> int:
    """Run the daemon until it is told to stop. Returns the exit status: 0 stopped in order, 1 could not start.
    `started`: a launcher process that was started before, while this was imported."""
    configured = configure(args.log_level, form=args.log_format)
    ready = _Ready(args.ready_fd)
    try:
        given = embed.embedded(args.embed, (welcome.NAME,))
        anyio.run(_run, ready, lambda values: configured.hide(*values), started, given, backend="asyncio")
        return 0
    except (ConfigError, ControlError) as e:
        ready.failed(str(e))
        log.error("%s", e)
        return 1
    except BaseExceptionGroup as group:
        known = group.subgroup(McphubError)
        if known is None or group.split(McphubError)[1] is not None:
            raise
        text = "; ".join(str(e) for e in _leaves(known))
        ready.failed(text)
        log.error("%s", text)
        return 1
    finally:
        ready.close()
        configured.close()


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    out: list[BaseException] = []
    for e in group.exceptions:
        out += _leaves(e) if isinstance(e, BaseExceptionGroup) else [e]
    return out


class _Ready:
    """Who is told, once, that the sockets listen, or why not: a pipe of whoever started us, the service manager."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd

    def listening(self) -> None:
        self._write(b"1")
        sdnotify.ready(os.environ, "serving")

    def failed(self, why: str) -> None:
        self._write(why.encode("utf-8", "replace"))

    def _write(self, data: bytes) -> None:
        if self._fd is not None:
            try:
                os.write(self._fd, data)
            except OSError:
                pass  # whoever started us is gone
            self.close()

    def close(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            try:
                os.close(fd)
            except OSError:
                pass  # there never was one of that number


async def _run(
    ready: _Ready,
    hide: Callable[[Iterable[str]], None],
    started: Started | None,
    given: Mapping[str, Handler],
) -> None:
    stop = anyio.Event()
    where = places()
    become_subreaper()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_signals, stop)
        async with Launcher(started) as launcher, _serving(where, launcher, stop, hide, given):
            ready.listening()
            gc.collect()
            gc.freeze()  # what start-up made stays: the collector need not look at it again
            gc.enable()
            await stop.wait()
            sdnotify.stopping(os.environ)
            log.info("stopping")
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def _serving(
    where: Places,
    launcher: Launcher,
    stop: anyio.Event,
    hide: Callable[[Iterable[str]], None],
    given: Mapping[str, Handler] | None = None,
) -> AsyncIterator[None]:
    """Everything between the first part that is built and the last that is taken down."""
    batch = Batch()
    sink = _Sink()
    surroundings = Surroundings(
        launcher,
        batch,
        lambda: workspaces.environment(),
        {welcome.NAME: welcome.server(where.servers, lambda: welcome.lines(supervisor)), **(given or {})},
        report=_report,
    )
    settings = _settings(where)
    supervisor = Supervisor(
        _with_grace(surroundings, settings),
        Limiters.of(settings.connect.local, settings.connect.remote),
        Backoff(attempts=settings.connect.attempts),
        sink,
        _log,
        settings.logs.stderr_bytes,
    )
    trim = _Trim()
    pins = Pins(PinStore(where.pins), project=settings.pinning.project, others=settings.pinning.others)
    catalog = Catalog(settings.names.max_length, settings.lists.page_bytes, pins)

    def changed() -> None:
        catalog.govern(tool_rules(workspaces.policy))
        gateway.refresh()

    workspaces = Workspaces(supervisor, where, os.environ, changed, hide)
    for server in embed.entries(given or ()):
        workspaces.dynamic.add(server, keep=False)
    seal_key, trouble = load_or_create(where.seal_key)
    for problem in filter(None, (trouble, unused())):
        log.warning("%s", problem)
    lists = settings.lists
    gateway = Gateway(supervisor, catalog, workspaces.visible, lists.wait, seal_key, lists.ttl)
    sink.gateway = gateway
    listener = AgentListener(gateway, workspaces, batch, _log, _report, trim)
    with (
        listening(where.agent_socket) as agent_sock,
        listening(where.http_socket) as http_sock,
        listening(where.control_socket) as control_sock,
    ):
        ids = WorkspaceIds(where.workspace_ids)
        loopback = open_loopback(settings.http, where.http_token)
        hide([loopback.token] if loopback.token else [])
        began = asyncio.get_running_loop().time()
        ending = anyio.Event()
        quiet = anyio.Event()

        async def serve_http() -> None:
            doors = [http_sock, control_sock, *([loopback.sock] if loopback.sock is not None else [])]
            await _until_wanted(doors, supervisor, gateway, ending)
            if ending.is_set() and loopback.sock is not None:
                loopback.sock.close()  # nobody else has taken it
            if not ending.is_set():
                with _frequent_switches():
                    http = await anyio.to_thread.run_sync(_http)
                quiet.set()
                endpoint = http.endpoint(gateway, workspaces, ids, listener.numbers, _log, _report)
                hub = http.hub(
                    supervisor,
                    catalog,
                    gateway,
                    workspaces,
                    listener,
                    endpoint,
                    loopback,
                    ids,
                    launcher,
                    where,
                    stop.set,
                    began,
                )
                async with http.http_listener(endpoint, http_sock, loopback, _log):
                    async with http.control_server(hub, control_sock):
                        await ending.wait()
                    gateway.end(listener.outliving())
                    batch.flush()

        async with anyio.create_task_group() as workers:
            started = anyio.Event()
            workers.start_soon(supervisor.run, started)
            await started.wait()
            loaded = await workspaces.start()
            for problem in filter(None, (*loaded.problems(), *loaded.warnings(), loopback.problem, ids.problem)):
                log.warning("%s", problem)
            async with anyio.create_task_group() as agents:
                agents.start_soon(_follow, supervisor, gateway, trim)
                agents.start_soon(workspaces.run)
                agents.start_soon(workspaces.watch)
                agents.start_soon(RemoteSettingsRefresher(workspaces, where, _log).run)
                agents.start_soon(ConnectorsRefresher(workspaces, where, _log).run)
                agents.start_soon(LoginPathRefresher(launcher, where, os.environ, _log).run, quiet)
                agents.start_soon(pins.run)
                agents.start_soon(listener.run, agent_sock)
                async with anyio.create_task_group() as doors:
                    doors.start_soon(serve_http)
                    served = where.agent_socket + (f" and {loopback.url}" if loopback.url else "")
                    log.info("serving agents on %s, people on %s", served, where.control_socket)
                    yield
                    ending.set()
                gateway.end(listener.outliving())
                batch.flush()
                pins.flush()
                agents.cancel_scope.cancel()
            with anyio.move_on_after(2 * settings.stop.grace + STOP_MARGIN):
                await supervisor.stop()
            workers.cancel_scope.cancel()


async def _until_wanted(
    doors: Iterable[socket.socket], supervisor: Supervisor, gateway: Gateway, ending: anyio.Event
) -> None:
    """Until somebody comes over HTTP, or no server of everybody's is in its first start any more: what HTTP needs is
    the largest part of our own start-up, and the servers come first. QUIET_AT_MOST seconds at the longest."""
    with anyio.move_on_after(QUIET_AT_MOST):
        async with anyio.create_task_group() as tasks:

            async def when(wait: Callable[..., Awaitable[object]], *args: object) -> None:
                await wait(*args)
                tasks.cancel_scope.cancel()

            async def settled() -> None:
                revision = 0
                while not gateway.settled(""):
                    revision = await supervisor.snapshot.newer_than(revision)

            for door in doors:
                tasks.start_soon(when, anyio.wait_readable, door)
            tasks.start_soon(when, settled)
            tasks.start_soon(when, ending.wait)


@contextmanager
def _frequent_switches() -> Iterator[None]:
    """Let the loop have its turn every half a millisecond while another thread imports: ten times as often as usual,
    since each server that starts needs several turns."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class _Http(NamedTuple):
    """What is imported only once somebody needs it."""

    hub: type[RunningHub]
    endpoint: type[HttpEndpoint]
    control_server: Callable[[Hub, socket.socket], AbstractAsyncContextManager[None]]
    http_listener: Callable[[HttpEndpoint, socket.socket, Loopback, Log], AbstractAsyncContextManager[None]]


def _http() -> _Http:
    from mcphub.control.server import control_server
    from mcphub.hub import RunningHub
    from mcphub.sessions.http_endpoint import HttpEndpoint
    from mcphub.sessions.http_listener import http_listener

    return _Http(RunningHub, HttpEndpoint, control_server, http_listener)


def _settings(where: Places) -> HubSettings:
    from mcphub.config.load import load

    return load("", os.environ, where).settings


def _with_grace(surroundings: Surroundings, settings: HubSettings) -> Surroundings:
    return msgspec.structs.replace(surroundings, grace=settings.stop.grace)


async def _follow(supervisor: Supervisor, gateway: Gateway, trim: _Trim) -> None:
    """Give every new snapshot to the gateway; a connection that was lost may leave much to give back."""
    revision = 0
    while True:
        revision = await supervisor.snapshot.newer_than(revision)
        gateway.refresh()
        trim()


async def _signals(stop: anyio.Event) -> None:
    """A second request changes nothing: the end is bounded, and one that is cut short is not orderly."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            if number != signal.SIGHUP:  # the terminal that started us may go; we stay
                stop.set()


class _Sink:
    """Passes servers' messages to the gateway, which is built after the supervisor. Implements worker.Sink."""

    gateway: Gateway | None = None

    def server_said(self, worker: Worker, client: Client, method: str, params: Raw) -> None:
        if self.gateway is not None:
            self.gateway.server_said(worker, client, method, params)

    def server_asked(
        self, worker: Worker, client: Client, mid: bytes, method: str, params: Raw, current: int | None
    ) -> bool:
        return self.gateway is not None and self.gateway.server_asked(worker, client, mid, method, params, current)


def _log(level: str, text: str) -> None:
    log.log(logging.getLevelNamesMapping()[level.upper()], "%s", text)


def _report(error: BaseException) -> None:
    log.error("internal error, please report it", exc_info=error)


class _Trim:
    """Gives freed memory back to the system (glibc keeps it): once, a little after the last agent that left."""

    def __init__(self) -> None:
        self._timer: object | None = None
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None

    def __call__(self) -> None:
        if self._trim is not None and self._timer is None:
            import asyncio

            self._timer = asyncio.get_running_loop().call_later(TRIM_AFTER, self._now)

    def _now(self) -> None:
        self._timer = None
        gc.collect()
        if self._trim is not None:
            self._trim(0)
