"""Owns what happens to a message of an agent: which era it speaks, which method it asks for, who answers.

It must not know sockets, processes or files. Runs inside the read callback: no task, future or stream per message.
The era is decided per message: modern `_meta` present, or a session that has said `initialize` (MCP spec 2026-07-28,
basic/versioning, dual-era servers).
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from time import monotonic, time_ns
from typing import Any

import anyio
import msgspec

from mcphub.catalog.cache import Catalog
from mcphub.catalog.freshness import DEFAULT_MOST
from mcphub.catalog.instructions import merge_instructions
from mcphub.catalog.library import MEMBERS
from mcphub.catalog.naming import prefix
from mcphub.catalog.repeatable import does_not_fit
from mcphub.catalog.toolset import Route, Toolset
from mcphub.channel import Data
from mcphub.config.settings import LimitsSettings
from mcphub.connection import capability_sets
from mcphub.connection.client import Client
from mcphub.connection.machine import NeedsAuth, Pending
from mcphub.connection.worker import Worker
from mcphub.gateway import ask_user, idempotency, invitation, messages, reading, url_steps
from mcphub.gateway.accounts import Accounts
from mcphub.gateway.again import Again
from mcphub.gateway.agent import Agent
from mcphub.gateway.ask_user import AskUser
from mcphub.gateway.askable import read_capabilities
from mcphub.gateway.awakening import Awakening
from mcphub.gateway.budgets import Budgets
from mcphub.gateway.bursts import Bursts
from mcphub.gateway.call import AgentCall, Caller, who, whose
from mcphub.gateway.call_lines import CallLines
from mcphub.gateway.circuits import Circuits
from mcphub.gateway.holding import Holder, holders
from mcphub.gateway.lane import ALONE
from mcphub.gateway.lanes import Lanes
from mcphub.gateway.left_over import Aim
from mcphub.gateway.legacy_rounds import Asking, LegacyRounds
from mcphub.gateway.lists import Lists
from mcphub.gateway.loudness import Loudness
from mcphub.gateway.outcomes import Outcomes
from mcphub.gateway.pages import COMPLETE, Pages
from mcphub.gateway.parking import Parking
from mcphub.gateway.patience import Patience
from mcphub.gateway.refusals import BAD_PARAMS, BAD_REQUEST, NO_METHOD, TOO_MUCH, Refusals
from mcphub.gateway.repeats import Repeats
from mcphub.gateway.retries import Retries
from mcphub.gateway.roots_allowed import RootsAllowed
from mcphub.gateway.rounds import Rounds, principal_of
from mcphub.gateway.route import not_running, starts_too_slowly, unavailable, why_unavailable
from mcphub.gateway.sight import Sight
from mcphub.gateway.sign_in_pages import SignInPages
from mcphub.gateway.signs import Signs
from mcphub.gateway.standing import Owed, Standing, standing_of
from mcphub.gateway.subscriptions import KINDS, LIST_CHANGED
from mcphub.gateway.task_handles import TaskHandles
from mcphub.gateway.task_news import TaskNews
from mcphub.gateway.tasks import TaskCall, Tasks, takes_tasks
from mcphub.gateway.telling import TOOLS, Telling, knows_all
from mcphub.gateway.tracing import with_trace
from mcphub.gateway.turns import Turns
from mcphub.gateway.unlisted import whose_name
from mcphub.gateway.validate import Checks
from mcphub.gateway.watching import ACKNOWLEDGED, UPDATED, Watching
from mcphub.protocol import jsonrpc, mrtr, serving, tasks, tool_call
from mcphub.protocol.envelope import (
    NO_META,
    InvalidMeta,
    RequestMeta,
    UnsupportedVersion,
    add_to_data,
    error_data,
    read_request_meta,
    trace_of,
    traced,
)
from mcphub.protocol.jsonrpc import EMPTY, UNSET, Envelope, Mended, NotAMessage, Raw
from mcphub.protocol.mrtr import Round, State
from mcphub.protocol.task_budget import Task
from mcphub.protocol.versions import ALL, BATCH_VERSION, answer_to_initialize
from mcphub.spec import Broken, InstanceKey, Off
from mcphub.supervisor.supervisor import Supervisor

_LOG = logging.getLogger(__name__)

#: Calls one agent may have in flight, and subscriptions it may hold.
MAX_CALLS = 10_000
MAX_LISTENS = 100
_STOPPING = "mcphub is stopping: this was not sent to its server; ask again once mcphub runs"
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
        outcomes: Outcomes | None = None,
        limits: LimitsSettings | None = None,
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
        allowed, patience, signs = RootsAllowed(roots), Patience(supervisor.workers), Signs()
        self._rounds = Rounds(seal_key, allowed, self.counters, patience)
        self._pages = Pages(self._joined)
        self._sign_in_pages = SignInPages(supervisor.workers)
        self._parking = Parking(seal_key, principal_of, self.counters, allowed, patience, self.agents)
        self._retries = Retries(self._rounds, self._parking)
        self._older = LegacyRounds(supervisor.workers, self.counters, allowed, self._pages, patience, signs)
        self._turns = Turns(self._parking.held_up)
        self._checks = Checks(_LOG.warning)
        self._repeats = Repeats(monotonic)
        lines = CallLines(monotonic)
        self._refusals = Refusals(self._repeats, lines)
        self.circuits = Circuits(supervisor.workers)
        self._again = Again(supervisor.workers, catalog, self.circuits, self._rounds, self._turns)
        #: The outcome journal.
        self.outcomes = outcomes or Outcomes(seal_key)
        self._accounts = Accounts(self._repeats, lines, self._again, self.circuits, self.outcomes)
        #: Where calls of several agents meet, and what limits them.
        self.lanes = Lanes(limits or LimitsSettings(), self.agents, supervisor.workers, MAX_CALLS)
        self._budgets = Budgets()
        self._awakening = Awakening(supervisor.workers, list_wait)
        self._bursts = Bursts(
            supervisor.workers,
            self._checks,
            self._accounts,
            self._repeats,
            self.lanes,
            self._turns,
            self._waiting,
            self._awakening.held,
        )
        self._reading = reading.Reading(
            supervisor.workers,
            self._sight,
            self._rounds,
            self._turns,
            self._awakening,
            self._retries,
            self._pages,
            self._accounts,
            self.lanes,
        )
        self._handles = TaskHandles(
            seal_key, supervisor.workers, self._sight.seen, self._awakening, allowed, self.counters
        )
        self._task_news = TaskNews(supervisor.workers, self._handles)
        self._tasks = Tasks(supervisor.workers, self._rounds, self._turns, self._handles.given, patience)
        self._watching = Watching(supervisor.workers)
        self._questions = AskUser(self.counters, self._parking, self._pages, allowed, patience, signs)
        #: Gives mcphub's own page where a person can sign in to a server, "" = there is none for it.
        self.page_for: Callable[[Worker], str] | None = None
        #: Calls whose agents named no trace get one.
        self.begins_traces = False

    # --- agents come and go ------------------------------------------------------------------------------------------

    def join(self, agent: Agent) -> None:
        self.agents.add(agent)
        agent.older = self._older
        agent.tasks = self._tasks
        agent.toolset, agent.library = self._sight.both(agent.workspace, agent.view)
        knows_all(agent)

    def leave(self, agent: Agent) -> None:
        """Cancel its calls upstream, forget what it listened to."""
        self.agents.discard(agent)
        if agent.paths:
            agent.paths.clear()
        self._questions.left(agent)
        self._pages.left(agent)
        self._sign_in_pages.left(agent)
        self._watching.left(agent)
        self._task_news.left(agent)
        self.lanes.leaves(agent)
        for call in list(agent.calls.values()):
            call.withdraw("the agent left")
        self._parking.left(agent)
        if self._waiting:
            self._lists.left(agent)
        if self._awakening.held:
            self._awakening.left(agent)
        if agent.log_level:
            self._loudness.set_levels()
        if self._repeats.failing:
            self._repeats.left(agent)
        self.lanes.left(agent)
        if not agent.passing:
            self._budgets.left(who(agent))

    def standing(self, agent: Agent, pending: Sequence[bytes] = ()) -> Standing:
        """What its session must be again in the next daemon. `pending`: ids whose answers are still on their way."""
        owed = {mid: Owed(mid.decode(), "a request, whose answer was on its way", True) for mid in pending}
        for (waiting, mid), one in self._waiting.items():
            if waiting is agent:
                owed[mid] = Owed(mid.decode(), one.method, True)
        for mid, call in agent.calls.items():
            owed[mid] = Owed(
                mid.decode(), call.tool, call.read_only, call.server, trace=call.meta.trace, own_name=call.tool
            )
        for (waiting, mid), held in self._awakening.held.items():
            if waiting is agent:
                what = f"a request that waited for the server {held.key.name}"
                owed[mid] = Owed(
                    mid.decode(),
                    what,
                    server=held.key.name,
                    tool=held.tool,
                    unsent=True,
                    trace=held.meta.trace,
                    modern=held.meta.modern,
                )
        return self._task_news.standing(agent, self._watching.standing(agent, standing_of(agent, owed)))

    def aim_of(self, agent: Agent, tool: str) -> Aim:
        """Where this exposed name leads, or would."""
        if (route := agent.toolset.routes.get(tool)) is not None:
            return Aim(route.key.name, route.definition.name, route.definition.reads)
        key = whose_name(self.seen(agent.workspace, agent.view), agent.view, tool) if tool else None
        if key is None:
            return Aim(tool=tool)
        return Aim(key.name, tool if agent.view else tool.removeprefix(prefix(key.name)))

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
            self._task_news.resume(agent, mid.encode(), notifications)
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
        self._stopping = self._bursts.closed = True
        self._again.stop()
        self.lanes.stop()
        for agent, mid in list(self._awakening.held):
            held = self._awakening.held[agent, mid]
            if self._awakening.cancel(agent, mid):
                if held.tool:
                    self._not_taken(agent, mid, held.meta, EMPTY, None, held.key.name, held.tool)
                else:
                    self._not_any_more(agent, mid, held.meta.trace)
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

    def held(self) -> Counter[InstanceKey]:
        """How many calls wait for others, by the server that they are for: for limits and shares, and for turns."""
        return self.lanes.waiting() + self._turns.waiting()

    def unanswered(self, key: InstanceKey) -> list[Holder]:
        """The agents that have not answered a question of this server."""
        worker = self._workers.get(key)
        client = worker.client if worker is not None else None
        return holders(client) if client is not None else []

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for nothing any more but for `refresh`."""
        return (bool(self._waiting) and self._lists.due()) or (bool(self._awakening.held) and self._awakening.due())

    def refresh(self) -> None:
        """The snapshot, or what is visible, has changed: give agents their toolsets, tell them later, answer lists."""
        self._sight.renew({a.workspace for a in self.agents})
        for agent in self.agents:
            agent.toolset = self._sight.toolset(agent.workspace, agent.view)
            if agent.paths:
                agent.paths.clear()  # each holds a connection that may be gone
            agent.library = self._sight.library(agent.workspace, agent.view)
        if any(worker.awaits_agent for worker in self._workers.values()):
            for agent in self.agents:
                if agent.era:
                    self._introduce(agent)
        self._watching.renew()
        self._task_news.renew()
        self._awakening.renew()
        self._sign_in_pages.renew()
        if self._again.waiting:
            self._again.renew()
        self._lists.renew()
        self._loudness.renew()
        self._telling.renew()

    # --- messages ----------------------------------------------------------------------------------------------------

    def burst(self, agent: Agent, lines: Sequence[bytes]) -> bool:
        """Several lines from an agent at once; False = nothing was done with them."""
        return not self.begins_traces and self._bursts.take(agent, lines)

    def dispatch(self, agent: Agent, line: bytes | memoryview) -> None:
        """One line from an agent. Raises nothing that the peer could cause."""
        call = tool_call.read(line)
        try:
            if call is not None:
                if type(line) is not bytes or not line.isascii():
                    jsonrpc.check_utf8(line)
                self._call(agent, call[0], call[1])
                return
            env = jsonrpc.decode(line)
        except NotAMessage as e:
            self._not_a_message(agent, line, e)
            return
        if type(env) is Mended:
            self.counters["mended_surrogates"] += 1
        if env.method is None:
            if not self._questions.answered(agent, env) and not self._older.answered(agent, env):
                self.counters["stray_replies"] += 1
        elif env.id is UNSET:
            self._notified(agent, env.method, env.params)
        elif env.id is None:
            text = "a request's id must not be null"
            agent.send(jsonrpc.error_frame(b"null", jsonrpc.INVALID_REQUEST, text, BAD_REQUEST))
        elif env.method == "tools/call":
            self._read_call(agent, jsonrpc.encode_id(env.id), env.params)
        else:
            try:
                self._request(agent, env)
            except (msgspec.DecodeError, RecursionError) as e:
                # What the envelope passes unread can still be unreadable: 1e999, a lone surrogate, too deep nesting.
                text = f"cannot read the params of {env.method[:80]}: {e}"
                data = traced(BAD_PARAMS, trace_of(env.params))
                agent.send(jsonrpc.error_frame(jsonrpc.encode_id(env.id), jsonrpc.INVALID_PARAMS, text, data))

    def _not_a_message(self, agent: Agent, line: bytes | memoryview, e: NotAMessage) -> None:
        self.counters["bad_lines"] += 1
        if e.kind == "batch":
            self._batch(agent, line)
        elif e.kind == "envelope":
            text = f"not a JSON-RPC message: {e}"
            agent.send(jsonrpc.error_frame(b"null", jsonrpc.INVALID_REQUEST, text, BAD_REQUEST))
        else:
            text = f"cannot parse the message: {e}"
            agent.send(jsonrpc.error_frame(b"null", jsonrpc.PARSE_ERROR, text, BAD_REQUEST))

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
            agent.send(jsonrpc.error_frame(b"null", code, text, BAD_REQUEST))
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
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, str(e), BAD_REQUEST))
            return None
        except UnsupportedVersion as e:
            data = msgspec.json.encode({"supported": list(ALL), "requested": e.requested[:64]})
            data = add_to_data(data, error_data("unsupported_version"))
            text = f"unsupported protocol version {e.requested[:64]!r}"
            agent.send(jsonrpc.error_frame(mid, jsonrpc.UNSUPPORTED_PROTOCOL_VERSION, text, data))
            return None
        if not meta.modern and not agent.version:
            text = (
                "say `initialize` first (MCP up to 2025-11-25), or send `_meta` with "
                "io.modelcontextprotocol/protocolVersion and clientCapabilities on every request (2026-07-28)"
            )
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, text, traced(BAD_REQUEST, meta.trace)))
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
            data = traced(BAD_PARAMS, trace_of(raw))
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, f"tools/call: {e}", data))
        else:
            self._call(agent, mid, params, params.inputResponses, params.requestState)

    def _call(
        self,
        agent: Agent,
        mid: bytes,
        params: tool_call.Params,
        responses: Raw = EMPTY,
        state: Raw = EMPTY,
        answer: str = "",
    ) -> None:
        """`answer` is what its person said to an invitation, where that was read before the call had to wait."""
        meta = self._start_of(agent, mid, params.meta) if params.meta or not agent.version else agent.plain_meta
        if meta is None:
            return
        if self.begins_traces and not meta.trace:
            meta = with_trace(meta)
        new = meta.modern
        if new and responses:
            responses, said = invitation.taken_out(responses)
            answer = said or answer
        route = agent.toolset.routes.get(params.name)
        if route is None:
            # Its server may have connected in this very turn of the loop, which nobody was told of yet.
            self._supervisor.catch_up()
            agent.toolset = self.toolset(agent.workspace, agent.view)
            route = agent.toolset.routes.get(params.name)
        if route is None:
            self._unknown(agent, mid, meta, params, responses, state, answer)
            return
        calls = agent.calls
        elsewhere = self._waiting or agent.listens.held or self._awakening.held
        if mid in calls or self._stopping or len(calls) >= MAX_CALLS or (elsewhere and self._in_flight(agent, mid)):
            self._not_taken(agent, mid, meta, params.arguments, route)
            return
        arguments: Data = memoryview(params.arguments) if params.arguments else b"{}"
        if arguments[0] != 0x7B:
            if bytes(arguments) != b"null":
                text, data = "tools/call: `arguments` must be an object", traced(BAD_PARAMS, meta.trace)
                agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, text, data))
                return
            arguments = b"{}"
        filled, keyless, tool = "", False, route.definition
        #: Nothing special is wanted by the agent, nor of the tool: most calls pass by all that is.
        plain = meta is NO_META and route.plain
        if not plain and (argument := tool.idempotency_argument) and idempotency.lacks(arguments, argument):
            filled = str(uuid.uuid4())
            whole = idempotency.with_argument(arguments, argument, filled)
            refusal = self._checks.refusal(tool, whole)
            if refusal:
                refusal = self._checks.refusal_of_own(tool, arguments, whole)
                filled, keyless = "", True
        else:
            refusal = self._checks.refusal(tool, arguments)
        if refusal:
            # Told to the model, which can correct them (SEP-1303).
            self.counters["refused_arguments"] += 1
            self._turn_down(agent, mid, meta, "validation", refusal, route, arguments)
            return
        brought: State | None = None
        if not plain and new and state is not EMPTY:
            of = Round(principal_of(agent), route.key.name, "tools/call", tool.name, bytes(arguments))
            brought = self._retries.goes_on(agent, mid, meta, of, responses, state)
            if brought is None:
                return
        worker = self._workers.get(route.key)
        client = worker.client if worker is not None else None
        if worker is None or client is None or client.over:
            if worker is None or not self._held(agent, mid, meta, worker, params, responses, state, answer):
                self._unavailable(agent, mid, route.key, worker, meta, answer, tool.name, params.arguments)
            return
        if worker.sessions is not None:
            declares = capability_sets.declared_by(meta.capabilities) if meta.modern else agent.declares
            client = worker.sessions.client_for(client, meta.modern, declares)
        channel = client.channel
        if channel is not None and channel.full:
            text = f"The server {worker.name} does not read its requests (overloaded). Try again later."
            self._turn_down(agent, mid, meta, "overloaded", text, route, arguments)
            return
        spec = worker.spec
        now, timeout = self._awakening.since or monotonic(), spec.call_timeout
        made = TaskCall if not plain and tool.task and takes_tasks(worker) else AgentCall
        call = made(agent, client, mid, route, meta, now, now + timeout, timeout)
        call.accounts = self._accounts
        if self._repeats.failing:
            self._accounts.watch(call, arguments)
        if not answer and spec.transport.kind in _SIGNED_IN_TO:
            call.pages = self
        modern, more = client.era == "modern", b""
        if not plain:
            if filled:
                call.filled = brought.filled if brought is not None and brought.filled else filled
            call.keyless = keyless
            found = self._special(agent, call, worker, arguments, responses, brought)
            if found is None:
                return
            more = found
        elif modern:
            call.arguments = bytes(arguments)
        if self.circuits.known and (circuit := self.circuits.stops(call)) is not None:
            text, wait = self.circuits.refusal(call, circuit)
            self._turn_down(agent, mid, meta, "circuit_open", text, route, arguments, retryAfterMs=wait)
            return
        calls[mid] = call
        if new and meta.log_level and not modern:
            self._loudness.set_levels()  # a legacy server is told for all its calls at once
        if brought is not None:
            if brought.task:
                self._tasks.resumed(call, brought.task, brought.asked, more)
                return
            if self._waits_for_pages(call, brought):
                return
        lanes = self.lanes
        many = lanes.only is not agent or spec.allowance is not None or len(calls) > ALONE
        if many and lanes.hold(agent, call, worker, len(arguments) + len(more)):
            lanes.later(call, partial(self._go, call, call.arguments or bytes(arguments), more))
            return
        if (asked := self._turns.asked) and route.key in asked and not self._its_turn(call, arguments, more):
            return
        if agent.paths and plain and not call.watched and call.ticket is None:
            path = agent.paths.get(params.name)
            call.crowd = path.ends if path is not None and path.is_of(agent) else None
        call.start(arguments, more)

    def _special(
        self, agent: Agent, call: AgentCall, worker: Worker, arguments: Data, responses: Raw, brought: State | None
    ) -> bytes | None:
        """Give a call what its agent, or its tool, wants beyond being called. Returns the members of a retry, with a
        leading comma; None = it was turned down."""
        meta, route = call.meta, call.route
        assert route is not None
        tool, modern = route.definition, call.client.era == "modern"
        if meta.budget is not None and not self._in_budget(agent, call, meta.budget, arguments):
            return None
        if call.keyless and self._catalog.warn(worker.view(), text := does_not_fit(tool.name)):
            worker.noted(text)
        if tool.structured:
            call.results = self._checks
        if not meta.modern:
            if modern:
                call.arguments = bytes(arguments)
        elif modern:
            if responses is not EMPTY:
                try:
                    mrtr.check_responses(responses)
                except ValueError as e:
                    data = traced(BAD_PARAMS, meta.trace)
                    agent.send(jsonrpc.error_frame(call.mid, jsonrpc.INVALID_PARAMS, f"tools/call: {e}", data))
                    return None
            call.rounds = self._rounds
            return self._reading.rounds_of(call, "tools/call", tool.name, arguments, responses, brought)
        elif responses is not EMPTY and url_steps.declined(responses):
            text = url_steps.not_wanted(worker.name)
            self._turn_down(agent, call.mid, meta, "declined", text, route, arguments)
            return None
        elif meta.capabilities:
            call.rounds = self._rounds
            call.arguments = bytes(arguments)
            call.asking = Asking(tries=brought.tries) if brought is not None else None
        return b""

    def _go(self, call: AgentCall, arguments: bytes, more: bytes) -> None:
        """There is room for a call that waited."""
        if call.key not in self._turns.asked or self._its_turn(call, arguments, more):
            call.start(arguments, more)

    def _in_budget(self, agent: Agent, call: AgentCall, task: Task, arguments: Data) -> bool:
        """Whether a call is within its task's budget, which bounds it too; else it was turned down."""
        now = time_ns() / 1e6
        if why := self._budgets.refusal(who(agent), task, now):
            text = f"{call.tool} was not called: {why}. Nothing was sent."
            assert call.route is not None
            self._turn_down(agent, call.mid, call.meta, "task_budget", text, call.route, arguments)
            return False
        if task.deadline is not None:
            call.until = self._loop.time() + (task.deadline - now) / 1000
            call.deadline = min(call.deadline, call.until)
        return True

    def _held(
        self,
        agent: Agent,
        mid: bytes,
        meta: RequestMeta,
        worker: Worker,
        params: tool_call.Params,
        responses: Raw,
        state: Raw,
        answer: str,
    ) -> bool:
        """Whether the call waits for its server, which is on its way or started for it."""
        again, name = self._again_later(agent, mid, params, responses, state, answer), params.name

        def late() -> None:
            text = starts_too_slowly(worker.name, worker.spec.call_timeout)
            self._refusals.result(agent, mid, meta, "unavailable", text, server=worker.name, tool=name)

        return self._awakening.hold(agent, mid, worker, again, late, meta, name)

    def _held_for_list(
        self,
        agent: Agent,
        mid: bytes,
        meta: RequestMeta,
        worker: Worker,
        params: tool_call.Params,
        responses: Raw,
        state: Raw,
        answer: str,
    ) -> bool:
        """Whether a call of a name that is not listed waits for its server's list, which has changed; or was turned
        away though it could."""
        if not self._awakening.list_comes(worker, TOOLS):
            return False
        if self._stopping or len(agent.calls) >= MAX_CALLS or self._in_flight(agent, mid):
            self._not_taken(agent, mid, meta, params.arguments, None, worker.name, params.name)
            return True
        again = self._again_later(agent, mid, params, responses, state, answer)
        return self._awakening.hold_for_list(agent, mid, worker, TOOLS, again, meta, params.name)

    def _again_later(
        self, agent: Agent, mid: bytes, params: tool_call.Params, responses: Raw, state: Raw, answer: str
    ) -> Callable[[], None]:
        """What makes this call anew, of copies of what is valid during this one only."""
        kept = tool_call.Params(params.name, params.arguments.copy(), params.meta.copy())
        brought = responses.copy(), state.copy()
        return lambda: self._call(agent, mid, kept, *brought, answer)

    def _turn_down(
        self,
        agent: Agent,
        mid: bytes,
        meta: RequestMeta,
        kind: str,
        text: str,
        route: Route,
        arguments: Data,
        **more: object,
    ) -> None:
        """Answer a call whose tool is known, and of which nothing was sent."""
        server, tool = route.key.name, route.definition.name
        self._refusals.result(agent, mid, meta, kind, text, server=server, tool=tool, arguments=arguments, **more)

    def _waits_for_pages(self, call: AgentCall, brought: State) -> bool:
        """Whether a call, whose agent was sent to pages, is sent later, once they are done."""
        arguments = call.arguments

        def go_on() -> None:
            client, route = call.client, call.route
            assert route is not None
            call.run_on(self._loop.time())
            if client.over:
                call.not_sent("lost", "the connection was lost while it waited for a page to be done")
            elif route.key not in self._turns.asked or self._its_turn(call, arguments, b""):
                call.start(arguments, b"")

        return call.client.era == "legacy" and self._pages.wait(call, brought.pages, go_on)

    def _its_turn(self, call: AgentCall, arguments: Data, more: bytes) -> bool:
        """Whether a call to a server that asks may be sent now; else it is sent, or ends, later."""
        kept = bytes(arguments)

        def send() -> None:
            call.start(kept, more)

        return self._turns.take(call, send, len(kept))

    def _unknown(
        self,
        agent: Agent,
        mid: bytes,
        meta: RequestMeta,
        params: tool_call.Params,
        responses: Raw,
        state: Raw,
        answer: str,
    ) -> None:
        """A name that is not listed: of a tool that is withheld, of a server which has not listed yet, or nobody's."""
        name, arguments = params.name, params.arguments
        seen = self.seen(agent.workspace, agent.view)
        if why := self._catalog.refusal(seen, self._supervisor.snapshot.value.views, name, agent.view):
            self._refusals.result(agent, mid, meta, "withheld", why, tool=name, arguments=arguments)
            return
        key = whose_name(seen, agent.view, name)
        if key is not None:
            worker = self._workers.get(key)
            wish = self._supervisor.snapshot.value.desired.get(key)
            if worker is not None and worker.unlisted:
                if self._stopping or self._in_flight(agent, mid) or len(agent.calls) >= MAX_CALLS:
                    self._not_taken(agent, mid, meta, arguments, None, key.name, name)
                elif not self._held(agent, mid, meta, worker, params, responses, state, answer):
                    self._unavailable(agent, mid, key, worker, meta, answer, name, arguments)
                return
            if worker is not None and self._held_for_list(agent, mid, meta, worker, params, responses, state, answer):
                return
            if isinstance(wish, Off | Broken):
                kind, text = "config" if isinstance(wish, Broken) else "disabled", not_running(key.name, wish)
                self._refusals.result(agent, mid, meta, kind, text, server=key.name, tool=name, arguments=arguments)
                return
        text = f"unknown tool {name[:128]!r}: tools/list has the names"
        code, shown = jsonrpc.INVALID_PARAMS, name[:128]
        self._refusals.error(agent, mid, meta, code, "unknown_tool", text, tool=shown, arguments=arguments)

    def _not_taken(
        self,
        agent: Agent,
        mid: bytes,
        meta: RequestMeta,
        arguments: Data,
        route: Route | None,
        server: str = "",
        tool: str = "",
    ) -> None:
        """Turn a call away that is not looked at: at the end, under an id that is taken, or beyond the limit."""
        if route is not None:
            server, tool = route.key.name, route.definition.name
        what = f"{tool} was not sent to the server {server}"
        if self._stopping:
            kind, text = "stopping", f"mcphub is stopping: {what}; call it again once mcphub runs"
        elif len(agent.calls) >= MAX_CALLS:
            kind, text = "overloaded", f"too many calls of this agent are in flight: {what}; call it again later"
        else:
            text, data = "this id is in flight already", traced(BAD_REQUEST, meta.trace)
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_REQUEST, text, data))
            return
        self._refusals.result(agent, mid, meta, kind, text, server=server, tool=tool, arguments=arguments)

    def _not_any_more(self, agent: Agent, mid: bytes, trace: str = "") -> None:
        """Turn a request away that is no call of a tool."""
        data = traced(error_data("stopping", ""), trace)
        agent.send(jsonrpc.error_frame(mid, jsonrpc.INTERNAL_ERROR, _STOPPING, data))

    def _has_room(self, agent: Agent, mid: bytes, meta: RequestMeta) -> bool:
        """Whether a request that is no call of a tool may be sent on; else it was turned away."""
        if self._stopping:
            self._not_any_more(agent, mid, meta.trace)
        elif len(agent.calls) >= MAX_CALLS:
            data = traced(TOO_MUCH, meta.trace)
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_REQUEST, "too many calls in flight", data))
        else:
            return True
        return False

    def _in_flight(self, agent: Agent, mid: bytes) -> bool:
        if mid in agent.calls or mid in agent.listens or (agent, mid) in self._waiting:
            return True
        if (agent, mid) in self._awakening.held:
            return True
        return self._watching.begins(agent, mid)

    def _unavailable(
        self,
        agent: Agent,
        mid: bytes,
        key: InstanceKey,
        worker: Worker | None,
        meta: RequestMeta,
        answer: str,
        tool: str,
        arguments: Data,
    ) -> None:
        """`answer` is what its person said to the question of an earlier try, "" = there was none."""
        state = worker.state if worker is not None else None
        if isinstance(state, NeedsAuth) and worker is not None:
            if answer:
                text, kind = invitation.not_yet(key.name), "needs_auth"
                if answer == invitation.NO:
                    text, kind = url_steps.not_wanted(key.name), "declined"
                self._refusals.result(agent, mid, meta, kind, text, server=key.name, tool=tool, arguments=arguments)
                return
            if page := self._page(agent, worker, meta):
                if not meta.modern:
                    self._sign_in_pages.give(self._joined(agent), worker.key, page)
                agent.send(invitation.invite(mid, key.name, page, meta.modern))
                return
        retry_in = state.retry_at - self._loop.time() if isinstance(state, Pending) else 0.0
        text = unavailable(key.name, state, retry_in)
        if worker is not None:
            self._awakening.met_failed(worker)
        kind, more = why_unavailable(state, retry_in)
        self._refusals.result(agent, mid, meta, kind, text, server=key.name, tool=tool, arguments=arguments, **more)

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
        if not call.meta.modern:
            self._sign_in_pages.give(self._joined(call.caller), worker.key, page)
        return invitation.invite(call.mid, worker.name, page, call.meta.modern)

    def _request(self, agent: Agent, env: Envelope) -> None:
        method, mid = env.method, jsonrpc.encode_id(env.id)  # type: ignore[arg-type]
        try:
            raw_meta = _meta_only(env.params).meta if env.params else EMPTY
        except (msgspec.DecodeError, RecursionError):
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, "`params` must be an object", BAD_PARAMS))
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
            text, data = "this id is in flight already", traced(BAD_REQUEST, meta.trace)
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_REQUEST, text, data))
        elif method == "tools/list" or method in MEMBERS:
            self._lists.ask(agent, str(method), mid, meta.modern, env.params, meta.trace)
        elif method in reading.METHODS:
            if self.begins_traces and not meta.trace:
                meta = with_trace(meta)
            if self._has_room(agent, mid, meta):
                self._supervisor.catch_up()  # as for a tool that is not known
                agent.library = self._sight.both(agent.workspace, agent.view)[1]
                self._reading.ask(agent, mid, str(method), env.params, meta)
        elif meta.modern and method in tasks.METHODS:
            if self._has_room(agent, mid, meta):
                self._handles.ask(agent, mid, str(method), env.params, meta)
        elif meta.modern and method == "server/discover":
            agent.send(jsonrpc.result_frame(mid, serving.discover_result(agent.view, self._instructions(agent))))
        elif meta.modern and method == "subscriptions/listen" and len(agent.listens) >= MAX_LISTENS:
            data = traced(TOO_MUCH, meta.trace)
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_REQUEST, "too many subscriptions", data))
        elif meta.modern and method == "subscriptions/listen":
            agent.declares = capability_sets.declared_by(meta.capabilities)
            self._listen(agent, mid, meta, _object(env.params).get("notifications"))
        elif not meta.modern and method in ("resources/subscribe", "resources/unsubscribe"):
            self._subscribe(agent, str(method), mid, env.params, meta.trace)
        elif not meta.modern and method == "logging/setLevel":
            self._loudness.ask(agent, mid, env.params, meta.trace)
        elif not meta.modern and method == "ping":
            agent.send(jsonrpc.result_frame(mid, b"{}"))
        else:
            text, data = f"Method not found: {str(method)[:80]}", traced(NO_METHOD, meta.trace)
            agent.send(jsonrpc.error_frame(mid, jsonrpc.METHOD_NOT_FOUND, text, data))

    def _initialize(self, agent: Agent, mid: bytes, raw: Raw) -> None:
        try:
            params = _object(raw) if raw else {}
        except (msgspec.DecodeError, RecursionError) as e:
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, f"initialize: {e}", BAD_PARAMS))
            return
        asked = params.get("protocolVersion")
        if not isinstance(asked, str):
            data = add_to_data(msgspec.json.encode({"supported": list(ALL)}), BAD_PARAMS)
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

    def signed_in(self, page: str) -> None:
        """Somebody has signed in by mcphub's own page with this id."""
        self._sign_in_pages.done(page)

    def _joined(self, agent: Caller) -> Caller:
        """As _lasting, for whoever does not look further."""
        return next((joined for joined in self.agents if joined == agent), agent)

    def _lasting(self, agent: Agent) -> Agent:
        """The agent as it joined: over HTTP one request's answer may stand in for it, which ends before it does."""
        return next((joined for joined in self.agents if joined == agent), agent)

    def _subscribe(self, agent: Agent, method: str, mid: bytes, raw: Raw, trace: str) -> None:
        uri = _object(raw).get("uri") if raw else None
        if not isinstance(uri, str):
            text = f"{method}: `uri` must be a string"
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, text, traced(BAD_PARAMS, trace)))
        elif method == "resources/unsubscribe":
            self._watching.unwatch(agent, uri)
            agent.send(jsonrpc.result_frame(mid, b"{}"))
        elif self._watching.watch(lasting := self._lasting(agent), b"", uri) is not None:
            self._watching.when_taken(lasting, b"", lambda _: agent.send(jsonrpc.result_frame(mid, b"{}")))
        else:
            text = f"{uri[:256]} cannot be subscribed to: no one server has it, or its server does not offer that"
            data = traced(error_data("not_subscribable"), trace)
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, text, data))

    def _listen(self, agent: Agent, mid: bytes, meta: RequestMeta, asked: Any) -> None:
        if isinstance(asked, dict) and "taskIds" in asked and self._handles.lacks(agent, mid, meta, "taskIds"):
            return
        watched = self._watching.watch_all(agent, mid, asked)
        granted = self._task_news.granted(agent, asked)

        def begun(meanwhile: Sequence[bytes]) -> None:
            agent.send(agent.listens.open(mid, asked, watched, granted), *meanwhile)
            if granted:
                self._task_news.listen(agent, mid, meta, granted)

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
        elif self._awakening.cancel(agent, mid) or self._parking.cancel(agent, mid):
            pass
        elif agent.listens.cancel(mid) or self._watching.begins(agent, mid):
            self._watching.end(agent, mid)
            self._task_news.end(agent, mid)
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
        if current is not None and found is None:
            calls = []  # it came on the stream of a call that is over, and is nobody else's
        elif asker is None:
            # Nothing says whose question it is. Servers that only look at roots, as many at their start, need no turns.
            looks = method == "roots/list"
            withdrawn = self._turns.unread(client) if looks else self._turns.has_asked(worker.key, client)
            withdrawn = [call for call in withdrawn if call not in calls]  # but for what is being made again
            if withdrawn and calls:
                if len({whose(call) for call in (*calls, *withdrawn)}) > 1:
                    return self._questions.unclear(worker.name, client, mid, method, params)
                if not looks:  # nobody decides by his roots that it goes on
                    why = ask_user.OF_A_WITHDRAWN_CALL
                    return self._questions.unclear(worker.name, client, mid, method, params, why)
        return self._questions.ask(worker.name, client, mid, method, params, calls, asker)

    def server_said(self, worker: Worker, client: Client, method: str, params: Raw) -> None:
        """A notification of a server that is not about this connection. Implements connection.worker.Sink."""
        if method == UPDATED and self._watching.updated(worker, client, params):
            return
        if method == ACKNOWLEDGED and self._watching.acknowledged(worker, client, params):
            return
        if method == ACKNOWLEDGED and self._task_news.acknowledged(client, params):
            return
        if method == tasks.NOTIFICATION and self._task_news.told(client, params):
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
