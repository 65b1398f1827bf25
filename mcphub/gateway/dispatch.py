"""Owns what happens to a message of an agent: which era it speaks, which method it asks for, who answers.

It must not know sockets, processes or files. Runs inside the read callback: no task, future or stream per message.
The era is decided per message: modern `_meta` present, or a session that has said `initialize` (MCP spec 2026-07-28,
basic/versioning, dual-era servers).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from mcphub.catalog.cache import Catalog
from mcphub.catalog.toolset import Toolset
from mcphub.channel import Data
from mcphub.connection.machine import Pending
from mcphub.connection.worker import Worker
from mcphub.gateway import messages
from mcphub.gateway.call import AgentCall
from mcphub.gateway.route import not_running, unavailable
from mcphub.gateway.subscriptions import LEGACY_LIST_CHANGED, Listens
from mcphub.protocol import jsonrpc, serving
from mcphub.protocol.envelope import (
    HUB_META_MEMBER,
    NO_META,
    InvalidMeta,
    RequestMeta,
    UnsupportedVersion,
    read_request_meta,
    request_meta,
)
from mcphub.protocol.jsonrpc import EMPTY, UNSET, Envelope, NotAMessage, Raw
from mcphub.protocol.versions import ALL, BATCH_VERSION, answer_to_initialize
from mcphub.spec import Broken, InstanceKey, Off
from mcphub.supervisor.supervisor import Supervisor

#: A changed toolset is told after it was quiet for so long, seconds, so that ten servers that start cause one message.
DEBOUNCE = 0.2
#: Calls one agent may have in flight.
MAX_CALLS = 10_000


class _CallParams(msgspec.Struct, gc=False):
    name: str
    arguments: Raw = EMPTY
    meta: Raw = msgspec.field(default=EMPTY, name="_meta")


class _MetaOnly(msgspec.Struct, gc=False):
    meta: Raw = msgspec.field(default=EMPTY, name="_meta")


class _CursorOnly(msgspec.Struct, gc=False):
    cursor: Any = None


_cursor_only = msgspec.json.Decoder(_CursorOnly).decode
_call_params = msgspec.json.Decoder(_CallParams).decode
_meta_only = msgspec.json.Decoder(_MetaOnly).decode
_object = msgspec.json.Decoder(dict[str, Any]).decode


class Agent(Protocol):
    """An attached agent as dispatch sees it; the fields are dispatch's to change."""

    workspace: str
    #: The legacy version agreed in `initialize`, "" before it.
    version: str
    client: str
    era: str
    log_level: str
    calls: dict[bytes, AgentCall]
    listens: Listens
    toolset: Toolset
    told: str
    last_meta: tuple[bytes, RequestMeta]

    def send(self, *parts: Data) -> None: ...


class _WaitingList:
    """A `tools/list` that waits, for a bounded time, for servers that are starting."""

    __slots__ = ("agent", "mid", "modern", "timer")

    def __init__(self, agent: Agent, mid: bytes, modern: bool) -> None:
        self.agent = agent
        self.mid = mid
        self.modern = modern
        self.timer: asyncio.TimerHandle | None = None


