"""Owns one instance: its state, and the one task that opens, uses and closes its connection.

It must not know other instances, agents or files. Others post events or read the view; nobody else touches the
connection. What happens next is decided by machine.transition; this file acts on it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import anyio
import msgspec

from mcphub.config.urls import secrets_of
from mcphub.connection import handshake
from mcphub.connection.backoff import Backoff
from mcphub.connection.client import Client, Mover
from mcphub.connection.faults import BY_TRANSPORT, Fault, FaultKind
from mcphub.connection.handshake import Facts
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
from mcphub.protocol.http_answer import SESSION_GONE
from mcphub.protocol.jsonrpc import Raw
from mcphub.protocol.versions import Era
from mcphub.spec import SHORTEST_SECRET, HttpSpec, InstanceKey, ServerSpec, StdioSpec
from mcphub.transport import TRANSPORTS
from mcphub.transport.link import Link, Surroundings
from mcphub.transport.stderr import StderrRing

#: The lists beside the tools: a server that has none of them is as good without.
SHELF = ("prompts/list", "resources/list", "resources/templates/list")
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
#: How long a process may take to be reaped after its stdout ended, for its exit code to be named, seconds.
REAP = 0.5
#: A call to a failed server starts one attempt, at most this often, seconds.
WAKE_EVERY = 30.0
#: A failed remote server is tried again by itself after so many seconds, a fifth more or less: it, or the network, may
#: have come back without anybody here having done anything.
TRY_REMOTE_EVERY = 300.0
#: How long `server/discover` may stay unanswered over HTTP: there is no cold start of a program to wait for, but a
#: distant server may begin by starting its own.
PROBE_LIMIT_REMOTE = 5.0


@dataclass(frozen=True, slots=True)
class View:
    """What others see of a worker at one moment. `tools` are the last listed ones, kept while it is not connected;
    `listed` counts the lists, so that an unchanged number means unchanged tools."""

    key: InstanceKey
    spec: ServerSpec
    state: State
    facts: Facts | None
    tools: tuple[bytes, ...]
    listed: int
    pid: int | None
    shelf: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    shelved: int = 0
    #: It was tried before, in vain: no list waits for it.
    tried: bool = False


class Sink(Protocol):
    """Who hears what servers say that is not about the connection itself: log messages, questions."""

    def server_said(self, worker: Worker, method: str, params: Raw) -> None: ...

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
        self.client: Client | None = None
        self.facts: Facts | None = None
        self.tools: tuple[bytes, ...] = ()
        self.listed = 0
        self.shelf: Mapping[str, tuple[bytes, ...]] = {}
        self.shelved = 0
        self._reshelve: set[str] = set()
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
        self._woken_at = float("-inf")
        self._log_level = ""
        # Calls that the server's last session did not act on: the connection they were for, and their frames.
        self._carried: tuple[Client, Mapping[int, bytes]] | None = None

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

    # --- the task ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Live until turned off with `stopping`. Raises nothing but cancellation."""
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
                fault = self._fault(FaultKind.INTERNAL, "serve", f"{type(e).__name__}: {e}")
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
        self.client = None
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
                client = Client(listener, self._roots(), sampling=self.spec.sampling)
                if self._carried is not None:
                    client.continue_after(max(self._carried[1], default=0))
                phase = ["spawn"]
                restart: era.Restart | None = None
                try:
                    opening = anyio.CancelScope(deadline=deadline)
                    with opening:
                        opener = TRANSPORTS[self.spec.transport.kind]
                        async with opener(self.spec, self._surroundings, client, self.stderr) as link:
                            client.use(link.channel)
                            self.pid = link.pid
                            self._changed()
                            try:
                                step = await self._begin(client, link, probe, phase, slot)
                                if isinstance(step, era.Restart):
                                    restart = step
                                elif isinstance(step, era.Refused):
                                    self._fail(generation, self._fault(FaultKind.REFUSED, "handshake", step.message))
                                else:
                                    opening.deadline = float("inf")
                                    slot.give_back()
                                    self._become(generation, client, step)
                                    await self._serve(generation, client, link)
                            except (TransportError, RemoteProtocolError, JSONRPCError) as e:
                                opening.deadline = float("inf")  # it has failed in time; naming the fault may wait
                                self._fail(generation, await self._why(client, link, phase[0], e))
                            finally:
                                # The end of a stubborn process takes seconds: no call is for it any more, and others
                                # need not wait for it to start.
                                self._retire(client)
                                if restart is None:
                                    slot.give_back()
                    if opening.cancelled_caught:
                        self._fail(generation, self._too_slow(client, phase[0]))
                except TransportError as e:
                    kind = BY_TRANSPORT.get(e.kind, FaultKind.SPAWN)
                    self._fail(generation, self._fault(kind, "spawn", str(e)))
                if restart is None:
                    return
                self._log("info", f"{self.name}: starting again in the {restart.era} era")
                probe = era.Probe(first=restart.era, restarted=True)
        finally:
            slot.give_back()

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
        tools, warnings = await handshake.list_tools(client, step.result.get("capabilities"), self.spec.startup_timeout)
        tools, dropped = link.usable(tools)
        warnings += dropped
        # A list that does not come must not cost the tools: together they may take no more than half of the time.
        patience = self.spec.startup_timeout / 2 / len(SHELF)
        shelf, more = await handshake.list_shelf(client, step.result.get("capabilities"), SHELF, patience)
        return handshake.facts(step, tools, warnings + more, shelf)

    def _become(self, generation: int, client: Client, facts: Facts) -> None:
        self._era = facts.era
        self.facts = facts
        self._take_tools(facts.tools)
        self._take_shelf(facts.shelf)
        self.client = client
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
            fault = await self._why(client, link, "serve", e)
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
            tools, cut = await handshake.list_tools(client, self.facts.capabilities, self.spec.startup_timeout)
        except (JSONRPCError, RemoteProtocolError) as e:
            self._log("warning", f"{self.name}: the changed tools cannot be listed, the old list is kept: {e}")
            return
        except TransportError as e:
            if not client.over:
                self._log("warning", f"{self.name}: the changed tools cannot be listed, the old list is kept: {e}")
            return
        if cut and self.tools:
            self._log("warning", f"{self.name}: the changed tools are not all listed, the old list is kept: {cut[0]}")
            return
        tools, dropped = link.usable(tools)
        before = self.listed
        self._take_tools(tools)
        if self.listed != before:
            for warning in dropped:
                self._log("warning", f"{self.name}: {warning}")
            self._changed()

    async def _shelve_again(self, client: Client) -> None:
        assert self.facts is not None
        methods = tuple(sorted(self._reshelve))
        self._reshelve.clear()
        try:
            patience = self.spec.startup_timeout / 2 / len(SHELF)
            shelf, warnings = await handshake.list_shelf(client, self.facts.capabilities, methods, patience)
        except TransportError as e:
            if not client.over:
                self._log("warning", f"{self.name}: what has changed cannot be listed, the old lists are kept: {e}")
            return
        for warning in warnings:
            self._log("warning", f"{self.name}: {warning}")
        before = self.shelved
        self._take_shelf(shelf)
        if self.shelved != before:
            self._changed()

    # --- faults ------------------------------------------------------------------------------------------------------

    def _fail(self, generation: int, fault: Fault) -> None:
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

    def _fault(
        self, kind: FaultKind, phase: str, message: str, code: int | None = None, retry_after: float = 0.0
    ) -> Fault:
        tail = () if self._remote else tuple(self.stderr_tail(5))
        return Fault(kind, phase, self._redact.clean(message), code, tail, _wall_clock(), retry_after)

    def _too_slow(self, client: Client, phase: str) -> Fault:
        what = {"spawn": "the start", "handshake": "server/discover and initialize", "list": "tools/list"}[phase]
        text = f"no answer to {what} in {self.spec.startup_timeout:g} s"
        return self._fault(FaultKind.NO_ANSWER, phase, text)

    async def _why(self, client: Client, link: Link, phase: str, error: Exception) -> Fault:
        """Name the fault: what the connection says, and the process's end where there is one."""
        if client.counters["failed_content_length"]:
            return self._fault(FaultKind.CONTENT_LENGTH, phase, client.gone)
        if client.counters["failed_not_protocol"]:
            return self._fault(FaultKind.NOT_PROTOCOL, phase, client.gone)
        if isinstance(error, JSONRPCError):
            kind = FaultKind.LIST_FAILED if phase == "list" else FaultKind.REFUSED
            return self._fault(kind, phase, f"the server answered {phase} with an error: {error} ({error.code})")
        if isinstance(error, RemoteProtocolError):
            return self._fault(FaultKind.NOT_PROTOCOL, phase, str(error))
        if not client.over:
            named = error.kind if isinstance(error, TransportError) else ""
            kind = BY_TRANSPORT.get(named, FaultKind.NO_ANSWER)
            return self._fault(kind, phase, str(error), retry_after=link.retry_after)
        if client.gone == SESSION_GONE:
            return self._fault(FaultKind.SESSION_EXPIRED, phase, client.gone)
        if client.counters["failed_strikes"]:
            return self._fault(FaultKind.LOST, phase, client.gone)
        if client.gone.startswith("internal error:"):
            return self._fault(FaultKind.INTERNAL, phase, client.gone)
        if client.gone.startswith("a line is longer"):
            return self._fault(FaultKind.TOO_LARGE, phase, f"the server broke the framing: {client.gone}")
        code = await link.exit_code(REAP) if link.pid is not None else None
        before = {"handshake": " before the handshake ended", "list": " before it listed its tools"}.get(phase, "")
        if code is not None:
            how = f"was ended by signal {-code}" if code < 0 else f"exited with code {code}"
            tail = self.stderr_tail(1)
            text = f"the server {how}{before}" + (f"; stderr: {tail[0]}" if tail else "")
            return self._fault(FaultKind.EXITED, phase, text, code)
        what = "the connection ended" if self._remote else "the server closed its stdout"
        return self._fault(FaultKind.LOST, phase, f"{what}{before}: {client.gone}".rstrip(": "))

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

    def notified(self, method: str, params: Raw) -> None:
        worker = self._worker
        if method == "notifications/tools/list_changed":
            worker._relist = True
            worker._wake.set()
        elif method in SHELF_CHANGED:
            worker._reshelve.update(SHELF_CHANGED[method])
            worker._wake.set()
        else:
            worker._sink.server_said(worker, method, params)

    def ended(self, reason: str) -> None:
        self._worker._wake.set()

    def asked(self, mid: bytes, method: str, params: Raw, current: int | None) -> bool:
        client = self._worker.client
        if client is None:
            return False
        return self._worker._sink.server_asked(self._worker, client, mid, method, params, current)

    def noted(self, text: str) -> None:
        self._worker._log("warning", f"{self._worker.name}: {text}")


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


def _era_of(spec: ServerSpec) -> Era | None:
    match spec.era:
        case "legacy" | "modern":
            return spec.era
        case _:
            return None


def _percent(path: str) -> str:
    from urllib.parse import quote

    return quote(path)


def _wall_clock() -> float:
    import time

    return time.time_ns() / 1e9


__all__ = ["Asked", "TurnedOff", "View", "Worker"]
