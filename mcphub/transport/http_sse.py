"""Owns the HTTP+SSE transport of the first MCP: one event stream for all that comes, a POST for each message that goes.

It must not know agents, states or how a connection is retried, nor which HTTP client sends what it says. Source: MCP
spec 2024-11-05, basic/transports. The stream's first event names where messages are posted; that is taken only within
the stream's own origin, since each POST carries the credentials of the entry. There is no taking up again: when the
stream ends, so does the session, and another connection begins with another endpoint and another handshake.
"""

from __future__ import annotations

import importlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread

from mcphub.channel import Data, Receiver
from mcphub.errors import TransportError
from mcphub.protocol import http_answer, jsonrpc
from mcphub.protocol.eventstream import EventDecoder, EventTooLarge, ServerSentEvent
from mcphub.protocol.http_answer import SESSION_GONE, Clean, Refusal, as_it_is
from mcphub.protocol.jsonrpc import NotAMessage
from mcphub.protocol.mirrored import Told
from mcphub.spec import HttpSpec, ServerSpec
from mcphub.transport import sign_in
from mcphub.transport.admission import Admission
from mcphub.transport.framing import MAX_MESSAGE
from mcphub.transport.http_request import (
    RATE_TRIES,
    HttpRequest,
    after_signer,
    common_headers,
    head_of,
    rest_of,
    time_for,
    worded,
)
from mcphub.transport.link import Surroundings
from mcphub.transport.signing import signer_of
from mcphub.transport.stderr import StderrRing

if TYPE_CHECKING:
    from mcphub.net import Answer, Header, HttpClient

#: Of the time that the whole start may take, what the stream may take to open and to name its endpoint.
OPENING = 0.9
#: The same, in seconds, of a server that was asked for Streamable HTTP: there a stream may be for something else.
OPENING_UNASKED = 5.0
#: Requests whose POST is on its way at once, and from how many the server counts as overloaded.
MAX_POSTS = 100
FULL_AT = 1000
#: Seconds in which the answer to the POST of a notification, or of a request of mcphub's own, must begin. That of an
#: agent's may take as long as the request: some servers answer the POST only when they are through with it.
BEGIN = 60.0
#: Seconds that a POST may go on after its request was answered on the stream.
AFTER_ANSWER = 1.0
#: How long other messages of a session that is gone may take to hear the same, seconds.
LAST_VERDICTS = 1.0
#: Bytes read of what a POST is answered with: what counts comes on the stream.
MAX_IGNORED = 1 << 20
#: Messages of one read that are handed on before others have their turn.
MESSAGE_BUDGET = 64
#: Odd things of one kind that are told.
MAX_NOTES = 3


