"""Owns one instance: its state, and the one task that opens, uses and closes its connection.

It must not know other instances, agents or files. Others post events or read the view; nobody else touches the
connection. What happens next is decided by machine.transition; this file acts on it.
"""

from __future__ import annotations

import asyncio
import functools
import random
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.to_thread
import msgspec

from mcphub.config.secret_values import own_values, secret_values
from mcphub.connection import handshake
from mcphub.connection.attempt import Attempt
from mcphub.connection.backoff import Backoff
from mcphub.connection.capability_sets import extension_of, with_tasks
from mcphub.connection.carried import Carried
from mcphub.connection.client import Client
from mcphub.connection.diagnosis import Diagnosis
from mcphub.connection.faults import Fault, FaultKind
from mcphub.connection.handshake import Facts
from mcphub.connection.last_words import LINE, cut, last_words
from mcphub.connection.listening import Listening
from mcphub.connection.lists import TOOLS, Lists
from mcphub.connection.machine import (
    IDLE,
    Asked,
    Challenged,
    Connected,
    Cut,
    Disabled,
    Event,
    Failed,
    Faulted,
    Lost,
    NeedsAuth,
    Opened,
    Pending,
    Restored,
    State,
    TriedAgain,
    TurnedOff,
    Unused,
    Used,
    renews,
    transition,
)
from mcphub.connection.opening import Opening
from mcphub.connection.probing import Probing
from mcphub.connection.pulse import USUAL, Health
from mcphub.connection.rest import LEARNED, Known, Rest
from mcphub.connection.roots import roots_of
from mcphub.connection.shelf_life import ShelfLife
from mcphub.connection.source import Source
from mcphub.connection.strays import Strays
from mcphub.connection.view import View
from mcphub.errors import TransportError
from mcphub.observe.redact import Redactor
from mcphub.protocol import jsonrpc, tasks
from mcphub.protocol.jsonrpc import Raw
from mcphub.spec import HttpSpec, InProcessSpec, ServerSpec, StdioSpec, WsSpec
from mcphub.transport import program_files
from mcphub.transport.admission import Admission
from mcphub.transport.link import Link, Surroundings
from mcphub.transport.stderr import StderrRing

if TYPE_CHECKING:
    from mcphub.connection.legacy_sessions import LegacySessions