class Gateway:
    """The calls of all agents. `visible(workspace)` gives the ordered names its agents see, with their instances."""

    def __init__(
        self,
        supervisor: Supervisor,
        catalog: Catalog,
        visible: Callable[[str], Mapping[str, InstanceKey]],
        list_wait: float = 3.0,
    ) -> None:
        self.agents: set[Agent] = set()
        self.counters: Counter[str] = Counter()
        self._supervisor = supervisor
        self._workers = supervisor.workers
        self._catalog = catalog
        self._visible = visible
        self._list_wait = list_wait
        self._loop = asyncio.get_running_loop()
        self._waiting: list[_WaitingList] = []
        self._telling = False

    # --- agents come and go ------------------------------------------------------------------------------------------

    def join(self, agent: Agent) -> None:
        self.agents.add(agent)
        agent.toolset = self.toolset(agent.workspace)
        agent.told = agent.toolset.digest

    def leave(self, agent: Agent) -> None:
        """Cancel its calls upstream, forget what it listened to."""
        self.agents.discard(agent)
        for call in list(agent.calls.values()):
            call.withdraw("the agent left")
        for waiting in [w for w in self._waiting if w.agent is agent]:
            self._forget(waiting)
        if agent.log_level:
            self._set_log_levels()

    def end(self) -> None:
        """mcphub is going down: end every subscription in order."""
        for agent in self.agents:
            if len(agent.listens):
                agent.send(agent.listens.end())

    # --- the toolset -------------------------------------------------------------------------------------------------

    def toolset(self, workspace: str) -> Toolset:
        return self._catalog.toolset(workspace, self._visible(workspace), self._supervisor.snapshot.value.views)

    def refresh(self) -> None:
        """The snapshot, or what is visible, has changed: give agents their toolsets, tell them later, answer lists."""
        views = self._supervisor.snapshot.value.views
        self._catalog.forget(views, {""} | {a.workspace for a in self.agents})
        for agent in self.agents:
            agent.toolset = self.toolset(agent.workspace)
        for waiting in [w for w in self._waiting if self.settled(w.agent.workspace)]:
            self._forget(waiting)
            self._give_list(waiting.agent, waiting.mid, waiting.modern)
        if not self._telling and any(a.told != a.toolset.digest for a in self.agents):
            self._telling = True
            self._loop.call_later(DEBOUNCE, self._tell)

    def _tell(self) -> None:
        self._telling = False
        for agent in self.agents:
            if agent.told == agent.toolset.digest:
                continue
            agent.told = agent.toolset.digest
            if agent.version:
                agent.send(LEGACY_LIST_CHANGED)
            if len(agent.listens):
                frames = agent.listens.tools_changed()
                if frames:
                    agent.send(frames)

    def settled(self, workspace: str) -> bool:
        """Whether no visible server is in its first start. A sick server, one that was tried, is never waited for."""
        views = self._supervisor.snapshot.value.views
        for key in self._visible(workspace).values():
            view = views.get(key)
            if view is not None and not view.listed and isinstance(view.state, Pending) and view.state.attempt == 0:
                return False
        return True

    # --- messages ----------------------------------------------------------------------------------------------------

    def dispatch(self, agent: Agent, line: memoryview) -> None:
        """One line from an agent. Raises nothing that the peer could cause."""
        try:
            env = jsonrpc.decode(line)
        except NotAMessage as e:
            self._not_a_message(agent, line, e)
            return
        if env.method is None:
            self.counters["stray_replies"] += 1  # mcphub asks agents nothing yet
        elif env.id is UNSET:
            self._notified(agent, env.method, env.params)
        elif env.id is None:
            agent.send(jsonrpc.error_frame(b"null", jsonrpc.INVALID_REQUEST, "a request's id must not be null"))
        elif env.method == "tools/call":
            self._call(agent, env)
        else:
            self._request(agent, env)

    def _not_a_message(self, agent: Agent, line: memoryview, e: NotAMessage) -> None:
        self.counters["bad_lines"] += 1
        if e.kind == "batch":
            try:
                parts = jsonrpc.split_batch(line)
            except NotAMessage as inner:
                agent.send(jsonrpc.error_frame(b"null", jsonrpc.PARSE_ERROR, str(inner)))
                return
            if agent.version == BATCH_VERSION and parts:
                for part in parts:
                    self.dispatch(agent, memoryview(part))
            else:
                text = "JSON-RPC batches exist in MCP 2025-03-26 only"
                agent.send(jsonrpc.error_frame(b"null", jsonrpc.INVALID_REQUEST, text))
        elif e.kind == "envelope":
            agent.send(jsonrpc.error_frame(b"null", jsonrpc.INVALID_REQUEST, f"not a JSON-RPC message: {e}"))
        else:
            agent.send(jsonrpc.error_frame(b"null", jsonrpc.PARSE_ERROR, f"cannot parse the message: {e}"))

    def _meta(self, agent: Agent, raw: Raw) -> RequestMeta:
        """A request's meta; equal bytes are read once. Raises InvalidMeta, UnsupportedVersion."""
        if not raw:
            return NO_META
        data = bytes(raw)
        if data == agent.last_meta[0]:
            return agent.last_meta[1]
        meta = read_request_meta(data)
        if not meta.progress_token:
            agent.last_meta = (data, meta)
        if meta.modern and not agent.era:
            agent.era = "modern"
        if meta.client and not agent.client:
            agent.client = meta.client
        return meta

    def _start_of(self, agent: Agent, mid: bytes, raw_meta: Raw) -> RequestMeta | None:
        """The meta of a request that may be served; None after the refusal was sent."""
        try:
            meta = self._meta(agent, raw_meta)
        except InvalidMeta as e:
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, str(e)))
            return None
        except UnsupportedVersion as e:
            data = msgspec.json.encode({"supported": list(ALL), "requested": e.requested[:64]})
            text = f"unsupported protocol version {e.requested[:64]!r}"
            agent.send(jsonrpc.error_frame(mid, jsonrpc.UNSUPPORTED_PROTOCOL_VERSION, text, data))
            return None
        if not meta.modern and not agent.version:
            text = (
                "say `initialize` first (MCP up to 2025-11-25), or send `_meta` with "
                "io.modelcontextprotocol/protocolVersion and clientCapabilities on every request (2026-07-28)"
            )
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, text))
            return None
        return meta

    def _call(self, agent: Agent, env: Envelope) -> None:
        mid = jsonrpc.encode_id(env.id)  # type: ignore[arg-type]  # dispatch has told UNSET and null apart
        try:
            params = _call_params(env.params or b"{}")
        except (msgspec.DecodeError, RecursionError) as e:
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, f"tools/call: {e}"))
            return
        meta = self._start_of(agent, mid, params.meta) if params.meta or not agent.version else NO_META
        if meta is None:
            return
        route = agent.toolset.routes.get(params.name)
        if route is None:
            self._unknown(agent, mid, meta.modern, params.name)
            return
        if mid in agent.calls or mid in agent.listens or len(agent.calls) >= MAX_CALLS:
            text = "this id is in flight already" if len(agent.calls) < MAX_CALLS else "too many calls in flight"
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_REQUEST, text))
            return
        arguments: Data = memoryview(params.arguments) if params.arguments else b"{}"
        if arguments[0] != 0x7B:
            if bytes(arguments) != b"null":
                text = "tools/call: `arguments` must be an object"
                agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, text))
                return
            arguments = b"{}"
        worker = self._workers.get(route.key)
        client = worker.client if worker is not None else None
        if worker is None or client is None or client.over:
            self._unavailable(agent, mid, meta.modern, route.key, worker)
            return
        if client.overloaded():
            text = f"The server {worker.name} does not read its requests (overloaded). Try again later."
            agent.send(jsonrpc.result_frame(mid, serving.tool_error(text, meta.modern)))
            return
        call = AgentCall(agent, client, mid, route, meta, self._loop.time(), worker.spec.call_timeout)
        agent.calls[mid] = call
        modern = client.era == "modern"
        if meta is NO_META:
            tail = HUB_META_MEMBER if modern else b""
        else:
            tail = request_meta(modern, meta, client.next_id())
        call.up_id = client.call_tool(call, route.quoted, arguments, tail)

    def _unknown(self, agent: Agent, mid: bytes, modern: bool, name: str) -> None:
        """A name that is not listed: that of a server which never could list its tools, or nobody's."""
        servers = [s for s in self._visible(agent.workspace) if name.startswith(f"mcp__{s}__")]
        if servers:
            key = self._visible(agent.workspace)[max(servers, key=len)]
            worker = self._workers.get(key)
            wish = self._supervisor.snapshot.value.desired.get(key)
            if worker is not None and not worker.listed:
                self._unavailable(agent, mid, modern, key, worker)
                return
            if isinstance(wish, Off | Broken):
                text = not_running(key.name, wish)
                agent.send(jsonrpc.result_frame(mid, serving.tool_error(text, modern)))
                return
        text = f"unknown tool {name[:128]!r}: tools/list has the names"
        agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, text))

    def _unavailable(self, agent: Agent, mid: bytes, modern: bool, key: InstanceKey, worker: Worker | None) -> None:
        state = worker.state if worker is not None else None
        retry_in = state.retry_at - self._loop.time() if isinstance(state, Pending) else 0.0
        text = unavailable(key.name, state, retry_in)
        if worker is not None:
            worker.wake_failed()
        agent.send(jsonrpc.result_frame(mid, serving.tool_error(text, modern)))

    def _request(self, agent: Agent, env: Envelope) -> None:
        method, mid = env.method, jsonrpc.encode_id(env.id)  # type: ignore[arg-type]
        try:
            raw_meta = _meta_only(env.params).meta if env.params else EMPTY
        except (msgspec.DecodeError, RecursionError):
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, "`params` must be an object"))
            return
        if method == "initialize":
            self._initialize(agent, mid, env.params)
            return
        if method == "ping" and not raw_meta:
            agent.send(jsonrpc.result_frame(mid, b"{}"))
            return
        meta = self._start_of(agent, mid, raw_meta)
        if meta is None:
            return
        if mid in agent.calls or mid in agent.listens:
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_REQUEST, "this id is in flight already"))
        elif method == "tools/list":
            self._list(agent, mid, meta.modern, env.params)
        elif meta.modern and method == "server/discover":
            agent.send(jsonrpc.result_frame(mid, serving.DISCOVER_RESULT))
        elif meta.modern and method == "subscriptions/listen":
            agent.send(agent.listens.open(mid, _object(env.params).get("notifications")))
        elif not meta.modern and method == "logging/setLevel":
            self._set_level(agent, mid, env.params)
        elif not meta.modern and method == "ping":
            agent.send(jsonrpc.result_frame(mid, b"{}"))
        else:
            agent.send(jsonrpc.error_frame(mid, jsonrpc.METHOD_NOT_FOUND, f"Method not found: {str(method)[:80]}"))

    def _initialize(self, agent: Agent, mid: bytes, raw: Raw) -> None:
        try:
            params = _object(raw) if raw else {}
        except (msgspec.DecodeError, RecursionError) as e:
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, f"initialize: {e}"))
            return
        asked = params.get("protocolVersion")
        if not isinstance(asked, str):
            data = msgspec.json.encode({"supported": list(ALL)})
            text = "initialize: `protocolVersion` is missing"
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, text, data))
            return
        agent.version = answer_to_initialize(asked)
        agent.era = "legacy"
        info = params.get("clientInfo")
        if isinstance(info, dict) and isinstance(info.get("name"), str) and not agent.client:
            agent.client = info["name"]
        agent.send(jsonrpc.result_frame(mid, serving.initialize_result(asked)))

    def _list(self, agent: Agent, mid: bytes, modern: bool, raw: Raw) -> None:
        if raw and _cursor_only(raw).cursor is not None:
            text = "unknown cursor: mcphub lists all tools in one page"
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, text))
            return
        if self.settled(agent.workspace):
            self._give_list(agent, mid, modern)
            return
        waiting = _WaitingList(agent, mid, modern)
        self._waiting.append(waiting)
        waiting.timer = self._loop.call_later(self._list_wait, self._waited_enough, waiting)

    def _waited_enough(self, waiting: _WaitingList) -> None:
        self._forget(waiting)
        self._give_list(waiting.agent, waiting.mid, waiting.modern)

    def _forget(self, waiting: _WaitingList) -> None:
        self._waiting.remove(waiting)
        if waiting.timer is not None:
            waiting.timer.cancel()

    def _give_list(self, agent: Agent, mid: bytes, modern: bool) -> None:
        toolset = agent.toolset
        agent.send(b'{"jsonrpc":"2.0","id":%b,"result":' % mid, toolset.modern if modern else toolset.legacy, b"}\n")

    # --- notifications -----------------------------------------------------------------------------------------------

    def _notified(self, agent: Agent, method: str, raw: Raw) -> None:
        if method != "notifications/cancelled":
            return  # initialized, progress, roots/list_changed: nothing depends on them yet
        try:
            params = _object(raw)
            mid = jsonrpc.encode_id(params["requestId"])
            reason = params.get("reason")
        except (msgspec.DecodeError, KeyError, TypeError, RecursionError):
            return
        call = agent.calls.get(mid)
        if call is not None:
            call.withdraw(reason[:200] if isinstance(reason, str) else "cancelled by the agent")
        elif not agent.listens.cancel(mid):
            for waiting in [w for w in self._waiting if w.agent is agent and w.mid == mid]:
                self._forget(waiting)

    # --- logging -----------------------------------------------------------------------------------------------------

    def _set_level(self, agent: Agent, mid: bytes, raw: Raw) -> None:
        level = _object(raw).get("level") if raw else None
        if not isinstance(level, str) or not messages.is_level(level):
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, "logging/setLevel: no such level"))
            return
        agent.log_level = level
        self._set_log_levels()
        agent.send(jsonrpc.result_frame(mid, b"{}"))

    def _set_log_levels(self) -> None:
        """Set each server to the most verbose level that an agent which sees it wants."""
        wanted: dict[InstanceKey, list[str]] = {}
        for agent in self.agents:
            if agent.log_level:
                for key in self._visible(agent.workspace).values():
                    wanted.setdefault(key, []).append(agent.log_level)
        for key, worker in self._workers.items():
            worker.want_log_level(messages.most_verbose(wanted.get(key, [])))

    def server_said(self, worker: Worker, method: str, params: Raw) -> None:
        """A notification of a server that is not about its connection. Implements connection.worker.Sink."""
        if method != messages.MESSAGE:
            self.counters["dropped_notifications"] += 1
            return
        found = messages.named(worker.name, params)
        if found is None:
            self.counters["bad_log_messages"] += 1
            return
        level, frame = found
        opted: list[Agent] = []
        in_flight = 0
        for agent in self.agents:
            if worker.key not in self._visible(agent.workspace).values():
                continue
            if agent.version and messages.passes(level, agent.log_level or messages.DEFAULT_LEVEL):
                agent.send(frame)
            for call in agent.calls.values():
                if call.client is worker.client:
                    in_flight += 1
                    if call.meta.log_level and messages.passes(level, call.meta.log_level):
                        opted.append(agent)
        if len(opted) == 1 and in_flight == 1 and not opted[0].version:
            opted[0].send(frame)
