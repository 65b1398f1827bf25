"""Owns the daemon's life: builds the parts, wires them, waits for the end, shuts down in reverse. It decides nothing.

It must not hold state of its own, and nothing imports it but `ahead`.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import faulthandler
import gc
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

import anyio
import anyio.abc
import anyio.to_thread
import msgspec

from mcphub import activation, embed, sdnotify, service_status, welcome
from mcphub.auth.credentials import Credentials
from mcphub.config.places import Places, places
from mcphub.config.runtime_dir import runtime_dir, unused
from mcphub.config.settings import HubSettings, StopSettings
from mcphub.connection.backoff import Backoff
from mcphub.connection.client import Client
from mcphub.connection.pulse import Health
from mcphub.connection.worker import Worker
from mcphub.errors import ConfigError, ControlError, McphubError
from mcphub.login.invitations import Invitations
from mcphub.login.logins import Logins
from mcphub.login.notification import Notifications
from mcphub.observe.logging import configure
from mcphub.policy.tools import tool_rules
from mcphub.protocol.jsonrpc import Raw
from mcphub.service.names import LABEL
from mcphub.sessions.connectors import ConnectorsRefresher
from mcphub.sessions.login_path import LoginPathRefresher
from mcphub.sessions.loopback import Loopback, open_loopback
from mcphub.sessions.remote_settings import RemoteSettingsRefresher
from mcphub.sessions.vault_keeper import VaultKeeper
from mcphub.sessions.workspaces import Workspaces
from mcphub.store.catalogues import CatalogueStore
from mcphub.store.challenges import ChallengeStore
from mcphub.store.pins import PinStore
from mcphub.store.sealkey import load_or_create
from mcphub.store.vault import Vault
from mcphub.store.workspace_ids import WorkspaceIds
from mcphub.supervisor.catalogues import Catalogues
from mcphub.supervisor.outages import Outages
from mcphub.supervisor.sign_ins import SignIns
from mcphub.supervisor.startup import Limiters
from mcphub.supervisor.supervisor import Supervisor
from mcphub.supervisor.watch import Watch
from mcphub.transport.in_process_loop import InProcessLoop
from mcphub.transport.leftovers import Leftovers
from mcphub.transport.link import Surroundings
from mcphub.transport.process import Launcher, Started, become_subreaper
from mcphub.transport.signing import printer
from mcphub.transport.unix_socket import listening
from mcphub.transport.wire import Batch

if TYPE_CHECKING:
    from mcphub.catalog.cache import Catalog
    from mcphub.catalog.pinned import Pins
    from mcphub.control.hub import Hub
    from mcphub.gateway.dispatch import Gateway
    from mcphub.gateway.outcomes import Outcomes
    from mcphub.hub import RunningHub
    from mcphub.sessions.http_endpoint import HttpEndpoint, Log
    from mcphub.sessions.unix_listener import AgentListener
    from mcphub.transport.in_process import Embedded

log = logging.getLogger("mcphub")

#: How long servers may take to end beyond their own grace, seconds.
STOP_MARGIN = 5.0
#: How long all the rest of an orderly stop may take, seconds: answers on their way, open streams, sockets.
END_MARGIN = 4.0
#: A server at a URL may take three descriptors, and what is common as a limit is for programs that wait by select(2).
DESCRIPTORS = 65536
#: A new snapshot is looked at so many times later than the look before took, and so many seconds later at most.
FOLLOW_SHARE, FOLLOW_MOST = 24.0, 0.25
#: Memory is given back to the system so long after it was freed, seconds.
TRIM_AFTER = 0.5
#: The parts that HTTP needs are loaded so many seconds after the start at the latest.
QUIET_AT_MOST = 5.0


def main(args: argparse.Namespace, started: Started | None = None) -> int:
    """Run the daemon until it is told to stop. Returns the exit status: 0 stopped in order, 1 could not start.
    `started`: a launcher process that was started before, while this was imported."""
    configured = configure(args.log_level, form=args.log_format)
    manager = sdnotify.taken(os.environ)
    ready = _Ready(args.ready_fd, manager)
    if sdnotify.watchdog_interval(manager, os.getpid()) is not None:
        faulthandler.enable()  # the watchdog's SIGABRT then says where the loop hung
    doors: dict[str, socket.socket] = {}
    try:
        where = places()
        if "LISTEN_FDS" in os.environ:
            doors = activation.taken(os.environ, (where.agent_socket, where.http_socket, where.control_socket))
        managed = bool(doors) or "NOTIFY_SOCKET" in manager or os.environ.get("XPC_SERVICE_NAME") == LABEL
        given = embed.embedded(args.embed, (welcome.NAME,))
        end = _End(manager, managed)

        def hide(values: Iterable[str], owner: str = "") -> None:
            configured.hide(*values, owner=owner)

        loop = {"loop_factory": lambda: InProcessLoop(_server_exits)} if given else {}
        anyio.run(
            _run, ready, end, where, doors, hide, started, given, backend="asyncio", backend_options=loop
        )
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
        activation.close(doors.values())
        ready.close()
        configured.close()


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    out: list[BaseException] = []
    for e in group.exceptions:
        out += _leaves(e) if isinstance(e, BaseExceptionGroup) else [e]
    return out


class _Ready:
    """Who is told, once, that the sockets listen, or why not: a pipe of whoever started us, the service manager."""

    def __init__(self, fd: int | None, manager: Mapping[str, str]) -> None:
        self._fd = fd
        self._manager = manager

    def listening(self) -> None:
        self._write(b"1")
        sdnotify.ready(self._manager, "serving")

    def failed(self, why: str) -> None:
        self._write(why.encode("utf-8", "replace"))
        sdnotify.status(self._manager, why)

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


class _End:
    """Who asked for the end, and for files to be read anew: signals, and people. `manager` holds the service manager's
    variables; `managed`: there is one, which starts the next daemon."""

    def __init__(self, manager: Mapping[str, str], managed: bool) -> None:
        self.manager = manager
        self.managed = managed
        self.asked = anyio.Event()
        #: Whether it was the service manager: agents then go on in the daemon that it starts next.
        self.by_manager = False
        self.reload = anyio.Event()

    async def signals(self) -> None:
        """A second request to end changes nothing: the end is bounded, and one that is cut short is not orderly. SIGHUP
        is no end, since the terminal that started us may go."""
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                if number == signal.SIGHUP:
                    self.reload.set()
                else:
                    self.by_manager |= self.managed and number == signal.SIGTERM and not self.asked.is_set()
                    self.asked.set()

    async def reloads(self, workspaces: Workspaces) -> None:
        """Read every file anew when SIGHUP came. Files that change are seen without it."""
        while True:
            await self.reload.wait()
            self.reload = anyio.Event()
            sdnotify.reloading(self.manager)
            try:
                await workspaces.tick(again=True)
                log.info("read all files anew")
            except McphubError as error:
                log.error("%s", error)
            finally:
                sdnotify.ready(self.manager)


async def _run(
    ready: _Ready,
    end: _End,
    where: Places,
    doors: Mapping[str, socket.socket],
    hide: Callable[..., None],
    started: Started | None,
    given: Mapping[str, Embedded],
) -> None:
    become_subreaper()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(end.signals)
        leftovers = Leftovers(os.path.join(runtime_dir(), "launcher.marks"))
        async with (
            Launcher(started, leftovers.started) as launcher,
            _serving(where, doors, launcher, end, hide, given, leftovers),
        ):
            # A dump would hold every token. The launcher is older, so servers may still have theirs.
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            _take_descriptors()
            ready.listening()
            tasks.start_soon(service_status.beat, end.manager)
            gc.freeze()  # what start-up made stays: the collector need not look at it
            gc.enable()
            await end.asked.wait()
        leftovers.close()
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def _serving(
    where: Places,
    given_doors: Mapping[str, socket.socket],
    launcher: Launcher,
    end: _End,
    hide: Callable[..., None],
    given: Mapping[str, Embedded] | None = None,
    leftovers: Leftovers | None = None,
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
    vault = Vault(where.vault, settings.vault.key, os.environ)
    credentials = Credentials(
        vault,
        ChallengeStore(where.challenges),
        where.turns,
        lambda: workspaces.identity_provider,
        printer(launcher, lambda: workspaces.environment()),
        lambda: workspaces.environment(),
        lambda *values, owner="": hide(values, owner=owner),
        _log,
    )
    surroundings = msgspec.structs.replace(surroundings, credentials=credentials)
    seal_key, trouble = load_or_create(where.seal_key)
    catalogues = Catalogues(
        CatalogueStore(where.catalogues, seal_key), lambda: workspaces.environment(), _log, credentials.principal_kept
    )
    supervisor = Supervisor(
        _with_grace(surroundings, settings),
        Limiters.of(settings.connect.local, settings.connect.remote),
        Backoff(attempts=settings.connect.attempts),
        sink,
        _log,
        settings.logs.stderr_bytes,
        Health(settings.health.idle, settings.health.timeout),
        # With a key that does not outlive us nobody could read them.
        None if trouble else catalogues,
    )
    outages = Outages(supervisor, lambda: workspaces.environment(), _log)
    trim = _Trim()
    def changed() -> None:
        sign_ins.provided(workspaces.identity_provider)
        if sink.gateway is not None:
            catalog.govern(tool_rules(workspaces.policy))
            gateway.refresh()

    sign_ins = SignIns(supervisor, credentials)
    logins = Logins(credentials, lambda: workspaces.settings.oauth.client_metadata_url, sign_ins.wake_all)
    invitations = Invitations(logins, _log)
    notifications = Notifications(
        printer(launcher, lambda: workspaces.environment()),
        lambda: workspaces.environment(),
        lambda: workspaces.settings.oauth.notify,
    )
    credentials.listeners.append(lambda account: notifications.changed(credentials.known(account)))
    workspaces = Workspaces(supervisor, where, os.environ, changed, hide, vault.file.secret)
    for server in embed.entries(given or ()):
        workspaces.dynamic.add(server, keep=False)
    for problem in filter(None, (trouble, unused())):
        log.warning("%s", problem)
    def page_for(worker: Worker) -> str:
        credential = credentials.of(worker.spec)
        return invitations.page_for(credential) if credential is not None else ""

    attendance = Watch(None)
    with (
        listening(where.agent_socket, given_doors.get(where.agent_socket)) as agent_sock,
        listening(where.http_socket, given_doors.get(where.http_socket)) as http_sock,
        listening(where.control_socket, given_doors.get(where.control_socket)) as control_sock,
    ):
        if leftovers is not None and (count := leftovers.take_over()):
            log.warning("ended %d processes that servers of an earlier daemon had left running", count)
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
                _settle()
                endpoint = http.endpoint(
                    gateway, workspaces, ids, listener.numbers, _log, _report, attendance.touch
                )
                hub = http.hub(
                    supervisor,
                    catalog,
                    gateway,
                    workspaces,
                    listener,
                    endpoint,
                    attendance,
                    loopback,
                    ids,
                    launcher,
                    where,
                    vault,
                    hide,
                    end.asked.set,
                    began,
                    outages,
                    logins,
                )
                async with (
                    http.http_listener(endpoint, http_sock, loopback, _log),
                    http.control_server(hub, control_sock),
                ):
                    await ending.wait()
                    # Before the doors close: who calls through them is told what is known of it, as agents are.
                    gateway.end(listener.outliving())
                    batch.flush()
                    await hub.answered()

        async with anyio.create_task_group() as workers:
            started = anyio.Event()
            workers.start_soon(supervisor.run, started)
            workers.start_soon(VaultKeeper(vault, workspaces, supervisor, _log).run, quiet)
            await started.wait()
            started = anyio.Event()
            workers.start_soon(credentials.run, started)
            await started.wait()
            started = anyio.Event()
            workers.start_soon(logins.run, started)
            workers.start_soon(invitations.run)
            workers.start_soon(notifications.run)
            await started.wait()
            loaded = await workspaces.start()
            # Servers are on their way now: what agents need is loaded, and built, while the first of them start.
            with _frequent_switches():
                part = await anyio.to_thread.run_sync(_for_agents)
            pins = part.pins(PinStore(where.pins), project=settings.pinning.project, others=settings.pinning.others)
            lists = settings.lists
            catalog = part.catalog(settings.names.max_length, lists.page_bytes, pins, lists.description_length)
            outcomes = part.outcomes(seal_key, _log)
            outcomes.open(where.calls)
            gateway = part.gateway(
                supervisor,
                catalog,
                workspaces.visible,
                lists.wait,
                seal_key,
                lists.ttl,
                settings.roots.allowed,
                outcomes,
                settings.limits,
            )
            gateway.page_for = page_for
            invitations.done = gateway.signed_in
            gateway.begins_traces = settings.trace.begin
            listener = part.listener(gateway, workspaces, batch, _log, _report, trim, attendance.touch)
            sink.gateway = gateway
            changed()
            from mcphub.questions.grouping import grouped  # not before the first servers are on their way

            said = (*loaded.problems(), *loaded.warnings(), loopback.problem, ids.problem)
            for problem in grouped(filter(None, said)):
                log.warning("%s", problem)
            async with anyio.create_task_group() as agents:
                agents.start_soon(_follow, supervisor, gateway, trim)
                agents.start_soon(workspaces.run)
                agents.start_soon(workspaces.watch)
                agents.start_soon(outages.run)
                agents.start_soon(RemoteSettingsRefresher(workspaces, where, _log).run)
                agents.start_soon(ConnectorsRefresher(workspaces, where, _log).run)
                agents.start_soon(LoginPathRefresher(launcher, where, os.environ, _log).run, quiet)
                agents.start_soon(pins.run)
                agents.start_soon(catalogues.run)
                agents.start_soon(outcomes.run)
                agents.start_soon(end.reloads, workspaces)
                agents.start_soon(service_status.tell, end.manager, supervisor.snapshot)
                agents.start_soon(listener.run, agent_sock)
                async with anyio.create_task_group() as doors:
                    doors.start_soon(serve_http)
                    served = where.agent_socket + (f" and {loopback.url}" if loopback.url else "")
                    log.info("serving agents on %s, people on %s", served, where.control_socket)
                    yield
                    if end.by_manager:
                        listener.restarting = listener.managed = True
                    await _drain(end.manager, listener, gateway, settings.stop)
                    ending.set()
                gateway.end(listener.outliving())
                batch.flush()
                pins.flush()
                catalogues.flush()
                outcomes.end()
                agents.cancel_scope.cancel()
            with anyio.move_on_after(2 * settings.stop.grace + STOP_MARGIN):
                await supervisor.stop()
            await credentials.drain()
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


def _settle() -> None:
    """What is there now stays, and is never looked at again by the collector; what is garbage goes first. It takes as
    long as several servers take to start, so it comes after them."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


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


