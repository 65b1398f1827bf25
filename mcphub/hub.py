"""Owns the answers to people's questions: control.hub.Hub over the running parts.

It must not decide what runs, nor know HTTP; what it changes, it changes by writing an input and ticking.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from mcphub import __version__
from mcphub.catalog.cache import Catalog
from mcphub.channel import Data
from mcphub.config.expand import secret_name_fault
from mcphub.config.load import Loaded
from mcphub.config.names import lookup_fault, name_fault, shown_name, unknown_server
from mcphub.config.places import Places
from mcphub.config.resolve import Resolved, ResolvedSet
from mcphub.connection.machine import Asked
from mcphub.connection.view import View
from mcphub.connection.worker import Worker
from mcphub.desired import instance_key, judgements, rows, twins, visible
from mcphub.errors import ConfigError, ControlError
from mcphub.gateway.dispatch import Gateway
from mcphub.login.answers import Answers
from mcphub.login.logins import Logins
from mcphub.policy import approval
from mcphub.policy.combine import documents_of, policy_of
from mcphub.protocol.jsonrpc import INVALID_PARAMS, quote
from mcphub.protocol.versions import LATEST_LEGACY
from mcphub.questions.calls import CallsAsked, calls_report, no_such_call
from mcphub.questions.grouping import grouped
from mcphub.questions.place import origin_status
from mcphub.report import at_second, held_back, in_use, resident, row, unanswered
from mcphub.sessions.http_endpoint import HttpEndpoint
from mcphub.sessions.http_request import endpoint_path
from mcphub.sessions.loopback import Loopback
from mcphub.sessions.session import Session
from mcphub.sessions.unix_listener import AgentListener
from mcphub.sessions.workspaces import Workspaces
from mcphub.spec import Broken, InstanceKey, Off, Scope, ServerSpec, Want
from mcphub.status import (
    AddedReport,
    ApprovalsReport,
    CallReport,
    CallsReport,
    DaemonStatus,
    InventoryReport,
    LoginReport,
    LogoutReport,
    LogsReport,
    NetworkStatus,
    PasteReport,
    PolicyReport,
    PolicyVerdict,
    ReconnectReport,
    SecretReport,
    SecretsReport,
    SecretStatus,
    ServerStatus,
    SessionStatus,
    StatusReport,
    ToolChange,
    ToolChangesReport,
    ToolsReport,
    ToolStatus,
    UrlReport,
    VaultReport,
    WhyReport,
    WithheldTool,
)
from mcphub.store.dynamic import Added
from mcphub.store.vault import SECRET, Trouble, Vault, VaultState, VaultUnavailable
from mcphub.store.workspace_ids import WorkspaceIds
from mcphub.supervisor.outages import Outages
from mcphub.supervisor.supervisor import Supervisor
from mcphub.supervisor.watch import Watch
from mcphub.transport.process import Launcher
from mcphub.transport.stderr import StderrRing

#: How long a call from the command line waits until its tool is known, or all servers have had their first start,
#: seconds. A server that its name leads to is waited for as in any call.
CALL_WAIT = 30.0
#: When the daemon stops: seconds for passing on answers that are there, and for what leaves a moment later.
LAST_ANSWERS = 1.0
ON_ITS_WAY = 0.05


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
        attendance: Watch[None],
        loopback: Loopback,
        ids: WorkspaceIds,
        launcher: Launcher,
        where: Places,
        vault: Vault,
        hide: Callable[[Iterable[str]], None],
        stop: Callable[[], None],
        began: float,
        outages: Outages,
        logins: Logins,
    ) -> None:
        """`attendance` is touched when agents come, go or say who they are; `began`: when the daemon did, by the loop's
        clock. `hide` gets the values that no log may show."""
        self._supervisor = supervisor
        self._catalog = catalog
        self._gateway = gateway
        self._workspaces = workspaces
        self._listener = listener
        self._endpoint = endpoint
        self._attendance = attendance
        self._loopback = loopback
        self._ids = ids
        self._launcher = launcher
        self._sockets = (where.agent_socket, where.http_socket, where.control_socket)
        self._vault = vault
        self._hide = hide
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        #: Calls that wait for their answers.
        self._asking: set[_Answer] = set()
        self._began = began
        self._outages = outages
        self._credentials = logins.credentials
        self._sign_ins = Answers(logins, self._signed_in_specs)

    # --- status ------------------------------------------------------------------------------------------------------

    def status(self, workspace: str, name: str | None) -> StatusReport:
        peeked = self._workspaces.peek(workspace := _directory(workspace))
        rows = in_use(self._rows(peeked).values())
        servers = [r for r in rows if name is None or r["name"] in (name, shown_name(name))]
        if name is not None and not servers:
            raise ControlError(unknown_server(name), status=404)
        warnings = [w for one in peeked.values() for w in one.warnings()] + list(self._workspaces.warnings())
        if name is not None:
            # Those about an entry stand in its row.
            of_entries = {w for one in peeked.values() for r in one.resolved.servers.values() for w in r.warnings}
            warnings = [w for w in warnings if w not in of_entries]
        return StatusReport(
            revision=self._revision,
            daemon=self._daemon(),
            servers=servers,
            sessions=self._sessions(),
            problems=self._problems(peeked),
            warnings=grouped([*warnings, *self._workspaces.policy.warnings, *self._vault.warnings()]),
            saved=sum((len(one.get("used_by", ())) - 1) * (one["rss"] or 0) for one in servers if one.get("used_by")),
        )

    def _problems(self, loaded: dict[str, Loaded]) -> list[str]:
        """What cannot be used, each once."""
        problems = [p for one in loaded.values() for p in one.problems()] + list(self._workspaces.store_problems)
        problems += self._workspaces.policy.closed
        problems += self._gateway.outcomes.problems()
        vault = self._vault.state
        if vault.trouble not in (None, Trouble.OPENING):
            problems.append(vault.detail)
        problems += [p for p in (self._loopback.problem, self._ids.problem, *self._catalog.problems) if p]
        return grouped(problems)

    def _rows(self, loaded: dict[str, Loaded]) -> dict[InstanceKey, ServerStatus]:
        resolved = self._workspaces.distinct(loaded)
        wishes = self._workspaces.wishes(resolved)
        sources = rows(resolved)
        users, waiting = self._users(), self._gateway.held()
        now = self._loop.time()
        out: dict[InstanceKey, ServerStatus] = {}
        for key in sorted(wishes, key=lambda k: (k.workspace, k.name, k.digest)):
            worker = self._supervisor.workers.get(key)
            tools: int | None = None
            warnings: tuple[str, ...] = ()
            nothing_left = ""
            if worker is not None and worker.listed:
                definitions, warnings = self._catalog.definitions(view := worker.view())
                warnings += self._catalog.unclean(view)
                tools = len(definitions)
                if nothing_left := self._catalog.nothing_left(view):
                    warnings = (nothing_left, *warnings)
            credential = self._credentials.of(worker.spec) if worker is not None else None
            need = credential.shown if credential is not None else None
            one = row(key, wishes[key], sources.get(key), worker, tools, warnings, now, need)
            one["warnings"] = grouped(one["warnings"])
            if nothing_left:
                one["nothing_left"] = nothing_left
            one["used_by"] = users.get(key, [])
            if waiting[key]:
                one["queued"] = waiting[key]
            if circuits := self._gateway.circuits.shown(key):
                one["held_back"] = held_back(circuits, now)
            if asked := self._gateway.unanswered(key):
                one["unanswered"] = unanswered(asked, now)
            out[key] = one
        return out

    def _users(self) -> dict[InstanceKey, list[int]]:
        """The agents that see each instance."""
        found: dict[InstanceKey, list[int]] = {}
        for session in self._agents():
            for key in self._gateway.seen(session.workspace, session.view).values():
                found.setdefault(key, []).append(session.number)
        return found

    def _agents(self) -> list[Session]:
        return sorted([*self._listener.sessions, *self._endpoint.agents()], key=lambda s: s.number)

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
            network=NetworkStatus(
                standing=str(self._outages.standing),
                since=at_second(self._outages.since),
                waiting=self._outages.waiting,
            ),
        )

    def _sessions(self) -> list[SessionStatus]:
        now = self._loop.time()
        return [
            SessionStatus(
                id=s.number,
                client=s.client,
                workspace=s.workspace.partition("\0")[0],
                era=s.era or None,
                pid=s.pid,
                since=round(now - s.since, 1),
                calls_in_flight=len(s.calls),
            )
            for s in self._agents()
        ]

    async def wait_newer(self, revision: int) -> int:
        while self._revision == revision:  # any other one is news, also that of a daemon before this one
            await _any(
                None,
                (self._supervisor.snapshot.newer_than, self._supervisor.snapshot.revision),
                (self._attendance.newer_than, self._attendance.revision),
            )
        return self._revision

    @property
    def _revision(self) -> int:
        """Another one with each change of a server, and with each agent that comes, goes or says who it is."""
        return self._supervisor.snapshot.revision + self._attendance.revision

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
            change = self._catalog.listed(worker.view()).judgement.changes.get(d.name)
            if change is not None:
                tool["change"] = str(change)
            if schemas:
                tool["input_schema"] = json.loads(dict(d.members)[b'"inputSchema"'])
            out.append(tool)
        withheld = [
            WithheldTool(original_name=name, server=key.name, reason=reason)
            for key in self._gateway.seen(workspace).values()
            if (worker := self._supervisor.workers.get(key)) is not None
            for name, reason in self._catalog.listed(worker.view()).withheld.items()
            if all(word in f"{key.name} {name}".lower() for word in words)
        ]
        return ToolsReport(revision=self._revision, tools=out, withheld=withheld)

    async def call(self, workspace: str, tool: str, arguments: bytes) -> CallReport:
        async with self._workspaces.using(workspace := _directory(workspace)):
            answer = _Answer()
            session = Session(
                0, self._gateway, client="mcphub call", workspace=workspace, pid=None, since=self._loop.time()
            )
            session.use(answer)
            session.version = LATEST_LEGACY
            self._gateway.join(session)
            self._asking.add(answer)
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
                # It may have become known while the call waited for its server.
                route = route or session.toolset.routes.get(tool)
            finally:
                self._asking.discard(answer)
                self._gateway.leave(session)
        reply = json.loads(answer.data)
        if route is None and "error" in reply and reply["error"]["code"] == INVALID_PARAMS:
            raise ControlError(f"no tool is named {tool}; `mcphub tools` lists them", status=404)
        # Without a route the answer says what is the matter with the server that the name leads to.
        servers = [name for name in self._workspaces.visible(workspace) if tool.startswith(f"mcp__{name}__")]
        named = max(servers, key=len, default="")
        report = CallReport(tool=tool, server=route.key.name if route is not None else named)
        if "error" in reply:
            report["error"] = reply["error"]
        else:
            report["result"] = reply["result"]
        return report

    async def answered(self) -> None:
        """Until all calls that have their answers have passed them on; at most LAST_ANSWERS seconds."""
        with anyio.move_on_after(LAST_ANSWERS):
            while any(answer.came.is_set() for answer in self._asking):
                await anyio.lowlevel.checkpoint()
            await anyio.sleep(ON_ITS_WAY)

    # --- agents over HTTP --------------------------------------------------------------------------------------------

    async def url(self, workspace: str, server: str) -> UrlReport:
        workspace = _directory(workspace)
        known = [name for name, _ in visible(self._workspaces.peek(workspace)[workspace].resolved)]
        if server and server not in known:
            raise ControlError(unknown_server(server), status=404)
        try:
            given = await anyio.to_thread.run_sync(self._ids.remember, workspace) if workspace else ""
        except ConfigError as e:
            raise ControlError(f"cannot give a URL: {e}", status=500) from e
        path = endpoint_path(given, server)
        return UrlReport(url=self._loopback.url_for(path), socket=self._sockets[1], path=path)

    # --- connections -------------------------------------------------------------------------------------------------

    def _keys(self, workspace: str, name: str) -> list[InstanceKey]:
        """The instances of this name: that of the workspace, else all of other workspaces. Where the workspace's does
        not run, those that agents of the same workspace have who brought a variable that it lacks. Raises 404."""
        workspace = _directory(workspace)
        found = visible(self._workspaces.peek(workspace)[workspace].resolved)
        keys = [key for one, key in found if one == name]
        running = [key for key in self._supervisor.workers if key.name == name]
        if not any(key in running for key in keys):
            owners = {key.workspace for key in keys}
            keys += [key for key in running if not owners or key.workspace in owners]
        if not keys:
            raise ControlError(unknown_server(name), status=404)
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
        report = ReconnectReport(reconnected=sorted(set(done)))
        if name is None and (problems := self._problems(self._workspaces.peek(_directory(workspace)))):
            report["problems"] = problems
        return report

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
                out += worker.log_tail(lines)
        return LogsReport(name=name, dropped=dropped, lines=out)

    async def follow_logs(
        self, workspace: str, name: str, lines: int, heartbeat: float
    ) -> AsyncGenerator[LogsReport | None, None]:
        """Implements control.hub.Hub. A server whose entry changes is followed in the one that takes its place."""
        self._keys(workspace, name)
        heard: dict[StderrRing, int] = {}
        first = True
        while True:
            revision = self._supervisor.snapshot.revision
            workers = self._named(workspace, name)
            new, dropped = [], 0
            for worker in workers:
                ring = worker.stderr
                known = heard.get(ring, max(ring.count - lines, 0) if first else 0)
                new += [worker.clean(line) for line in ring.after(known)]
                dropped += ring.dropped
            heard = {worker.stderr: worker.stderr.count for worker in workers}
            if new or first:
                first = False
                yield LogsReport(name=name, dropped=dropped, lines=new)
                continue  # it may have taken a while
            if not await _any(
                heartbeat,
                (self._supervisor.snapshot.newer_than, revision),
                *((ring.newer_than, count) for ring, count in heard.items()),
            ):
                yield None

    def _named(self, workspace: str, name: str) -> list[Worker]:
        try:
            keys = self._keys(workspace, name)
        except ControlError:
            return []  # it was removed; it may come back
        return [worker for key in keys if (worker := self._supervisor.workers.get(key)) is not None]

    # --- sign-ins ----------------------------------------------------------------------------------------------------

    def login(self, workspace: str, name: str, heartbeat: float) -> AsyncGenerator[LoginReport | None, None]:
        return self._sign_ins.login(_directory(workspace), name, heartbeat)

    def paste(self, workspace: str, name: str, url: str) -> PasteReport:
        return self._sign_ins.paste(_directory(workspace), name, url)

    async def logout(self, workspace: str, name: str | None) -> LogoutReport:
        return await self._sign_ins.logout(_directory(workspace), name)

    def _signed_in_specs(self, workspace: str, name: str | None) -> list[ServerSpec]:
        """The servers that agents of this workspace have and that may run, or that of this name alone. Raises 404, and
        409 where it may not: to sign in to it would be a way around approval and policy."""
        peeked = self._workspaces.peek(workspace)
        wishes = self._workspaces.wishes(self._workspaces.distinct(peeked))
        if name is None:
            return [wish.spec for wish in wishes.values() if isinstance(wish, Want)]
        for key in self._keys(workspace, name):
            match wishes.get(key):
                case Want(spec=spec):
                    return [spec]
                case Off(because=because, detail=detail):
                    raise ControlError(f"cannot sign in to {name}: it is disabled ({because}): {detail}", status=409)
                case Broken(problem=problem):
                    raise ControlError(f"cannot sign in to {name}: {problem.message}", status=409)
            if (worker := self._supervisor.workers.get(key)) is not None:
                return [worker.spec]
        raise ControlError(unknown_server(name), status=404)

    # --- servers that are added while we run -------------------------------------------------------------------------

    async def add_server(self, workspace: str, name: str, entry: dict[str, Any], keep: bool) -> AddedReport:
        directory = self._workspaces.own(_directory(workspace))
        if cause := name_fault(name):
            raise ControlError(f"cannot add server {shown_name(name)}: {cause}", status=400)
        server = Added(name, entry, directory)
        resolved = await anyio.to_thread.run_sync(self._workspaces.trial, server)
        self._refuse_in_vain(name, resolved)
        await self._change_added(lambda: self._workspaces.dynamic.add(server, keep=keep))
        rows = [row for row in self._rows(self._workspaces.peek(directory)).values() if row["name"] == name]
        rows = [row for row in rows if row["scope"] == Scope.DYNAMIC]
        row = next((row for row in rows if row["workspace"] == directory), None)
        return AddedReport(
            name=name,
            workspace=directory,
            kept=keep,
            state_text=row["state_text"] if row is not None else "",
            reason=row["reason"] if row is not None else "",
            shadows=row["shadows"] if row is not None else [],
        )

    def _refuse_in_vain(self, name: str, resolved: ResolvedSet) -> None:
        """Raise what is wrong with a server that would be added and not run."""
        one = resolved.servers.get(name)
        if one is None or one.origin.scope is not Scope.DYNAMIC:
            text = f"{one.origin} has this name and wins; choose another name" if one is not None else "it is not read"
            raise ControlError(f"cannot add server {name}: {text}", status=409)
        key = instance_key(one)
        match self._workspaces.wishes({resolved.workspace: resolved}).get(key) if key else None:
            case Broken(problem=problem):
                raise ControlError(problem.message.replace("cannot use", "cannot add", 1), status=400)
            case Off(because="policy" | "enterprise", detail=detail):
                raise ControlError(f"cannot add server {name}: {detail}", status=403)
            case None:
                raise ControlError(f"cannot add server {name}: its url is empty", status=400)

    async def remove_server(self, workspace: str, name: str) -> str:
        for directory in self._workspaces.owners(_directory(workspace)):
            removed = False

            def remove(directory: str = directory) -> None:
                nonlocal removed
                removed = self._workspaces.dynamic.remove(name, directory)

            await self._change_added(remove)
            if removed:
                return directory
        text = "no server of this name was added while the daemon runs; those of files: mcphub remove NAME --scope ..."
        raise ControlError(f"cannot remove {shown_name(name)}: {text}", status=404)

    async def _change_added(self, change: Callable[[], None]) -> None:
        try:
            await anyio.to_thread.run_sync(change)
        except (ConfigError, OSError) as e:
            raise ControlError(f"cannot keep what was added: {e}", status=500) from e
        await self._workspaces.tick(again=True)

    # --- questions ---------------------------------------------------------------------------------------------------

    def why(self, workspace: str, name: str) -> WhyReport:
        from mcphub.questions import explain  # few ever ask

        peeked = self._workspaces.peek(workspace := _directory(workspace))
        sets = [one.resolved for one in peeked.values()]
        unwrap, executed = self._workspaces.asked_with()
        decisions = self._workspaces.decisions
        facts = explain.facts(
            name,
            peeked[workspace].resolved,
            sets,
            decisions,
            unwrap=unwrap,
            executed=executed,
            client_env=peeked[workspace].settings.client_env,
        )
        if facts.one is None:
            others = {one.resolved.workspace for one in peeked.values() if name in one.resolved.servers} - {""}
            return explain.why(msgspec.structs.replace(facts, elsewhere=tuple(sorted(others))))
        distinct = self._workspaces.distinct(peeked)[workspace]
        agents = {one["id"]: f"{one['client'] or 'agent'} ({one['id']})" for one in self._sessions()}
        return explain.why(explain.instance_row(facts, distinct, self._rows(peeked), agents))

    def policy(self, workspace: str) -> PolicyReport:
        from mcphub.questions.policy import policy_report

        workspace = _directory(workspace)
        return policy_report(documents_of(self._workspaces.peek(workspace)[workspace].resolved), live=True)

    def policy_verdict(self, workspace: str, name: str, url: str, command: tuple[str, ...]) -> PolicyVerdict:
        from mcphub.questions.policy import ask, ask_configured, verdict_report

        workspace = _directory(workspace)
        resolved = self._workspaces.peek(workspace)[workspace].resolved
        unwrap, executed = self._workspaces.asked_with()
        one = resolved.servers.get(name)
        if one is not None and one.spec is not None and not (url or command):
            about, found = ask_configured(one, policy_of(resolved), unwrap=unwrap, executed=executed)
        else:
            about, found = ask(
                policy_of(resolved), name=name, url=url, command=command, unwrap=unwrap, executed=executed
            )
        return verdict_report(about, found, live=True)

    def inventory(self, workspace: str) -> InventoryReport:
        from mcphub.questions.inventory import inventory

        peeked = self._workspaces.peek(workspace := _directory(workspace))
        one, decisions = peeked[workspace], self._workspaces.decisions
        sets = [other.resolved for other in peeked.values()]
        unwrap, executed = self._workspaces.asked_with()
        found, shown = self._rows(peeked), self._workspaces.distinct(peeked)[workspace]
        return inventory(
            one.resolved,
            judgements(one.resolved.servers.values(), sets, decisions, unwrap=unwrap, executed=executed),
            twins(one.resolved, decisions, unwrap, executed),
            problems=dict.fromkeys([*one.problems(), *policy_of(one.resolved).closed]),
            warnings=dict.fromkeys([*one.warnings(), *policy_of(one.resolved).warnings]),
            live=True,
            rows={name: found[key] for name, key in visible(shown) if key in found},
        )

    # --- the outcome journal -----------------------------------------------------------------------------------------

    async def calls(self, asked: CallsAsked) -> CallsReport:
        records = self._gateway.outcomes.records()
        problems = self._gateway.outcomes.problems()
        try:
            report = await anyio.to_thread.run_sync(lambda: calls_report(records(), asked, problems, live=True))
        except OSError as e:
            raise ControlError(f"cannot read the journal of calls: {e.strerror or e}", status=500) from e
        except ConfigError as e:
            problems = [*problems, *([] if problems else [str(e)])]
            report = calls_report([], asked, problems, live=True)
        if asked.id and not report["calls"]:
            raise ControlError(no_such_call(asked.id), status=404)
        return report

    # --- approval ----------------------------------------------------------------------------------------------------

    def approvals(self, workspace: str) -> ApprovalsReport:
        items = []
        workspace = _directory(workspace)
        # As the files are now: what is shown here is what can be approved.
        found, decisions = self._workspaces.peek(workspace, again=True)[workspace].resolved, self._workspaces.decisions
        for resolved in found.servers.values():
            if (problem := approval.unusable(resolved)) is not None:
                items.append(approval.unusable_item(resolved, problem, decisions))
                continue
            asked = approval.subject(resolved)
            if asked is not None:
                of_file = [w for layer in found.layers if layer.path == resolved.origin.path for w in layer.warnings]
                state = approval.decide(asked, decisions)
                item = approval.approval_item(resolved, asked, state, decisions, of_file)
                item["warnings"] = grouped(item["warnings"])
                items.append(item)
        report = ApprovalsReport(items=items)
        if why := _unwritable(self._workspaces.store.check):
            report["unwritable"] = why
        return report

    def _asked_about(self, workspace: str, name: str) -> Resolved | None:
        workspace = _directory(workspace)
        return self._workspaces.peek(workspace, again=True)[workspace].resolved.servers.get(name)

    def _subject(self, name: str, resolved: Resolved | None) -> approval.Subject:
        asked = approval.subject(resolved) if resolved is not None else None
        if asked is None:
            text = f"no server of this project is named {name} and waits for approval"
            raise ControlError(unknown_server(name) if lookup_fault(name) else text, status=404)
        return asked

    def approve(self, workspace: str, name: str, digest: str) -> None:
        resolved = self._asked_about(workspace, name)
        if resolved is not None and (problem := approval.unusable(resolved)) is not None:
            raise ControlError(f"cannot approve {name} before this is mended: {problem.message}", status=409)
        asked = self._subject(name, resolved)
        if asked.digest != digest:
            raise ControlError(f"{name} has changed since it was shown; look at it again", status=409)
        self._write(lambda: self._workspaces.store.approve(asked.directory, name, asked.content()))

    def reject(self, workspace: str, name: str) -> None:
        resolved = self._asked_about(workspace, name)
        if resolved is not None and approval.unusable(resolved) is not None:
            directory = resolved.workspace
        else:
            directory = self._subject(name, resolved).directory
        self._write(lambda: self._workspaces.store.reject(directory, name))

    def _listing(self, workspace: str, name: str) -> View:
        """The instance of this name whose tools are known. Raises ControlError 404, 409."""
        for key in self._keys(workspace, name):
            worker = self._supervisor.workers.get(key)
            if worker is not None and worker.listed:
                return worker.view()
        message = f"the tools of {name} are not known: it has not been connected; `mcphub status {name}` says why"
        raise ControlError(message, status=409)

    def tool_changes(self, workspace: str, name: str) -> ToolChangesReport:
        view = self._listing(workspace, name)
        listed, review = self._catalog.listed(view), self._catalog.review(view)
        changes = [
            ToolChange(
                tool=change.tool,
                grade=str(change.grade),
                change=str(change),
                parts=list(change.parts),
                withheld=change.tool in listed.withheld,
                diff=list(lines),
            )
            for change, lines in review.changes
        ]
        report = ToolChangesReport(
            name=name,
            workspace=view.key.workspace,
            digest=review.digest,
            tools=len(listed.read),
            changes=changes,
            gone=list(review.gone),
            problem=review.problem,
        )
        if why := _unwritable(lambda: self._catalog.check(view)):
            report["unwritable"] = why
        return report

    def approve_tools(self, workspace: str, name: str, digest: str) -> None:
        view = self._listing(workspace, name)
        if self._catalog.review(view).digest != digest:
            raise ControlError(f"the tools of {name} have changed since they were shown; look again", status=409)
        try:
            self._catalog.approve(view)
        except (ConfigError, OSError, UnicodeEncodeError) as e:
            raise ControlError(f"cannot record the decision: {e}", status=500) from e
        self._gateway.refresh()

    def _write(self, change: Callable[[], None]) -> None:
        try:
            change()
        except (ConfigError, OSError, UnicodeEncodeError) as e:
            raise ControlError(f"cannot record the decision: {e}", status=500) from e
        self._workspaces.decide_again()

    # --- the vault ---------------------------------------------------------------------------------------------------

    async def vault(self) -> VaultReport:
        await self._vault.retry()
        state = self._vault.state
        if state.usable and (barred := await self._vault.barred()) is not None:
            state = VaultState(state.source, barred.trouble, str(barred))
        exists = self._vault.file.exists()
        waiting = [text for text in self._workspaces.warnings() if " vault." in text]
        return VaultReport(
            path=self._vault.file.path,
            exists=exists,
            source=state.source,
            state="locked" if not state.usable else "open" if exists else "new",
            reason=str(state.trouble or ""),
            detail=state.detail,
            warning="; ".join(filter(None, [state.warning, *waiting])),
            live=True,
        )

    async def unlock_vault(self, passphrase: str | None, start_over: bool) -> VaultReport:
        self._hide([passphrase] if passphrase else [])
        try:
            await self._vault.unlock(passphrase, start_over=start_over)
        except VaultUnavailable as e:
            if passphrase is not None or start_over:
                raise ControlError(str(e), status=409) from e
        await self._workspaces.tick(again=True)
        return await self.vault()

    async def rotate_vault(self, passphrase: str | None) -> VaultReport:
        self._hide([passphrase] if passphrase else [])
        try:
            await self._vault.rotate(passphrase)
        except VaultUnavailable as e:
            raise ControlError(str(e), status=409) from e
        return await self.vault()

    async def secrets(self, workspace: str) -> SecretsReport:
        try:
            found = await self._vault.list(SECRET)
        except VaultUnavailable as e:
            raise ControlError(str(e), status=409) from e
        return SecretsReport(
            secrets=[SecretStatus(name=name, servers=self._referring(workspace, name)) for name in sorted(found)],
            live=True,
        )

    async def set_secret(self, workspace: str, name: str, value: str) -> SecretReport:
        if fault := secret_name_fault(name):
            raise ControlError(f"cannot keep the secret {name[:80]!a}: {fault}", status=400)
        self._hide([value])
        try:
            await self._vault.put(SECRET, name, value.encode("utf-8"))
        except VaultUnavailable as e:
            raise ControlError(f"cannot keep the secret {name}: {e}", status=409) from e
        return await self._secret_changed(workspace, name, "set")

    async def remove_secret(self, workspace: str, name: str) -> SecretReport:
        try:
            removed = await self._vault.delete(SECRET, name)
        except VaultUnavailable as e:
            raise ControlError(f"cannot remove the secret {name[:80]!a}: {e}", status=409) from e
        if not removed:
            raise ControlError(f"cannot remove the secret {name[:80]!a}: there is none of this name", status=404)
        return await self._secret_changed(workspace, name, "removed")

    async def _secret_changed(self, workspace: str, name: str, action: str) -> SecretReport:
        await self._workspaces.tick(again=True)
        return SecretReport(name=name, action=action, servers=self._referring(workspace, name), live=True)

    def _referring(self, workspace: str, name: str) -> list[str]:
        """The servers that refer to this secret, as far as anybody sees them."""
        sets = [one.resolved.servers.values() for one in self._workspaces.peek(_directory(workspace)).values()]
        return sorted({one.name for servers in sets for one in servers if one.refers_to_secret(name)})

    async def reload(self) -> int:
        await self._workspaces.tick()
        return self._revision

    def stop(self) -> None:
        self._stop()

    def restart(self) -> None:
        self._listener.restarting = True
        self._stop()


def _unwritable(check: Callable[[], None]) -> str:
    """Why a decision could not be kept, "" where it could: who asks a person wants to know before."""
    try:
        check()
    except (ConfigError, OSError, UnicodeEncodeError) as e:
        return str(e)
    return ""


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


async def _any(limit: float | None, *waits: tuple[Callable[[int], Awaitable[object]], int]) -> bool:
    """Wait until one of these returns, for so many seconds at most (None = for ever); whether one did."""
    with anyio.move_on_after(limit) as late:
        async with anyio.create_task_group() as tasks:

            async def when(wait: Callable[[int], Awaitable[object]], known: int) -> None:
                await wait(known)
                tasks.cancel_scope.cancel()

            for wait, known in waits:
                tasks.start_soon(when, wait, known)
    return not late.cancelled_caught


def _descriptors() -> int:
    try:
        return len(os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd")) - 1
    except OSError:
        return 0
