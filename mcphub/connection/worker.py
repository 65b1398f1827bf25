"""Owns one instance: its state, and the one task that opens, uses and closes its connection.

It must not know other instances, agents or files. Others post events or read the view; nobody else touches the
connection. What happens next is decided by machine.transition; this file acts on it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Protocol

import anyio
import msgspec

from mcphub.config.urls import secrets_of
from mcphub.connection import handshake, legacy_sessions
from mcphub.connection.backoff import Backoff
from mcphub.connection.client import Client, Mover
from mcphub.connection.diagnosis import Diagnosis
from mcphub.connection.faults import BY_TRANSPORT, Fault, FaultKind
from mcphub.connection.handshake import Facts, Listing
from mcphub.connection.legacy_sessions import LegacySessions
from mcphub.connection.machine import (
    Asked,
    Challenged,
    Connected,
    Disabled,
    Event,
    Failed,
    Faulted,
    Lost,
    Opened,
    Pending,
    State,
    TurnedOff,
    transition,
)
from mcphub.errors import JSONRPCError, RemoteProtocolError, TransportError
from mcphub.observe.redact import Redactor
from mcphub.protocol import era, jsonrpc
from mcphub.protocol.caching import UNSAID, Freshness
from mcphub.protocol.jsonrpc import Raw
from mcphub.protocol.versions import Era
from mcphub.spec import SHORTEST_SECRET, HttpSpec, InstanceKey, ServerSpec, StdioSpec
from mcphub.transport.kinds import TRANSPORTS
from mcphub.transport.link import Link, Surroundings
from mcphub.transport.stderr import StderrRing

#: The lists beside the tools: a server that has none of them is as good without.
SHELF = ("prompts/list", "resources/list", "resources/templates/list")
TOOLS = "tools/list"
SHELF_CHANGED = {
    "notifications/prompts/list_changed": SHELF[:1],
    "notifications/resources/list_changed": SHELF[1:],
}
#: Capability to the flag of a listen request.
CHANGES = {
    "tools": "toolsListChanged",
    "prompts": "promptsListChanged",
    "resources": "resourcesListChanged",
}
#: Several list_changed in this time cause one new list, seconds. For a server that goes on and on the time doubles up
#: to SETTLE_MOST; it is back where it was after so long without a change.
SETTLE = 0.05
SETTLE_MOST = 5.0
#: A subscription that the server ended is asked for again after SETTLE, doubling up to this where none lasts so long.
LISTEN_MOST = 60.0
#: Of the time that is left to open a server, what pages of tools after the first may take, and then the other lists.
PAGES = 0.75
#: A list of a server that does not tell of changes is listed again when an agent asks for it and it is older than its
#: server said, but not more often than every so many seconds; a legacy server cannot say, and is trusted for longer.
UNTOLD_LEAST = 5.0
UNTOLD_LEGACY = 60.0
#: A call to a failed server starts one attempt, at most this often, seconds.
WAKE_EVERY = 30.0
#: A failed remote server is tried again by itself after so many seconds, a fifth more or less: it, or the network, may
#: have come back without anybody here having done anything.
TRY_REMOTE_EVERY = 300.0
#: How long `server/discover` may stay unanswered over HTTP: there is no cold start of a program to wait for, but a
#: distant server may begin by starting its own.
PROBE_LIMIT_REMOTE = 5.0


class View(msgspec.Struct, frozen=True):
    """What others see of a worker at one moment. `tools` are the last listed ones, kept while it is not connected;
    `listed` counts the lists, so that an unchanged number means unchanged tools."""

    key: InstanceKey
    spec: ServerSpec
    state: State
    facts: Facts | None
    tools: tuple[bytes, ...]
    listed: int
    pid: int | None
    shelf: Mapping[str, tuple[bytes, ...]] = msgspec.field(default_factory=dict)
    shelved: int = 0
    #: It was tried before, in vain: no list waits for it.
    tried: bool = False
    #: What a modern server said of its lists, by method.
    fresh: Mapping[str, Freshness] = msgspec.field(default_factory=dict)
    #: A legacy server cannot tell of changes, whatever it says that it does: it has no stream for it.
    deaf: bool = False


class Sink(Protocol):
    """Who hears what servers say that is not about the connection itself: log messages, questions."""

    def server_said(self, worker: Worker, client: Client, method: str, params: Raw) -> None: ...

    def server_asked(
        self, worker: Worker, client: Client, mid: bytes, method: str, params: Raw, current: int | None
    ) -> bool: ...


class Worker:
    """One instance. `changed` is called whenever the view is another one."""

    def __init__(
        self,
        spec: ServerSpec,
        surroundings: Surroundings,
        limiter: anyio.CapacityLimiter,
        backoff: Backoff,
        changed: Callable[[], None],
        sink: Sink,
        log: Callable[[str, str], None],
        stderr_bytes: int = 1 << 20,
        session_idle: float = legacy_sessions.IDLE,
    ) -> None:
        self.spec = spec
        self.key = spec.key()
        self.stderr = StderrRing(stderr_bytes)
        self._redact = Redactor()
        if isinstance(spec.transport, StdioSpec):
            self._redact.hide(*(v for v in spec.transport.env.values() if len(v) >= SHORTEST_SECRET))
        elif isinstance(spec.transport, HttpSpec):
            self._redact.hide(*(v for v in secrets_of(spec.transport) if len(v) >= SHORTEST_SECRET))
        self._remote = isinstance(spec.transport, HttpSpec)
        self._diagnosis = Diagnosis(self._remote, spec.startup_timeout, self._redact.clean, self.stderr_tail)
        self.client: Client | None = None
        self.facts: Facts | None = None
        self.tools: tuple[bytes, ...] = ()
        self.listed = 0
        self.shelf: Mapping[str, tuple[bytes, ...]] = {}
        self.shelved = 0
        self.fresh: Mapping[str, Freshness] = {}
        self._reshelve: set[str] = set()
        #: Lists that may not be whole, and when each one may be looked at again because an agent asks.
        self._partial: set[str] = set()
        self._untold: dict[str, float] = {}
        self._link: Link | None = None
        self._deaf = False
        self.pid: int | None = None
        self.last_fault: Fault | None = None
        self.totals: dict[str, int] = {}
        self._surroundings = surroundings
        self._limiter = limiter
        self._backoff = backoff
        self._changed = changed
        self._sink = sink
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._random = random.Random()
        self.state: State = Pending(0, self._loop.time())
        self._generation = 0
        self._wake = anyio.Event()
        self._scope: anyio.CancelScope | None = None
        self._relist = False
        self._settle = SETTLE
        self._listed_at = float("-inf")
        self._listen_ended = False
        self._listen_pause = SETTLE
        self._listen_since = float("-inf")
        self._era: Era | None = None
        # How it is opened: where Streamable HTTP was refused, the older transport is remembered as the era is.
        self._opened_as = spec.transport.kind
        self._refused: Fault | None = None
        self._woken_at = float("-inf")
        self._log_level = ""
        # Calls that the server's last session did not act on: the connection they were for, and their frames.
        self._carried: tuple[Client, Mapping[int, bytes]] | None = None
        #: Beside its own connection, where each request travels by itself; None = one connection, one era.
        self.sessions: LegacySessions | None = None
        if spec.transport.kind == "http":
            self.sessions = LegacySessions(
                self, spec, surroundings, self.stderr, self._roots(), idle=session_idle
            )

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def attempts(self) -> int:
        return self._backoff.attempts

    def view(self) -> View:
        return View(
            self.key,
            self.spec,
            self.state,
            self.facts,
            self.tools,
            self.listed,
            self.pid,
            self.shelf,
            self.shelved,
            self.last_fault is not None,
            self.fresh,
            self._deaf,
        )

    def stderr_tail(self, lines: int) -> list[str]:
        """The last lines of its stderr, fit to be shown: the values of its `env` are masked, whoever printed them."""
        return [self._redact.clean(line) for line in self.stderr.tail(lines)]

    def counters(self) -> Mapping[str, int]:
        """Odd things counted since the worker began, over all its connections."""
        out = dict(self.totals)
        if self.client is not None:
            for k, v in self.client.counters.items():
                out[k] = out.get(k, 0) + v
        if self.sessions is not None:
            for k, v in self.sessions.counters().items():
                out[k] = out.get(k, 0) + v
        return out

    # --- events ------------------------------------------------------------------------------------------------------

    def post(self, event: Event) -> None:
        """Let something happen to this instance; takes effect in its own task."""
        self._move(event)
        if self.client is not None and not isinstance(self.state, Connected) and not self.client.gone:
            asked = isinstance(event, Asked)
            self.client.gone = "it was reconnected on request" if asked else "it was removed, or its entry changed"
        self._wake.set()
        if self._scope is not None and not isinstance(self.state, Connected):
            self._scope.cancel()

    def wake_failed(self) -> None:
        """A call met a failed server: one attempt, at most every WAKE_EVERY seconds."""
        now = self._loop.time()
        if isinstance(self.state, Failed) and now - self._woken_at >= WAKE_EVERY:
            self._woken_at = now
            self.post(Asked())

    def want_log_level(self, level: str) -> None:
        """The most verbose level any agent wants of this server; "" = nobody asked."""
        if level != self._log_level:
            self._log_level = level
            self._send_log_level()
            if self.sessions is not None:
                self.sessions.want_log_level(level)

    def list_wanted(self, method: str) -> None:
        """An agent asks for this list, and gets what is here. Where the server tells of no changes, and the time is
        over for which its word counts, the list is then looked at again: agents are told if it has changed."""
        facts, link = self.facts, self._link
        if facts is None or link is None or not isinstance(self.state, Connected):
            return
        if self._deaf is not (deaf := link.deaf and facts.era == "legacy"):
            self._deaf = deaf
            self._changed()
        now = self._loop.time()
        if now < self._untold.get(method, float("inf")) or (facts.tells(handshake.LISTS[method][0]) and not deaf):
            return
        self._untold[method] = now + UNTOLD_LEAST
        if method == TOOLS:
            self._relist = True
        else:
            self._reshelve.add(method)
        self._wake.set()

    def _send_log_level(self) -> None:
        client, facts = self.client, self.facts
        if not self._log_level or client is None or facts is None or facts.era != "legacy":
            return
        if "logging" in facts.capabilities:
            reply = handshake.Ignored(self._loop.time() + 30)
            client.start(reply, "logging/setLevel", b'"level":' + jsonrpc.quote(self._log_level))

    def _move(self, event: Event) -> None:
        before = self.state
        now = self._loop.time()
        self.state = transition(before, event, now, self._generation, self._backoff, self._random.random())
        if self.state is not before:
            self._changed()
        if self.sessions is not None and not isinstance(self.state, Connected) and not _renewed(self.state):
            fault = self.state.fault if isinstance(self.state, Pending | Failed) else None
            self.sessions.close(fault.message if fault is not None else "mcphub ended it with the connection")

    # --- what its connections say ------------------------------------------------------------------------------------

    def heard(self, client: Client, method: str, params: Raw) -> None:
        """A notification on one of its connections."""
        if method == "notifications/tools/list_changed":
            self.check()
        elif method in SHELF_CHANGED:
            self._reshelve.update(SHELF_CHANGED[method])
            self._wake.set()
        else:
            self._sink.server_said(self, client, method, params)

    def asked(self, client: Client, mid: bytes, method: str, params: Raw, current: int | None) -> bool:
        """A question on one of its connections."""
        return self._sink.server_asked(self, client, mid, method, params, current)

    def noted(self, text: str) -> None:
        self._log("warning", f"{self.name}: {self._redact.clean(text)}")

    def is_for(self, client: Client, declares: bytes) -> bool:
        """Whether what its server says on this connection by itself is for legacy agents that declared this set."""
        if self.sessions is None:
            return client is self.client
        return self.sessions.hears(client, self.client, declares)

    def check(self) -> None:
        """List the tools again: they may have changed, or their server may be gone."""
        self._relist = True
        self._wake.set()

    def changed(self) -> None:
        """What is said of its sessions is no more so."""
        self._changed()

    def broke(self, error: BaseException) -> None:
        """A fault of ours outside its own task."""
        self._log("error", f"internal error in a session of {self.name}: {type(error).__name__}: {error}")
        if self._surroundings.report is not None:
            self._surroundings.report(error)

    # --- the task ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Live until turned off with `stopping`. Raises nothing but cancellation."""
        if self.sessions is None:
            await self._live()
            return
        # Around all attempts: when the own session is renewed, the others and their calls have nothing to do with it.
        async with self.sessions.living():
            await self._live()

    async def _live(self) -> None:
        while True:
            self._wake = anyio.Event()
            state = self.state
            if not isinstance(state, Pending):
                self._give_up_carried()
            if isinstance(state, Disabled) and state.because == "stopping":
                return
            if isinstance(state, Failed) and self._remote:
                with anyio.move_on_after(TRY_REMOTE_EVERY * self._random.uniform(0.8, 1.2)):
                    await self._wake.wait()
                if self.state is state:
                    self._move(Asked())
                continue
            if not isinstance(state, Pending):
                await self._wake.wait()
                continue
            wait = state.retry_at - self._loop.time()
            if wait > 0:
                with anyio.move_on_after(wait):
                    await self._wake.wait()
                continue
            await self._attempt()

    async def _attempt(self) -> None:
        self._generation += 1
        generation = self._generation
        carried = self._carried
        with anyio.CancelScope() as self._scope:
            try:
                await self._open_and_serve(generation)
            except Exception as e:  # a fault of ours must cost one attempt of one server, not the daemon
                while isinstance(e, ExceptionGroup) and len(e.exceptions) == 1:
                    e = e.exceptions[0]  # the task group of a transport wraps what passes through it
                self._log("error", f"internal error in the worker of {self.name}: {type(e).__name__}: {e}")
                if self._surroundings.report is not None:
                    self._surroundings.report(e)
                fault = self._diagnosis.fault(FaultKind.INTERNAL, "serve", f"{type(e).__name__}: {e}")
                self._fail(generation, fault)
        self._scope = None
        if carried is not None and self._carried is carried:
            self._give_up_carried()
        if isinstance(self.state, Connected):
            # Asked for a fresh start in the moment of success: the answer came after the old attempt was cancelled.
            self._move(Asked())
        if self.pid is not None:
            self.pid = None
            self._changed()

    def _retire(self, client: Client) -> None:
        """No call is for this connection any more."""
        self.client = client
        self.totals = dict(self.counters())
        self.client = self._link = None
        if self._carried is None or self._carried[0] is not client:
            _refuse(client)  # what its session gave back is for nobody now

    async def _open_and_serve(self, generation: int) -> None:
        # A pinned era is not searched for: a refusal is final.
        pin = _era_of(self.spec)
        # Over HTTP no first message locks anything: to begin again only helps where the era was a memory.
        probe = era.Probe(first=pin or self._era, restarted=pin is not None or (self._remote and self._era is None))
        slot = _Slot(self._limiter)
        await slot.take()
        try:
            deadline = self._loop.time() + self.spec.startup_timeout
            while True:
                listener = _Listener(self)
                self._relist = self._listen_ended = False
                self._reshelve.clear()
                self._settle = self._listen_pause = SETTLE
                client = listener.client = Client(listener, self._roots(), sampling=self.spec.sampling)
                if self._carried is not None:
                    client.continue_after(max(self._carried[1], default=0))
                phase = ["spawn"]
                again: era.Probe | None = None
                try:
                    opening = anyio.CancelScope(deadline=deadline)
                    with opening:
                        opener = TRANSPORTS[self._opened_as]
                        async with opener(self.spec, self._surroundings, client, self.stderr) as link:
                            client.use(link.channel)
                            self.pid = link.pid
                            self._changed()
                            try:
                                step = await self._begin(client, link, probe, phase, slot)
                                if isinstance(step, era.Restart):
                                    again = era.Probe(first=step.era, restarted=True)
                                elif isinstance(step, era.Refused):
                                    refused = self._diagnosis.fault(FaultKind.REFUSED, "handshake", step.message)
                                    self._fail(generation, refused)
                                else:
                                    opening.deadline = float("inf")
                                    slot.give_back()
                                    self._become(generation, client, step)
                                    await self._serve(generation, client, link)
                            except (TransportError, RemoteProtocolError, JSONRPCError) as e:
                                opening.deadline = float("inf")  # it has failed in time; naming the fault may wait
                                fault = await self._diagnosis.why(client, link, phase[0], e)
                                again = self._other_transport(e, fault) or self._other_era(probe, fault)
                                if again is None:
                                    self._fail(generation, fault)
                            finally:
                                # The end of a stubborn process takes seconds: no call is for it any more, and others
                                # need not wait for it to start.
                                self._retire(client)
                                if again is None:
                                    slot.give_back()
                    if opening.cancelled_caught:
                        self._fail(generation, self._diagnosis.too_slow(phase[0]))
                except TransportError as e:
                    kind = BY_TRANSPORT.get(e.kind, FaultKind.SPAWN)
                    self._fail(generation, self._diagnosis.fault(kind, "spawn", str(e)))
                if again is None:
                    return
                if again.first == "modern":
                    self._opened_as = self.spec.transport.kind  # the older transport carries the legacy era alone
                how = f"in the {again.first} era" if again.first else "from the beginning"
                by = ", by HTTP+SSE" if self._opened_as != self.spec.transport.kind else ""
                self._log("info", f"{self.name}: starting again {how}{by}")
                probe = again
        finally:
            slot.give_back()

    def _other_transport(self, error: Exception, fault: Fault) -> era.Probe | None:
        """How to begin again at once: by HTTP+SSE where Streamable HTTP is refused, by what the entry names where that
        was a memory; None = not so."""
        if isinstance(error, TransportError) and error.kind == "older" and self._opened_as != "sse":
            self._opened_as, self._refused = "sse", fault
            return era.Probe(first="legacy", restarted=True)
        remembered = self._opened_as != self.spec.transport.kind and self._refused is None
        if remembered and fault.phase == "handshake" and fault.kind is FaultKind.HTTP_STATUS:
            self._opened_as = self.spec.transport.kind
            return era.Probe(first=_era_of(self.spec), restarted=True)
        return None

    def _other_era(self, probe: era.Probe, fault: Fault) -> era.Probe | None:
        """How to begin again with a program that ended at its first message; only at the first attempt, since most of
        those that end at once would end at any message."""
        ended = fault.phase == "handshake" and fault.kind is FaultKind.EXITED
        if not ended or not isinstance(self.state, Pending) or self.state.attempt:
            return None
        step = probe.died()
        return era.Probe(first=step.era, restarted=True) if step is not None else None

    async def _begin(
        self, client: Client, link: Link, probe: era.Probe, phase: list[str], slot: _Slot
    ) -> era.Restart | era.Refused | Facts:
        phase[0] = "handshake"
        limit = PROBE_LIMIT_REMOTE if self._remote else handshake.PROBE_LIMIT
        step = await handshake.shake_hands(client, probe, self.spec.startup_timeout, limit)
        if not isinstance(step, era.Spoken):
            return step
        # What a start-up costs is over once the server has answered: the next one may start while this one lists.
        slot.give_back()
        phase[0] = "list"
        capabilities = step.result.get("capabilities")
        self.fresh = {}
        # Pages without end must not cost those that came.
        pages = (anyio.current_effective_deadline() - self._loop.time()) * PAGES
        listing = await handshake.list_tools(client, capabilities, self.spec.startup_timeout, pages)
        tools, warnings = self._kept(TOOLS, listing, self.tools)
        tools, dropped = link.usable(tools)
        warnings += dropped
        # A list that does not come must not cost the tools: together they may take no more than half of the time.
        left = anyio.current_effective_deadline() - self._loop.time()
        patience = min(self.spec.startup_timeout / 2, left * PAGES) / len(SHELF)
        found, more = await handshake.list_shelf(client, capabilities, SHELF, patience)
        shelf, cut = self._kept_shelf(found)
        more += cut
        if self._opened_as != self.spec.transport.kind:
            warnings += ('it is spoken to by the older HTTP+SSE transport; with "type": "sse" it is found sooner',)
        return handshake.facts(step, tools, warnings + more, shelf)

    def _become(self, generation: int, client: Client, facts: Facts) -> None:
        self._era = facts.era
        self._refused = None
        self.facts = facts
        self._take_tools(facts.tools)
        self._take_shelf(facts.shelf)
        self.client = client
        if self.sessions is not None:
            possible = self._opened_as == "http" and (facts.era == "legacy" or _era_of(self.spec) is None)
            self.sessions.beside(legacy=facts.legacy, possible=possible)
        self._send_log_level()
        self._listen()
        self._carry_on(client)
        self._move(Opened(generation))

    def _carry_on(self, client: Client) -> None:
        """Send the calls again that the server's last session was over for: it said that it did not act on them."""
        carried, self._carried = self._carried, None
        if carried is None:
            return
        before, frames = carried
        for request_id, waiter in list(before.returned.items()):
            del before.returned[request_id]
            if client.era == before.era and request_id in frames and isinstance(waiter, Mover):
                client.carry_on(request_id, waiter, frames[request_id])
            else:
                waiter.unanswered("refused", "its session was over before the server acted on it")

    def _give_up_carried(self) -> None:
        carried, self._carried = self._carried, None
        if carried is not None:
            _refuse(carried[0])

    def _kept(
        self, method: str, listing: Listing, old: tuple[bytes, ...]
    ) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
        """The items that count after a list, and warnings: a whole list of before is better than one that was cut."""
        now = self._loop.time()
        said = listing.freshness
        self._untold[method] = now + UNTOLD_LEGACY if said == UNSAID else max(said.until, now + UNTOLD_LEAST)
        self.fresh = {**self.fresh, method: said}
        if not listing.cut:
            self._partial.discard(method)
            return listing.items, ()
        if old and method not in self._partial:
            return old, (f"{listing.cut}; the old list is kept",)
        self._partial.add(method)
        return listing.items, (listing.cut,)

    def _kept_shelf(self, found: Mapping[str, Listing]) -> tuple[dict[str, tuple[bytes, ...]], tuple[str, ...]]:
        shelf: dict[str, tuple[bytes, ...]] = {}
        warnings: tuple[str, ...] = ()
        for method, listing in found.items():
            shelf[method], cut = self._kept(method, listing, self.shelf.get(method, ()))
            warnings += cut
        return shelf, warnings

    def _take_tools(self, tools: tuple[bytes, ...]) -> None:
        if tools != self.tools or not self.listed:
            self.tools = tools
            self.listed += 1

    def _take_shelf(self, shelf: Mapping[str, tuple[bytes, ...]]) -> None:
        new = {**self.shelf, **shelf}
        if new != self.shelf:
            self.shelf = new
            self.shelved += 1

    def _listen(self) -> None:
        """Modern servers send list_changed only to those who listen."""
        client, facts = self.client, self.facts
        if client is None or facts is None or facts.era != "modern":
            return
        wanted = {}
        for capability, flag in CHANGES.items():
            offered = facts.capabilities.get(capability)
            if isinstance(offered, dict) and offered.get("listChanged"):
                wanted[flag] = True
        if wanted:
            self._listen_since = self._loop.time()
            waiter = handshake.Ignored(float("inf"), self._listening_ended)
            client.start(waiter, "subscriptions/listen", b'"notifications":' + msgspec.json.encode(wanted))

    def _listening_ended(self) -> None:
        self._listen_ended = True
        self._wake.set()

    async def _serve(self, generation: int, client: Client, link: Link) -> None:
        """Until the connection is lost, or the state says that it shall end."""
        listen_at = float("inf")
        self._link = link
        self._deaf = link.deaf and client.era == "legacy"
        while not client.over and isinstance(self.state, Connected):
            self._wake = anyio.Event()
            now = self._loop.time()
            if self._listen_ended:
                self._listen_ended = False
                lasted = now - self._listen_since
                self._listen_pause = SETTLE if lasted > LISTEN_MOST else min(self._listen_pause * 2, LISTEN_MOST)
                listen_at = now + self._listen_pause
            if listen_at <= now:
                listen_at = float("inf")
                self._listen()
                self._relist = True  # events may have been lost
                self._reshelve.update(SHELF)
            if self._relist or self._reshelve:
                quiet = now - self._listed_at > SETTLE_MOST
                self._settle = SETTLE if quiet else min(self._settle * 2, SETTLE_MOST)
                with anyio.move_on_after(self._settle):
                    await self._end_of(client)
                if self._relist:
                    self._relist = False
                    await self._list_again(client, link)
                if self._reshelve and not client.over:
                    await self._shelve_again(client)
                self._listed_at = self._loop.time()
                continue
            with anyio.move_on_at(listen_at):
                await self._wake.wait()
        if isinstance(self.state, Connected):
            e = TransportError(client.gone or "the server closed the connection")
            fault = await self._diagnosis.why(client, link, "serve", e)
            if client.returned:
                self._carried = client, dict(link.returned)
            self.last_fault = fault
            self._log("warning", f"{self.name}: {fault.message}")
            self._move(Lost(generation, fault))

    async def _end_of(self, client: Client) -> None:
        while not client.over:
            self._wake = anyio.Event()
            await self._wake.wait()

    async def _list_again(self, client: Client, link: Link) -> None:
        assert self.facts is not None
        try:
            listing = await handshake.list_tools(client, self.facts.capabilities, self.spec.startup_timeout)
        except (JSONRPCError, RemoteProtocolError) as e:
            self._log("warning", f"{self.name}: the tools cannot be listed again, the old list is kept: {e}")
            return
        except TransportError as e:
            if not client.over:
                self._log("warning", f"{self.name}: the tools cannot be listed again, the old list is kept: {e}")
            return
        tools, cut = self._kept(TOOLS, listing, self.tools)
        for warning in cut:
            self._log("warning", f"{self.name}: {warning}")
        before = self.listed
        dropped: tuple[str, ...] = ()
        if tools is not self.tools:
            tools, dropped = link.usable(tools)
            self._take_tools(tools)
        if self.listed != before:
            for warning in dropped:
                self._log("warning", f"{self.name}: {warning}")
        if self.listed != before or self.facts.era == "modern":
            self._changed()  # what holds of an unchanged list is new as well

    async def _shelve_again(self, client: Client) -> None:
        assert self.facts is not None
        methods = tuple(sorted(self._reshelve))
        self._reshelve.clear()
        try:
            patience = self.spec.startup_timeout / 2 / len(SHELF)
            found, warnings = await handshake.list_shelf(client, self.facts.capabilities, methods, patience)
        except TransportError as e:
            if not client.over:
                self._log("warning", f"{self.name}: what has changed cannot be listed, the old lists are kept: {e}")
            return
        shelf, cut = self._kept_shelf(found)
        for warning in warnings + cut:
            self._log("warning", f"{self.name}: {warning}")
        before = self.shelved
        self._take_shelf(shelf)
        if self.shelved != before or self.facts.era == "modern":
            self._changed()

    # --- faults ------------------------------------------------------------------------------------------------------

    def _fail(self, generation: int, fault: Fault) -> None:
        if fault.phase != "serve":
            self._opened_as = self.spec.transport.kind
        before, self._refused = self._refused, None
        if before is not None and fault.kind in (FaultKind.HTTP_STATUS, FaultKind.NO_ANSWER):
            # The older transport was only a guess.
            fault = msgspec.structs.replace(before, message=f"{before.message}; by HTTP+SSE: {fault.message}")
        self.last_fault = fault
        self._log("warning", f"{self.name}: {fault.message}")
        if self._era is not None and fault.phase in ("handshake", "list"):
            self._era = None  # the remembered era may be why: probe again
        if fault.kind is FaultKind.NEEDS_AUTH:
            self._move(Challenged(generation, fault.message))
        elif isinstance(self.state, Connected):
            self._move(Lost(generation, fault))
        else:
            self._move(Faulted(generation, fault))

    def _roots(self) -> bytes:
        """The roots a legacy server gets: the workspace it belongs to, else none; agents' roots come later."""
        if not self.spec.workspace:
            return b"[]"
        uri = "file://" + _percent(self.spec.workspace)
        return b'[{"uri":%b}]' % jsonrpc.quote(uri)


