"""Owns the legacy sessions of one HTTP server beside its worker's own connection: one for each set of capabilities.

It must not know agents, nor what is called: a request comes with the set of whoever makes it. A session is opened, used
and closed by one task, on demand; what is sent to it before it is open waits there, and nothing waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

import anyio
import anyio.abc

from mcphub.channel import NOT_ACTED_ON
from mcphub.connection import capability_sets, handshake
from mcphub.connection.capability_sets import Without
from mcphub.connection.client import Client, Mover, Resender
from mcphub.connection.evictions import Evictions
from mcphub.connection.held import Held
from mcphub.connection.probing import METHODS
from mcphub.errors import JSONRPCError, RemoteProtocolError, TransportError
from mcphub.protocol import era, jsonrpc
from mcphub.protocol.correlate import Waiter
from mcphub.protocol.http_answer import SESSION_GONE
from mcphub.protocol.jsonrpc import Raw
from mcphub.protocol.versions import LATEST_LEGACY
from mcphub.spec import ServerSpec
from mcphub.transport.link import Link, Surroundings
from mcphub.transport.stderr import StderrRing
from mcphub.transport.streamable_http import open_streamable_http

#: A session without a call is closed after so long, seconds.
IDLE = 300.0
#: Sets that have a session at one time.
MOST = 8
#: How long a server is believed that refuses a session, or keeps one at a time, seconds: for some it is the only answer
#: they will ever give, for others one of a bad moment.
BELIEVED = 600.0
#: How long an opening may take where nothing says that the server speaks the legacy era, seconds.
ATTEMPT_LIMIT = 5.0
#: How long the first calls wait for the session's own stream: many servers ask there, and what they ask before it is
#: open is lost. Seconds.
STREAM_LIMIT = 1.0
#: The part of a call's time that an opening may take: it must have failed before the calls that wait for it time out,
#: since of those it can be said that they were not sent.
PART_OF_CALL = 0.8
#: Seconds for an answer to `logging/setLevel`, which says nothing new.
LEVEL_LIMIT = 30.0
#: How long the worker's own connection is waited for when so many requests in sessions failed, seconds; what it does
#: not answer until then says nothing.
LOOK_LIMIT = 30.0
#: How often it is looked whether a session that gets no new calls can be closed, seconds.
RETIRING = 0.5
#: What a person is told of a server that opens a session by ending another, and what a session's end says then.
ONE_SESSION = (
    "it keeps one session at a time, each that is opened ends another: agents of 2025-11-25 and older share one, "
    "whatever they can do"
)
SHARED_NOW = "the server keeps one session at a time, which is shared now"


class Home(Protocol):
    """The worker, as far as its sessions need it."""

    @property
    def client(self) -> Client | None:
        """Its own connection."""

    def heard(self, client: Client, method: str, params: Raw) -> None:
        """A notification that came on this connection."""

    def asked(self, client: Client, mid: bytes, method: str, params: Raw, current: int | None) -> bool:
        """As client.Listener.asked."""

    def noted(self, text: str) -> None:
        """For the log: odd, or worth knowing."""

    def check(self) -> None:
        """A session was lost: the worker's own connection may be as well."""

    def changed(self) -> None:
        """There are more sessions now, or fewer."""

    def broke(self, error: BaseException) -> None:
        """A fault of ours, which cost a session."""


class _Session:
    """One session; the task that runs `LegacySessions._live` owns its connection. Implements client.Listener."""

    def __init__(
        self, of: LegacySessions, declares: bytes, roots: bytes, version: str, now: float, extension: bytes
    ) -> None:
        self.declares = declares
        self.client = Client(self, roots, declares=declares, extension=extension)
        self.client.version = version
        self.client.beside = of
        self.held = Held()
        self.client.use(self.held)
        self.scope = anyio.CancelScope()
        self.link: Link | None = None
        #: It is being closed by us, or never was opened.
        self.leaving = False
        #: It is closed as soon as no call is in flight there.
        self.retired = False
        #: When the server had opened it, monotonic seconds.
        self.opened = now
        self.over = anyio.Event()
        self.used = now
        self.logs = False
        self._of = of

    def notified(self, method: str, params: Raw) -> None:
        self._of.home.heard(self.client, method, params)

    def asked(self, mid: bytes, method: str, params: Raw, current: int | None) -> bool:
        if self.client.channel is self.held:
            return False  # what waits here was not sent: it cannot be why
        return self._of.home.asked(self.client, mid, method, params, current)

    def noted(self, text: str) -> None:
        self._of.home.noted(text)

    def ended(self, reason: str) -> None:
        self.over.set()
        self._of.lost(self)