#: A call to a failed server starts one attempt, at most this often, seconds.
WAKE_EVERY = 30.0
#: A failed remote server is tried again by itself after so many seconds, a fifth more or less: it, or the network, may
#: have come back without anybody here having done anything.
TRY_REMOTE_EVERY = 300.0
#: How often it is looked whether the program of a failed server is another one, seconds, a fifth more or less.
LOOK_AT_FILES = 15.0


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
        session_idle: float | None = None,
        known: Known | None = None,
        health: Health = USUAL,
    ) -> None:
        """`session_idle`: seconds, None = what is usual. `known`: what it said before; one that is lazy is then not
        started for its lists. `health` is for entries that say nothing of it."""
        self.spec = spec
        self.key = spec.key()
        self.stderr = StderrRing(stderr_bytes)
        self._redact = Redactor()
        self._redact.show(secret_values(spec.transport))
        self._redact.show(own_values(spec.transport))
        self._remote = isinstance(spec.transport, HttpSpec)
        sockets = isinstance(spec.transport, StdioSpec) and spec.transport.stdio == "socketpair"
        self._loop = asyncio.get_running_loop()
        self._strays = Strays(self.stderr, self._loop.time)
        self._diagnosis = Diagnosis(
            self._remote, spec.startup_timeout, self._redact.clean, self.stderr_tail, sockets, self._stdout_tail
        )
        self.client: Client | None = None
        self.facts: Facts | None = None
        self._link: Link | None = None
        self.pid: int | None = None
        self.last_fault: Fault | None = None
        self.totals: dict[str, int] = {}
        #: What it says of the credentials that it is sent, which ends no connection.
        self.admission = Admission(self._loop.time, changed)
        # What helpers print is a secret of this server.
        surroundings = msgspec.structs.replace(
            surroundings, hide=self._hide, clean=self.clean, admission=self.admission, count=self._count
        )
        self._surroundings = surroundings
        self._backoff = backoff
        self._changed = changed
        self._sink = sink
        self._log = log
        self._random = random.Random()
        self.state: State = Pending(0, self._loop.time())
        self._generation = 0
        #: This machine has no way to its host.
        self.severed = False
        #: What ends it as soon as its connection is lost, None = it is opened again then.
        self._parting: TurnedOff | None = None
        self._wake = anyio.Event()
        self._scope: anyio.CancelScope | None = None
        #: Further changes of its lists are waited for, before they are listed again.
        self._settling: anyio.CancelScope | None = None
        #: The state whose attempt was begun last.
        self._tried: State | None = None
        self._woken_at = float("-inf")
        self._log_level = ""
        self.lists = Lists(
            spec.startup_timeout, self._loop.time, wake=self._stir, changed=changed, warn=self._warn
        )
        self._listening = Listening(self._stir)
        #: Agents watch resources of it, which is use though they ask nothing.
        self.watched = False
        #: What the one agent that it is for has said it can do.
        self._declares: bytes | None = None
        self._extension = extension_of(spec)
        #: It is started for its lists alone.
        self._learning = spec.lazy
        #: For how long what it offered is shown while it is away; and whether it was looked for in files.
        self.shelf_life = ShelfLife(self._loop, self._too_old)
        self.looked_up = False
        if known is not None and spec.lazy:
            self._learning = False
            self._recall(known)
            self.state = IDLE
        self._health = health
        if spec.health_idle is not None:
            self._health = msgspec.structs.replace(health, idle=spec.health_idle)
        if isinstance(spec.transport, InProcessSpec):
            self._health = Health(0.0)  # there is nothing in between that could be lost
        self._probing: Probing | None = None
        self._ignores_ping = False
        #: What its program was when it had failed.
        self._failed_files: tuple[Failed, program_files.Stamps] | None = None
        self._opening = Opening(spec)
        self._carried = Carried()
        self._attempt = Attempt(
            self, spec, surroundings, self.stderr, limiter, self._opening, self.lists, self._diagnosis
        )
        #: Beside its own connection, where each request travels by itself; None = one connection, one era.
        self.sessions: LegacySessions | None = None
        if spec.transport.kind == "http":
            from mcphub.connection import legacy_sessions  # HTTP is loaded for the first server that needs it

            idle = legacy_sessions.IDLE if session_idle is None else session_idle
            self.sessions = legacy_sessions.LegacySessions(
                self, spec, surroundings, self.stderr, roots_of(spec.workspace), idle=idle
            )

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def tools(self) -> tuple[bytes, ...]:
        return self.lists.tools

    @property
    def listed(self) -> int:
        return self.lists.listed

    @property
    def calls(self) -> int:
        """Requests of agents that are in flight, over all its connections."""
        own = self.client.calls if self.client is not None else 0
        return own + (self.sessions.calls if self.sessions is not None else 0)

    @property
    def attempts(self) -> int:
        return self._backoff.attempts

    @property
    def known(self) -> Known | None:
        """What it said when it was last connected, None = it never was."""
        if self.facts is None or not self.listed:
            return None
        source, seen = self.lists.source, self.shelf_life.seen
        at = time.time_ns() / 1e9 - (self._loop.time() - seen if seen is not None else 0.0)
        return Known(self.facts, self.lists.tools, self.lists.shelf, source or Source(), at)

    @property
    def unlisted(self) -> bool:
        """What it offers is not known, or only what it was before this daemon ran; it is on its way, or failed."""
        idle = isinstance(self.state, Pending) and self.state.idle
        return not self.listed or (self.lists.saved and not idle)

    @property
    def waking(self) -> bool:
        """It is on its way to a connection, and nothing has failed on this way yet: it has just been started, or used,
        or asked to begin anew, or its session is renewed. What had been given up, and is tried again, may well fail."""
        state = self.state
        if not isinstance(state, Pending) or state.attempt or state.idle or state.offline or state.once:
            return False
        return not self.awaits_agent

    @property
    def awaits_agent(self) -> bool:
        """It is for one agent alone, which has not said yet what it can do: a legacy server is told just that."""
        return bool(self.spec.agent) and self._declares is None

    @property
    def slow(self) -> str:
        """Why its server, which is connected, counts as slow now, "" = it does not."""
        return self._probing.slow if self._probing is not None and isinstance(self.state, Connected) else ""

    @property
    def unreachable(self) -> str:
        """Why its server, whose connection is kept, cannot be reached now, "" = that is not known of it."""
        if self._probing is None or not isinstance(self.state, Connected):
            return ""
        return self.clean(self._probing.unreachable)

    @property
    def trying(self) -> bool:
        """The attempt that its state tells of is on its way now."""
        return self._scope is not None and self.state is self._tried and isinstance(self.state, Pending)

    @property
    def waits(self) -> str:
        """That it waits for its turn to start, and how many are before it; "" = it does not."""
        return self._attempt.waits if isinstance(self.state, Pending) else ""

    def view(self) -> View:
        return View(
            self.key,
            self.spec,
            self.state,
            self.facts,
            self.lists.tools,
            self.lists.listed,
            self.pid,
            self.lists.shelf,
            self.lists.shelved,
            self.last_fault is not None or self.severed,
            self.lists.fresh,
            self.lists.deaf,
            self.lists.doubts.methods,
        )

    def _count(self, kind: str) -> None:
        """An odd thing that its transport saw, which is in the counters."""
        self.totals[kind] = self.totals.get(kind, 0) + 1

    def _hide(self, *values: str, owner: str = "") -> None:
        """What came to be known as secret while it runs, and others will follow."""
        if owner:
            self._redact.hide(*values, owner=owner)
        else:
            self._redact.hide_for_now(*values)

    def stderr_tail(self, lines: int) -> list[str]:
        """The last lines of its stderr, fit to be shown: what is secret in its entry is masked, whoever printed it."""
        return [self.clean(line) for line in self.stderr.tail(lines, alone=True)]

    def _stdout_tail(self, lines: int) -> list[str]:
        """The last lines on its stdout that are no messages, as of `stderr_tail`."""
        return [self.clean(line) for line in self._strays.tail(lines)]

    def last_words(self) -> str:
        """The last line of each, in few characters, "" = it said nothing."""
        return last_words(self.stderr_tail(1), self._stdout_tail(1))

    def log_tail(self, lines: int) -> list[str]:
        """The last lines of both, in the order in which they came; those of stdout are marked."""
        return [self.clean(line) for line in self.stderr.tail(lines)]

    def clean(self, text: str) -> str:
        """`text` without what is secret in its entry, and with its command and place as the file has them."""
        return self._redact.clean(text)

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
            why = event.detail if isinstance(event, TurnedOff) else ""
            why = event.challenge if isinstance(event, Challenged) else why
            asked = isinstance(event, Asked)
            gone = "it was reconnected on request" if asked else "it was removed, or its entry changed"
            self.client.gone = why or gone
        self._wake.set()
        if self._scope is not None and not isinstance(self.state, Connected):
            self._scope.cancel()

    def part(self, event: TurnedOff) -> None:
        """This will end it before long: until then it goes on as it is, but a connection that is lost meanwhile, or not
        open yet, is not opened again."""
        self._parting = event
        if not isinstance(self.state, Connected):
            self.post(event)

    def wake_failed(self) -> None:
        """A call met a failed server: one attempt, at most every WAKE_EVERY seconds."""
        now = self._loop.time()
        if isinstance(self.state, Failed) and now - self._woken_at >= WAKE_EVERY:
            self._woken_at = now
            self.post(TriedAgain())

    def signed_in(self) -> None:
        """There are credentials that it waited for."""
        if isinstance(self.state, NeedsAuth | Failed):
            self.post(Asked())

    def signed_out(self, challenge: str) -> None:
        """Its credentials are dead: a person must act, whatever is open."""
        if isinstance(self.state, Connected):
            self.post(Challenged(self._generation, challenge))

    def wake_idle(self) -> None:
        """Somebody uses it."""
        if isinstance(self.state, Pending) and self.state.idle:
            self.post(Used())

    def learn(self) -> None:
        """What it offers may be something else than is known: if it sleeps, start it for its lists alone."""
        if isinstance(self.state, Pending) and self.state.idle:
            self._learning = True
            self.post(Used())

    def remember(self, known: Known) -> None:
        """What it offered before this daemon ran: that counts as long as it has said nothing itself."""
        away = isinstance(self.state, Pending | Failed | NeedsAuth)
        if self.listed or self.lists.busy or not away or self._declares not in (None, known.source.declares):
            return
        self._recall(known)
        self._changed()

    def _recall(self, known: Known) -> None:
        self.facts = known.facts
        self.lists.recall(known.tools, known.shelf, known.source)
        age = max(0.0, time.time_ns() / 1e9 - known.at) if known.at else 0.0
        self.shelf_life.begin(self._loop.time() - age)

    def forget(self) -> None:
        """What it offered is not to be shown any more, until it is connected again."""
        self.facts = None
        self.lists.forget()
        self.shelf_life.cancel()
        self._changed()
        self.learn()

    def used_as(self, principal: str) -> None:
        """Whose credentials it is used with from now on, "" = nobody's: what was listed with others is not shown."""
        source = self.lists.source
        if not principal or source is None or source.principal == principal:
            return
        if isinstance(self.state, Connected):
            self.lists.source = msgspec.structs.replace(source, principal=principal)
            self.lists.mistrust()
        else:
            self.forget()

    def _too_old(self) -> None:
        """It has been away for too long. What sleeps is asked when somebody wants to know."""
        if isinstance(self.state, Pending) and self.state.idle:
            return
        self._warn("it has been away for too long, so what it offered is not listed any more")
        self.forget()

    def wake_not_found(self) -> None:
        """Programs may be found now that were not, or in another way."""
        if isinstance(self.state, Failed) and self.state.fault.kind in (FaultKind.NOT_FOUND, FaultKind.CONFIG):
            self.post(Asked())

    def sever(self) -> None:
        """There is no way to its host: until `restore` no attempt is made, and none counts. A connection stays: it may
        be as good as before when the way is back."""
        self.severed = True
        self._tell_severed()
        self._changed()
        if isinstance(self.state, Pending | Failed):
            self.post(Cut())

    def restore(self, delay: float) -> None:
        """There is a way to its host, a new one or the old one again: try it in `delay` seconds, and see whether what
        is open still is."""
        if self.severed:
            self.severed = False
            self._tell_severed()
            self._changed()
        if self._link is not None:
            self._link.way_changed()
        if self.sessions is not None:
            self.sessions.way_changed()
        if isinstance(self.state, Pending | Failed):
            if self._surroundings.credentials is not None:
                self._surroundings.credentials.again(self.spec)
            self.post(Restored(delay))
        elif isinstance(self.state, Connected):
            self._loop.call_later(delay, self.check_up, self._generation)

    def _tell_severed(self) -> None:
        if self.client is not None:
            self.client.severed = self.severed
        if self.sessions is not None:
            self.sessions.sever(self.severed)

    def check_up(self, generation: int | None = None) -> None:
        """Find out soon whether the connection (of this attempt, None = any) still leads anywhere."""
        if generation in (None, self._generation) and self._probing is not None and isinstance(self.state, Connected):
            self._probing.check_up()

    def introduce(self, declares: bytes) -> None:
        """The one agent that it is for has said what it can do, a set of capability_sets."""
        if declares == self._declares:
            return
        self._declares = declares
        source = self.lists.source
        if self.lists.saved and source is not None and source.declares != declares:
            self.forget()  # what another agent was offered, which can do other things
        self._wake.set()
        client = self.client
        if client is None or client.era != "legacy" or client.declares == declares or client.calls:
            return  # what is running is worth more than that its server knows
        if isinstance(self.state, Connected):
            self.post(Asked())

    def want_log_level(self, level: str) -> None:
        """The most verbose level any agent wants of this server; "" = nobody asked."""
        if level != self._log_level:
            self._log_level = level
            self._send_log_level()
            if self.sessions is not None:
                self.sessions.want_log_level(level)

    def list_wanted(self, method: str) -> None:
        """An agent asks for this list, and gets what is here; where nobody would tell of changes, it is looked at."""
        if self.shelf_life.over:
            self.learn()
        elif self.facts is not None and self._link is not None and isinstance(self.state, Connected):
            self.lists.wanted(method, self.facts, self._link)

    def coming(self, method: str, patience: float) -> int:
        """The number of what its server said last of this list, if the list of after that is on its way, for which
        somebody is going to wait: it hurries then. 0 = there is nothing to wait for. As Coming.number."""
        lists, now = self.lists, self._loop.time()
        number = lists.coming.number(method, now, patience) if isinstance(self.state, Connected) else 0
        if number and method not in lists.coming.awaited:
            lists.coming.awaited.add(method)
            if self._settling is not None:
                self._settling.deadline = min(self._settling.deadline, now + lists.hurried)
        return number

    def brings(self, method: str, number: int) -> bool:
        """Whether the list that was waited for under this number is still on its way."""
        return isinstance(self.state, Connected) and self.lists.coming.awaits(method, number)

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
            self._moved(before)
            self._changed()
        if self.sessions is not None and not isinstance(self.state, Connected) and not renews(self.state):
            fault = self.state.fault if isinstance(self.state, Pending | Failed) else None
            self.sessions.close(fault.message if fault is not None else "mcphub ended it with the connection")

    def _moved(self, before: State) -> None:
        """Its lists are its server's as long as it is connected, and grow old from then on."""
        if isinstance(self.state, Connected | Disabled):
            self.shelf_life.cancel()
        elif isinstance(before, Connected):
            self.shelf_life.begin(self._loop.time())
        elif self.shelf_life.over and not isinstance(self.state, Pending):
            self._too_old()

    # --- what its connections say ------------------------------------------------------------------------------------

    def heard(self, client: Client, method: str, params: Raw) -> None:
        """A notification on one of its connections."""
        if not self.lists.told(method):
            self._sink.server_said(self, client, method, params)

    def asked(self, client: Client, mid: bytes, method: str, params: Raw, current: int | None) -> bool:
        """A question on one of its connections."""
        return self._sink.server_asked(self, client, mid, method, params, current)

    def noted(self, text: str) -> None:
        self._log("warning", f"{self.name}: {cut(self._redact.clean(text), LINE)}")

    def _warn(self, text: str) -> None:
        self._log("warning", f"{self.name}: {text}")

    def _stir(self) -> None:
        self._wake.set()

    def is_for(self, client: Client, declares: bytes) -> bool:
        """Whether what its server says on this connection by itself is for legacy agents that declared this set."""
        if self.sessions is None:
            return client is self.client
        return self.sessions.hears(client, self.client, declares)

    def check(self) -> None:
        """List the tools again: they may have changed, or their server may be gone."""
        self.lists.look_again(TOOLS)

    def changed(self) -> None:
        """What is said of its sessions is no more so."""
        self._changed()

    def broke(self, error: BaseException) -> None:
        """A fault of ours outside its own task."""
        text = f"{type(error).__name__}: {self.clean(str(error))}"
        self._log("error", f"internal error in a session of {self.name}: {text}")
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
            if self.severed:
                self._move(Cut())
            if self._parting is not None:
                self._move(self._parting)
            state = self.state
            if not isinstance(state, Pending):
                self._carried.give_up()
            if isinstance(state, Disabled) and state.because == "stopping":
                return
            if isinstance(state, Failed) and self._remote and not self.severed:
                with anyio.move_on_after(TRY_REMOTE_EVERY * self._random.uniform(0.8, 1.2)):
                    await self._wake.wait()
                if self.state is state:
                    self._move(TriedAgain())
                continue
            if isinstance(state, Failed) and isinstance(self.spec.transport, StdioSpec):
                await self._until_other_files(state, self.spec.transport)
                continue
            if not isinstance(state, Pending):
                await self._wake.wait()
                continue
            if self.awaits_agent:
                await self._wake.wait()
                continue
            wait = state.retry_at - self._loop.time()
            if wait > 0:
                with anyio.move_on_after(wait):
                    await self._wake.wait()
                continue
            await self._try()

    async def _until_other_files(self, state: Failed, program: StdioSpec) -> None:
        """A program that has failed is tried again when it is another one: installed, mended, built anew."""
        look = functools.partial(program_files.stamps, program, self._surroundings.environment())
        if self._failed_files is None or self._failed_files[0] is not state:
            self._failed_files = state, await anyio.to_thread.run_sync(look)
        with anyio.move_on_after(LOOK_AT_FILES * self._random.uniform(0.8, 1.2)):
            await self._wake.wait()
        if self.state is state and await anyio.to_thread.run_sync(look) != self._failed_files[1]:
            self._log("info", f"{self.name}: its program is another one now, so it is tried again")
            if self.state is state:
                self._move(Asked())

    async def _try(self) -> None:
        self._generation += 1
        self._tried = self.state
        carried = self._carried.of
        with anyio.CancelScope() as self._scope:
            try:
                await self._attempt.run()
            except Exception as e:  # a fault of ours must cost one attempt of one server, not the daemon
                while isinstance(e, ExceptionGroup) and len(e.exceptions) == 1:
                    e = e.exceptions[0]  # the task group of a transport wraps what passes through it
                text = f"{type(e).__name__}: {self.clean(str(e))}"
                self._log("error", f"internal error in the worker of {self.name}: {text}")
                if self._surroundings.report is not None:
                    self._surroundings.report(e)
                self.failed(self._diagnosis.fault(FaultKind.INTERNAL, "serve", f"{type(e).__name__}: {e}"))
        self._scope = None
        if carried is not None and self._carried.of is carried:
            self._carried.give_up()
        if isinstance(self.state, Connected):
            # Asked for a fresh start in the moment of success: the answer came after the old attempt was cancelled.
            self._move(Asked())
        if self.pid is not None:
            self.pid = None
            self._changed()

    # --- what its attempts come to -----------------------------------------------------------------------------------

    def begin(self) -> Client:
        """A connection is begun, on this client."""
        self.lists.reset()
        self._listening.reset()
        listener = _Listener(self)
        roots, told = roots_of(self.spec.workspace), self._declares
        sampling, extension = self.spec.sampling, self._extension
        client = listener.client = Client(listener, roots, sampling=sampling, declares=told, extension=extension)
        self._carried.continue_in(client)
        client.stdout = isinstance(self.spec.transport, StdioSpec)
        if client.stdout:
            self._strays.begin()
            client.strays = self._strays
            client.parting = f"the server closed its stdout; see `mcphub logs {self.name}`"
        client.in_order = not self._remote or isinstance(self.spec.transport, WsSpec)
        if self.sessions is not None and self.facts is not None and self.facts.era == "legacy":
            self.sessions.opening(client)
        return client

    def started(self, pid: int | None) -> None:
        """Its transport is open."""
        self.pid = pid
        self._changed()

    def is_first(self) -> bool:
        """Whether no other attempt has failed before."""
        return isinstance(self.state, Pending) and not self.state.attempt

    def began_again(self, how: str) -> None:
        """The attempt goes on, in another way."""
        self._log("info", f"{self.name}: starting again {how}")

    def retire(self, client: Client) -> None:
        """No call is for this connection any more."""
        self.client = client
        if client.over:
            client.bury(client.parting)
        for name, count in client.counters.items():
            self.totals[name] = self.totals.get(name, 0) + count
        if self._probing is not None:
            self._probing.end()
            self._ignores_ping = self._probing.ignores
        self.client = self._link = self._probing = None
        self._carried.retire(client)

    async def use(self, client: Client, link: Link, facts: Facts) -> None:
        """It is open and listed: use it until it is lost, or the state says that it shall end."""
        self._become(client, facts)
        await self._serve(client, link, facts)

    def _become(self, client: Client, facts: Facts) -> None:
        self._opening.opened(facts.era)
        self.facts = facts
        self.lists.take(facts.tools, facts.shelf)
        self.client = client
        if facts.era == "modern" and tasks.offers(facts.capabilities):
            client.tasks, client.extension = True, with_tasks(client.extension)
        client.severed = self.severed
        if self.sessions is not None:
            possible = self._opening.sessions_beside(facts.era)
            self.sessions.beside(legacy=facts.legacy, possible=possible)
        self._send_log_level()
        self._listening.ask(client, facts, self._loop.time())
        self._carried.send_on(client)
        self._move(Opened(self._generation))

    async def _serve(self, client: Client, link: Link, facts: Facts) -> None:
        self._link = link
        self.lists.hears(link, facts)
        rest = Rest(LEARNED if self._learning else self.spec.idle_timeout, self._loop.time(), self._asked(client))
        lists = bool(facts.tools)
        self._probing = Probing(
            client, self._health, self._changed, lists=lists, ignores=self._ignores_ping, others=self.sessions
        )
        while not client.over and isinstance(self.state, Connected):
            self._wake = anyio.Event()
            now = self._loop.time()
            if self._listening.due(now, self._random.random()):
                self._listening.ask(client, facts, now)
                self.lists.mistrust()  # events may have been lost
            if self.lists.due:
                with anyio.move_on_after(self.lists.settle()) as self._settling:
                    await self._end_of(client)
                self._settling = None
                await self.lists.again(client, link, facts)
                continue
            if rest.due(now, busy=self._is_busy(client), asked=self._asked(client)):
                self._rest(client)
                return
            if self._learning and rest.used:
                self._learning = False
                rest = Rest(self.spec.idle_timeout, now, self._asked(client))
            with anyio.move_on_at(min(self._listening.at, rest.at)):
                await self._wake.wait()
        if isinstance(self.state, Connected):
            e = TransportError(client.gone or "the server closed the connection")
            fault = await self._diagnosis.why(client, link, "serve", e)
            self._bury(client, fault)
            self._carried.keep(client, link.returned)
            if self.sessions is not None:
                self.sessions.own_lost(client)
            self.last_fault = fault
            self._log("warning", f"{self.name}: {fault.message}")
            self._move(Lost(self._generation, fault))

    def _bury(self, client: Client, fault: Fault) -> None:
        """Those who wait for answers of its program are told how that ended."""
        if client.parting and client.over:
            hint = f"; see `mcphub logs {self.name}`" if fault.stderr or fault.stdout else ""
            client.bury(fault.message + hint)

    def _is_busy(self, client: Client) -> bool:
        # A session that is only open is mcphub's own affair, and no use by anybody.
        return bool(client.calls or self.watched or (self.sessions is not None and self.sessions.used))

    def _asked(self, client: Client) -> int:
        """Requests of agents so far, on this connection and those beside it."""
        return client.asked + (self.sessions.asked if self.sessions is not None else 0)

    def _rest(self, client: Client) -> None:
        """Nobody uses it: end the connection, keep what is known."""
        self._learning = False
        client.gone = client.gone or "it was not used"
        self._log("info", f"{self.name}: not used, so it is stopped until it is")
        self._move(Unused(self._generation))

    async def _end_of(self, client: Client) -> None:
        while not client.over:
            self._wake = anyio.Event()
            await self._wake.wait()

    def failed(self, fault: Fault) -> None:
        """The attempt is over, in vain, or its connection for a fault of ours."""
        fault = self._opening.failed(fault)
        if self.client is not None:
            self._bury(self.client, fault)
        self.last_fault = fault
        self._log("warning", f"{self.name}: {fault.message}")
        if fault.kind is FaultKind.NEEDS_AUTH:
            if self._surroundings.credentials is not None:
                self._surroundings.credentials.wanted(self.spec)
            self._move(Challenged(self._generation, fault.message))
        elif isinstance(self.state, Connected):
            self._move(Lost(self._generation, fault))
        else:
            self._move(Faulted(self._generation, fault))


class _Listener:
    """What one connection tells its worker; a connection of the past is not listened to."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.client: Client | None = None

    def notified(self, method: str, params: Raw) -> None:
        if self.client is not None:
            self._worker.heard(self.client, method, params)

    def ended(self, reason: str) -> None:
        self._worker._stir()

    def asked(self, mid: bytes, method: str, params: Raw, current: int | None) -> bool:
        client = self.client
        if client is None or client is not self._worker.client:
            return False  # nobody calls before it has listed
        return self._worker.asked(client, mid, method, params, current)

    def noted(self, text: str) -> None:
        self._worker.noted(text)


__all__ = ["Asked", "TurnedOff", "Worker"]