class _Listener:
    """What one connection tells its worker; a connection of the past is not listened to."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.client: Client | None = None

    def notified(self, method: str, params: Raw) -> None:
        if self.client is not None:
            self._worker.heard(self.client, method, params)

    def ended(self, reason: str) -> None:
        self._worker._wake.set()

    def asked(self, mid: bytes, method: str, params: Raw, current: int | None) -> bool:
        client = self.client
        if client is None or client is not self._worker.client:
            return False  # nobody calls before it has listed
        return self._worker.asked(client, mid, method, params, current)

    def noted(self, text: str) -> None:
        self._worker.noted(text)


class _Slot:
    """One opening's place in the start-up limiter: taken once, given back once, whatever happens."""

    def __init__(self, limiter: anyio.CapacityLimiter) -> None:
        self._limiter = limiter
        self._held = False

    async def take(self) -> None:
        await self._limiter.acquire_on_behalf_of(self)
        self._held = True

    def give_back(self) -> None:
        if self._held:
            self._held = False
            self._limiter.release_on_behalf_of(self)


def _refuse(client: Client) -> None:
    while client.returned:
        _, waiter = client.returned.popitem()
        waiter.unanswered("refused", "its session was over, and another one cannot be had")


def _renewed(state: State) -> bool:
    """Its own session was over, and another one is begun."""
    fault = state.fault if isinstance(state, Pending) else None
    return fault is not None and fault.kind is FaultKind.SESSION_EXPIRED


def _era_of(spec: ServerSpec) -> Era | None:
    match spec.era:
        case "legacy" | "modern":
            return spec.era
        case _:
            return None


def _percent(path: str) -> str:
    from urllib.parse import quote

    return quote(path)


__all__ = ["Asked", "TurnedOff", "View", "Worker"]
