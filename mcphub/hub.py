"""Owns the answers to people's questions: control.hub.Hub over the running parts.

It must not decide what runs, nor know HTTP; what it changes, it changes by writing an input and ticking.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable

import anyio
import anyio.to_thread

from mcphub import __version__
from mcphub.catalog.cache import Catalog
from mcphub.channel import Data
from mcphub.config.load import Loaded
from mcphub.config.places import Places
from mcphub.connection.machine import Asked, Connected, Failed
from mcphub.desired import desired_state, rows, visible
from mcphub.errors import ConfigError, ControlError
from mcphub.gateway.dispatch import Gateway
from mcphub.policy import approval
from mcphub.protocol.jsonrpc import quote
from mcphub.protocol.versions import LATEST_LEGACY
from mcphub.report import origin_status, resident, row
from mcphub.sessions.http_endpoint import HttpEndpoint
from mcphub.sessions.http_request import endpoint_path
from mcphub.sessions.loopback import Loopback
from mcphub.sessions.session import Session
from mcphub.sessions.unix_listener import AgentListener
from mcphub.sessions.workspaces import Workspaces
from mcphub.spec import Broken, InstanceKey
from mcphub.status import (
    ApprovalsReport,
    CallReport,
    DaemonStatus,
    LogsReport,
    ReconnectReport,
    ServerStatus,
    SessionStatus,
    StatusReport,
    ToolsReport,
    ToolStatus,
    UrlReport,
)
from mcphub.store.workspace_ids import WorkspaceIds
from mcphub.supervisor.supervisor import Supervisor
from mcphub.transport.process import Launcher

#: How long a call from the command line waits for a server that is just starting, seconds.
CALL_WAIT = 30.0


class RunningHub:
    """Implements control.hub.Hub. All methods run on the event loop's thread."""

    def __init__(
        self,
        supervisor: Supervisor,
        catalog: Catalog,
        gateway: Gateway,
        workspaces: Workspaces,
        listener: AgentListener,
        endpoint: HttpEndpoint,
        loopback: Loopback,
        ids: WorkspaceIds,
        launcher: Launcher,
        where: Places,
        stop: Callable[[], None],
    ) -> None:
        self._supervisor = supervisor
        self._catalog = catalog
        self._gateway = gateway
        self._workspaces = workspaces
        self._listener = listener
        self._endpoint = endpoint
        self._loopback = loopback
        self._ids = ids
        self._launcher = launcher
        self._sockets = (where.agent_socket, where.http_socket, where.control_socket)
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()

    # --- status ------------------------------------------------------------------------------------------------------

    def status(self, workspace: str, name: str | None) -> StatusReport:
        peeked = self._workspaces.peek(workspace := _directory(workspace))
        servers = [r for r in self._rows(peeked) if name is None or r["name"] == name]
        if name is not None and not servers:
            raise ControlError(f"no server is named {name}; `mcphub status` lists them", status=404)
        problems = [p for one in peeked.values() for p in one.problems()] + list(self._workspaces.store_problems)
        problems += [p for p in (self._loopback.problem, self._ids.problem) if p]
        return StatusReport(
            revision=self._supervisor.snapshot.revision,
            daemon=self._daemon(),
            servers=servers,
            sessions=self._sessions(),
            problems=list(dict.fromkeys(problems)),
            warnings=list(dict.fromkeys(w for one in peeked.values() for w in one.warnings())),
        )

    def _rows(self, loaded: dict[str, Loaded]) -> list[ServerStatus]:
        resolved = {workspace: one.resolved for workspace, one in loaded.items()}
        wishes = desired_state(resolved, self._workspaces.decisions)
        sources = rows(resolved)
        now = self._loop.time()
        out = []
        for key in sorted(wishes, key=lambda k: (k.workspace, k.name, k.digest)):
            worker = self._supervisor.workers.get(key)
            tools: int | None = None
            warnings: tuple[str, ...] = ()
            if worker is not None and worker.listed:
                definitions, warnings = self._catalog.definitions(worker.view())
                tools = len(definitions)
            out.append(row(key, wishes[key], sources.get(key), worker, tools, warnings, now))
        return out

    def _daemon(self) -> DaemonStatus:
        launcher = self._launcher.pid
        return DaemonStatus(
            version=__version__,
            pid=os.getpid(),
            uptime=round(self._loop.time() - self._began, 1),
            rss=resident(os.getpid()) or 0,
            launcher_pid=launcher,
            launcher_rss=resident(launcher),
            descriptors=_descriptors(),
            agent_socket=self._sockets[0],
            http_url=self._loopback.url or None,
            http_socket=self._sockets[1],
            control_socket=self._sockets[2],
        )

    def _sessions(self) -> list[SessionStatus]:
        now = self._loop.time()
        return [
            SessionStatus(
                id=s.number,
                client=s.client,
                workspace=s.workspace,
                era=s.era or None,
                pid=s.pid,
                since=round(now - s.since, 1),
                calls_in_flight=len(s.calls),
            )
            for s in sorted([*self._listener.sessions, *self._endpoint.agents()], key=lambda s: s.number)
        ]

    async def wait_newer(self, revision: int) -> int:
        if self._supervisor.snapshot.revision < revision:  # of a daemon before this one
            return self._supervisor.snapshot.revision
        return await self._supervisor.snapshot.newer_than(revision)

    # --- tools -------------------------------------------------------------------------------------------------------

    def tools(self, workspace: str, query: str, schemas: bool) -> ToolsReport:
        workspace = _directory(workspace)
        words = query.lower().split()
        out: list[ToolStatus] = []
        for route in self._gateway.toolset(workspace).routes.values():
            worker = self._supervisor.workers.get(route.key)
            d = route.definition
            text = f"{route.exposed} {d.title} {d.description}".lower()
            if worker is None or not all(word in text for word in words):
                continue
            origin = worker.spec.origin
            tool = ToolStatus(
                name=route.exposed,
                original_name=d.name,
                server=route.key.name,
                scope=str(origin.scope),
                origin=origin_status(origin),
                title=d.title,
                description=d.description,
            )
            if schemas:
                tool["input_schema"] = json.loads(dict(d.members)[b'"inputSchema"'])
            out.append(tool)
        return ToolsReport(revision=self._supervisor.snapshot.revision, tools=out)

    async def call(self, workspace: str, tool: str, arguments: bytes) -> CallReport:
        async with self._workspaces.using(workspace := _directory(workspace)):
            answer = _Answer()
            session = Session(
                0, self._gateway, client="mcphub call", workspace=workspace, pid=None, since=self._loop.time()
            )
            session.use(answer)
            session.version = LATEST_LEGACY
            self._gateway.join(session)
            try:
                with anyio.move_on_after(CALL_WAIT):
                    while tool not in session.toolset.routes and not self._gateway.settled(workspace):
                        await self._supervisor.snapshot.newer_than(self._supervisor.snapshot.revision)
                        await asyncio.sleep(0)  # the gateway gives the new toolset in the same turn
                        self._gateway.refresh()
                route = session.toolset.routes.get(tool)
                line = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%b,"arguments":%b}}'
                self._gateway.dispatch(session, memoryview(line % (quote(tool), arguments)))
                await answer.came.wait()
            finally:
                self._gateway.leave(session)
        reply = json.loads(answer.data)
        if route is None and "error" in reply:
            raise ControlError(f"no tool is named {tool}; `mcphub tools` lists them", status=404)
        # Without a route the answer says what is the matter with the server that the name leads to.
        servers = [name for name in self._workspaces.visible(workspace) if tool.startswith(f"mcp__{name}__")]
        report = CallReport(tool=tool, server=route.key.name if route is not None else max(servers, key=len))
        if "error" in reply:
            report["error"] = reply["error"]
        else:
            report["result"] = reply["result"]
        return report

    # --- agents over HTTP --------------------------------------------------------------------------------------------

    async def url(self, workspace: str, server: str) -> UrlReport:
        workspace = _directory(workspace)
        known = [name for name, _ in visible(self._workspaces.peek(workspace)[workspace].resolved)]
        if server and server not in known:
            raise ControlError(f"no server is named {server}; `mcphub status` lists them", status=404)
        try:
            given = await anyio.to_thread.run_sync(self._ids.remember, workspace) if workspace else ""
        except ConfigError as e:
            raise ControlError(f"cannot give a URL: {e}", status=500) from e
        path = endpoint_path(given, server)
        return UrlReport(url=self._loopback.url_for(path), socket=self._sockets[1], path=path)

    # --- connections -------------------------------------------------------------------------------------------------

    def _keys(self, workspace: str, name: str) -> list[InstanceKey]:
        """The instances of this name: the one that the workspace sees, else all of other workspaces. Raises 404."""
        workspace = _directory(workspace)
        found = visible(self._workspaces.peek(workspace)[workspace].resolved)
        keys = [key for one, key in found if one == name]
        keys = keys or [key for key in self._supervisor.workers if key.name == name]
        if not keys:
            raise ControlError(f"no server is named {name}; `mcphub status` lists them", status=404)
        return keys

    async def reconnect(self, workspace: str, name: str | None) -> ReconnectReport:
        await self._workspaces.tick(again=True)
        keys: Iterable[InstanceKey]
        keys = list(self._supervisor.workers) if name is None else self._keys(workspace, name)
        done = []
        for key in keys:
            worker = self._supervisor.workers.get(key)
            if worker is not None:
                worker.post(Asked())
                done.append(key.name)
        if name is not None and not done:
            raise ControlError(self._why_not(workspace, name), status=409)
        return ReconnectReport(reconnected=sorted(done))

    def _why_not(self, workspace: str, name: str) -> str:
        for one in self.status(workspace, name)["servers"]:
            return f"cannot reconnect {name}: it is {one['state_text']}: {one['reason']}"
        return f"cannot reconnect {name}"

    def logs(self, workspace: str, name: str, lines: int) -> LogsReport:
        dropped, out = 0, []
        for key in self._keys(workspace, name):
            worker = self._supervisor.workers.get(key)
            if worker is not None:
                dropped += worker.stderr.dropped
                out += worker.stderr_tail(lines)
        return LogsReport(name=name, dropped=dropped, lines=out)

    # --- approval ----------------------------------------------------------------------------------------------------

    def approvals(self, workspace: str) -> ApprovalsReport:
        items = []
        workspace = _directory(workspace)
        # As the files are now: what is shown here is what can be approved.
        for resolved in self._workspaces.peek(workspace, again=True)[workspace].resolved.servers.values():
            asked = approval.subject(resolved)
            if asked is not None:
                state = approval.decide(asked, self._workspaces.decisions)
                items.append(approval.approval_item(resolved, asked, state))
        return ApprovalsReport(items=items)

    def _subject(self, workspace: str, name: str) -> approval.Subject:
        workspace = _directory(workspace)
        resolved = self._workspaces.peek(workspace, again=True)[workspace].resolved.servers.get(name)
        asked = approval.subject(resolved) if resolved is not None else None
        if asked is None:
            raise ControlError(f"no server of this project is named {name} and waits for approval", status=404)
        return asked

    def approve(self, workspace: str, name: str, digest: str) -> None:
        asked = self._subject(workspace, name)
        if asked.digest != digest:
            raise ControlError(f"{name} has changed since it was shown; look at it again", status=409)
        self._write(lambda: self._workspaces.store.approve(asked.directory, name, asked.content()))

    def reject(self, workspace: str, name: str) -> None:
        asked = self._subject(workspace, name)
        self._write(lambda: self._workspaces.store.reject(asked.directory, name))

    def _write(self, change: Callable[[], None]) -> None:
        try:
            change()
        except (ConfigError, OSError) as e:
            raise ControlError(f"cannot record the decision: {e}", status=500) from e
        self._workspaces.decide_again()

    def stop(self) -> None:
        self._stop()

    def lines(self) -> list[str]:
        """One line a server, for the embedded server's own status tool."""
        out = []
        for worker in self._supervisor.workers.values():
            state = worker.state
            text = "connected" if isinstance(state, Connected) else type(state).__name__.lower()
            why = f": {state.fault.message}" if isinstance(state, Failed) else ""
            out.append(f"{worker.name}: {text}{why}")
        for key, wish in self._supervisor.snapshot.value.desired.items():
            if isinstance(wish, Broken):
                out.append(f"{key.name}: failed: {wish.problem.message}")
        return out


class _Answer:
    """The channel of a session that asks one thing. Implements channel.Channel."""

    full = False
    current: int | None = None

    def __init__(self) -> None:
        self.came = anyio.Event()
        self.data = b""

    def send(self, *parts: Data) -> None:
        frame = b"".join(parts)
        if not self.came.is_set() and not frame.startswith(b'{"jsonrpc":"2.0","method":'):
            self.data = frame
            self.came.set()

    def abort(self) -> None:
        pass


def _directory(workspace: str) -> str:
    """A workspace as agents name it. Raises ControlError 400."""
    if workspace and (not os.path.isabs(workspace) or "\0" in workspace):
        raise ControlError(f"cannot use the workspace {workspace[:200]!r}: it is not an absolute path", status=400)
    return os.path.normpath("/" + workspace.lstrip("/")) if workspace else ""


def _descriptors() -> int:
    try:
        return len(os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd")) - 1
    except OSError:
        return 0
