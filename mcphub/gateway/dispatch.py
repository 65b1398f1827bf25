"""Owns what happens to a message of an agent: which era it speaks, which method it asks for, who answers.

It must not know sockets, processes or files. Runs inside the read callback: no task, future or stream per message.
The era is decided per message: modern `_meta` present, or a session that has said `initialize` (MCP spec 2026-07-28,
basic/versioning, dual-era servers).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from time import monotonic
from typing import Any

import anyio
import msgspec

from mcphub.catalog.cache import Catalog
from mcphub.catalog.freshness import DEFAULT_MOST
from mcphub.catalog.instructions import merge_instructions
from mcphub.catalog.library import MEMBERS
from mcphub.catalog.toolset import Route, Toolset
from mcphub.channel import Data
from mcphub.connection import capability_sets
from mcphub.connection.client import Client
from mcphub.connection.machine import NeedsAuth, Pending
from mcphub.connection.worker import Worker
from mcphub.gateway import ask_user, invitation, messages, reading, url_steps
from mcphub.gateway.accounts import Accounts
from mcphub.gateway.agent import Agent
from mcphub.gateway.ask_user import AskUser
from mcphub.gateway.askable import read_capabilities
from mcphub.gateway.awakening import Awakening
from mcphub.gateway.call import AgentCall, Caller
from mcphub.gateway.legacy_rounds import Asking, LegacyRounds
from mcphub.gateway.lists import Lists
from mcphub.gateway.loudness import Loudness
from mcphub.gateway.pages import COMPLETE, Pages
from mcphub.gateway.parking import Parking
from mcphub.gateway.retries import Retries
from mcphub.gateway.roots_allowed import RootsAllowed
from mcphub.gateway.rounds import Rounds, principal_of
from mcphub.gateway.route import not_running, unavailable
from mcphub.gateway.sight import Sight
from mcphub.gateway.standing import Owed, Standing, standing_of
from mcphub.gateway.subscriptions import KINDS, LIST_CHANGED
from mcphub.gateway.telling import Telling, knows_all
from mcphub.gateway.turns import Turns
from mcphub.gateway.validate import Checks
from mcphub.gateway.watching import ACKNOWLEDGED, UPDATED, Watching
from mcphub.protocol import jsonrpc, serving, tool_call
from mcphub.protocol.envelope import (
    NO_META,
    InvalidMeta,
    RequestMeta,
    UnsupportedVersion,
    error_data,
    read_request_meta,
)
from mcphub.protocol.jsonrpc import EMPTY, UNSET, Envelope, NotAMessage, Raw
from mcphub.protocol.mrtr import Round, State
from mcphub.protocol.versions import ALL, BATCH_VERSION, answer_to_initialize
from mcphub.spec import Broken, InstanceKey, Off
from mcphub.supervisor.supervisor import Supervisor

#: Calls one agent may have in flight, and subscriptions it may hold.
MAX_CALLS = 10_000
MAX_LISTENS = 100
#: How often, at the end, it is looked whether calls are left, seconds.
DRAIN_STEP = 0.02
#: Bytes of a `_meta` that is remembered, and characters of an agent's name.
MAX_META = 4096
MAX_NAME = 100


class _CallParams(tool_call.Params, gc=False):
    inputResponses: Raw = EMPTY
    requestState: Raw = EMPTY


class _MetaOnly(msgspec.Struct, gc=False):
    meta: Raw = msgspec.field(default=EMPTY, name="_meta")


#: Kinds of transport over which a server can want a sign-in.
_SIGNED_IN_TO = ("http", "sse")

_call_params = msgspec.json.Decoder(_CallParams).decode
_meta_only = msgspec.json.Decoder(_MetaOnly).decode
_object = msgspec.json.Decoder(dict[str, Any]).decode


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
        roots: Sequence[str] = ("~",),
    ) -> None:
        self.agents: set[Agent] = set()
        self.counters: Counter[str] = Counter()
        self._stopping = False
        self._supervisor = supervisor
        self._workers = supervisor.workers
        self._catalog = catalog
        self._loop = asyncio.get_running_loop()
        self._sight = Sight(supervisor.snapshot, catalog, visible)
        self._lists = Lists(supervisor, self._sight, list_wait, list_ttl, seal_key)
        self._waiting = self._lists.waiting
        self._telling = Telling(self.agents)
        self._loudness = Loudness(self.agents, supervisor.workers, self._sight, self.counters)
        self._rounds = Rounds(seal_key)
        allowed = RootsAllowed(roots)
        self._pages = Pages()
        self._parking = Parking(seal_key, principal_of, self.counters, allowed)
        self._retries = Retries(self._rounds, self._parking)
        self._older = LegacyRounds(supervisor.workers, self.counters, allowed, self._pages)
        self._turns = Turns()
        self._checks = Checks()
        self._accounts = Accounts()
        self._awakening = Awakening(supervisor.workers)
        self._reading = reading.Reading(
            supervisor.workers,
            self._rounds,
            self._turns,
            self._awakening,
            self._retries,
            self._pages,
        )
        self._watching = Watching(supervisor.workers)
        self._questions = AskUser(self.counters, self._parking, self._pages, allowed)
        #: Gives mcphub's own page where a person can sign in to a server, "" = there is none for it.
        self.page_for: Callable[[Worker], str] | None = None

    # --- agents come and go ------------------------------------------------------------------------------------------

    def join(self, agent: Agent) -> None:
        self.agents.add(agent)
        agent.older = self._older
        agent.toolset, agent.library = self._sight.both(agent.workspace, agent.view)
        knows_all(agent)

    def leave(self, agent: Agent) -> None:
        """Cancel its calls upstream, forget what it listened to."""
        self.agents.discard(agent)
        self._questions.left(agent)
        self._pages.left(agent)
        self._watching.left(agent)
        for call in list(agent.calls.values()):
            call.withdraw("the agent left")
        if self._waiting:
            self._lists.left(agent)
        if self._awakening.held:
            self._awakening.left(agent)
        if agent.log_level:
            self._loudness.set_levels()

    def standing(self, agent: Agent, pending: Sequence[bytes] = ()) -> Standing:
        """What its session must be again in the next daemon. `pending`: ids whose answers are still on their way."""
        owed = {mid: Owed(mid.decode(), "a request, whose answer was on its way", True) for mid in pending}
        for (waiting, mid), one in self._waiting.items():
            if waiting is agent:
                owed[mid] = Owed(mid.decode(), one.method, True)
        for mid, call in agent.calls.items():
            owed[mid] = Owed(mid.decode(), call.tool, call.read_only)
        return self._watching.standing(agent, standing_of(agent, owed))

    def resume(self, agent: Agent, standing: Standing) -> None:
        """Make an agent that joined what it was in another daemon, without a word to it but that its lists may have
        changed."""
        if standing.initialize is not None:
            self._introduced(agent, standing.initialize)
        if messages.is_level(standing.log_level):
            self._loudness.set_level(agent, standing.log_level)
        for mid, notifications in list(standing.listens.items())[:MAX_LISTENS]:
            agent.listens.open(mid.encode(), notifications)
            self._watching.watch_later(agent, mid.encode(), notifications.get("resourceSubscriptions"))
        self._watching.watch_later(agent, b"", standing.watches)
        agent.told = ""  # whatever it has, it was another daemon's
        agent.told_lists = {}
        for kind in KINDS:
            if agent.version:
                agent.send(LIST_CHANGED[kind])
            if len(agent.listens) and (frames := agent.listens.changed(kind)):
                agent.send(frames)

    async def drain(self, seconds: float) -> int:
        """mcphub is going down: nothing more is sent to a server, and what was sent has so long to be answered. Returns
        how many calls have not been by then."""
        self._stopping = True
        for agent, mid in list(self._awakening.held):
            if self._awakening.cancel(agent, mid):
                self._not_any_more(agent, mid)
        until = self._loop.time() + seconds
        # Looked at now and then, so that no call pays for being waited for.
        while (left := sum(len(agent.calls) for agent in self.agents)) and self._loop.time() < until:  # noqa: ASYNC110
            await anyio.sleep(DRAIN_STEP)
        return left

    def end(self, spared: Collection[Agent] = ()) -> None:
        """mcphub is going down: answer each call that is left by what is known of it, and end every subscription in
        order, but those of agents that go on in another daemon."""
        for agent in self.agents:
            if agent in spared:
                continue
            for call in list(agent.calls.values()):
                call.cut_short()
            if len(agent.listens):
                agent.send(agent.listens.end())

    # --- what is seen ------------------------------------------------------------------------------------------------

    def seen(self, workspace: str, view: str = "") -> Mapping[str, InstanceKey]:
        """As Sight.seen."""
        return self._sight.seen(workspace, view)

    def toolset(self, workspace: str, view: str = "") -> Toolset:
        """As Sight.toolset."""
        return self._sight.toolset(workspace, view)

    def settled(self, workspace: str, view: str = "") -> bool:
        """As Sight.settled."""
        return self._sight.settled(workspace, view)

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for nothing any more but for `refresh`."""
        return bool(self._waiting) and self._lists.due()

    def refresh(self) -> None:
        """The snapshot, or what is visible, has changed: give agents their toolsets, tell them later, answer lists."""
        self._sight.renew({a.workspace for a in self.agents})
        for agent in self.agents:
            agent.toolset = self._sight.toolset(agent.workspace, agent.view)
            agent.library = self._sight.library(agent.workspace, agent.view)
        if any(worker.awaits_agent for worker in self._workers.values()):
            for agent in self.agents:
                if agent.era:
                    self._introduce(agent)
        self._watching.renew()
        self._awakening.renew()
        self._lists.renew()
        self._loudness.renew()
        self._telling.renew()

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
            if not self._questions.answered(agent, env) and not self._older.answered(agent, env):
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
            agent.declares = capability_sets.declared(read_capabilities(meta.capabilities))
            self._introduce(agent)
            agent.introduced()
        if meta.client and not agent.client:
            agent.client = meta.client[:MAX_NAME]
            agent.introduced()
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
        answer = ""
        if responses and meta.modern:
            responses, answer = invitation.taken_out(responses)
        route = agent.toolset.routes.get(params.name)
        if route is None:
            # Its server may have connected in this very turn of the loop, which nobody was told of yet.
            self._supervisor.catch_up()
            agent.toolset = self.toolset(agent.workspace, agent.view)
            route = agent.toolset.routes.get(params.name)
        if route is None:
            self._unknown(agent, mid, meta, params.name, answer)
            return
        calls = agent.calls
        elsewhere = self._waiting or agent.listens.held or self._awakening.held
        busy = mid in calls or (elsewhere and self._in_flight(agent, mid))
        if self._stopping:
            self._not_any_more(agent, mid)
            return
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
        brought: State | None = None
        if state is not EMPTY and meta.modern:
            of = Round(principal_of(agent), route.key.name, "tools/call", route.definition.name, bytes(arguments))
            brought = self._retries.goes_on(agent, mid, meta, of, responses, state)
            if brought is None:
                return
        worker = self._workers.get(route.key)
        client = worker.client if worker is not None else None
        if worker is None or client is None or client.over:
            if worker is None or not self._held(agent, mid, worker, params, responses, state):
                self._unavailable(agent, mid, route.key, worker, meta, answer)
            return
        if worker.sessions is not None:
            declares = capability_sets.declared_by(meta.capabilities) if meta.modern else agent.declares
            client = worker.sessions.client_for(client, meta.modern, declares)
        channel = client.channel
        if channel is not None and channel.full:
            text = f"The server {worker.name} does not read its requests (overloaded). Try again later."
            agent.send(jsonrpc.result_frame(mid, serving.tool_error(text, meta.modern)))
            return
        now, timeout = monotonic(), worker.spec.call_timeout
        call = AgentCall(agent, client, mid, route, meta, now, now + timeout, timeout)
        call.accounts = self._accounts
        if route.definition.structured:
            call.results = self._checks
        if not answer and worker.spec.transport.kind in _SIGNED_IN_TO:
            call.pages = self
        modern = client.era == "modern"
        more = b""
        if not meta.modern:
            if modern:
                call.arguments = bytes(arguments)
        elif modern:
            call.rounds = self._rounds
            more = self._reading.rounds_of(call, "tools/call", route.definition.name, arguments, responses, brought)
        else:
            if responses is not EMPTY and url_steps.declined(responses):
                agent.send(jsonrpc.result_frame(mid, serving.tool_error(url_steps.not_wanted(worker.name), True)))
                return
            if meta.capabilities:
                call.rounds = self._rounds
                call.arguments = bytes(arguments)
                call.asking = Asking(tries=brought.tries) if brought is not None else None
        calls[mid] = call
        if meta.modern and meta.log_level and not modern:
            self._loudness.set_levels()  # a legacy server is told for all its calls at once
        asked = self._turns.asked
        if brought is not None and self._waits_for_pages(call, brought):
            return
        if asked and route.key in asked and not self._its_turn(call, arguments, more):
            return
        call.start(arguments, more)

    def _held(
        self, agent: Agent, mid: bytes, worker: Worker, params: tool_call.Params, responses: Raw, state: Raw
    ) -> bool:
        """Whether the call waits for its server, which is started for it."""
        kept = tool_call.Params(params.name, params.arguments.copy(), params.meta.copy())
        again = responses.copy(), state.copy()
        return self._awakening.hold(agent, mid, worker, lambda: self._call(agent, mid, kept, *again))

    def _refuse(self, agent: Agent, mid: bytes, modern: bool, route: Route, text: str) -> None:
        """Arguments that are certainly wrong are told to the model, which can correct them (SEP-1303)."""
        self.counters["refused_arguments"] += 1
        data = error_data("validation", route.key.name, tool=route.definition.name)
        agent.send(jsonrpc.result_frame(mid, serving.tool_error(text, modern, data)))

    def _waits_for_pages(self, call: AgentCall, brought: State) -> bool:
        """Whether a call, whose agent was sent to pages, is sent later, once they are done."""
        arguments = call.arguments

        def go_on() -> None:
            client, route = call.client, call.route
            assert route is not None
            if client.over:
                call.not_sent("lost", "the connection was lost while it waited for a page to be done")
            elif route.key not in self._turns.asked or self._its_turn(call, arguments, b""):
                call.begin(self._loop.time())
                call.start(arguments, b"")

        return call.client.era == "legacy" and self._pages.wait(call, brought.pages, go_on)

    def _its_turn(self, call: AgentCall, arguments: Data, more: bytes) -> bool:
        """Whether a call to a server that asks may be sent now; else it is sent, or ends, later."""
        kept = bytes(arguments)

        def send() -> None:
            call.begin(self._loop.time())
            call.start(kept, more)

        return self._turns.take(call, send)

    def _unknown(self, agent: Agent, mid: bytes, meta: RequestMeta, name: str, answer: str) -> None:
        """A name that is not listed: of a tool that is withheld, of a server which never could list, or nobody's."""
        modern = meta.modern
        seen = self.seen(agent.workspace, agent.view)
        if why := self._catalog.refusal(seen, self._supervisor.snapshot.value.views, name, agent.view):
            agent.send(jsonrpc.result_frame(mid, serving.tool_error(why, modern)))
            return
        servers = [s for s in seen if agent.view or name.startswith(f"mcp__{s}__")]
        if servers:
            key = seen[max(servers, key=len)]
            worker = self._workers.get(key)
            wish = self._supervisor.snapshot.value.desired.get(key)
            if worker is not None and not worker.listed:
                self._unavailable(agent, mid, key, worker, meta, answer)
                return
            if isinstance(wish, Off | Broken):
                text = not_running(key.name, wish)
                agent.send(jsonrpc.result_frame(mid, serving.tool_error(text, modern)))
                return
        text = f"unknown tool {name[:128]!r}: tools/list has the names"
        agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, text))

    def _not_any_more(self, agent: Agent, mid: bytes) -> None:
        text = "mcphub is stopping: this was not sent to its server; ask again once mcphub runs"
        agent.send(jsonrpc.error_frame(mid, jsonrpc.INTERNAL_ERROR, text, error_data("stopping", "")))

    def _in_flight(self, agent: Agent, mid: bytes) -> bool:
        if mid in agent.calls or mid in agent.listens or (agent, mid) in self._waiting:
            return True
        if (agent, mid) in self._awakening.held:
            return True
        return self._watching.begins(agent, mid)

    def _unavailable(
        self, agent: Agent, mid: bytes, key: InstanceKey, worker: Worker | None, meta: RequestMeta, answer: str
    ) -> None:
        """`answer` is what its person said to the question of an earlier try, "" = there was none."""
        state, modern = worker.state if worker is not None else None, meta.modern
        if isinstance(state, NeedsAuth) and worker is not None:
            if answer:
                text = url_steps.not_wanted(key.name) if answer == invitation.NO else invitation.not_yet(key.name)
                agent.send(jsonrpc.result_frame(mid, serving.tool_error(text, modern)))
                return
            if page := self._page(agent, worker, meta):
                agent.send(invitation.invite(mid, key.name, page, modern))
                return
        retry_in = state.retry_at - self._loop.time() if isinstance(state, Pending) else 0.0
        text = unavailable(key.name, state, retry_in)
        if worker is not None:
            worker.wake_failed()
        agent.send(jsonrpc.result_frame(mid, serving.tool_error(text, modern)))

    def _page(self, agent: Caller, worker: Worker, meta: RequestMeta) -> str:
        """Where its person can sign in to this server, "" = the agent cannot show that, or there is no such place."""
        declared = read_capabilities(meta.capabilities) if meta.modern else agent.capabilities
        if self.page_for is None or not invitation.can_be_asked(meta.modern, agent.version, declared):
            return ""
        return self.page_for(worker)

    def invited(self, call: AgentCall) -> bytes:
        """The answer to a call that its server refused for want of a sign-in, b"" where its agent cannot be asked.
        Implements call.Pages."""
        worker = self._workers.get(call.key)
        if worker is None or not (page := self._page(call.caller, worker, call.meta)):
            return b""
        return invitation.invite(call.mid, worker.name, page, call.meta.modern)

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
            self._lists.ask(agent, str(method), mid, meta.modern, env.params)
        elif method in reading.METHODS:
            if self._stopping:
                self._not_any_more(agent, mid)
            elif len(agent.calls) >= MAX_CALLS:
                agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_REQUEST, "too many calls in flight"))
            else:
                self._supervisor.catch_up()  # as for a tool that is not known
                agent.library = self._sight.both(agent.workspace, agent.view)[1]
                self._reading.ask(agent, mid, str(method), env.params, meta)
        elif meta.modern and method == "server/discover":
            agent.send(jsonrpc.result_frame(mid, serving.discover_result(agent.view, self._instructions(agent))))
        elif meta.modern and method == "subscriptions/listen" and len(agent.listens) >= MAX_LISTENS:
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_REQUEST, "too many subscriptions"))
        elif meta.modern and method == "subscriptions/listen":
            agent.declares = capability_sets.declared_by(meta.capabilities)
            self._listen(agent, mid, _object(env.params).get("notifications"))
        elif not meta.modern and method in ("resources/subscribe", "resources/unsubscribe"):
            self._subscribe(agent, str(method), mid, env.params)
        elif not meta.modern and method == "logging/setLevel":
            self._loudness.ask(agent, mid, env.params)
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
        self._introduced(agent, params)
        result = serving.initialize_result(asked, agent.view, self._instructions(agent))
        agent.send(jsonrpc.result_frame(mid, result))

    def _introduced(self, agent: Agent, params: Mapping[str, Any]) -> None:
        """What a legacy agent says of itself in `initialize`."""
        agent.version = answer_to_initialize(str(params.get("protocolVersion")))
        agent.era = "legacy"
        capabilities = params.get("capabilities")
        agent.capabilities = capabilities if isinstance(capabilities, dict) else {}
        agent.declares = capability_sets.declared(agent.capabilities)
        agent.offers = capability_sets.offered(agent.capabilities, agent.version)
        info = params.get("clientInfo")
        if isinstance(info, dict) and isinstance(info.get("name"), str) and not agent.client:
            agent.client = info["name"][:MAX_NAME]
        self._introduce(agent)
        agent.introduced()

    def _introduce(self, agent: Agent) -> None:
        """Tell the servers that are for this agent alone what it can do."""
        for key in self.seen(agent.workspace, agent.view).values():
            worker = self._workers.get(key)
            if worker is not None and worker.spec.agent:
                worker.introduce(agent.declares)

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
        elif self._awakening.cancel(agent, mid):
            pass
        elif agent.listens.cancel(mid) or self._watching.begins(agent, mid):
            self._watching.end(agent, mid)
        else:
            self._lists.cancel(agent, mid)

    # --- what servers say --------------------------------------------------------------------------------------------

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
        if method == UPDATED and self._watching.updated(worker, client, params):
            return
        if method == ACKNOWLEDGED and self._watching.acknowledged(worker, client, params):
            return
        if method == "notifications/cancelled":
            self._questions.withdrawn(client, params)
            return
        if method == COMPLETE:
            self._pages.completed(worker.key, params)
        elif method == messages.MESSAGE:
            self._loudness.said(worker, client, params)
        else:
            self.counters["dropped_notifications"] += 1
