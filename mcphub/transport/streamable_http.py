"""Owns the Streamable HTTP transport: a POST for each message, and what comes back on it.

It must not know agents, states or how a connection is retried, nor which HTTP client sends what it says. Source: MCP
spec 2026-07-28 and 2025-11-25, basic/transports. A message's era is seen by its `_meta`: modern requests travel alone,
legacy ones in the session that `initialize` began (http_session.py).
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread
import msgspec

from mcphub.channel import Data, Receiver
from mcphub.errors import TransportError
from mcphub.protocol import http_answer, jsonrpc, mirrored
from mcphub.protocol.eventstream import EventDecoder, EventTooLarge
from mcphub.protocol.http_answer import SESSION_GONE, Clean, Refusal, as_it_is
from mcphub.protocol.jsonrpc import Envelope, NotAMessage
from mcphub.protocol.mirrored import Table, Told
from mcphub.spec import HTTP_CALLS, HttpSpec, ServerSpec
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
from mcphub.transport.http_session import GOODBYE, MAX_IGNORED, HttpSession
from mcphub.transport.link import Surroundings
from mcphub.transport.signing import signer_of
from mcphub.transport.stderr import StderrRing

if TYPE_CHECKING:
    from mcphub.net import Answer, Header, HttpClient

#: Requests that travel at once, or twice as many as its entry allows calls; streams that stay open are not counted.
#: Further ones wait here, but for mcphub's own, and from so many on the server counts as overloaded. It is more than
#: there are calls: those wait where agents have their turns (gateway/lanes.py), and here is no turn but the first's.
MAX_RUNNING = 2 * HTTP_CALLS
#: Tasks that are kept for further requests.
MAX_RESTING = 32
FULL_AT = 1000
#: Seconds in which the answer to a notification, a stream that stays open, and any other request of mcphub's own must
#: begin; one that only asks whether somebody answers must end in that time. An agent's request has none but its own: a
#: server may work for minutes and then answer it by one document of JSON.
BEGIN = 60.0
#: Seconds that a stream may stay open after the answer it was for.
AFTER_ANSWER = 1.0
#: How long other requests of a session that is gone may take to hear the same, seconds.
LAST_VERDICTS = 1.0
#: Seconds that a call whose headers were refused waits for a newer list of the tools.
LIST_WAIT = 5.0
#: Messages of one read that are handed on before others have their turn.
MESSAGE_BUDGET = 64
#: Odd things of one kind that are told.
MAX_NOTES = 3

#: What the receiver is told as if the server had said it.
LISTS_CHANGED = tuple(
    jsonrpc.notification_frame(f"notifications/{what}/list_changed")[:-1] for what in ("tools", "prompts", "resources")
)


class HttpChannel:
    """Implements channel.Channel over one server. `run` owns the tasks; without it nothing is sent."""

    def __init__(
        self,
        client: HttpClient,
        headers: Mapping[str, str],
        receiver: Receiver,
        note: Callable[[str], None],
        on_error: Callable[[BaseException], None] | None = None,
        time_for: Callable[[str], float] = lambda method: float("inf"),
        url: str = "",
        clean: Clean = as_it_is,
        admission: Admission | None = None,
        count: Callable[[str], None] | None = None,
        calls: int = 0,
    ) -> None:
        """`calls`: how many its entry allows at once, 0 = it does not say."""
        self.full = False
        self.current: int | None = None
        self.returned: dict[int, bytes] = {}
        self.retry_after = 0.0
        self.deaf = False
        self._client = client
        self._receiver = receiver
        self._tell = note
        self._on_error = on_error
        self._time_for = time_for
        self._url = url
        self._clean = clean
        self._admission = admission
        self._count = count
        self._notes: Counter[str] = Counter()
        self._common, self._signed = common_headers(headers, client.credentials)
        self._posted: list[Header] = [
            (b"Accept", b"application/json, text/event-stream"),
            (b"Content-Type", b"application/json"),
            *self._common,
        ]
        self._tasks: anyio.abc.TaskGroup | None = None
        self._over = False
        self._running: dict[int, HttpRequest] = {}
        #: Tasks that wait for another request.
        self._resting: list[asyncio.Future[HttpRequest]] = []
        self._waiting: dict[int, HttpRequest] = {}
        self._counted = 0
        self._most = 2 * calls
        self._session = HttpSession(client, self._common, self._follow, self._odd, self._session_gone)
        self._gone: anyio.Event | None = None
        self._reached = False
        # A request was lost on the way: when the next one is answered, it may be another server that answers.
        self._doubt = False
        self._lists_modern = False
        self._tables: Mapping[str, Table] = {}
        self._listed = anyio.Event()

    @property
    def waits_for(self) -> str:
        """As link.waits_for."""
        return self._client.waits_for

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
            self._request(HttpRequest(env.id, env.method, body, told))
        elif env.method == "notifications/cancelled":
            self._cancel(told, body, env)
        else:
            if env.method == "notifications/initialized":
                self._session.gate = anyio.Event()
                # A probe that is still unanswered has nothing more to say.
                for running in self._running.values():
                    if running.probes:
                        self._drop(running)
            self._tasks.start_soon(self._post_other, body, env)

    def abort(self) -> None:
        self._end("")

    def untouched(self, mid: int) -> bool:
        """Whether this request waits here, so that its server has certainly not acted on it: it was not sent yet, or
        was refused as one too many, and will be sent again."""
        running = self._running.get(mid)
        return mid in self._waiting or (running is not None and not running.sent and not running.answered)

    def _end(self, reason: str) -> None:
        if self._over:
            return
        self._over = True
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        self._receiver.lost(reason)

    # --- life --------------------------------------------------------------------------------------------------------

    async def run(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Own the tasks until the channel's end."""
        async with anyio.create_task_group() as self._tasks:
            task_status.started()
            await anyio.sleep_forever()

    async def goodbye(self) -> None:
        """End a legacy session, unless the server is gone or has ended it."""
        if self._session.id and self._reached and self._gone is None:
            await self._session.goodbye()

    async def stood(self, wait: float) -> None:
        """Until a legacy session's own stream is there, or is not to be had, at most so many seconds: what a server
        asks there before, it asks nobody."""
        with anyio.move_on_after(wait):
            await self._session.stood.wait()

    def usable(self, tools: tuple[bytes, ...]) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
        """The tools whose annotations can be followed; only modern servers know any (implements link.Link)."""
        if not self._lists_modern:
            return tools, ()
        kept, self._tables, warnings = mirrored.tables(tools)
        self._listed.set()
        return kept, warnings

    def way_changed(self) -> None:
        self._client.way_changed()

    def _odd(self, kind: str, text: str) -> None:
        self._notes[kind] += 1
        if self._count is not None:
            self._count(kind)
        if self._notes[kind] <= MAX_NOTES:
            self._tell(text)

    # --- requests ----------------------------------------------------------------------------------------------------

    def _request(self, request: HttpRequest) -> None:
        if self._gone is not None:
            self._give_back(request)
            return
        if request.method == "initialize":
            self._session.begin()
        elif request.method == "tools/list":
            self._lists_modern = request.modern
        if request.counted and self._counted >= MAX_RUNNING and self._counted >= self._most and not request.own:
            self._waiting[request.mid] = request
            self.full = len(self._waiting) >= FULL_AT
            return
        self._start(request)

    def _start(self, request: HttpRequest) -> None:
        assert self._tasks is not None
        self._running[request.mid] = request
        self._counted += request.counted
        while self._resting:
            rest = self._resting.pop()
            if not rest.done():
                rest.set_result(request)
                return
        self._tasks.start_soon(self._work, request)

    async def _work(self, request: HttpRequest) -> None:
        """One request after the other: a task costs as much as a third of a request on its connection."""
        while True:
            await self._serve(request)
            if self._over or len(self._resting) >= MAX_RESTING:
                return
            rest: asyncio.Future[HttpRequest] = asyncio.get_running_loop().create_future()
            self._resting.append(rest)
            request = await rest

    def _cancel(self, told: Told, body: bytes, env: Envelope) -> None:
        """The modern era ends the stream, the legacy one says so first; what was not sent is simply forgotten."""
        assert self._tasks is not None
        mid = told.cancels
        if not isinstance(mid, int):
            return
        waiting = self._waiting.pop(mid, None)
        request = self._running.get(mid)
        if waiting is not None:
            self.full = len(self._waiting) >= FULL_AT
        elif request is None or request.answered:
            pass
        elif request.modern or not request.sent:
            self._drop(request)
        else:
            request.cancelled = True
            self._tasks.start_soon(self._cancel_legacy, request, body, env)

    def _drop(self, request: HttpRequest) -> None:
        request.cancelled = True
        request.scope.cancel()

    async def _cancel_legacy(self, request: HttpRequest, body: bytes, env: Envelope) -> None:
        await self._post_other(body, env)
        request.scope.cancel()

    async def _serve(self, request: HttpRequest) -> None:
        """One request until its answer, its end or its cancellation."""
        try:
            with request.scope:
                if self._session.gate is not None and not request.modern and not request.cancelled:
                    await self._session.gate.wait()
                await self._ask(request)
        except Exception as e:  # a fault of ours must not take the other requests along
            self._internal(e)
        # Not where all tasks are cancelled: what waits is not sent in that moment, and `untouched` is asked yet.
        del self._running[request.mid]
        self._release(request)
        if self._gone is not None and not self._counted:
            self._gone.set()

    def _release(self, request: HttpRequest) -> None:
        """Its place is another's; once for each request."""
        if not request.counted:
            return
        request.counted = False
        self._counted -= 1
        if self._waiting and not self._over:
            self._start(self._waiting.pop(next(iter(self._waiting))))
            self.full = len(self._waiting) >= FULL_AT

    def _internal(self, error: Exception) -> None:
        if self._on_error is not None:
            self._on_error(error)
        self._end(f"internal error: {type(error).__name__}: {error}")

    async def _ask(self, request: HttpRequest) -> None:
        tries = 1 if request.probes or request.method == "initialize" else RATE_TRIES
        until = anyio.current_time() + self._time_for(request.method)
        while not (request.cancelled or self._over):  # else it counts as untouched
            if (refusal := await self._attempt(request)) is None:
                break
            tries -= 1
            rest = rest_of(refusal, until - anyio.current_time()) if tries else None
            if rest is None:
                break
            request.sent = False  # refused, so not acted on
            await anyio.sleep(rest)
        else:
            return
        if refusal is None:
            if self._doubt:
                self._sure_again()
            if self._admission is not None and self._admission.refusal:
                self._admission.accepted()
            return
        if refusal.kind == "session":
            self._give_back(request)
        else:
            refusal = after_signer(refusal, self._client.signer)
            self.retry_after = refusal.retry_after
            self._doubt = self._doubt or refusal.kind in ("unreachable", "tls", "lost")
            text = worded(request.method, refusal, self._signed, self._client.signer, self._client.between)
            if refusal.kind == "needs_auth" and not self._signed and (request.probes or request.method == "initialize"):
                text = await sign_in.explained(self._client, self._url, refusal)
            if self._admission is not None and refusal.of_credentials:
                self._admission.refused(text)
            self._unanswered(request, refusal.kind, text)

    async def _attempt(self, request: HttpRequest) -> Refusal | None:
        """Send it once, and follow what comes until it is answered; None when nothing more is to be said."""
        try:
            if request.brief:
                refusal: Refusal | None = Refusal("no_response", f"{request.method} was not answered in {BEGIN:g} s")
                with anyio.move_on_after(BEGIN):
                    refusal = await self._post(request)
            else:
                refusal = await self._post(request)
        except TransportError as e:
            self._reached = e.kind not in ("unreachable", "tls")
            ended = request.endless and e.kind in ("lost", "no_response")
            refusal = Refusal("ended" if ended else e.kind, str(e))
        except EventTooLarge as e:
            refusal = Refusal("unreadable", str(e))
        if refusal is None or not request.last_id or request.modern or refusal.kind != "lost":
            return refusal
        return await self._session.resume(request)

    def _sure_again(self) -> None:
        """Let the lists be looked at again: a server that was away may have come back with others."""
        self._doubt = False
        for notification in LISTS_CHANGED:
            self._bring(notification, None)

    async def _post(self, request: HttpRequest) -> Refusal | None:
        request.sent = True
        begin = BEGIN if request.endless or request.own else None
        async with self._client.exchange("POST", self._headers(request), request.body, begin=begin) as answer:
            self._reached = True
            head = head_of(answer)
            if request.method == "initialize" and head.ok:
                self._session.take(answer)
            if head.streams:
                await self._follow(answer, request, "")
                if request.answered:
                    return None
                return Refusal("ended" if request.endless else "lost", "the server ended the stream before its answer")
            body = await answer.read(MAX_MESSAGE)
        if body is None:
            return Refusal("unreadable", f"the answer is larger than {MAX_MESSAGE >> 20} MiB")
        now = time.time_ns() / 1e9
        named = self._session.names(request)
        probing, clean = request.probes, self._clean
        reply = http_answer.reply(request.mid, head, body, session=named, probing=probing, now=now, clean=clean)
        if request.method == "initialize":
            reply = http_answer.older(head, reply)
            if not head.ok and isinstance(reply, bytes) and http_answer.has_result(request.mid, reply):
                self._session.take(answer)
        if isinstance(reply, Refusal):
            return reply
        if head.status == 400 and request.modern and await self._annotated_anew(request, reply):
            return await self._post(request)
        if head.kind != "application/json" and head.ok:
            kind = ascii(clean(head.content_type))[:80]
            self._odd("content_type", f"answers {request.method} with JSON as {kind}")
        self._bring(reply, request)
        if not request.answered:
            # Of a batch, or of an id that is not the one asked with, only the receiver knows what it answered.
            self._unanswered(request, "unreadable", "the answer is to another request")
        return None

    async def _annotated_anew(self, request: HttpRequest, reply: bytes) -> bool:
        """A call that was refused because of its headers: whether a newer list of the tools gives it others."""
        before, tool = self._tables, request.told.tool
        if tool is None or request.relisted or not mirrored.says_mismatch(reply):
            return False
        request.relisted = True
        self._listed = anyio.Event()
        self._bring(LISTS_CHANGED[0], None)
        with anyio.move_on_after(LIST_WAIT):
            await self._listed.wait()
        return before.get(tool) != self._tables.get(tool)

    def _headers(self, request: HttpRequest) -> list[Header]:
        if request.method == "initialize":
            # No version is agreed on yet: who routes by the headers of 2026-07-28 on the way finds the method in one.
            return [*self._posted, *self._session.headers, (b"Mcp-Method", b"initialize")]
        if not request.modern:
            return [*self._posted, *self._session.headers]
        headers = self._posted + mirrored.standard(request.method, request.told)
        table = self._tables.get(request.told.tool) if self._tables and request.told.tool is not None else None
        return headers + mirrored.custom(table, request.told.arguments) if table else headers

    def _unanswered(self, request: HttpRequest, kind: str, message: str) -> None:
        if not request.answered:
            request.answered = True
            if not request.cancelled:
                self._receiver.unanswered(request.mid, kind, message)

    # --- what comes back ---------------------------------------------------------------------------------------------

    async def _follow(self, answer: Answer, request: HttpRequest | None, last_id: str) -> tuple[EventDecoder, int]:
        """Hand on what a stream brings until it ends; (what it said of itself, how many messages it brought)."""
        decoder = EventDecoder()
        decoder.resume_from(last_id)
        brought = turn = 0
        with anyio.CancelScope() as scope:
            async with aclosing(answer.chunks()) as chunks:
                async for chunk in chunks:
                    for event in decoder.feed(chunk):
                        if request is not None:
                            request.last_id = event.last_id
                            if decoder.retry is not None:
                                request.retry = decoder.retry
                        if event.data is None or event.name not in ("", "message"):
                            continue
                        brought += 1
                        turn += 1
                        self._bring(http_answer.one_line(event.data), request)
                        if turn == MESSAGE_BUDGET:
                            turn = 0
                            await anyio.lowlevel.checkpoint()
                    if request is not None and request.answered and scope.deadline == float("inf"):
                        self._release(request)
                        scope.deadline = anyio.current_time() + AFTER_ANSWER
        return decoder, brought

    def _bring(self, data: bytes, request: HttpRequest | None) -> None:
        """Hand on one message; what an answer to `initialize` says of the session counts from here on."""
        answers = False
        if request is not None:
            data, answers = http_answer.addressed(request.mid, data)
            if answers:
                request.answered = True
                if request.method == "initialize":
                    self._session.agree(data)
            self.current = request.mid
        try:
            self._receiver.frame(memoryview(data))
        except Exception as e:  # an exception there closes this channel only
            self._internal(e)
        finally:
            self.current = None

    # --- what is no request ------------------------------------------------------------------------------------------

    async def _post_other(self, body: bytes, env: Envelope) -> None:
        """A notification, or the answer to a question of the server's. Whatever 2xx comes back is fine (case C063)."""
        first = env.method == "notifications/initialized"
        gate = self._session.gate if first else None
        what = env.method or "an answer to the server's question"
        try:
            if self._session.gate is not None and not first:
                await self._session.gate.wait()
            headers = [*self._posted, *self._session.headers]
            async with self._client.exchange("POST", headers, body, begin=BEGIN) as answer:
                head = head_of(answer)
                if gate is not None:
                    self._open(gate)
                if head.streams:
                    await self._follow(answer, None, "")
                    return
                said = await answer.read(MAX_IGNORED)
            if not head.ok:
                refusal = http_answer.reply(0, head, said or b"", session=bool(self._session.id), probing=False, now=0)
                if isinstance(refusal, Refusal) and refusal.kind == "session":
                    self._session_gone()
                else:
                    self._odd("undelivered", f"answers {what} with HTTP {head.status}")
        except (TransportError, EventTooLarge) as e:
            self._odd("undelivered", f"{what} could not be delivered: {e}")
        except Exception as e:  # a fault of ours
            self._internal(e)
        finally:
            if gate is not None:
                self._open(gate)

    def _open(self, gate: anyio.Event) -> None:
        """The handshake is over: what waited for it may go, and the server may speak by itself."""
        if not gate.is_set():
            gate.set()
            if not self._over and self._tasks is not None:
                self._tasks.start_soon(self._stand)

    async def _stand(self) -> None:
        try:
            await self._session.standing()
            self.deaf = True  # it has no such stream, or none any more
        except Exception as e:  # a fault of ours
            self._internal(e)

    def _give_back(self, request: HttpRequest) -> None:
        """The server says that its session is no more, so it did not act on this: it may be sent in the next one."""
        request.answered = True
        if not request.cancelled:
            self.returned[request.mid] = request.body + b"\n"
            self._receiver.unanswered(request.mid, "session", SESSION_GONE)
        self._session_gone()

    def _session_gone(self) -> None:
        if self._gone is None and self._tasks is not None and not self._over:
            self._gone = anyio.Event()
            self._tasks.start_soon(self._leave, self._gone)

    async def _leave(self, idle: anyio.Event) -> None:
        """End, after what is on its way had time to hear the same: five calls at once are five refusals (C065)."""
        for request in list(self._waiting.values()):
            self._give_back(request)
        self._waiting.clear()
        if self._counted:
            with anyio.move_on_after(LAST_VERDICTS):
                await idle.wait()
        self._end(SESSION_GONE)


