"""Owns servers that live in the daemon: a Python callable behind the same channel as a process.

It must not know which servers there are; the daemon hands them over by name. A handler gets method and params and
returns a result, or raises JSONRPCError; it is called on the loop and must not block.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import msgspec

from mcphub.channel import Data, Receiver
from mcphub.errors import JSONRPCError, TransportError
from mcphub.protocol import jsonrpc
from mcphub.transport.one_stream import OneStream

Handler = Callable[[str, dict[str, Any]], dict[str, Any]]


class InProcessChannel:
    """A channel whose far end is a handler. Requests are answered in the next turn of the loop."""

    full = False
    current: int | None = None

    def __init__(
        self, handler: Handler, receiver: Receiver, on_error: Callable[[BaseException], None] | None = None
    ) -> None:
        self.receiver = receiver
        self.closed = anyio.Event()
        self.reason = ""
        self._handler = handler
        self._on_error = on_error
        self._loop = asyncio.get_running_loop()

    def send(self, *parts: Data) -> None:
        if not self.closed.is_set():
            self._loop.call_soon(self._answer, b"".join(parts))

    def abort(self) -> None:
        if not self.closed.is_set():
            self.closed.set()
            self.receiver.lost(self.reason)

    def _answer(self, frame: bytes) -> None:
        if self.closed.is_set():
            return
        try:
            self._give(frame)
        except Exception as e:  # a fault of ours in one frame closes this channel only, and does not go unseen
            if self._on_error is not None:
                self._on_error(e)
            self.reason = f"internal error: {type(e).__name__}: {e}"
            self.abort()

    def _give(self, frame: bytes) -> None:
        env = jsonrpc.decode(frame.rstrip(b"\n"))
        if env.method is None or not isinstance(env.id, int | str):
            return
        mid = jsonrpc.encode_id(env.id)
        try:
            params = json.loads(bytes(env.params) or b"{}")
            out = jsonrpc.result_frame(mid, msgspec.json.encode(self._handler(env.method, params)))
        except JSONRPCError as e:
            out = jsonrpc.error_frame(mid, e.code, e.message)
        except Exception as e:
            out = jsonrpc.error_frame(mid, jsonrpc.INTERNAL_ERROR, f"{type(e).__name__}: {e}")
        self.receiver.frame(memoryview(out)[:-1])


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
    servers: Mapping[str, Handler],
    receiver: Receiver,
    report: Callable[[BaseException], None] | None = None,
) -> AsyncIterator[InProcessLink]:
    """Hold a channel to the server of this name. Raises TransportError (kind `not_found`)."""
    handler = servers.get(name)
    if handler is None:
        raise TransportError(f"cannot open the in-process server {name}: the daemon has none", kind="not_found")
    channel = InProcessChannel(handler, receiver, report)
    try:
        yield InProcessLink(channel)
    finally:
        channel.abort()
