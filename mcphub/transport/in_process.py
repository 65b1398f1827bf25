"""Owns servers that live in the daemon: a Python callable behind the same channel as a process.

It must not know which servers there are; the daemon hands them over by name. A handler gets method and params and
returns a result, or an awaitable of it, or raises JSONRPCError; it is called on the loop and must not block. What it
awaits is cancelled with its request, and with the connection. Whatever else it raises, SystemExit too, is the answer.
One whose third parameter is called `notify` gets a function there that sends a notification: `notify(method, params)`,
while a call lasts or later, from any thread.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.abc
import msgspec

from mcphub.channel import Data, Receiver
from mcphub.errors import JSONRPCError, TransportError
from mcphub.protocol import jsonrpc
from mcphub.transport.in_process_stream import StreamLink, StreamServer, is_cancelled, open_stream_server, open_tasks
from mcphub.transport.one_stream import OneStream

Answered = dict[str, Any] | Awaitable[dict[str, Any]]
Notify = Callable[[str, dict[str, Any]], None]
Handler = Callable[[str, dict[str, Any]], Answered] | Callable[[str, dict[str, Any], Notify], Answered]
#: What the daemon may be given under a name.
Embedded = Handler | StreamServer


class InProcessChannel:
    """A channel whose far end is a handler. Requests are answered in the next turn of the loop, or once what the
    handler awaits in a task of `tasks` is there."""

    full = False
    current: int | None = None

    def __init__(
        self,
        handler: Handler,
        receiver: Receiver,
        tasks: anyio.abc.TaskGroup,
        on_error: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.receiver = receiver
        self.closed = anyio.Event()
        self.reason = ""
        self._handler: Callable[..., Answered] = handler
        self._more = (self.notify,) if _notifies(handler) else ()
        self._on_error = on_error
        self._tasks = tasks
        self._running: dict[int | str, anyio.CancelScope] = {}
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification of the handler's; dropped once the channel is closed. Raises TypeError for params that
        are no JSON."""
        frame = jsonrpc.notification_frame(method, msgspec.json.encode(params))
        if threading.get_ident() == self._thread:
            self._say(frame)  # in front of the answer that the handler may return next
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._say, frame)

    def _say(self, frame: bytes) -> None:
        if self.closed.is_set():
            return
        try:
            self.receiver.frame(memoryview(frame)[:-1])
        except Exception as e:
            self._broke(e)

    def send(self, *parts: Data) -> None:
        if not self.closed.is_set():
            self._loop.call_soon(self._answer, b"".join(parts))

    def abort(self) -> None:
        if not self.closed.is_set():
            self.closed.set()
            for scope in self._running.values():
                scope.cancel()
            self.receiver.lost(self.reason)

    def _answer(self, frame: bytes) -> None:
        if self.closed.is_set():
            return
        try:
            self._give(frame)
        except BaseException as e:
            self._broke(e)

    def _broke(self, error: BaseException) -> None:
        """A fault of ours in one frame closes this channel only, and does not go unseen."""
        if self._on_error is not None:
            self._on_error(error)
        self.reason = f"internal error: {type(error).__name__}: {error}"
        self.abort()

    def _give(self, frame: bytes) -> None:
        env = jsonrpc.decode(frame.rstrip(b"\n"))
        if env.method is None:
            return
        if not isinstance(env.id, int | str):
            self._cancel(env)
            return
        mid = jsonrpc.encode_id(env.id)
        try:
            result = self._handler(env.method, json.loads(bytes(env.params) or b"{}"), *self._more)
            if inspect.isawaitable(result):
                scope = self._running[env.id] = anyio.CancelScope()
                self._tasks.start_soon(self._await, env.id, result, scope)
                return
            out = _result(mid, result)
        except BaseException as e:  # no code of a server ends more than its call; there is no task to cancel here
            out = _error(mid, e)
        self.receiver.frame(memoryview(out)[:-1])

    def _cancel(self, env: jsonrpc.Envelope) -> None:
        """A request that is cancelled is not answered (MCP spec, cancellation)."""
        if env.method != "notifications/cancelled":
            return
        params = json.loads(bytes(env.params) or b"{}")
        cancels = params.get("requestId") if isinstance(params, dict) else None
        if isinstance(cancels, int | str) and (scope := self._running.get(cancels)) is not None:
            scope.cancel()

    async def _await(self, mid: int | str, result: Awaitable[dict[str, Any]], scope: anyio.CancelScope) -> None:
        out = b""
        with scope:
            try:
                out = _result(jsonrpc.encode_id(mid), await result)
            except BaseException as e:
                if is_cancelled(e):
                    raise
                out = _error(jsonrpc.encode_id(mid), e)
        if self._running.get(mid) is scope:
            del self._running[mid]
        if out and not self.closed.is_set():
            try:
                self.receiver.frame(memoryview(out)[:-1])
            except Exception as e:
                self._broke(e)


def _notifies(handler: Callable[..., Answered]) -> bool:
    """Whether it wants to be given what sends notifications."""
    try:
        parameters = list(inspect.signature(handler).parameters)
    except (TypeError, ValueError):
        return False  # it is none that Python can look into
    return len(parameters) > 2 and parameters[2] == "notify"


def _result(mid: bytes, result: Any) -> bytes:
    return jsonrpc.result_frame(mid, msgspec.json.encode(result))


def _error(mid: bytes, error: BaseException) -> bytes:
    if isinstance(error, JSONRPCError):
        return jsonrpc.error_frame(mid, error.code, error.message)
    return jsonrpc.error_frame(mid, jsonrpc.INTERNAL_ERROR, f"{type(error).__name__}: {error}")


@dataclass(slots=True)
class InProcessLink(OneStream):
    """An open in-process server. Implements link.Link."""

    channel: InProcessChannel
    pid: int | None = None

    async def exit_code(self, wait: float) -> int | None:
        return None


@asynccontextmanager
async def open_in_process(
    name: str,
    servers: Mapping[str, Embedded],
    receiver: Receiver,
    report: Callable[[BaseException], None] | None = None,
    grace: float = 2.0,
) -> AsyncIterator[InProcessLink | StreamLink]:
    """Hold a channel to the server of this name; one that speaks for itself has `grace` seconds for its end. Raises
    TransportError (kind `not_found`)."""
    handler = servers.get(name)
    if handler is None:
        text = f"cannot open the in-process server {name}: the daemon was given none of this name"
        raise TransportError(f"{text} (mcphub serve --embed {name}=MODULE:OBJECT)", kind="not_found")
    if isinstance(handler, StreamServer):
        async with open_stream_server(handler, receiver, grace, report) as stream:
            yield stream
        return
    async with open_tasks() as tasks:
        channel = InProcessChannel(handler, receiver, tasks, report)
        try:
            yield InProcessLink(channel)
        finally:
            channel.abort()
