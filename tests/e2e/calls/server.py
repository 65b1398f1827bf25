"""Owns one server that writes down each call before it acts, and dies, hangs up or asks where a call tells it to.

It must not know who calls, nor import what `python -I -S` does not have.

    python -I -S server.py KIND ERA NAME FOLDER [--port N] [--slow MS]

KIND is stdio or http, ERA legacy or modern, FOLDER `-` = $CALLS_FOLDER. Its process id goes to FOLDER/NAME.pid, its
port to FOLDER/NAME.port, and each execution to FOLDER/NAME.done, as a line `TOKEN TOOL PID MONOTONIC` that one write
appends: it survives SIGKILL. A call's `how` says what happens to it: `linger` (done at once, answered after `ms`),
`late` (done after `ms`), `die` (before it is done), `act-die`, `half` (done, and died with half of the answer written),
`hangup` (stdio: both pipes are closed, and the process stays), `cut` and `act-cut` (http: the connection is reset
before, or after it is done). SIGUSR1 resets all connections.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from json import dumps, loads
from pathlib import Path

TYPE_CHECKING = False  # `typing` itself would be a tenth of this process's start
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    #: Says one message on the way that the call came; None hangs up there at once, as bytes it is no whole message.
    Say = Callable[["dict[str, Any] | bytes | None"], None]

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
ARGUMENTS = {
    "type": "object",
    "properties": {"token": {"type": "string"}, "how": {"type": "string"}, "ms": {"type": "number"}},
    "required": ["token"],
}
RECORD = {
    "type": "object",
    "properties": {"token": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["token", "count"],
}
TOOLS = [
    {"name": "write", "inputSchema": ARGUMENTS},
    {"name": "record", "inputSchema": ARGUMENTS, "outputSchema": RECORD},
    {"name": "put", "inputSchema": ARGUMENTS, "annotations": {"idempotentHint": True}},
    {"name": "read", "inputSchema": ARGUMENTS, "annotations": {"readOnlyHint": True}},
    {"name": "ask", "inputSchema": ARGUMENTS},
]
QUESTION = {
    "mode": "form",
    "requestedSchema": {"type": "object", "properties": {"token": {"type": "string"}}, "required": ["token"]},
}


class Server:
    """What one server does and says."""

    def __init__(self, era: str, name: str, folder: Path, slow: float) -> None:
        self.modern, self.name, self.slow = era == "modern", name, slow
        self.loop = asyncio.get_running_loop()
        self._done = os.open(folder / f"{name}.done", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._timers: dict[Any, asyncio.TimerHandle] = {}
        #: Questions without an answer, by their ids: what goes on with one.
        self._asked: dict[Any, Callable[[dict[str, Any]], None]] = {}
        self._questions = 0

    # --- messages

    def took(self, message: dict[str, Any], say: Say) -> None:
        """One message, which is answered by `say`, now or later."""
        method, mid, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method is None:
            if (goes_on := self._asked.pop(mid, None)) is not None:
                goes_on(message.get("result") or {})
        elif method == "tools/call":
            self._call(mid, params, say)
        elif method == "notifications/cancelled":
            self.forget(params.get("requestId"))
        elif mid is not None:
            say(self._ordinary(method, mid))

    def forget(self, mid: Any) -> None:
        """Nobody wants this any more: what was not done is not done."""
        if (timer := self._timers.pop(mid, None)) is not None:
            timer.cancel()

    def _ordinary(self, method: str, mid: Any) -> dict[str, Any]:
        says: dict[str, Any] = {"capabilities": {"tools": {}}}
        info = {"name": self.name, "version": "1"}
        if method == "initialize" and not self.modern:
            return result(mid, {**says, "protocolVersion": "2025-11-25", "serverInfo": info}, False)
        if method == "server/discover" and self.modern:
            cached = {"ttlMs": 60000, "cacheScope": "private", "_meta": {META + "serverInfo": info}}
            return result(mid, {**says, "supportedVersions": [MODERN], **cached}, True)
        if method == "tools/list":
            cached = {"ttlMs": 60000, "cacheScope": "private"} if self.modern else {}
            return result(mid, {"tools": TOOLS, **cached}, self.modern)
        if method == "ping":
            return result(mid, {}, self.modern)
        return {"jsonrpc": "2.0", "id": mid, "error": {"code": -32601, "message": "Method not found"}}

    # --- calls

    def _call(self, mid: Any, params: dict[str, Any], say: Say) -> None:
        tool, arguments = params["name"], params["arguments"]
        token, how, ms = arguments["token"], arguments.get("how", ""), arguments.get("ms", 0.0) + self.slow
        if how == "die":
            die()
        elif how == "hangup":
            os.close(0)
            os.close(1)
            self.loop.remove_reader(0)
        elif how == "cut":
            say(None)
        elif tool == "ask" and not self.modern:
            self._ask(mid, token, say)
        elif tool == "ask" and "inputResponses" not in params:
            asks = {"method": "elicitation/create", "params": {"message": question(token), **QUESTION}}
            say(result(mid, {"resultType": "input_required", "inputRequests": {"q": asks}, "requestState": token}))
        elif tool == "ask":
            answer = params["inputResponses"].get("q") or {}
            self._act_if(mid, token, answer, say, params.get("requestState") == token)
        elif how == "late":
            self._later(mid, ms, token, tool, say, done=False)
        else:
            self.act(token, tool)
            if how == "act-die":
                die()
            elif how == "act-cut":
                say(None)
            elif how == "half":
                whole = dumps(answer_of(mid, tool, token, self.modern), default=str).encode()
                say(whole[: len(whole) // 2])
                die()
            elif ms:
                self._later(mid, ms, token, tool, say, done=True)
            else:
                self._answer(mid, tool, token, say)

    def act(self, token: str, tool: str) -> None:
        os.write(self._done, b"%b %b %d %.6f\n" % (token.encode(), tool.encode(), os.getpid(), time.monotonic()))

    def _later(self, mid: Any, ms: float, token: str, tool: str, say: Say, *, done: bool) -> None:
        def go_on() -> None:
            self._timers.pop(mid, None)
            if not done:
                self.act(token, tool)
            self._answer(mid, tool, token, say)

        self._timers[mid] = self.loop.call_later(ms / 1000, go_on)

    def _answer(self, mid: Any, tool: str, token: str, say: Say) -> None:
        say(answer_of(mid, tool, token, self.modern))

    def _ask(self, mid: Any, token: str, say: Say) -> None:
        self._questions += 1
        asking = f"q{os.getpid()}-{self._questions}"
        self._asked[asking] = lambda answer: self._act_if(mid, token, answer, say, True)
        params = {"message": question(token), **QUESTION}
        say({"jsonrpc": "2.0", "id": asking, "method": "elicitation/create", "params": params})

    def _act_if(self, mid: Any, token: str, answer: dict[str, Any], say: Say, same: bool) -> None:
        """Done where whoever was asked has agreed, and knows the token."""
        brought = (answer.get("content") or {}).get("token")
        if answer.get("action") != "accept":
            text = f"declined {token}"
        elif not same or brought != token:
            text = f"{brought} was brought for {token}"
        else:
            self.act(token, "ask")
            text = token
        say(answer_of(mid, "ask", text, self.modern))


def question(token: str) -> str:
    return f"May {token} go on?"


def answer_of(mid: Any, tool: str, text: str, modern: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    if tool == "record":
        body["structuredContent"] = {"token": text, "count": 1}
    return result(mid, body, modern)


def result(mid: Any, body: dict[str, Any], modern: bool = False) -> dict[str, Any]:
    if modern:
        body = {**body, "resultType": body.get("resultType", "complete")}
    return {"jsonrpc": "2.0", "id": mid, "result": body}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


# --- stdio ------------------------------------------------------------------------------------------------------------


def on_stdio(server: Server) -> None:
    """Read until the input ends; what several lines cause to be said leaves in one write."""
    out: list[bytes] = []
    rest = bytearray()
    busy = False

    def flush() -> None:
        data = memoryview(b"".join(out))
        out.clear()
        try:
            while data:
                data = data[os.write(1, data) :]
        except OSError:
            os._exit(0)  # nobody reads it

    def say(message: dict[str, Any] | bytes | None) -> None:
        # As compactly as most servers write, so that mcphub can take many results together.
        out.append(message if isinstance(message, bytes) else dumps(message, separators=(",", ":")).encode() + b"\n")
        if not busy or isinstance(message, bytes):
            flush()

    def readable() -> None:
        nonlocal busy
        chunk = os.read(0, 1 << 16)
        if not chunk:
            os._exit(0)
        rest.extend(chunk)
        *lines, last = bytes(rest).split(b"\n")
        rest[:] = last
        busy = True
        for line in lines:
            if line:
                server.took(loads(line), say)
        busy = False
        flush()

    server.loop.add_reader(0, readable)


# --- http -------------------------------------------------------------------------------------------------------------


class Endpoint(asyncio.Protocol):
    """One connection; a request is read when the one before it was answered."""

    open: set[Endpoint] = set()
    sessions: set[str] = set()

    def __init__(self, server: Server) -> None:
        self.server = server
        self.received = bytearray()
        self.busy = self.streams = False
        self.mid: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open.discard(self)
        if self.busy:
            self.server.forget((self, self.mid))

    def data_received(self, data: bytes) -> None:
        self.received += data
        self._next()

    def _next(self) -> None:
        received = self.received
        while not self.busy and (end := received.find(b"\r\n\r\n")) >= 0:
            head = bytes(received[:end])
            lines = [line.partition(":")[::2] for line in head.decode("latin-1").split("\r\n")[1:]]
            fields = {name.lower(): value.strip() for name, value in lines}
            length = int(fields.get("content-length", "0"))
            if len(received) < end + 4 + length:
                return
            body = bytes(received[end + 4 : end + 4 + length])
            del received[: end + 4 + length]
            self._took(head[:4], fields, body)

    def _took(self, method: bytes, fields: dict[str, str], body: bytes) -> None:
        if method != b"POST":
            self._reply(b"405 Method Not Allowed" if method == b"GET " else b"200 OK")
            return
        message = loads(body)
        asked, mid = message.get("method"), message.get("id")
        if asked == "initialize" and not self.server.modern:
            session = f"{os.getpid()}-{len(self.sessions)}"
            self.sessions.add(session)
            self.server.took(message, lambda said: self._reply(b"200 OK", said, session))
            return
        if not self.server.modern and fields.get("mcp-session-id") not in self.sessions:
            self._reply(b"404 Not Found")  # it was another process's
            return
        if asked is None or mid is None:
            if asked != "notifications/cancelled":  # ends of streams say that better
                self.server.took(message, self._say)
            self._reply(b"202 Accepted")
            return
        self.busy, self.mid = True, mid
        # Ids are those of a session; what waits is found by the connection that it came on.
        message["id"] = (self, mid)
        self.server.took(message, self._say)

    def _say(self, message: dict[str, Any] | bytes | None) -> None:
        if message is None:
            self.transport.abort()
            return
        if isinstance(message, bytes):
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n")
            self.transport.write(message)
            return
        if "method" in message:
            if not self.streams:
                self.streams = True
                head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                self.transport.write(head)
            self._event(message)
            return
        message = {**message, "id": self.mid}
        if self.streams:
            self._event(message)
            self.transport.write(b"0\r\n\r\n")
        else:
            self._reply(b"200 OK", message)
        self.busy = self.streams = False
        self.server.loop.call_soon(self._next)

    def _event(self, message: dict[str, Any]) -> None:
        data = b"event: message\ndata: " + dumps(message).encode() + b"\n\n"
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _reply(self, status: bytes, said: dict[str, Any] | bytes | None = None, session: str = "") -> None:
        body = dumps(said).encode() if isinstance(said, dict) else b""
        more = b"Content-Type: application/json\r\n" if body else b""
        if session:
            more += b"Mcp-Session-Id: " + session.encode() + b"\r\n"
        self.transport.write(b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, more, len(body), body))


def reset_all() -> None:
    for one in list(Endpoint.open):
        one.transport.abort()


# ----------------------------------------------------------------------------------------------------------------------


def option(name: str, default: str) -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def publish(path: Path, text: str) -> None:
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(text)
    draft.replace(path)


async def serve() -> None:
    kind, era, name, where = sys.argv[1:5]
    folder = Path(os.environ["CALLS_FOLDER"] if where == "-" else where)
    server = Server(era, name, folder, float(option("--slow", "0")))
    publish(folder / f"{name}.pid", str(os.getpid()))
    if kind == "stdio":
        on_stdio(server)
        await asyncio.Event().wait()
    server.loop.add_signal_handler(signal.SIGUSR1, reset_all)
    listening = await server.loop.create_server(
        lambda: Endpoint(server), "127.0.0.1", int(option("--port", "0")), backlog=512
    )
    publish(folder / f"{name}.port", str(listening.sockets[0].getsockname()[1]))
    over = asyncio.Event()
    server.loop.add_reader(0, lambda: over.set() if not os.read(0, 1) else None)
    await over.wait()


if __name__ == "__main__":
    asyncio.run(serve())