class HttpLink(msgspec.Struct):
    """An open server at a URL. Implements link.Link."""

    channel: HttpChannel
    pid: int | None = None

    async def exit_code(self, wait: float) -> int | None:
        return None

    @property
    def retry_after(self) -> float:
        return self.channel.retry_after

    @property
    def returned(self) -> Mapping[int, bytes]:
        return self.channel.returned

    @property
    def deaf(self) -> bool:
        return self.channel.deaf

    @property
    def waits_for(self) -> str:
        return self.channel.waits_for

    def usable(self, tools: tuple[bytes, ...]) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
        return self.channel.usable(tools)

    def way_changed(self) -> None:
        self.channel.way_changed()


@asynccontextmanager
async def open_streamable_http(
    spec: ServerSpec, around: Surroundings, receiver: Receiver, stderr: StderrRing
) -> AsyncIterator[HttpLink]:
    """Hold a channel to the server; nothing is sent before the first message. Leaving ends what is on its way, and the
    legacy session. `stderr` gets a line for what is odd. Raises TransportError (kind `config`, and those of its
    helper)."""
    transport = spec.transport
    assert isinstance(transport, HttpSpec)

    def note(text: str) -> None:
        stderr.feed(f"{text}\n".encode("utf-8", "replace"))

    net = await anyio.to_thread.run_sync(importlib.import_module, "mcphub.net")
    signer = await signer_of(spec, around, note)
    async with net.http_client(str(transport.url), around.environment(), tls=transport.tls, signer=signer) as client:
        for warning in client.warnings:
            note(warning)
        patience = functools.partial(time_for, spec=spec)
        url = str(transport.url)
        channel = HttpChannel(
            client, transport.headers, receiver, note, around.report, patience, url, around.clean, around.admission,
            around.count, spec.allowance.server.calls if spec.allowance is not None else 0,
        )  # fmt: skip
        async with anyio.create_task_group() as tasks:
            await tasks.start(channel.run)
            try:
                yield HttpLink(channel)
            finally:
                channel.abort()
                with anyio.CancelScope(shield=True), anyio.move_on_after(GOODBYE):
                    await channel.goodbye()
