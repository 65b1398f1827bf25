"""Owns one open channel to a server: what is sent on it, who waits, what the server says by itself.

It must not open or close the channel, nor know agents: replies go to waiters, news to the listener it was given.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Protocol, runtime_checkable

import anyio
import msgspec

from mcphub.channel import Channel, Data
from mcphub.connection import capability_sets, strikes
from mcphub.connection.held import Held
from mcphub.connection.strays import Strays
from mcphub.connection.withdrawn import Behind, One, Withdrawn
from mcphub.errors import JSONRPCError, RemoteProtocolError, TransportError
from mcphub.protocol import jsonrpc
from mcphub.protocol.correlate import Crowd, Pending, Waiter
from mcphub.protocol.envelope import HUB_META
from mcphub.protocol.jsonrpc import EMPTY, Envelope, Mended, NotAMessage, Raw
from mcphub.protocol.versions import BATCH_VERSION, LATEST_LEGACY, Era

#: Rubbish allowed before the handshake ends, and between two messages later.
NOISE_LINES_BEFORE = 1000
NOISE_BYTES_BEFORE = 1 << 20
NOISE_LINES_AFTER = 20_000
NOISE_BYTES_AFTER = 16 << 20
#: Parts from this size on are not copied into the frame.
LARGE = 1 << 15
#: Data of an error that the hub itself looks at.
MAX_ERROR_DATA = 1 << 16
#: Seconds after which a server has read that a request was withdrawn, in whatever order it reads.
LONG_AGO = 60.0
#: How often deadlines are looked at while anything waits, seconds.
SWEEP = 0.5
#: For how long calls whose connection is lost may wait for word of how its program ended, seconds: that is known about
#: ten milliseconds after its streams have closed.
PARTING = 0.25
#: So much of a line that is no message is told to a person; who is told cleans it, and then cuts it.
_TOLD = 4096

#: What a failure on the way is called while there is none.
OFFLINE = "this machine is offline, or has no way to the server's host"

#: Of what waited at the channel when it ended, in the end of a message.
_UNTOUCHED = "the server has not acted on it, and it can be called again"

_EVER = float("inf")
_params = msgspec.json.Decoder(dict[str, Raw]).decode
_token = msgspec.json.Decoder(int | str).decode
#: What is a number, and finite.
_finite = msgspec.json.Decoder(float).decode


class Listener(Protocol):
    """Who hears what a server says by itself."""

    def notified(self, method: str, params: Raw) -> None:
        """A notification other than progress; the payload is valid during the call only."""

    def ended(self, reason: str) -> None:
        """The channel is gone."""

    def asked(self, mid: bytes, method: str, params: Raw, current: int | None) -> bool:
        """A request of a legacy server's, with its id as JSON; `current` is ours on whose stream it came. True = it
        will be answered; the payload is valid during the call only."""

    def noted(self, text: str) -> None:
        """Something odd that a person should find in the log; already counted, at most a few times a connection."""


@runtime_checkable
class Mover(Protocol):
    """A waiter whose request may be sent again, unchanged, on another connection to the same server."""

    def moved(self, client: Client) -> None:
        """It waits there now."""


@runtime_checkable
class Resender(Protocol):
    """A waiter whose request was held back, and may go over another connection, in another era."""

    def resend(self, client: Client, method: str, params: Raw) -> None:
        """Send it there, where it waits from now on."""


class Beside(Protocol):
    """Who hears, for other connections to the same server, how requests on this one end on their way."""

    def struck(self, kind: str) -> None:
        """A request ended without an answer; `kind` as in channel.Receiver.unanswered."""

    def calmed(self) -> None:
        """One was answered, after trouble on any of them."""


@runtime_checkable
class Unread(Protocol):
    """A channel that knows what came and was not handed on."""

    def unread(self, most: int) -> tuple[bytes, bytes]:
        """Whole lines, and at most so many bytes of an unfinished one."""


class Reply:
    """A waiter that a coroutine awaits; for the hub's own few requests, never for an agent's."""

    __slots__ = ("deadline", "error", "event", "hard", "idle", "result", "uncounted")

    def __init__(self, deadline: float) -> None:
        self.deadline = self.hard = deadline
        self.idle = 0.0
        #: If it fails on its way, that is no strike.
        self.uncounted = False
        self.event = anyio.Event()
        self.result: bytes = b""
        self.error: JSONRPCError | TransportError | RemoteProtocolError | None = None

    def answered(self, env: Envelope) -> None:
        if env.error:
            e = jsonrpc.read_error(env.error)
            data: Any = None
            if 0 < len(e.data) <= MAX_ERROR_DATA:
                try:
                    data = msgspec.json.decode(e.data)
                except (msgspec.DecodeError, RecursionError):
                    data = None
            self.error = JSONRPCError(e.code, e.message, data)
        else:
            self.result = bytes(env.result)
        self.event.set()

    def unanswered(self, kind: str, message: str) -> None:
        if kind == "unreadable":
            self.error = RemoteProtocolError(f"the server's answer cannot be read: {message}")
        else:
            self.error = TransportError(message, kind=kind)
        self.event.set()

    def progressed(self, params: Raw) -> None:
        pass


class Client:
    """One connection's requests. Implements channel.Receiver; made before the channel, given it by `use`."""

    def __init__(
        self,
        listener: Listener,
        roots: bytes = b"[]",
        *,
        sampling: bool = False,
        declares: bytes | None = None,
        extension: bytes = b"",
    ) -> None:
        if declares is None:
            declares = capability_sets.WITH_SAMPLING if sampling else capability_sets.SHARED
        #: What a legacy server is told that its client can do.
        self.declares = declares
        #: What every server is told besides, as a member of the capabilities; b"" = nothing.
        self.extension = extension
        self.sampling = b'"sampling"' in declares
        #: It makes tasks, and is told that they can be followed; how many are.
        self.tasks = False
        self.followed = 0
        self.era: Era = "legacy"
        self.version = LATEST_LEGACY
        self.ready = False
        self.gone = ""
        self.over = False
        self.counters: Counter[str] = Counter()
        self._listener = listener
        #: What mcphub itself knows of roots: the list of a `roots/list` result.
        self.roots = roots
        self._pending = Pending()
        #: Requests of the hub's own.
        self._own = 0
        #: How often the server gave a sign of life: an answer, or progress of a call.
        self.signs = 0
        self.channel: Channel | None = None
        self._loop = asyncio.get_running_loop()
        self._sweeping = False
        self._noise_lines = self._noise_bytes = 0
        self._strikes = strikes.NONE
        #: Who is told of the strikes here; None = nobody.
        self.beside: Beside | None = None
        #: What it says is what a program writes to its stdout.
        self.stdout = True
        #: Who keeps what it writes there that is no message, None = nobody.
        self.strays: Strays | None = None
        #: What agents are told of its end where nobody says how its program ended (`bury`) in time; "" = nobody will.
        self.parting = ""
        #: This machine has no way to its host: requests that fail say nothing of the server.
        self.severed = False
        #: There is noise or a strike that the next message, or the next answer, makes smaller.
        self._troubled = False
        #: Requests were sent whose results one and the same takes.
        self._crowded = False
        #: Requests that the server's last session did not act on, with who waits for them.
        self.returned: dict[int, Waiter] = {}
        self._carried: set[int] = set()
        #: Agents watch resources through it, which is use though they ask nothing.
        self.watched = False
        #: Requests that were withdrawn: its server may not know of it yet.
        self.withdrew = Withdrawn()
        self._forgetting = False
        #: The server reads what it is sent in the order in which that is sent, as on a byte stream.
        self.in_order = False
        #: The ping behind what was withdrawn, while it is not answered.
        self.behind: Behind | None = None
        #: What was asked of it since another session of its server was opened has been answered; True = none was.
        self.proven = True
        self._doubted = 0

    def use(self, channel: Channel) -> None:
        self.channel = channel

    @property
    def stream(self) -> bool:
        """Its channel takes several frames at once."""
        return getattr(self.channel, "stream", False)

    @property
    def calls(self) -> int:
        """Requests in flight that an agent waits for, and tasks that it waits for between two of them; the hub's own (a
        listen that stays open) are not counted."""
        return sum(1 for w in self._pending.waiting.values() if w.idle) + self.followed

    @property
    def asked(self) -> int:
        """Requests of agents so far, sent or carried over; grows with each."""
        return self._pending.last - self._own

    # --- out ---------------------------------------------------------------------------------------------------------

    def waiting(self) -> Mapping[int, Waiter]:
        """The requests in flight, in the order in which they were sent."""
        return self._pending.waiting

    def _current(self) -> int | None:
        return self.channel.current if self.channel is not None else None

    def next_id(self) -> int:
        """The id, and progress token, of the request that is sent next."""
        return self._pending.last + 1

    def call_tool(self, waiter: Waiter, quoted_name: bytes, arguments: Data, tail: bytes) -> int:
        """Send `tools/call`; `tail` is the `,"_meta":{...}` member or empty. Returns the request's id."""
        pending = self._pending
        mid = pending.last = pending.last + 1
        pending.waiting[mid] = waiter
        assert self.channel is not None
        if self.extension:
            tail = capability_sets.meta_extended(tail, self.extension)
        if len(arguments) < LARGE:
            head = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":' % mid
            self.channel.send(b"".join((head, quoted_name, b',"arguments":', arguments, tail, b"}}\n")))
        else:
            self.channel.send(
                b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%b,"arguments":' % (mid, quoted_name),
                arguments,
                tail + b"}}\n",
            )
        if not self._sweeping:
            self._sweep_later()
        return mid

    def call_tools(
        self, waiters: Sequence[Waiter], quoted_name: bytes, arguments: Sequence[Data], tail: bytes
    ) -> Sequence[int]:
        """`call_tool` for several calls of one tool, on a channel that is a stream. Returns their ids."""
        pending = self._pending
        numbers = range(pending.last + 1, pending.last + 1 + len(waiters))
        pending.last = numbers[-1]
        pending.waiting.update(zip(numbers, waiters, strict=True))
        assert self.channel is not None
        if self.extension:
            tail = capability_sets.meta_extended(tail, self.extension)
        name = b',"method":"tools/call","params":{"name":%b,"arguments":' % quoted_name
        heads = map(b'{"jsonrpc":"2.0","id":%d'.__mod__, numbers)
        frames = zip(heads, repeat(name), arguments, repeat(tail + b"}}\n"))
        self.channel.send(b"".join(chain.from_iterable(frames)))
        self._crowded = True
        if not self._sweeping:
            self._sweep_later()
        return numbers

    def send(self, *parts: Data) -> None:
        if self.channel is not None:
            self.channel.send(*parts)

    def notify(self, method: str, params: bytes = b"") -> None:
        self.send(jsonrpc.notification_frame(method, params))

    def start(self, waiter: Waiter, method: str, params: bytes = b"") -> int:
        """Send a request of the hub's own. `params` are members without braces; the era's `_meta` is added."""
        mid = self._pending.add(waiter)
        self._own += 1
        timed = waiter.deadline != _EVER
        if self.era == "modern":
            params += (b"," if params else b"") + b'"_meta":{%b}' % HUB_META
            if self.extension:
                params = capability_sets.meta_extended(params, self.extension)
        self.send(jsonrpc.request_frame(mid, method, b"{%b}" % params))
        if timed and not self._sweeping:
            self._sweep_later()
        return mid

    def send_request(self, waiter: Waiter, method: str, params: bytes) -> int:
        """Send an agent's request; `params` are members without braces, `_meta` among them. Returns its id."""
        mid = self._pending.add(waiter)
        if self.extension:
            params = capability_sets.meta_extended(params, self.extension)
        self.send(jsonrpc.request_frame(mid, method, b"".join((b"{", params, b"}"))))
        if not self._sweeping:
            self._sweep_later()
        return mid

    async def request(self, method: str, params: bytes = b"", *, timeout: float) -> bytes:
        """Send a request and await its result as bytes. When the waiting is cancelled the server is told, but for
        `initialize`, which must not be cancelled. Raises JSONRPCError, RemoteProtocolError, TransportError (kind
        timeout, lost)."""
        if self.over:
            raise TransportError(self.gone or "the connection is closed")
        reply = Reply(self._loop.time() + timeout)
        mid = self.start(reply, method, params)
        try:
            await reply.event.wait()
        except BaseException:
            if method == "initialize":
                self._pending.take(mid)
            else:
                self.withdraw(mid, "")
            raise
        if reply.error is not None:
            raise reply.error
        return reply.result

    async def probe(self, params: bytes, limit: float, late: Waiter) -> bytes | None:
        """Send `server/discover` with these params and await its result; None after `limit` seconds of silence, and
        whatever comes later goes to `late`. Raises JSONRPCError, RemoteProtocolError, TransportError."""
        if self.over:
            raise TransportError(self.gone or "the connection is closed")
        reply = Reply(float("inf"))
        mid = self._pending.add(reply)
        self._own += 1
        if self.extension:
            params = capability_sets.meta_extended(params, self.extension)
        self.send(jsonrpc.request_frame(mid, "server/discover", b"{%b}" % params))
        with anyio.move_on_after(limit):
            await reply.event.wait()
        if not reply.event.is_set():
            self._pending.waiting[mid] = late
            return None
        if reply.error is not None:
            raise reply.error
        return reply.result

    def withdraw(self, mid: int, reason: str) -> bool:
        """Stop waiting for a request and tell the server, once; its late answer is dropped and counted."""
        waiter = self._pending.take(mid)
        if waiter is None:
            return self.returned.pop(mid, None) is not None
        self._cancel(mid, reason)
        self._withdrawn(waiter, mid, self._loop.time())
        self._ping_behind()
        return True

    def untouched(self, mid: int) -> bool:
        """Whether this request waits at the channel still, so that its server has certainly not acted on it."""
        ask = getattr(self.channel, "untouched", None)
        return ask is not None and bool(ask(mid))

    def release(self, mid: int) -> Waiter | None:
        """Its waiter, who does not wait here any more; for a request that was not sent."""
        self.withdrew.lapsed(mid)
        return self._pending.take(mid)

    def unread(self, within: float) -> list[One]:
        """What was withdrawn and its server may not know of yet, the oldest first; where it reads in no known order,
        what was so within so many seconds."""
        if self.in_order:
            return self.withdrew.unread(self._pending.waiting, self._pending.last)
        return self.withdrew.since(self._loop.time() - within)

    def _withdrawn(self, waiter: Waiter, mid: int, now: float) -> None:
        if self.era == "legacy":  # a modern server asks by its answers alone
            if not self.in_order:
                self.withdrew.read_until(now - LONG_AGO)
                if not self._forgetting:
                    self._forgetting = True
                    self._loop.call_later(LONG_AGO, self._forget)
            self.withdrew.add(waiter, mid, now, self._pending.last)

    def _forget(self) -> None:
        """What was withdrawn long ago is not remembered, though nothing more is withdrawn."""
        self.withdrew.read_until(self._loop.time() - LONG_AGO)
        self._forgetting = bool(self.withdrew)
        if self._forgetting:
            self._loop.call_later(LONG_AGO / 2, self._forget)

    def _ping_behind(self) -> None:
        """Learn when its server has read what was withdrawn. One ping is on its way at a time: what is withdrawn behind
        it gets another one then."""
        if self.behind is not None or not self.in_order or self.era != "legacy" or not self.ready or self.over:
            return
        if any(one.waiter.idle for one in self.unread(0)):  # an agent's: the hub's own requests make no server ask
            self.behind = Behind(self._loop.time(), self._has_read)
            self.start(self.behind, "ping")

    def _has_read(self) -> None:
        self.behind = None
        self._ping_behind()

    def _cancel(self, mid: int, reason: str) -> None:
        self.notify(
            "notifications/cancelled",
            b'{"requestId":%d,"reason":%b}' % (mid, jsonrpc.quote(reason or "no longer needed")),
        )

    # --- time --------------------------------------------------------------------------------------------------------

    def _sweep_later(self) -> None:
        self._sweeping = True
        self._loop.call_later(SWEEP, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = False
        now = self._loop.time()
        for mid, waiter in self._pending.overdue(now):
            self.counters["timeouts"] += 1
            waits = waiter.idle and self.untouched(mid)  # an agent's: the hub's own need not know
            self._cancel(mid, "no answer in time")
            if waits:
                waiter.unanswered("overdue", f"its time was over while it waited in mcphub; {_UNTOUCHED}")
                continue
            self._withdrawn(waiter, mid, now)
            waiter.unanswered("timeout", "no answer in time")
        self._ping_behind()
        # What waits for ever (a listen) needs no clock: an idle connection must cost nothing.
        if not self.over and any(w.deadline != _EVER for w in self._pending.waiting.values()):
            self._sweep_later()

    # --- in: channel.Receiver ----------------------------------------------------------------------------------------

    def burst(self, lines: Sequence[bytes]) -> bool:
        """Several messages at once, where they are results that one and the same takes; False = nothing was done with
        them, and they must come one by one."""
        if not self._crowded or self._troubled:
            return False
        found = jsonrpc.several_results(lines)
        waiting = self._pending.waiting
        try:
            waiters = [waiting[mid] for mid in found[0]]
            crowds = {waiter.crowd for waiter in waiters}  # type: ignore[attr-defined]
        except (KeyError, AttributeError):
            crowds = set()
        crowd: Crowd | None = crowds.pop() if len(crowds) == 1 else None
        if crowd is None or not crowd.answered(waiters, found[1]):
            self._crowded = False  # until there are such calls again
            return False
        deque(map(waiting.pop, found[0]), 0)
        self.signs += len(waiters)
        return True

    def frame(self, line: bytes | memoryview) -> None:
        try:
            env = jsonrpc.decode(line)
        except NotAMessage as e:
            self._not_a_message(line, e)
            return
        if self._troubled:
            self._calm(env)
        if type(env) is Mended:
            self._mended()
        if env.method is None:
            mid = env.id
            waiter = self._pending.waiting.pop(mid, None) if type(mid) is int else self._pending.take(mid)
            if waiter is None:
                self.counters["unknown_replies"] += 1
                if type(env.id) is int:
                    self.withdrew.late(env.id)
                if env.id is None:
                    error = jsonrpc.read_error(env.error)
                    self._note("null_id", f"an error without an id: {error.message} ({error.code})")
                return
            self.signs += 1
            if type(env.id) is str:
                self._note("id_type", f"answered with the id as a string: {env.id!r}")
            waiter.answered(env)
        elif env.id is jsonrpc.UNSET:
            if env.method == "notifications/progress":
                self._progress(env.params)
            else:
                self._listener.notified(env.method, env.params)
        else:
            self._asked(env)

    def _calm(self, env: Envelope) -> None:
        """A message came: noise is over; an answer speaks for the way to the server too."""
        self._noise_lines = self._noise_bytes = 0
        if self.strays is not None and self.ready:
            self.strays.calmed()
        if env.method is None:
            self._strikes = self._strikes.answered()
            if self.beside is not None:
                self.beside.calmed()
            if type(env.id) is int and env.id > self._doubted:
                self.proven = True
        self._troubled = self._strikes is not strikes.NONE or not self.proven

    def too_long(self, head: bytes, message: str) -> None:
        self._note("too_long", message)
        found = [w for w in map(self._pending.take, jsonrpc.unreadable_reply(head)) if w is not None]
        if not found and not jsonrpc.is_request(head):
            # Whose answer it was is not known: it may have been anybody's.
            found = [waiter for waiter in self._pending.waiting.values() if waiter.idle]
            for mid in [mid for mid, waiter in self._pending.waiting.items() if waiter.idle]:
                del self._pending.waiting[mid]
        for waiter in found:
            self.withdrew.lapsed()  # at most one of them was answered
            waiter.unanswered("unreadable", message)

    def unanswered(self, request_id: int, kind: str, message: str) -> None:
        waiter = self._pending.take(request_id)
        if waiter is None:
            return
        if kind == "session":
            if isinstance(waiter, Reply):  # whoever awaits it would be in the way of the next session
                kind = "lost"
            elif request_id not in self._carried:
                self.returned[request_id] = waiter
                return
            else:
                kind, message = "session_over", "its session was over, and then the next one too"
        if kind == "needs_auth" and self.ready:
            # Of this request alone: what else the server does may need no sign-in (case C093).
            self._note("needs_auth", f"refuses a request: {message}")
        if self.severed and kind in strikes.COUNTED:
            message = f"{OFFLINE}: {message}"
        elif not (isinstance(waiter, Reply) and waiter.uncounted):
            self._strikes = self._strikes.failed(kind)
            if self.beside is not None:
                self.beside.struck(kind)
        self._troubled = self._troubled or self._strikes is not strikes.NONE
        self.signs += kind in strikes.HEARD
        waiter.unanswered(kind, message)
        if self._strikes.enough and self.ready and not self.over:
            self._fail("strikes", f"too many requests in a row failed: {message}")

    def missed(self, message: str) -> None:
        """A probe stays unanswered: a strike, which ends the connection with this message where it was one too many."""
        self.counters["missed_probes"] += 1
        self._strikes = self._strikes.failed("silent")
        self._troubled = True
        if self._strikes.enough and not self.over:
            self._fail("silent", message)

    def strike(self, kind: str) -> bool:
        """A request on another connection to its server ended so; returns whether this one has had enough, which its
        own next failure ends."""
        self._strikes = self._strikes.failed(kind)
        self.trouble()
        return self._strikes.enough

    def trouble(self) -> None:
        """There was trouble on another connection to its server: the next answer here says that it is over."""
        self._troubled = True

    def calm(self) -> None:
        """A request on another connection to its server was answered."""
        self._strikes = self._strikes.answered()

    def give_up(self, message: str) -> None:
        """The connection leads nowhere: end it."""
        if not self.over and not self.gone:
            self._fail("checkup", message)

    def doubt(self) -> None:
        """Another session of its server is opened, which may have ended this one."""
        self.proven, self._doubted, self._troubled = False, self._pending.last, True

    def continue_after(self, last: int) -> None:
        """Use ids above this one: those of requests that are carried over keep theirs."""
        self._pending.last = max(self._pending.last, last)

    def carry_on(self, request_id: int, waiter: Waiter, frame: bytes) -> None:
        """Send a request that another connection to this server gave back, under the id it had."""
        self._pending.waiting[request_id] = waiter
        self._carried.add(request_id)
        if isinstance(waiter, Mover):
            waiter.moved(self)
        self.send(frame)
        if not self._sweeping:
            self._sweep_later()

    def lost(self, reason: str) -> None:
        self.over = True
        self.withdrew.clear()  # they know their connection, and a cycle through them is never collected
        if self.strays is not None:
            # What mcphub itself has ended was cut anywhere.
            channel: object = self.channel
            self.strays.end(channel.unread(_TOLD)[1] if isinstance(channel, Unread) and not self.gone else b"")
        waits = bool(self.parting) and not self.gone and self.ready
        self.gone = self.gone or reason
        if isinstance(self.channel, Held):  # the server cannot have acted on what it was not sent
            for request_id in self.channel.release():
                self.unanswered(request_id, "session_over", self.gone or "the connection ended while it was opened")
        if waits:
            self._part()
        else:
            self.bury("")
        self._listener.ended(self.gone)

    def _part(self) -> None:
        """Agents are told how its program ended, as soon as that is known; the hub itself need not know."""
        waiting = self._pending.waiting
        for mid in [mid for mid, waiter in waiting.items() if not waiter.idle]:
            if (waiter := waiting.pop(mid, None)) is not None:
                waiter.unanswered("lost", self.gone or "the server closed the connection")
        if waiting:
            self._loop.call_later(PARTING, self.bury, self.parting)

    def bury(self, how: str) -> None:
        """The connection is lost, and it has ended so: whoever waits for an answer is told. "" = as it says itself."""
        why = how or self.gone or "the server closed the connection"
        waiting = self._pending.waiting
        for mid in [mid for mid, waiter in waiting.items() if waiter.idle and self.untouched(mid)]:
            if (waits := waiting.pop(mid, None)) is not None:
                waits.unanswered("unsent", f"the connection ended while it waited in mcphub ({why}); {_UNTOUCHED}")
        for waiter in self._pending.drain():
            waiter.unanswered("lost", why)
        self.withdrew.clear()

    # -----------------------------------------------------------------------------------------------------------------

    def note(self, counter: str, text: str) -> None:
        """Count something odd that the server did; the first of a kind are told to a person."""
        self._note(counter, text)

    def _note(self, counter: str, text: str) -> None:
        if self._counts(counter):
            self._listener.noted(text)

    def _mended(self) -> None:
        self.counters["mended_surrogates"] += 1
        if self.counters["mended_surrogates"] == 1:
            self._listener.noted("sent half a surrogate pair, which is passed on as U+FFFD")

    def _counts(self, counter: str) -> bool:
        """Count it; whether a person is told."""
        self.counters[counter] += 1
        return self.counters[counter] <= 3

    def _not_a_message(self, line: bytes | memoryview, e: NotAMessage) -> None:
        if e.kind == "batch" and self.version == BATCH_VERSION and self.ready and self.era == "legacy":
            try:
                parts = jsonrpc.split_batch(line)
            except NotAMessage as inner:
                self._note(inner.kind, str(inner))
                return
            for part in parts:
                self.frame(memoryview(part))
            return
        if self._counts(e.kind):
            self._listener.noted(f"{e}: {bytes(line[:_TOLD]).decode('utf-8', 'replace')!r}")
        if e.kind == "content-length" and not self.ready:
            self._fail("content_length", str(e))
            return
        answered = jsonrpc.unreadable_reply(line) if e.kind in ("json", "encoding", "envelope", "batch") else ()
        waiters = [w for w in map(self._pending.take, answered) if w is not None]
        for waiter in waiters:
            waiter.unanswered("unreadable", str(e))
        if waiters:
            return
        self._troubled = True
        if self.strays is not None:
            self.strays.take(line)
        self._noise_lines += 1
        self._noise_bytes += len(line)
        most_lines = NOISE_LINES_AFTER if self.ready else NOISE_LINES_BEFORE
        most_bytes = NOISE_BYTES_AFTER if self.ready else NOISE_BYTES_BEFORE
        if self._noise_lines > most_lines or self._noise_bytes > most_bytes:
            where = "writes non-protocol data to stdout" if self.stdout else "sends what is no message of the protocol"
            self._fail("not_protocol", f"the server {where}")

    def _fail(self, kind: str, message: str) -> None:
        self.counters["failed_" + kind] += 1
        self.gone = self.gone or message
        if self.channel is not None:
            self.channel.abort()

    def _progress(self, raw: Raw) -> None:
        try:
            fields = _params(raw)
            token = _token(fields["progressToken"])
        except (msgspec.DecodeError, KeyError, RecursionError):
            self.counters["bad_progress"] += 1
            return
        waiter = self._pending.progress(token, self._loop.time())
        if waiter is None:
            self.counters["late_progress"] += 1
        else:
            self.signs += 1
            if type(token) is str:
                self._note("id_type", f"sent progress with the token as a string: {token!r}")
            try:
                _finite(fields.get("progress", EMPTY))
            except (msgspec.DecodeError, RecursionError):
                # It lives, which is all that can be told of it: no agent could read the rest.
                self.counters["bad_progress"] += 1
                return
            waiter.progressed(raw)

    def _asked(self, env: Envelope) -> None:
        """A request of the server's. Modern servers send none; the client must not answer them there."""
        self.counters["server_requests"] += 1
        if self.era == "modern" and self.ready:
            self._note(
                "server_request_modern", f"a modern server sent the request {str(env.method)[:60]!r}, not answered"
            )
            return
        mid = jsonrpc.encode_id(env.id if isinstance(env.id, int | str) else None)
        if env.method == "ping":
            self.send(jsonrpc.result_frame(mid, b"{}"))
        elif self.ready and self._listener.asked(mid, str(env.method), env.params, self._current()):
            pass
        elif env.method == "roots/list":
            self.send(jsonrpc.result_frame(mid, b'{"roots":%b}' % self.roots))
        elif env.method in ("sampling/createMessage", "elicitation/create"):
            self._note("refused_requests", f"asked for {env.method}, which nobody can be asked now")
            message = f"{env.method} cannot be carried to an agent now"
            self.send(jsonrpc.error_frame(mid, jsonrpc.METHOD_NOT_FOUND, message))
        else:
            self.send(jsonrpc.error_frame(mid, jsonrpc.METHOD_NOT_FOUND, f"Method not found: {str(env.method)[:80]}"))
