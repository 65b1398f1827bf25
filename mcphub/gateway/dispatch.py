"""Owns what happens to a message of an agent: which era it speaks, which method it asks for, who answers.

It must not know sockets, processes or files. Runs inside the read callback: no task, future or stream per message.
The era is decided per message: modern `_meta` present, or a session that has said `initialize` (MCP spec 2026-07-28,
basic/versioning, dual-era servers).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Protocol

import msgspec

from mcphub.catalog.cache import Catalog
from mcphub.catalog.freshness import DEFAULT_MOST, merged_freshness
from mcphub.catalog.instructions import merge_instructions
from mcphub.catalog.library import MEMBERS, PROMPTS, RESOURCES, TEMPLATES, Library
from mcphub.catalog.pages import Pages
from mcphub.catalog.toolset import Route, Toolset
from mcphub.channel import Data
from mcphub.connection import capability_sets
from mcphub.connection.client import Client
from mcphub.connection.machine import Pending
from mcphub.connection.worker import Worker
from mcphub.gateway import ask_user, messages, reading
from mcphub.gateway.ask_user import AskUser
from mcphub.gateway.call import AgentCall
from mcphub.gateway.rounds import Rounds
from mcphub.gateway.route import not_running, unavailable
from mcphub.gateway.subscriptions import LIST_CHANGED, Listens
from mcphub.gateway.turns import Turns
from mcphub.gateway.validate import Checks
from mcphub.gateway.watching import ACKNOWLEDGED, UPDATED, Watching
from mcphub.protocol import jsonrpc, serving, tool_call
from mcphub.protocol.caching import Freshness, freshness_members
from mcphub.protocol.cursor import give_cursor, take_cursor
from mcphub.protocol.envelope import (
    HUB_META_MEMBER,
    NO_META,
    InvalidMeta,
    RequestMeta,
    UnsupportedVersion,
    error_data,
    read_request_meta,
    request_meta,
)
from mcphub.protocol.jsonrpc import EMPTY, UNSET, Envelope, NotAMessage, Raw
from mcphub.protocol.mrtr import BadState
from mcphub.protocol.versions import ALL, BATCH_VERSION, answer_to_initialize
from mcphub.spec import Broken, InstanceKey, Off
from mcphub.supervisor.supervisor import Supervisor

#: A changed toolset is told after it was quiet for so long, seconds, so that ten servers that start cause one message.
DEBOUNCE = 0.2
#: The lists whose change is told by each kind of notification, beside the tools'.
LISTS_OF = {"prompts": (PROMPTS,), "resources": (RESOURCES, TEMPLATES)}
#: Calls one agent may have in flight, and subscriptions it may hold.
MAX_CALLS = 10_000
MAX_LISTENS = 100
#: Lists that may wait at once; further ones get what is there.
MAX_WAITING = 1000
#: Bytes of a `_meta` that is remembered, and characters of an agent's name.
MAX_META = 4096
MAX_NAME = 100


class _CallParams(tool_call.Params, gc=False):
    inputResponses: Raw = EMPTY
    requestState: Raw = EMPTY


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
    #: The one server that it sees, under its own names; "" = all, merged.
    view: str
    #: The legacy version agreed in `initialize`, "" before it.
    version: str
    client: str
    era: str
    log_level: str
    calls: dict[bytes, AgentCall]
    listens: Listens
    toolset: Toolset
    told: str
    library: Library
    #: The digest of each other list as it was last told or given, by method.
    told_lists: dict[str, str]
    last_meta: tuple[bytes, RequestMeta]
    #: What a legacy agent declared in `initialize`.
    capabilities: dict[str, Any]
    #: What a legacy server is told of that, a key of connection.legacy_sessions.
    declares: bytes
    #: What a request without `_meta` of its own carries: the level a legacy agent has set, for modern servers.
    plain_meta: RequestMeta

    def send(self, *parts: Data) -> None: ...


class _WaitingList:
    """A list that waits, for a bounded time, for servers that are starting."""

    __slots__ = ("agent", "method", "mid", "modern", "timer")

    def __init__(self, agent: Agent, method: str, mid: bytes, modern: bool) -> None:
        self.method = method
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
        seal_key: bytes = b"",
        list_ttl: float = DEFAULT_MOST,
    ) -> None:
        self.agents: set[Agent] = set()
        self.counters: Counter[str] = Counter()
        self._supervisor = supervisor
        self._workers = supervisor.workers
        self._catalog = catalog
        self._visible = visible
        self._list_wait = list_wait
        self._list_ttl = list_ttl
        self._seal_key = seal_key
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[tuple[Agent, bytes], _WaitingList] = {}
        self._telling = False
        #: What agents of a workspace and view see, and of which snapshot and visible names.
        self._shown: dict[tuple[str, str], tuple[object, object, tuple[Toolset, Library]]] = {}
        self._rounds = Rounds(seal_key)
        self._turns = Turns()
        self._checks = Checks()
        self._reading = reading.Reading(supervisor.workers, self._rounds, self._turns)
        self._watching = Watching(supervisor.workers)
        self._questions = AskUser(self.counters)

    # --- agents come and go ------------------------------------------------------------------------------------------

    def join(self, agent: Agent) -> None:
        self.agents.add(agent)
        agent.toolset, agent.library = self._shown_now(agent.workspace, agent.view)
        agent.told = agent.toolset.digest
        agent.told_lists = dict(agent.library.digests)

    def leave(self, agent: Agent) -> None:
        """Cancel its calls upstream, forget what it listened to."""
        self.agents.discard(agent)
        self._questions.left(agent)
        self._watching.left(agent)
        for call in list(agent.calls.values()):
            call.withdraw("the agent left")
        for waiting in [w for w in self._waiting.values() if w.agent is agent]:
            self._forget(waiting)
        if agent.log_level:
            self._set_log_levels()

    def end(self) -> None:
        """mcphub is going down: end every subscription in order."""
        for agent in self.agents:
            if len(agent.listens):
                agent.send(agent.listens.end())

    # --- the toolset -------------------------------------------------------------------------------------------------

    def seen(self, workspace: str, view: str = "") -> Mapping[str, InstanceKey]:
        """The names that agents of a view see, each with its instance."""
        names = self._visible(workspace)
        if not view:
            return names
        return {view: names[view]} if view in names else {}

    def toolset(self, workspace: str, view: str = "") -> Toolset:
        views = self._supervisor.snapshot.value.views
        return self._catalog.toolset(workspace, self.seen(workspace, view), views, view)

    def library(self, workspace: str, view: str = "") -> Library:
        views = self._supervisor.snapshot.value.views
        return self._catalog.library(workspace, self.seen(workspace, view), views, view)

    def _shown_now(self, workspace: str, view: str) -> tuple[Toolset, Library]:
        """Both, looked for once while nothing has changed: over HTTP an agent joins with each of its requests."""
        snapshot, visible = self._supervisor.snapshot.value, self._visible(workspace)
        known = self._shown.get((workspace, view))
        if known is not None and known[0] is snapshot and known[1] is visible:
            return known[2]
        found = self.toolset(workspace, view), self.library(workspace, view)
        self._shown[workspace, view] = (snapshot, visible, found)
        return found

    def refresh(self) -> None:
        """The snapshot, or what is visible, has changed: give agents their toolsets, tell them later, answer lists."""
        views = self._supervisor.snapshot.value.views
        self._shown.clear()
        self._catalog.forget(views, {""} | {a.workspace for a in self.agents})
        for agent in self.agents:
            agent.toolset = self.toolset(agent.workspace, agent.view)
            agent.library = self.library(agent.workspace, agent.view)
        self._watching.renew()
        for waiting in [w for w in self._waiting.values() if self.settled(w.agent.workspace, w.agent.view)]:
            self._forget(waiting)
            self._give_list(waiting.agent, waiting.method, waiting.mid, waiting.modern)
        if any(agent.log_level for agent in self.agents):
            self._set_log_levels()  # a server that is new here has not been told
        if not self._telling and any(
            a.told != a.toolset.digest or a.told_lists != a.library.digests for a in self.agents
        ):
            self._telling = True
            self._loop.call_later(DEBOUNCE, self._tell)

    def _tell(self) -> None:
        self._telling = False
        for agent in self.agents:
            changed = []
            if agent.told != agent.toolset.digest:
                agent.told = agent.toolset.digest
                changed.append("tools")
            digests, told = agent.library.digests, agent.told_lists
            for kind, methods in LISTS_OF.items():
                if any(digests.get(method) != told.get(method) for method in methods):
                    changed.append(kind)
            agent.told_lists = dict(digests)
            for kind in changed:
                if agent.version:
                    agent.send(LIST_CHANGED[kind])
                if len(agent.listens) and (frames := agent.listens.changed(kind)):
                    agent.send(frames)

    def settled(self, workspace: str, view: str = "") -> bool:
        """Whether no visible server is in its first start. A sick server, one that was tried, is never waited for."""
        views = self._supervisor.snapshot.value.views
        for key in self.seen(workspace, view).values():
            one = views.get(key)
            if one is not None and not one.listed and not one.tried and isinstance(one.state, Pending):
                return False
        return True

    # --- messages ----------------------------------------------------------------------------------------------------

    def dispatch(self, agent: Agent, line: bytes | memoryview) -> None:
        """One line from an agent. Raises nothing that the peer could cause."""
        call = tool_call.read(line)
        try:
            if call is not None:
                jsonrpc.check_utf8(line)
                self._call(agent, b"%d" % call.id, call.params)
                return
            env = jsonrpc.decode(line)
        except NotAMessage as e:
            self._not_a_message(agent, line, e)
            return
        if env.method is None:
            if not self._questions.answered(agent, env):
                self.counters["stray_replies"] += 1
        elif env.id is UNSET:
            self._notified(agent, env.method, env.params)
        elif env.id is None:
            agent.send(jsonrpc.error_frame(b"null", jsonrpc.INVALID_REQUEST, "a request's id must not be null"))
        elif env.method == "tools/call":
            self._read_call(agent, jsonrpc.encode_id(env.id), env.params)
        else:
            try:
                self._request(agent, env)
            except (msgspec.DecodeError, RecursionError) as e:
                # What the envelope passes unread can still be unreadable: 1e999, a lone surrogate, too deep nesting.
                text = f"cannot read the params of {env.method[:80]}: {e}"
                agent.send(jsonrpc.error_frame(jsonrpc.encode_id(env.id), jsonrpc.INVALID_PARAMS, text))

    def _not_a_message(self, agent: Agent, line: bytes | memoryview, e: NotAMessage) -> None:
        self.counters["bad_lines"] += 1
        if e.kind == "batch":
            self._batch(agent, line)
        elif e.kind == "envelope":
            agent.send(jsonrpc.error_frame(b"null", jsonrpc.INVALID_REQUEST, f"not a JSON-RPC message: {e}"))
        else:
            agent.send(jsonrpc.error_frame(b"null", jsonrpc.PARSE_ERROR, f"cannot parse the message: {e}"))

    def _batch(self, agent: Agent, line: bytes | memoryview) -> None:
        code, text, parts = jsonrpc.INVALID_REQUEST, "", []
        if agent.version != BATCH_VERSION:
            text = "JSON-RPC batches exist in MCP 2025-03-26 only"
        else:
            try:
                parts = jsonrpc.split_batch(line)
            except NotAMessage as e:
                code = jsonrpc.INVALID_REQUEST if e.kind == "envelope" else jsonrpc.PARSE_ERROR
                text = str(e)
            else:
                text = "" if parts else "the batch is empty"
        if text:
            agent.send(jsonrpc.error_frame(b"null", code, text))
            return
        for part in parts:
            self.dispatch(agent, memoryview(part))

    def _meta(self, agent: Agent, raw: Raw) -> RequestMeta:
        """A request's meta; equal bytes are read once. Raises InvalidMeta, UnsupportedVersion."""
        if not raw:
            return NO_META
        data = bytes(raw)
        if data == agent.last_meta[0]:
            return agent.last_meta[1]
        if data == b"null":
            return NO_META  # how some languages write that there is none
        meta = read_request_meta(data)
        if not meta.progress_token and len(data) <= MAX_META:
            agent.last_meta = (data, meta)
        if meta.modern and not agent.era:
            agent.era = "modern"
        if meta.client and not agent.client:
            agent.client = meta.client[:MAX_NAME]
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
        if agent.log_level and not meta.modern:
            # A modern server logs for a request only if it says so: the session's level goes along.
            return agent.plain_meta if meta is NO_META else msgspec.structs.replace(meta, log_level=agent.log_level)
        return meta

    def _read_call(self, agent: Agent, mid: bytes, raw: Raw) -> None:
        """A call that is not written in the usual way."""
        try:
            params = _call_params(raw or b"{}")
        except (msgspec.DecodeError, RecursionError) as e:
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, f"tools/call: {e}"))
        else:
            self._call(agent, mid, params, params.inputResponses, params.requestState)

    def _call(
        self, agent: Agent, mid: bytes, params: tool_call.Params, responses: Raw = EMPTY, state: Raw = EMPTY
    ) -> None:
        meta = self._start_of(agent, mid, params.meta) if params.meta or not agent.version else agent.plain_meta
        if meta is None:
            return
        route = agent.toolset.routes.get(params.name)
        if route is None:
            # Its server may have connected in this very turn of the loop.
            agent.toolset = self.toolset(agent.workspace, agent.view)
            route = agent.toolset.routes.get(params.name)
        if route is None:
            self._unknown(agent, mid, meta.modern, params.name)
            return
        calls = agent.calls
        busy = mid in calls or ((self._waiting or agent.listens.held) and self._in_flight(agent, mid))
        if busy or len(calls) >= MAX_CALLS:
            text = "this id is in flight already" if len(calls) < MAX_CALLS else "too many calls in flight"
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_REQUEST, text))
            return
        arguments: Data = memoryview(params.arguments) if params.arguments else b"{}"
        if arguments[0] != 0x7B:
            if bytes(arguments) != b"null":
                text = "tools/call: `arguments` must be an object"
                agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, text))
                return
            arguments = b"{}"
        if refusal := self._checks.refusal(route.definition, arguments):
            self._refuse(agent, mid, meta.modern, route, refusal)
            return
        worker = self._workers.get(route.key)
        client = worker.client if worker is not None else None
        if worker is None or client is None or client.over:
            self._unavailable(agent, mid, meta.modern, route.key, worker)
            return
        if worker.sessions is not None:
            client = worker.sessions.client_for(client, meta.modern, agent.declares)
        channel = client.channel
        if channel is not None and channel.full:
            text = f"The server {worker.name} does not read its requests (overloaded). Try again later."
            agent.send(jsonrpc.result_frame(mid, serving.tool_error(text, meta.modern)))
            return
        now, timeout = monotonic(), worker.spec.call_timeout
        call = AgentCall(agent, client, mid, route, meta, now, now + timeout, timeout)
        if route.definition.structured:
            call.results = self._checks
        modern = client.era == "modern"
        more = b""
        if modern and meta.modern:
            try:
                more = self._reading.rounds_of(
                    call, "tools/call", route.definition.name, arguments, responses, state
                )
            except BadState as e:
                agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, str(e)))
                return
        calls[mid] = call
        if meta.modern and meta.log_level and not modern:
            self._set_log_levels()  # a legacy server is told for all its calls at once
        asked = self._turns.asked
        if asked and route.key in asked and not self._its_turn(call, arguments, more):
            return
        if meta is NO_META:
            tail = HUB_META_MEMBER if modern else b""
        else:
            tail = more + request_meta(modern, meta, client.next_id())
        call.up_id = client.call_tool(call, route.quoted, arguments, tail)

    def _refuse(self, agent: Agent, mid: bytes, modern: bool, route: Route, text: str) -> None:
        """Arguments that are certainly wrong are told to the model, which can correct them (SEP-1303); none were sent."""
        self.counters["refused_arguments"] += 1
        data = error_data("validation", route.key.name, tool=route.definition.name)
        agent.send(jsonrpc.result_frame(mid, serving.tool_error(text, modern, data)))

    def _its_turn(self, call: AgentCall, arguments: Data, more: bytes) -> bool:
        """Whether a call to a server that asks may be sent now; else it is sent, or ends, later."""
        kept = bytes(arguments)

        def send() -> None:
            client, meta, route = call.client, call.meta, call.route
            assert route is not None
            call.begin(self._loop.time())
            tail = request_meta(client.era == "modern", meta, client.next_id())
            call.up_id = client.call_tool(call, route.quoted, kept, more + tail)

        return self._turns.take(call, send)

    def _unknown(self, agent: Agent, mid: bytes, modern: bool, name: str) -> None:
        """A name that is not listed: that of a server which never could list its tools, or nobody's."""
        seen = self.seen(agent.workspace, agent.view)
        servers = [s for s in seen if agent.view or name.startswith(f"mcp__{s}__")]
        if servers:
            key = seen[max(servers, key=len)]
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

    def _in_flight(self, agent: Agent, mid: bytes) -> bool:
        if mid in agent.calls or mid in agent.listens or (agent, mid) in self._waiting:
            return True
        return self._watching.begins(agent, mid)

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
        if self._in_flight(agent, mid):
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_REQUEST, "this id is in flight already"))
        elif method == "tools/list" or method in MEMBERS:
            self._list(agent, str(method), mid, meta.modern, env.params)
        elif method in reading.METHODS:
            if len(agent.calls) >= MAX_CALLS:
                agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_REQUEST, "too many calls in flight"))
            else:
                self._reading.ask(agent, mid, str(method), env.params, meta)
        elif meta.modern and method == "server/discover":
            agent.send(jsonrpc.result_frame(mid, serving.discover_result(agent.view, self._instructions(agent))))
        elif meta.modern and method == "subscriptions/listen" and len(agent.listens) >= MAX_LISTENS:
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_REQUEST, "too many subscriptions"))
        elif meta.modern and method == "subscriptions/listen":
            self._listen(agent, mid, _object(env.params).get("notifications"))
        elif not meta.modern and method in ("resources/subscribe", "resources/unsubscribe"):
            self._subscribe(agent, str(method), mid, env.params)
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
        capabilities = params.get("capabilities")
        agent.capabilities = capabilities if isinstance(capabilities, dict) else {}
        agent.declares = capability_sets.declared(agent.capabilities)
        info = params.get("clientInfo")
        if isinstance(info, dict) and isinstance(info.get("name"), str) and not agent.client:
            agent.client = info["name"][:MAX_NAME]
        result = serving.initialize_result(asked, agent.view, self._instructions(agent))
        agent.send(jsonrpc.result_frame(mid, result))

    def _instructions(self, agent: Agent) -> str:
        """What the servers that this agent sees said when they were last connected; waits for none of them."""
        workers = {name: self._workers.get(key) for name, key in self.seen(agent.workspace, agent.view).items()}
        return merge_instructions({n: w.facts.instructions for n, w in workers.items() if w is not None and w.facts})

    def _lasting(self, agent: Agent) -> Agent:
        """The agent as it joined: over HTTP one request's answer may stand in for it, which ends before it does."""
        return next((joined for joined in self.agents if joined == agent), agent)

    def _subscribe(self, agent: Agent, method: str, mid: bytes, raw: Raw) -> None:
        uri = _object(raw).get("uri") if raw else None
        if not isinstance(uri, str):
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, f"{method}: `uri` must be a string"))
        elif method == "resources/unsubscribe":
            self._watching.unwatch(agent, uri)
            agent.send(jsonrpc.result_frame(mid, b"{}"))
        elif self._watching.watch(lasting := self._lasting(agent), b"", uri) is not None:
            self._watching.when_taken(lasting, b"", lambda _: agent.send(jsonrpc.result_frame(mid, b"{}")))
        else:
            text = f"{uri[:256]} cannot be subscribed to: no one server has it, or its server does not offer that"
            data = error_data("not_subscribable", "")
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, text, data))

    def _listen(self, agent: Agent, mid: bytes, asked: Any) -> None:
        watched = self._watching.watch_all(agent, mid, asked)

        def begun(meanwhile: Sequence[bytes]) -> None:
            agent.send(agent.listens.open(mid, asked, watched), *meanwhile)

        self._watching.when_taken(agent, mid, begun)

    def _list(self, agent: Agent, method: str, mid: bytes, modern: bool, raw: Raw) -> None:
        cursor = _cursor_only(raw).cursor if raw else None
        if cursor is not None:
            self._next_page(agent, method, mid, modern, cursor)
            return
        for key in self.seen(agent.workspace, agent.view).values():
            if (worker := self._workers.get(key)) is not None:
                worker.list_wanted(method)
        if len(self._waiting) >= MAX_WAITING or self.settled(agent.workspace, agent.view):
            self._give_list(agent, method, mid, modern)
            return
        waiting = _WaitingList(agent, method, mid, modern)
        self._waiting[agent, mid] = waiting
        waiting.timer = self._loop.call_later(self._list_wait, self._waited_enough, waiting)

    def _waited_enough(self, waiting: _WaitingList) -> None:
        self._forget(waiting)
        self._give_list(waiting.agent, waiting.method, waiting.mid, waiting.modern)

    def _forget(self, waiting: _WaitingList) -> None:
        del self._waiting[waiting.agent, waiting.mid]
        if waiting.timer is not None:
            waiting.timer.cancel()

    def _pages(self, agent: Agent, method: str) -> Pages:
        return agent.toolset.pages if method == "tools/list" else agent.library.pages[method]

    def _next_page(self, agent: Agent, method: str, mid: bytes, modern: bool, cursor: object) -> None:
        pages = self._pages(agent, method)
        start = take_cursor(self._seal_key, method, pages.digest, cursor) if isinstance(cursor, str) else None
        if start is None or start not in pages.pages:
            text = f"unknown cursor: the list has changed, or it is of another one; ask {method} again without a cursor"
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, text))
        else:
            self._give_list(agent, method, mid, modern, start)

    def _give_list(self, agent: Agent, method: str, mid: bytes, modern: bool, start: int = 0) -> None:
        """One page. Its items are the same bytes every time; only what stands around them is not."""
        pages = self._pages(agent, method)
        if method == "tools/list":
            agent.told = pages.digest
        else:
            agent.told_lists[method] = pages.digest
        page = pages.pages[start]
        tail = b"]"
        if page.next:
            tail += b',"nextCursor":"%b"' % give_cursor(self._seal_key, method, pages.digest, page.next).encode()
        if modern:
            now = self._loop.time()
            tail += b"," + freshness_members(self._freshness(agent, method, now), now)
        head = b'{"jsonrpc":"2.0","id":%b,"result":%b' % (mid, pages.head(modern))
        agent.send(head, page.modern if modern else page.legacy, tail + b"}}\n")

    def _freshness(self, agent: Agent, method: str, now: float) -> Freshness:
        views = self._supervisor.snapshot.value.views
        shown = [views[key] for key in self.seen(agent.workspace, agent.view).values() if key in views]
        found = merged_freshness(shown, method, now, self._list_ttl)
        # What a workspace sees depends on who asks, which is nothing that a cache could know.
        return msgspec.structs.replace(found, public=False) if agent.workspace else found

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
        elif agent.listens.cancel(mid) or self._watching.begins(agent, mid):
            self._watching.end(agent, mid)
        elif (agent, mid) in self._waiting:
            self._forget(self._waiting[agent, mid])

    # --- logging -----------------------------------------------------------------------------------------------------

    def _set_level(self, agent: Agent, mid: bytes, raw: Raw) -> None:
        level = _object(raw).get("level") if raw else None
        if not isinstance(level, str) or not messages.is_level(level):
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, "logging/setLevel: no such level"))
            return
        agent.log_level = level
        agent.plain_meta = RequestMeta(log_level=level)
        self._set_log_levels()
        agent.send(jsonrpc.result_frame(mid, b"{}"))

    def _set_log_levels(self) -> None:
        """Set each server that somebody set a level for to the most verbose one that an agent which sees it hears."""
        asked: set[InstanceKey] = set()
        heard: dict[InstanceKey, list[str]] = {}
        for agent in self.agents:
            level = agent.log_level or (messages.DEFAULT_LEVEL if agent.version else "")
            if level:
                for key in self.seen(agent.workspace, agent.view).values():
                    heard.setdefault(key, []).append(level)
                    if agent.log_level:
                        asked.add(key)
            for call in agent.calls.values():
                if call.meta.modern and call.meta.log_level:
                    heard.setdefault(call.key, []).append(call.meta.log_level)
                    asked.add(call.key)
        for key, worker in self._workers.items():
            worker.want_log_level(messages.most_verbose(heard[key]) if key in asked else "")

    def server_asked(
        self, worker: Worker, client: Client, mid: bytes, method: str, params: Raw, current: int | None
    ) -> bool:
        """A question of a legacy server; False where the hub's own answer will do. Implements worker.Sink."""
        if method not in ask_user.METHODS:
            return False
        waiting = client.waiting()
        calls = [w for w in waiting.values() if isinstance(w, AgentCall)]
        found = waiting.get(current) if current is not None else None
        asker = found if isinstance(found, AgentCall) else None
        if asker is None and method != "roots/list":
            self._turns.has_asked(worker.key, client)  # nothing says whose question it is
        return self._questions.ask(worker.name, client, mid, method, params, calls, asker)

    def server_said(self, worker: Worker, client: Client, method: str, params: Raw) -> None:
        """A notification of a server that is not about this connection. Implements connection.worker.Sink."""
        if method == UPDATED and self._watching.updated(worker, params):
            return
        if method == ACKNOWLEDGED and self._watching.acknowledged(worker, client, params):
            return
        if method == "notifications/cancelled":
            self._questions.withdrawn(client, params)
            return
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
            if worker.key not in self.seen(agent.workspace, agent.view).values():
                continue
            calls = [call for call in agent.calls.values() if call.client is client]
            in_flight += len(calls)
            if agent.version:
                # A legacy server logs for the session, a modern one for those who have a call there.
                heard = calls or (client.era == "legacy" and worker.is_for(client, agent.declares))
                if heard and messages.passes(level, agent.log_level or messages.DEFAULT_LEVEL):
                    agent.send(frame)
            elif any(c.meta.log_level and messages.passes(level, c.meta.log_level) for c in calls):
                opted.append(agent)
        if len(opted) == 1 and in_flight == 1:
            opted[0].send(frame)
