"""Owns the WebSocket transport: one message a text frame, both ways, on one connection (case C183).

It must not know agents, states or how a connection is retried, nor how a WebSocket is opened. MCP defines no such
transport: framing and the subprotocol `mcp` are those of the official SDKs. There is no taking up again: when the
connection ends, so does the session.
"""

from __future__ import annotations

import importlib
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread
import msgspec

from mcphub.channel import Data, Receiver
from mcphub.errors import TransportError
from mcphub.protocol import http_answer
from mcphub.protocol.http_answer import Clean, Head, Refusal, as_it_is
from mcphub.spec import HttpSpec, ServerSpec
from mcphub.transport.framing import MAX_MESSAGE
from mcphub.transport.http_request import after_signer, common_headers, worded
from mcphub.transport.link import Surroundings
from mcphub.transport.one_stream import OneStream
from mcphub.transport.signing import signer_of
from mcphub.transport.stderr import StderrRing

if TYPE_CHECKING:
    from mcphub.outbound.websocket import WebSocket

#: Unsent bytes at which a server counts as not reading its requests: one message of the largest size fits.
OVERLOADED_AT = MAX_MESSAGE
#: Messages that are handed on before others have their turn.
MESSAGE_BUDGET = 64
#: Odd things of one kind that are told.
MAX_NOTES = 3


class WebSocketChannel(OneStream):
    """Implements channel.Channel, and link.Link. `run` owns the tasks; without it nothing is sent."""

    pid: int | None = None

    def __init__(
        self,
        socket: WebSocket,
        receiver: Receiver,
        note: Callable[[str], None],
        on_error: Callable[[BaseException], None] | None = None,
        clean: Clean = as_it_is,
        count: Callable[[str], None] | None = None,
    ) -> None:
        self.full = False
        self.current: int | None = None
        self._socket = socket
        self._receiver = receiver
        self._tell = note
        self._clean = clean
        self._count = count
        self._on_error = on_error
        self._notes: Counter[str] = Counter()
        self._tasks: anyio.abc.TaskGroup | None = None
        self._over = False
        self._out: deque[bytes] = deque()
        self._waiting = 0
        self._more = anyio.Event()

    @property
    def channel(self) -> WebSocketChannel:
        return self

    async def exit_code(self, wait: float) -> int | None:
        return None

    # --- channel.Channel ---------------------------------------------------------------------------------------------

    def send(self, *parts: Data) -> None:
        if self._over or self._tasks is None:
            return
        message = b"".join(parts).rstrip(b"\n")
        self._out.append(message)
        self._waiting += len(message)
        self.full = self._waiting > OVERLOADED_AT
        self._more.set()

    def abort(self) -> None:
        self._end("")

    def _end(self, reason: str) -> None:
        if self._over:
            return
        self._over = True
        self._out.clear()
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        self._receiver.lost(reason)

    # --- the tasks ---------------------------------------------------------------------------------------------------

    async def run(self, closed: type[Exception], *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Own the tasks until the channel's end. `closed` is what the socket raises at its own."""
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._until, self._read, closed)
            self._tasks.start_soon(self._until, self._write, closed)
            task_status.started()
            await anyio.sleep_forever()

    async def _until(self, work: Callable[[], Awaitable[None]], closed: type[Exception]) -> None:
        try:
            await work()
        except closed as e:
            self._end(self._clean(str(e)))
        except Exception as e:  # a fault of ours costs this connection only
            if self._on_error is not None:
                self._on_error(e)
            self._end(f"internal error: {type(e).__name__}: {e}")

    async def _write(self) -> None:
        while True:
            while self._out:
                message = self._out.popleft()
                await self._socket.send(message)
                self._waiting -= len(message)
                self.full = self._waiting > OVERLOADED_AT
            self._more = anyio.Event()
            await self._more.wait()

    async def _read(self) -> None:
        turn = 0
        while True:
            message = await self._socket.receive()
            if isinstance(message, bytes):
                self._odd("binary_messages", f"sent {len(message)} bytes in a binary message; only text is read")
                continue
            for line in messages_of(message.encode("utf-8")):
                self._receiver.frame(memoryview(line))
                turn += 1
                if turn == MESSAGE_BUDGET:
                    turn = 0
                    await anyio.lowlevel.checkpoint()

    def _odd(self, kind: str, text: str) -> None:
        self._notes[kind] += 1
        if self._count is not None:
            self._count(kind)
        if self._notes[kind] <= MAX_NOTES:
            self._tell(text)


def messages_of(text: bytes) -> list[bytes]:
    """The messages in one text frame, each in one line. There should be one; where there are line breaks it is one that
    is laid out over several lines, or else there is a message in each line."""
    text = text.strip()
    if b"\n" not in text and b"\r" not in text:
        return [text] if text else []
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except msgspec.DecodeError:
        return [line for line in map(bytes.strip, text.replace(b"\r", b"\n").split(b"\n")) if line]
    return [http_answer.one_line(text)]


@asynccontextmanager
async def open_websocket(
    spec: ServerSpec, around: Surroundings, receiver: Receiver, stderr: StderrRing
) -> AsyncIterator[WebSocketChannel]:
    """Hold a WebSocket to the server; leaving says goodbye to it. `stderr` gets a line for what is odd. Raises
    TransportError, naming why there is none."""
    transport = spec.transport
    assert isinstance(transport, HttpSpec)

    def note(text: str) -> None:
        stderr.feed(f"{text}\n".encode("utf-8", "replace"))

    outbound = await anyio.to_thread.run_sync(importlib.import_module, "mcphub.outbound.websocket")
    url = str(transport.url)
    headers, signed = common_headers(transport.headers, outbound.credentials(url))
    signer = await signer_of(spec, around, note)
    tried = 0
    while True:
        given = signer.headers_for("GET", url) if signer is not None else ()
        version = signer.version() if signer is not None else 0
        names = {name.lower() for name, _ in given} | {b"accept-encoding"}
        sent = [*(one for one in headers if one[0].lower() not in names), *given]
        try:
            socket, warnings = await outbound.open_websocket(
                url, sent, around.environment(), transport.tls, MAX_MESSAGE
            )
            break
        except outbound.Rejected as e:
            if e.status in (401, 403) and signer is not None and tried < signer.tries:
                tried += 1
                if await signer.renewed(version, e.status, [e.headers.get("www-authenticate", "")]):
                    continue
            refusal = after_signer(_refusal(e.status, e.headers, e.body, around.clean), signer)
            text = worded("the WebSocket", refusal, signed)
            raise TransportError(text, kind=refusal.kind, retry_after=refusal.retry_after) from None
    for warning in warnings:
        note(warning)
    try:
        channel = WebSocketChannel(socket, receiver, note, around.report, around.clean, around.count)
        async with anyio.create_task_group() as tasks:
            await tasks.start(channel.run, outbound.Closed)
            try:
                yield channel
            finally:
                channel.abort()
    finally:
        await socket.close()


def _refusal(status: int, headers: dict[str, str], body: bytes, clean: Clean) -> Refusal:
    """Why the server did not become a WebSocket."""
    names = ("content-type", "retry-after", "location", "www-authenticate")
    kind, after, where, challenge = (clean(headers.get(name, "")) for name in names)
    head = Head(status, kind, after, where, challenge)
    said = http_answer.reply(0, head, body, session=False, probing=False, now=time.time_ns() / 1e9, clean=clean)
    if isinstance(said, Refusal) and not head.ok:
        return said
    return Refusal("refused", f"answered with HTTP {status} in place of a WebSocket: {http_answer.shown(body, clean)}")