class _ForAgents(NamedTuple):
    """What is imported once the first servers are on their way: nobody of theirs needs it."""

    pins: type[Pins]
    catalog: type[Catalog]
    outcomes: type[Outcomes]
    gateway: type[Gateway]
    listener: type[AgentListener]


def _for_agents() -> _ForAgents:
    from mcphub.catalog.cache import Catalog
    from mcphub.catalog.pinned import Pins
    from mcphub.gateway.dispatch import Gateway
    from mcphub.gateway.outcomes import Outcomes
    from mcphub.sessions.unix_listener import AgentListener

    return _ForAgents(Pins, Catalog, Outcomes, Gateway, AgentListener)


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
    from mcphub.config.load import load_settings

    return load_settings(os.environ, where)


def _with_grace(surroundings: Surroundings, settings: HubSettings) -> Surroundings:
    return msgspec.structs.replace(surroundings, grace=settings.stop.grace)


def _take_descriptors() -> None:
    """As many as the system lets us have; the launcher is older, so servers have the limit that was set for all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):  # some systems have another bound, which they do not name
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


async def _follow(supervisor: Supervisor, gateway: Gateway, trim: _Trim) -> None:
    """Give the newest snapshot to the gateway; a connection that was lost may leave much to give back.

    With a thousand servers that connect one by one, a look at all of them for each would be most of the work: so the
    next one waits for a multiple of what this one took, but not where a list waits for the server that came last.
    """
    revision = 0
    while True:
        revision = await supervisor.snapshot.newer_than(revision)
        began = time.thread_time()  # not what others took meanwhile: while servers start they take most
        gateway.refresh()
        trim()
        seen = revision
        with anyio.move_on_after(min((time.thread_time() - began) * FOLLOW_SHARE, FOLLOW_MOST)):
            while not gateway.awaited:
                seen = await supervisor.snapshot.newer_than(seen)


async def _drain(manager: Mapping[str, str], listener: AgentListener, gateway: Gateway, stop: StopSettings) -> None:
    """Let nobody in, send nothing more to servers, and give what was sent its time to be answered."""
    longest = stop.drain + 2 * stop.grace + STOP_MARGIN + END_MARGIN
    sdnotify.stopping(manager, "stopping", longest)
    log.info("stopping")
    listener.close_door()
    left = await gateway.drain(stop.drain)
    if left:
        log.warning("%d calls were not answered within %g s; each is told what is known of it", left, stop.drain)


class _Sink:
    """Passes servers' messages to the gateway, which is built while the first servers start: until then there is no
    agent that they could be for. Implements worker.Sink."""

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


def _server_exits(error: BaseException) -> None:
    said = f"{type(error).__name__}: {error}"
    log.error("a server of --embed raised %s; what raised it has ended, and nothing else", said)


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