class LegacySessions:
    """The sessions of one server. `idle`: seconds; `most`: sets that have one at a time."""

    def __init__(
        self,
        home: Home,
        spec: ServerSpec,
        around: Surroundings,
        stderr: StderrRing,
        roots: bytes,
        *,
        idle: float = IDLE,
        most: int = MOST,
    ) -> None:
        self.home = home
        self._spec = spec
        self._around = around
        self._stderr = stderr
        self._roots = roots
        self._idle = idle
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._open: dict[bytes, _Session] = {}
        self._tasks: anyio.abc.TaskGroup | None = None
        self._level = ""
        self._version = LATEST_LEGACY
        self._totals: dict[str, int] = {}
        #: Those whose task runs; what agents asked in those that are over, and the signs of life there.
        self._living: set[_Session] = set()
        self._asked = self._signs = 0
        #: The server is known to speak the legacy era; the worker's own connection is for everybody; sets that the
        #: server wants no session for, and until when it is believed.
        self._legacy = False
        self._own_only = True
        self._refused: dict[bytes, float] = {}
        #: Sessions that get no new calls, but have some in flight.
        self._retired: set[_Session] = set()
        #: This machine has no way to its host now.
        self._severed = False
        #: Until when one session is shared, since the server keeps one at a time.
        self._shared = float("-inf")
        self._evictions = Evictions()
        self._own_opened = self._loop.time()
        self._told = False
        #: The request by which the own connection is looked at, 0 = none was sent.
        self._look = 0

    # --- for the worker ----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        """Sessions can be opened meanwhile; leaving it closes them all."""
        async with anyio.create_task_group() as self._tasks:
            try:
                yield
            finally:
                self.close("mcphub ended the session")
                self._tasks = None

    def beside(self, *, legacy: bool, possible: bool) -> None:
        """The worker has another connection of its own. `legacy`: the server says that it speaks that era; `possible`:
        it may be spoken to so, and has sessions."""
        self._legacy = legacy or any(session.client.ready for session in self._open.values())
        self._own_only = not possible
        self._refused.clear()
        self._look = 0
        self._own_opened = self._loop.time()
        own = self.home.client
        if own is not None and own.era == "legacy":
            self.opening(own)

    def opening(self, client: Client) -> None:
        """This connection begins a session, or has begun one: which others live on is to be seen."""
        own = self.home.client
        for other in (own, *(session.client for session in self._open.values())):
            if other is not None and other is not client:
                other.doubt()
        self._evictions.opened(self._loop.time())

    def own_lost(self, client: Client) -> None:
        """The worker's own connection is over."""
        if client.gone == SESSION_GONE:
            self._judge(self._own_opened, client.proven)

    @property
    def shares(self) -> bool:
        """The server keeps one session at a time: all that is legacy goes over the worker's own."""
        return self._loop.time() < self._shared

    @property
    def warnings(self) -> tuple[str, ...]:
        """For a person."""
        return (ONE_SESSION,) if self.shares else ()

    def way_changed(self) -> None:
        """As link.Link."""
        for session in (*self._open.values(), *self._retired):
            if session.link is not None:
                session.link.way_changed()

    def close(self, reason: str) -> None:
        """End all sessions; their calls end with them."""
        for session in (*self._open.values(), *self._retired):
            self._shut(session, reason)

    def want_log_level(self, level: str) -> None:
        """The most verbose level any agent wants of this server; "" = nobody asked."""
        if level != self._level:
            self._level = level
            for session in self._open.values():
                self._send_level(session)

    @property
    def count(self) -> int:
        return len(self._open)

    @property
    def calls(self) -> int:
        """Calls in flight, and held."""
        return sum(session.client.calls for session in (*self._open.values(), *self._retired))

    @property
    def used(self) -> bool:
        """Whether any of them is in use now: a call is in flight there, or something is watched. One that is only open
        is mcphub's own affair."""
        return any(_is_used(session.client) for session in (*self._open.values(), *self._retired))

    @property
    def asked(self) -> int:
        """Requests of agents in all sessions so far; grows with each."""
        return self._asked + sum(session.client.asked for session in self._living)

    @property
    def signs(self) -> int:
        """Signs of life that the server gave in all sessions so far."""
        return self._signs + sum(session.client.signs for session in self._living)

    def counters(self) -> Mapping[str, int]:
        """As client.counters, over all sessions so far."""
        out = dict(self._totals)
        for session in self._open.values():
            _add(out, session.client.counters)
        return out

    # --- for the gateway ---------------------------------------------------------------------------------------------

    def client_for(self, own: Client, modern: bool, declares: bytes) -> Client:
        """The connection for a request of an agent of this era, which declared this set; `own` is the worker's, and the
        answer wherever it will do as well."""
        if (modern and own.era == "modern") or not self.is_apart(own, declares):
            return own
        session = self._open.get(declares)
        if session is None:
            session = self._begin(declares, own)
            if session is None:
                return own
        session.used = self._loop.time()
        return session.client

    def is_apart(self, own: Client | None, declares: bytes) -> bool:
        """Whether legacy agents of this set have a session of their own, or would get one."""
        if own is not None and own.declares == declares and own.era == "legacy":
            return False
        if declares in self._open:
            return True
        now = self._loop.time()
        return not (self._own_only or now < self._shared or self._refused.get(declares, 0.0) > now)

    def sever(self, severed: bool) -> None:
        """Whether this machine has no way to the server's host now."""
        self._severed = severed
        for session in (*self._open.values(), *self._retired):
            session.client.severed = severed

    def hears(self, client: Client, own: Client | None, declares: bytes) -> bool:
        """Whether what a server says here by itself is for legacy agents with this set: each hears one session."""
        session = self._open.get(declares)
        return client is (session.client if session is not None else own)

    # --- one session -------------------------------------------------------------------------------------------------

    def _begin(self, declares: bytes, own: Client | None) -> _Session | None:
        """A session that is opened from now on; None where there may be no more of them."""
        if self._tasks is None:
            return None
        if len(self._open) >= self._most:
            key = capability_sets.makes_room((s.declares, s.used, _is_used(s.client)) for s in self._open.values())
            if key is None:
                return None
            self._shut(self._open[key], "another session needed its place")
        version = own.version if own is not None and own.era == "legacy" else self._version
        session = self._open[declares] = _Session(
            self, declares, self._roots, version, self._loop.time(), capability_sets.extension_of(self._spec)
        )
        self._living.add(session)
        session.client.severed = self._severed
        session.client.trouble()  # its first answer says so to the others, too
        self._tasks.start_soon(self._live, session, name=f"session {self._spec.name}")
        self.home.changed()
        return session

    async def _live(self, session: _Session) -> None:
        """The one task of a session, from its opening to its end."""
        try:
            with session.scope:
                await self._open_and_keep(session)
        except Exception as e:  # a fault of ours must cost one session, not the worker
            while isinstance(e, ExceptionGroup) and len(e.exceptions) == 1:
                e = e.exceptions[0]  # the task group of a transport wraps what passes through it
            self.home.broke(e)
            self._cannot(session, "refused", f"internal error: {type(e).__name__}: {e}")
        finally:
            self._forget(session)
            self._retired.discard(session)
            session.leaving = True
            if not session.client.over:
                session.client.lost("the session has ended")
            _add(self._totals, session.client.counters)
            self._living.discard(session)
            self._asked += session.client.asked
            self._signs += session.client.signs

    async def _open_and_keep(self, session: _Session) -> None:
        limit = min(self._spec.startup_timeout, self._spec.call_timeout * PART_OF_CALL)
        limit = limit if self._legacy else min(limit, ATTEMPT_LIMIT)
        try:
            async with open_streamable_http(self._spec, self._around, session.client, self._stderr) as link:
                session.link = link
                session.held.behind = link.channel
                refusal: tuple[str, str] | None = ("timeout", f"no answer to initialize in {limit:g} s")
                with anyio.move_on_after(limit):
                    refusal = await self._shake_hands(session, limit)
                if refusal is None:
                    await link.channel.stood(STREAM_LIMIT)
                    self._ready(session, link)
                    await self._until_idle(session)
                else:
                    self._cannot(session, *refusal)
        except TransportError as e:
            self._cannot(session, e.kind, str(e))

    async def _shake_hands(self, session: _Session, limit: float) -> tuple[str, str] | None:
        """(kind, message) of what is in the way; None once the handshake is over."""
        self.opening(session.client)
        try:
            step = await handshake.shake_hands(session.client, era.Probe(first="legacy", restarted=True), limit)
        except TransportError as e:
            return e.kind, str(e)
        except RemoteProtocolError as e:
            return "unreadable", str(e)
        except JSONRPCError as e:
            return "refused", f"{e} ({e.code})"
        if isinstance(step, era.Spoken):
            capabilities = step.result.get("capabilities")
            session.logs = isinstance(capabilities, dict) and "logging" in capabilities
            session.opened = self._loop.time()
            self.opening(session.client)
            return None
        return "refused", step.message if isinstance(step, era.Refused) else "the handshake has no end"

    def _ready(self, session: _Session, link: Link) -> None:
        """What was held goes, in order."""
        self._legacy, self._version = True, session.client.version
        session.client.use(link.channel)
        self._send_level(session)
        for frame in session.held.release().values():
            session.client.send(frame)

    async def _until_idle(self, session: _Session) -> None:
        """Until it is lost, or was not used for so long."""
        while not session.client.over:
            now = self._loop.time()
            if _is_used(session.client):
                session.used = now
            left = session.used + self._idle - now
            if session.retired:
                left = RETIRING if session.client.calls else 0.0
            if left <= 0:
                session.leaving = True
                session.client.gone = SHARED_NOW if session.retired else f"the session was idle for {self._idle:g} s"
                self._forget(session)
                return
            session.over = anyio.Event()
            with anyio.move_on_after(left):
                await session.over.wait()

    def _send_level(self, session: _Session) -> None:
        client = session.client
        if self._level and session.logs and not client.over:
            reply = handshake.Ignored(self._loop.time() + LEVEL_LIMIT)
            client.start(reply, "logging/setLevel", b'"level":' + jsonrpc.quote(self._level))

    def _forget(self, session: _Session) -> None:
        """No request is for it any more."""
        if self._open.get(session.declares) is session:
            del self._open[session.declares]
            self.home.changed()

    # --- strikes: implements client.Beside ---------------------------------------------------------------------------

    def struck(self, kind: str) -> None:
        """What fails on its way in a session speaks of the way to the server, which all share: three in a row, in
        whichever of them, and the own connection is asked. If that fails too, it is over (case C086)."""
        for session in (*self._open.values(), *self._retired):
            session.client.trouble()
        own = self.home.client
        if own is None or own.over or not own.strike(kind) or self._look in own.waiting():
            return
        self._look = own.start(handshake.Ignored(self._loop.time() + LOOK_LIMIT), METHODS[own.era])

    def calmed(self) -> None:
        if (own := self.home.client) is not None:
            own.calm()

    # --- ends --------------------------------------------------------------------------------------------------------

    def _shut(self, session: _Session, reason: str) -> None:
        session.leaving = True
        session.client.gone = session.client.gone or reason
        self._forget(session)
        session.scope.cancel()

    def lost(self, session: _Session) -> None:
        """Its connection is gone. What its server did not act on, since it knows the session no more, is for the next
        one, which takes its place at once."""
        self._forget(session)
        self.home.changed()
        client = session.client
        if session.leaving:
            _refuse(client)
            return
        if client.gone == SESSION_GONE:
            self._judge(session.opened, client.proven)
        after, own = None, self.home.client
        if self.shares and own is not None and not own.over and session.link is not None:
            for request_id, frame in session.link.returned.items():
                _send_over(own, client.returned.pop(request_id, None), frame, SHARED_NOW)
        elif client.gone == SESSION_GONE and client.returned and session.declares not in self._open:
            after = self._begin(session.declares, self.home.client)
        if after is not None and session.link is not None:
            frames = session.link.returned
            after.client.continue_after(max(frames, default=0))
            for request_id, waiter in list(client.returned.items()):
                if request_id in frames and isinstance(waiter, Mover):
                    del client.returned[request_id]
                    after.client.carry_on(request_id, waiter, frames[request_id])
        elif client.gone != SESSION_GONE:
            self.home.noted(f"a session was lost: {client.gone or 'the connection ended'}")
        _refuse(client)
        self.home.check()

    def _judge(self, opened: float, proven: bool) -> None:
        """A session is over, since the server does not know it: where it keeps one at a time, one is shared."""
        now = self._loop.time()
        if not self._evictions.lost(opened, proven, now) or self.shares:
            return
        self._shared = now + BELIEVED
        if not self._told:
            self._told = True
            self.home.noted(ONE_SESSION)
        for session in list(self._open.values()):
            self._retire(session)
        self.home.changed()

    def _retire(self, session: _Session) -> None:
        """No new calls go there; those that wait for it go over the own connection, if there is one."""
        own = self.home.client
        self._forget(session)
        if session.client.channel is session.held and own is not None and not own.over:
            for request_id, frame in session.held.release().items():
                _send_over(own, session.client.release(request_id), frame, SHARED_NOW)
            self._shut(session, SHARED_NOW)
            return
        session.retired = True
        self._retired.add(session)
        session.over.set()

    def _cannot(self, session: _Session, kind: str, message: str) -> None:
        """It cannot be opened: what waits for it goes another way, or ends as what the server has not acted on."""
        self._forget(session)
        session.leaving = True
        how = capability_sets.without(kind, self._legacy)
        own = self.home.client
        if how is Without.FOR_GOOD and self._legacy:
            self._refused[session.declares] = self._loop.time() + BELIEVED
            self.home.noted(f"no further session can be had, the shared one is used: {message}")
        elif how is Without.FOR_GOOD:
            self._own_only = True
        elsewhere = how is not Without.REFUSED and own is not None and not own.over
        client = session.client
        for request_id, frame in session.held.release().items():
            if not elsewhere:
                kept = kind if kind in NOT_ACTED_ON - {"session"} else "session_over"
                client.unanswered(request_id, kept, _worded(kind, message))
                continue
            assert own is not None
            _send_over(own, client.release(request_id), frame, _worded(kind, message))
        if how is Without.REFUSED:
            self.home.noted(f"a session cannot be opened: {message}")
            self.home.check()


def _worded(kind: str, message: str) -> str:
    return message if kind == "needs_auth" else f"a session with it cannot be opened: {message}"


def _is_used(client: Client) -> bool:
    return client.watched or client.calls > 0


def _send_over(own: Client, waiter: Waiter | None, frame: bytes, why: str) -> None:
    """Send what a session cannot have, and has not acted on, over this connection; refuse it if it cannot be."""
    if waiter is None:
        return
    env = jsonrpc.decode(frame.rstrip(b"\n"))
    if isinstance(waiter, Resender) and env.method is not None:
        waiter.resend(own, env.method, env.params)
    else:
        waiter.unanswered("session_over", why)


def _refuse(client: Client) -> None:
    while client.returned:
        _, waiter = client.returned.popitem()
        waiter.unanswered("session_over", "its session was over, and another one cannot be had")


def _add(totals: dict[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        totals[name] = totals.get(name, 0) + count


__all__ = ["Home", "LegacySessions"]