class HttpSseChannel:
    """Implements channel.Channel, and link.Link, over one event stream. `run` owns the tasks; without it nothing is
    sent. Nothing on the stream says which request it belongs to, so `current` is never set."""

    pid: int | None = None

    def __init__(
        self,
        client: HttpClient,
        spec: ServerSpec,
        receiver: Receiver,
        note: Callable[[str], None],
        on_error: Callable[[BaseException], None] | None = None,
        clean: Clean = as_it_is,
        admission: Admission | None = None,
        count: Callable[[str], None] | None = None,
    ) -> None:
        self.full = False
        self.current: int | None = None
        self.returned: dict[int, bytes] = {}
        self.retry_after = 0.0
        self._client = client
        self._receiver = receiver
        self._tell = note
        self._clean = clean
        self._admission = admission
        self._count = count
        assert isinstance(spec.transport, HttpSpec)
        self._spec = spec
        self._url = str(spec.transport.url)
        self._patience = spec.startup_timeout * OPENING if spec.transport.kind == "sse" else OPENING_UNASKED
        self._on_error = on_error
        self._notes: Counter[str] = Counter()
        self._common, self._signed = common_headers(spec.transport.headers, client.credentials)
        self._posted: list[Header] = [
            (b"Accept", b"application/json, text/event-stream"),
            (b"Content-Type", b"application/json"),
            *self._common,
        ]
        self._tasks: anyio.abc.TaskGroup | None = None
        self._over = False
        # Where messages are posted, or why nowhere; one of the two once `_open` is set.
        self._endpoint: HttpClient | None = None
        self._refusal = Refusal("lost", "the event stream was closed")
        self._open = anyio.Event()
        self._gate: anyio.Event | None = None
        self._posting: dict[int, HttpRequest] = {}
        self._places = anyio.CapacityLimiter(MAX_POSTS)
        self._gone: anyio.Event | None = None

    @property
    def channel(self) -> HttpSseChannel:
        return self

    async def exit_code(self, wait: float) -> int | None:
        return None

    @property
    def deaf(self) -> bool:
        return False

    @property
    def waits_for(self) -> str:
        return self._client.waits_for

    def usable(self, tools: tuple[bytes, ...]) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
        return tools, ()

    def way_changed(self) -> None:
        self._client.way_changed()

    # --- channel.Channel ---------------------------------------------------------------------------------------------

    def send(self, *parts: Data) -> None:
        if self._over or self._tasks is None:
            return
        body = b"".join(parts).rstrip(b"\n")
        try:
            env = jsonrpc.decode(body)
        except NotAMessage as e:  # what we write ourselves is always one
            self._odd("unsent", f"a message of mcphub's own was not sent: {e}")
            return
        told = Told(env)
        if isinstance(env.id, int) and env.method is not None:
            request = HttpRequest(env.id, env.method, body, told)
            self._posting[request.mid] = request
            self.full = len(self._posting) >= FULL_AT
            self._tasks.start_soon(self._post_request, request)
        elif env.method == "notifications/cancelled" and isinstance(told.cancels, int):
            cancelled = self._posting.get(told.cancels)
            if cancelled is not None and not cancelled.sent:
                cancelled.cancelled = True
                cancelled.scope.cancel()
            else:
                self._tasks.start_soon(self._post_other, body, env.method, cancelled)
        else:
            what = env.method or "an answer to the server's question"
            gate, first = self._gate, env.method == "notifications/initialized"
            if first:
                gate = self._gate = anyio.Event()
            self._tasks.start_soon(self._post_other, body, what, None, gate, first)

    def abort(self) -> None:
        self._end("")

    def untouched(self, mid: int) -> bool:
        """As that of streamable_http."""
        posting = self._posting.get(mid)
        return posting is not None and not posting.sent and not posting.answered

    def _end(self, reason: str) -> None:
        if self._over:
            return
        self._over = True
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        self._receiver.lost(reason)

    def _odd(self, kind: str, text: str) -> None:
        self._notes[kind] += 1
        if self._count is not None:
            self._count(kind)
        if self._notes[kind] <= MAX_NOTES:
            self._tell(text)

    def _internal(self, error: Exception) -> None:
        if self._on_error is not None:
            self._on_error(error)
        self._end(f"internal error: {type(error).__name__}: {error}")

    # --- the stream --------------------------------------------------------------------------------------------------

    async def run(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Own the tasks until the channel's end."""
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._listen)
            task_status.started()
            await anyio.sleep_forever()

    async def _listen(self) -> None:
        """The stream from its beginning to its end, which is the end of everything where it had begun to be used."""
        try:
            refusal = await self._stream()
        except TransportError as e:
            refusal = Refusal(e.kind, str(e))
        except EventTooLarge as e:
            refusal = Refusal("unreadable", str(e))
        except Exception as e:  # a fault of ours
            self._internal(e)
            return
        if self._endpoint is not None:
            self._end(refusal.message)
            return
        self._refusal = refusal
        self.retry_after = refusal.retry_after
        self._open.set()

    async def _stream(self) -> Refusal:
        """Hand on what comes; why nothing more does, or why nothing came at all."""
        headers = [(b"Accept", b"text/event-stream"), (b"Cache-Control", b"no-store"), *self._common]
        with anyio.move_on_after(self._patience) as opening:
            async with self._client.exchange("GET", headers) as answer:
                head = head_of(answer)
                if head.streams:
                    return await self._follow(answer, opening)
                body = await answer.read(MAX_IGNORED)
            reply = http_answer.reply(
                0, head, body or b"", session=False, probing=False, now=_now(), clean=self._clean
            )
            if isinstance(reply, Refusal) and not head.ok:
                return reply
            if isinstance(reply, Refusal):
                why = reply.message
            else:
                text = http_answer.said_in(0, reply, self._clean)
                why = f"HTTP {head.status}{text and f': {text}'}"
            return Refusal("refused", f"{why}, which is no event stream")
        if missing := self._client.waits_for:
            return Refusal("unreachable", f"no {missing} within {self._patience:g} s")
        return Refusal("no_response", f"the event stream named no endpoint within {self._patience:g} s")

    async def _follow(self, answer: Answer, opening: anyio.CancelScope) -> Refusal:
        decoder = EventDecoder()
        turn = 0
        async with aclosing(answer.chunks()) as chunks:
            async for chunk in chunks:
                for event in decoder.feed(chunk):
                    if event.data is None:
                        continue
                    if event.name == "endpoint":
                        self._named(event.data)
                        opening.deadline = float("inf")
                    elif event.name in ("", "message"):
                        self._brought(event)
                    turn += 1
                    if turn == MESSAGE_BUDGET:
                        turn = 0
                        await anyio.lowlevel.checkpoint()
        if self._endpoint is None:
            return Refusal("refused", "the event stream ended before it named an endpoint")
        return Refusal("lost", "the server ended its event stream")

    def _named(self, data: bytes) -> None:
        """The endpoint is the first one that is named, and it is checked before anything goes there (case C082).
        Raises TransportError."""
        if self._endpoint is not None:
            self._odd("second_endpoint", "named another endpoint on a stream that had one; it is not used")
            return
        self._endpoint = self._client.within(data.decode("utf-8", "replace").strip())
        self._open.set()

    def _brought(self, event: ServerSentEvent) -> None:
        if self._endpoint is None:
            self._odd("before_endpoint", "sent a message before it named its endpoint; it is not used")
        elif event.data is not None:
            self._bring(http_answer.one_line(event.data))

    def _bring(self, data: bytes) -> None:
        if self._posting:
            self._settle(data)
        try:
            self._receiver.frame(memoryview(data))
        except Exception as e:  # an exception there closes this channel only
            self._internal(e)

    def _settle(self, data: bytes) -> None:
        """A request that is answered on the stream has nothing more to hear on its POST."""
        try:
            env = jsonrpc.decode(data)
        except NotAMessage:
            return
        request = self._posting.get(env.id) if env.method is None and isinstance(env.id, int) else None
        if request is not None:
            request.answered = True
            request.scope.deadline = anyio.current_time() + AFTER_ANSWER

    # --- what is posted ----------------------------------------------------------------------------------------------

    async def _post_request(self, request: HttpRequest) -> None:
        """Deliver one request, or say why it was not; its answer is the stream's."""
        gate = self._gate
        refusal: Refusal | None = None
        try:
            with request.scope:
                await self._open.wait()
                if gate is not None:
                    await gate.wait()
                if not request.cancelled:
                    async with self._places:
                        refusal = await self._ask(request)
        except Exception as e:  # a fault of ours must not take the other requests along
            self._internal(e)
        # Not where all tasks are cancelled: `untouched` is asked yet.
        del self._posting[request.mid]
        self.full = len(self._posting) >= FULL_AT
        if self._gone is not None and not self._posting:
            self._gone.set()
        if refusal is None and request.sent and self._admission is not None:
            self._admission.accepted()
        if refusal is not None and not request.answered and not request.cancelled:
            if refusal.kind == "session":
                self.returned[request.mid] = request.body + b"\n"
                self._receiver.unanswered(request.mid, "session", SESSION_GONE)
                self._session_gone()
            else:
                refusal = after_signer(refusal, self._client.signer)
                self.retry_after = refusal.retry_after
                text = worded(request.method, refusal, self._signed, self._client.signer, self._client.between)
                if refusal.kind == "needs_auth" and not self._signed and self._endpoint is None:
                    text = await sign_in.explained(self._client, self._url, refusal)
                if self._admission is not None and refusal.of_credentials:
                    self._admission.refused(text)
                self._receiver.unanswered(request.mid, refusal.kind, text)

    async def _ask(self, request: HttpRequest) -> Refusal | None:
        tries = 1 if request.method == "initialize" else RATE_TRIES
        until = anyio.current_time() + time_for(request.method, self._spec)
        while not (request.cancelled or self._over):  # else it counts as untouched
            if (refusal := await self._attempt(request)) is None:
                return None
            tries -= 1
            rest = rest_of(refusal, until - anyio.current_time()) if tries else None
            if rest is None:
                return refusal
            request.sent = False  # refused, so not acted on
            await anyio.sleep(rest)
        return None

    async def _attempt(self, request: HttpRequest) -> Refusal | None:
        if self._endpoint is None:
            return self._refusal
        request.sent = True
        try:
            begin = BEGIN if request.own else None
            async with self._endpoint.exchange("POST", self._posted, request.body, begin=begin) as answer:
                head = head_of(answer)
                if head.ok:
                    await _drain(answer)
                    return None
                body = await answer.read(MAX_MESSAGE)  # what counts may be here as well
        except TransportError as e:
            return Refusal(e.kind, str(e))
        reply = http_answer.reply(
            request.mid, head, body or b"", session=True, probing=False, now=_now(), clean=self._clean
        )
        if isinstance(reply, Refusal):
            return reply
        if request.answered:  # on the stream
            return None
        reply, request.answered = http_answer.addressed(request.mid, reply)
        self._bring(reply)
        # Of a batch, or of an id that is not the one asked with, only the receiver knows what it answered.
        return None if request.answered else Refusal("unreadable", "the answer is to another request")

    async def _post_other(
        self,
        body: bytes,
        what: str,
        cancelled: HttpRequest | None,
        gate: anyio.Event | None = None,
        first: bool = False,
    ) -> None:
        """A notification, or the answer to a question of the server's. `gate` is closed until the server has heard
        `notifications/initialized`, which nothing may overtake; `first`: this is it."""
        try:
            await self._open.wait()
            if gate is not None and not first:
                await gate.wait()
            if self._endpoint is None:
                return
            async with self._endpoint.exchange("POST", self._posted, body, begin=BEGIN) as answer:
                head = head_of(answer)
                if first and gate is not None:
                    gate.set()
                if head.ok:
                    await _drain(answer)
                    return
                said = await answer.read(MAX_IGNORED)
            refusal = http_answer.reply(0, head, said or b"", session=True, probing=False, now=0)
            if isinstance(refusal, Refusal) and refusal.kind == "session":
                self._session_gone()
            else:
                self._odd("undelivered", f"answers {what} with HTTP {head.status}")
        except TransportError as e:
            self._odd("undelivered", f"{what} could not be delivered: {e}")
        except Exception as e:  # a fault of ours
            self._internal(e)
        finally:
            if gate is not None and first:
                gate.set()
            if cancelled is not None:
                cancelled.cancelled = True
                cancelled.scope.cancel()

    def _session_gone(self) -> None:
        """The stream may stay open behind a proxy while the server that began it is another one."""
        if self._gone is None and self._tasks is not None and not self._over:
            self._gone = anyio.Event()
            self._tasks.start_soon(self._leave, self._gone)

    async def _leave(self, idle: anyio.Event) -> None:
        """End, after what is on its way had time to hear the same."""
        if self._posting:
            with anyio.move_on_after(LAST_VERDICTS):
                await idle.wait()
        self._end(SESSION_GONE)


