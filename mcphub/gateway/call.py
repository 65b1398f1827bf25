"""Owns one `tools/call` of an agent while it is in flight: its two ids, its deadline, and the shape of its answer.

It must not know sockets. A result stays bytes; a tool's isError is an answer, a JSON-RPC error a refusal, a lost reply
unknown, and none of them becomes another.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from mcphub.catalog.toolset import Route
from mcphub.channel import Data
from mcphub.connection.client import Client
from mcphub.protocol import jsonrpc
from mcphub.protocol.envelope import RequestMeta, UnsupportedResult, error_data, result_parts
from mcphub.protocol.jsonrpc import Envelope, Raw

#: Results from this size on are passed on as views.
LARGE = 1 << 15
#: A call may live this many times its idle limit while it reports progress.
HARD_FACTOR = 6.0
#: Errors of the hub's own hop, which must never reach an agent.
_OWN_HOP = frozenset({-32020, -32022})

_members = msgspec.json.Decoder(dict[str, Raw]).decode


class Caller(Protocol):
    """The agent, as far as a call needs it. `calls` holds its calls in flight by id as JSON."""

    calls: dict[bytes, AgentCall]

    def send(self, *parts: Data) -> None: ...


class AgentCall:
    """One call in flight. Implements correlate.Waiter."""

    __slots__ = (
        "_began",
        "_caller",
        "_route",
        "client",
        "deadline",
        "idle",
        "meta",
        "mid",
        "up_id",
    )

    def __init__(
        self,
        caller: Caller,
        client: Client,
        mid: bytes,
        route: Route,
        meta: RequestMeta,
        now: float,
        timeout: float,
    ) -> None:
        self._caller = caller
        self._route = route
        self._began = now
        self.client = client
        self.mid = mid
        self.meta = meta
        self.idle = timeout
        self.deadline = now + timeout
        self.up_id = 0

    @property
    def hard(self) -> float:
        return self._began + self.idle * HARD_FACTOR

    @property
    def server(self) -> str:
        return self._route.key.name

    @property
    def tool(self) -> str:
        return self._route.definition.name

    def answered(self, env: Envelope) -> None:
        caller = self._caller
        caller.calls.pop(self.mid, None)
        if env.error:
            self._refused(env.error)
            return
        try:
            parts = result_parts(memoryview(env.result), self.client.era == "modern", self.meta.modern)
        except UnsupportedResult as e:
            text = f"the server {self.server} gave an unsupported result type: {e.result_type}"
            self.error("unsupported_result", text)
            return
        if len(parts) == 1 and len(parts[0]) < LARGE:
            caller.send(b"".join((b'{"jsonrpc":"2.0","id":', self.mid, b',"result":', parts[0], b"}\n")))
        else:
            caller.send(b'{"jsonrpc":"2.0","id":%b,"result":' % self.mid, *parts, b"}\n")

    def _refused(self, raw: Raw) -> None:
        e = jsonrpc.read_error(raw)
        code = e.code
        if code in _OWN_HOP:
            self.error("upstream_protocol", f"the server {self.server} refused mcphub's request: {e.message}")
        elif code == -32002 and self.meta.modern:
            self._caller.send(jsonrpc.error_frame(self.mid, jsonrpc.INVALID_PARAMS, e.message, bytes(e.data)))
        elif self.meta.modern and (-32019 <= code <= -32000 or code == -32042):
            # These codes have no fixed meaning (or are forbidden) in the modern era; the original stays readable.
            data = b'{"dev.mcphub/upstream":%b}' % jsonrpc.error_object(code, e.message, bytes(e.data))
            self._caller.send(jsonrpc.error_frame(self.mid, jsonrpc.INTERNAL_ERROR, e.message, data))
        else:
            # Written anew: what the server sent need not be an error object at all.
            self._caller.send(jsonrpc.error_frame(self.mid, code, e.message, bytes(e.data)))

    def unanswered(self, kind: str, message: str) -> None:
        self._caller.calls.pop(self.mid, None)
        if kind == "unreadable":
            self.error(kind, f"the server {self.server} answered {self.tool}, but {message}; it may have had effects")
            return
        if kind == "unreadable":
            text = f"the server {self.server} answered {self.tool} with what cannot be read: {message}"
        elif kind == "timeout":
            text = f"the server {self.server} did not answer {self.tool} within {self.idle:g} s"
        else:
            text = f"the connection to the server {self.server} was lost during {self.tool}: {message}"
        if self._route.definition.read_only:
            self.error("lost" if kind != "timeout" else kind, f"{text}; the tool only reads, so it can be called again")
        else:
            self.error("outcome_unknown", f"{text}; whether it had effects is unknown, check before calling it again")

    def error(self, kind: str, text: str) -> None:
        data = error_data(kind, self.server, tool=self.tool)
        self._caller.send(jsonrpc.error_frame(self.mid, jsonrpc.INTERNAL_ERROR, text, data))

    def progressed(self, params: Raw) -> None:
        if not self.meta.progress_token:
            return
        try:
            fields = _members(params)
        except (msgspec.DecodeError, RecursionError):
            return
        body = b",".join(
            [jsonrpc.quote(k) + b":" + bytes(v) for k, v in fields.items() if k not in ("progressToken", "_meta")]
        )
        frame = b'{"progressToken":%b%b}' % (self.meta.progress_token, b"," + body if body else b"")
        self._caller.send(jsonrpc.notification_frame("notifications/progress", frame))

    def withdraw(self, reason: str) -> None:
        """The agent no longer wants it: nothing more is sent for its id."""
        self._caller.calls.pop(self.mid, None)
        self.client.withdraw(self.up_id, reason)