async def _drain(answer: Answer) -> None:
    """What a POST is accepted with says nothing, but its connection can be used again once it was read."""
    if not head_of(answer).streams:
        await answer.read(MAX_IGNORED)


def _now() -> float:
    """Wall clock seconds, for a Retry-After that is a date."""
    return time.time_ns() / 1e9


@asynccontextmanager
async def open_http_sse(
    spec: ServerSpec, around: Surroundings, receiver: Receiver, stderr: StderrRing
) -> AsyncIterator[HttpSseChannel]:
    """Hold the stream to the server; what is sent before it has named its endpoint waits for that. Leaving ends it.
    `stderr` gets a line for what is odd. Raises TransportError (kind `config`, and those of its helper)."""
    transport = spec.transport
    assert isinstance(transport, HttpSpec)

    def note(text: str) -> None:
        stderr.feed(f"{text}\n".encode("utf-8", "replace"))

    net = await anyio.to_thread.run_sync(importlib.import_module, "mcphub.net")
    signer = await signer_of(spec, around, note)
    async with net.http_client(str(transport.url), around.environment(), tls=transport.tls, signer=signer) as client:
        for warning in client.warnings:
            note(warning)
        channel = HttpSseChannel(
            client, spec, receiver, note, around.report, around.clean, around.admission, around.count
        )
        async with anyio.create_task_group() as tasks:
            await tasks.start(channel.run)
            try:
                yield channel
            finally:
                channel.abort()
