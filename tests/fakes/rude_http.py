"""Owns a scripted HTTP/1.1 server on the loopback: every way of answering that the field has seen, all requests logged.

It must not know MCP beyond the method in a body, which rules are found by; ordinary answers come from elsewhere.
Standard library only, on the asyncio loop of the test: `async with RudeHttp(ordinary) as server`, then `server.url`.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Final, Self

Headers = tuple[tuple[str, str], ...]
BOM = b"\xef\xbb\xbf"
JSON = "application/json"
EVENT_STREAM = "text/event-stream"


# -- what came in


@dataclass(eq=False, slots=True)
class Request:
    """One request as it came. `at` is the loop's clock, `connection` counts from 0, `left` turns True when the client
    closed before its answer was whole."""

    method: str
    target: str
    headers: Headers
    body: bytes
    at: float
    connection: int
    left: bool = False

    def header(self, name: str) -> str | None:
        """Its value, blanks around it removed; several of one name joined by commas."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        return ", ".join(values) if values else None

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def message(self) -> Any:
        """The body as JSON, None where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def key(self) -> str:
        """What rules find it by: the JSON-RPC method, `response` for a JSON-RPC response, else the HTTP method."""
        message = self.message
        if self.method != "POST" or not isinstance(message, dict):
            return self.method
        return str(message["method"]) if "method" in message else "response"

    @property
    def params(self) -> dict[str, Any]:
        message = self.message
        found = message.get("params") if isinstance(message, dict) else None
        return found if isinstance(found, dict) else {}

    def result(self, result: Any) -> bytes:
        """The JSON-RPC response to it."""
        return encoded({"jsonrpc": "2.0", "id": self.message["id"], "result": result})

    def error(self, code: int, message: str, data: Any = None) -> bytes:
        id = self.message.get("id") if isinstance(self.message, dict) else None
        error = {"code": code, "message": message, **({} if data is None else {"data": data})}
        return encoded({"jsonrpc": "2.0", "id": id, "error": error})


def encoded(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


# -- what goes out


class Feed:
    """A body that a test writes while it is open: `send`, then `end`."""

    def __init__(self) -> None:
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue()

    def send(self, data: bytes) -> None:
        self._parts.put_nowait(data)

    def end(self) -> None:
        self._parts.put_nowait(None)

    async def parts(self) -> AsyncIterator[bytes]:
        while (part := await self._parts.get()) is not None:
            yield part


class _Ending:
    def __init__(self, name: str) -> None:
        self.name = name


#: Ends the connection in the middle of the body: politely, or with a reset. NEVER: stays open and says nothing more.
CLOSE: Final = _Ending("close")
RESET: Final = _Ending("reset")
NEVER: Final = _Ending("never")

#: Bytes are written as they are (one chunk where the body is chunked), a number is a pause in seconds, an event is
#: waited for, a feed is written until its end.
Step = bytes | float | asyncio.Event | Feed | _Ending


@dataclass(frozen=True, slots=True)
class Reply:
    """Status, headers, the steps of the body, and steps that come before all of it.

    `framing`: `length` (of the body's bytes, unless a header says another), `chunked`, `close` (the end of the
    connection is the end), `raw` (the body is all there is, no head). A body that is made while it is sent serves one
    request: a rule gives a function for it.
    """

    status: int = 200
    headers: Headers = ()
    body: Iterable[Step] = ()
    framing: str = "length"
    before: Iterable[Step] = ()

    def after(self, *steps: Step) -> Reply:
        """The same, but nothing is said before these steps are through."""
        return replace(self, before=steps)

    def with_headers(self, *headers: tuple[str, str]) -> Reply:
        """These headers instead of those of the same names."""
        names = {name.lower() for name, _ in headers}
        return replace(self, headers=(*(one for one in self.headers if one[0].lower() not in names), *headers))

    def without(self, header: str) -> Reply:
        return replace(self, headers=tuple(one for one in self.headers if one[0].lower() != header.lower()))

    def gzipped(self) -> Reply:
        """The same, compressed: the whole body must be bytes."""
        data = gzip.compress(b"".join(part for part in self.body if isinstance(part, bytes)))
        return replace(self.with_headers(("Content-Encoding", "gzip")), body=(data,))


def body(
    data: bytes = b"", kind: str | None = JSON, *, status: int = 200, headers: Sequence[tuple[str, str]] = ()
) -> Reply:
    """A whole body of a content type; None = no Content-Type at all."""
    return Reply(status, (*((("Content-Type", kind),) if kind is not None else ()), *headers), (data,))


def empty(status: int, *headers: tuple[str, str]) -> Reply:
    return Reply(status, headers)


def redirect(status: int, location: str) -> Reply:
    return empty(status, ("Location", location))


def stream(*steps: Step, kind: str = EVENT_STREAM, headers: Sequence[tuple[str, str]] = ()) -> Reply:
    """A chunked body, an event stream unless said otherwise."""
    return Reply(200, (("Content-Type", kind), ("Cache-Control", "no-cache"), *headers), steps, "chunked")


def streamed(steps: Iterable[Step], *, headers: Sequence[tuple[str, str]] = ()) -> Reply:
    """The same of steps that are made while they are sent, for bodies too big to hold."""
    return replace(stream(headers=headers), body=steps)


def raw(*steps: Step) -> Reply:
    """Bytes in place of a response; the connection ends behind them."""
    return Reply(body=steps, framing="raw")


def event(
    data: bytes | str, *, name: str = "", id: str | None = None, retry: int | None = None, newline: str = "\n"
) -> bytes:
    """One event of an event stream, its data on as many lines as it has."""
    text = data.decode() if isinstance(data, bytes) else data
    lines = [f"event: {name}"] if name else []
    lines += [f"id: {id}"] if id is not None else []
    lines += [f"retry: {retry}"] if retry is not None else []
    lines += [f"data: {line}" for line in text.split("\n")]
    return "".join(line + newline for line in [*lines, ""]).encode()


def comment(text: str = "", newline: str = "\n") -> bytes:
    return f":{text}{newline}{newline}".encode()


def chopped(data: bytes, size: int) -> list[bytes]:
    """The same bytes in chunks of `size`, which do not care for lines or characters."""
    return [data[start : start + size] for start in range(0, len(data), size)]


def slowly(data: bytes, size: int, pause: float) -> list[Step]:
    """Chunks with a pause of `pause` seconds behind each."""
    return [step for part in chopped(data, size) for step in (part, pause)]


def big(before: bytes, size: int, after: bytes, filler: bytes = b"x") -> Iterator[bytes]:
    """`size` bytes of filler between two parts, a MiB at a time; nothing holds the whole."""
    yield before
    whole, rest = divmod(size, 1 << 20)
    block = filler * (1 << 20)
    for _ in range(whole):
        yield block
    yield filler * rest
    yield after


# -- the server

Answer = Reply | Callable[[Request], Reply]


@dataclass(slots=True)
class Rule:
    """`times` requests of a key get this answer; None = all of them."""

    key: str
    answer: Answer
    times: int | None


@dataclass(eq=False)
class RudeHttp:
    """Answers each request by the first rule for its key (or `*`), else by `ordinary`. `tls` makes it https."""

    ordinary: Callable[[Request], Reply]
    path: str = "/mcp"
    tls: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    #: how many there were
    connections: int = 0
    #: 0 = any free one
    port: int = 0
    #: one that listens already, in the place of its own
    listener: socket.socket | None = None
    host: str = "127.0.0.1"

    # -- script and log

    def on(self, key: str, answer: Answer, *, times: int | None = 1) -> None:
        """The next `times` requests of this key (Request.key; `*` = any) get this answer; the oldest rule first."""
        self.rules.append(Rule(key, answer, times))

    def forget(self) -> None:
        """No rules any more; the log stays."""
        self.rules.clear()

    @property
    def origin(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return self.origin + self.path

    def sent(self, key: str) -> list[Request]:
        """The requests of one key so far."""
        return [request for request in self.requests if request.key == key]

    @property
    def open(self) -> int:
        """Connections that are open now."""
        return len(self._live)

    async def until(self, done: Callable[[], Any], *, timeout: float = 10) -> None:
        """Waits until `done` is true of what was logged. Raises TimeoutError, naming what came."""
        try:
            async with asyncio.timeout(timeout):
                while not done():
                    await self._news.wait()
        except TimeoutError:
            raise TimeoutError(f"came so far: {[request.key for request in self.requests]}") from None

    # -- life

    async def __aenter__(self) -> Self:
        self._news = asyncio.Event()
        self._live: set[_Connection] = set()
        self._tasks = asyncio.TaskGroup()
        await self._tasks.__aenter__()
        listener = self.listener or socket.create_server((self.host, self.port))
        self.host, self.port = listener.getsockname()[:2]
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), sock=listener, ssl=self.tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for connection in list(self._live):
            connection.abort()
        # A test's own failure stays what it is; a failure in here has cancelled the test and is told in its place.
        cancelled = isinstance(error, asyncio.CancelledError)
        await (self._tasks.__aexit__(kind, error, trace) if cancelled else self._tasks.__aexit__(None, None, None))
        await self.until(lambda: not self._live)
        await self._server.wait_closed()

    # -- one connection

    def _answer(self, request: Request) -> Reply:
        for rule in self.rules:
            if rule.key in (request.key, "*") and rule.times != 0:
                if rule.times is not None:
                    rule.times -= 1
                return rule.answer(request) if callable(rule.answer) else rule.answer
        return self.ordinary(request)

    def _changed(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _came(self, connection: _Connection) -> None:
        connection.number = self.connections
        self.connections += 1
        self._live.add(connection)
        connection.task = self._tasks.create_task(self._serve(connection))

    def _went(self, connection: _Connection) -> None:
        self._live.discard(connection)
        self._changed()

    async def _serve(self, connection: _Connection) -> None:
        """Requests and answers in turn until one side ends it."""
        request: Request | None = None
        try:
            while True:
                request = None
                try:
                    request = await connection.request()
                except ValueError:
                    return  # no HTTP
                self.requests.append(request)
                self._changed()
                if not await self._send(connection, self._answer(request), request):
                    return
        except asyncio.CancelledError:
            if not connection.lost:
                raise
            if request is not None:
                request.left = True
                self._changed()
        finally:
            connection.transport.close()

    async def _send(self, connection: _Connection, reply: Reply, request: Request) -> bool:
        """Writes the answer; False when the connection ends with it."""
        steps = list(reply.body) if reply.framing == "length" else reply.body
        if not await self._steps(connection, reply.before, "raw"):
            return False
        if reply.framing != "raw":
            await connection.write(_head(reply, steps))
        if request.method == "HEAD":
            return True
        if not await self._steps(connection, steps, reply.framing):
            return False
        if reply.framing == "chunked":
            await connection.write(b"0\r\n\r\n")
        return reply.framing in ("length", "chunked") and request.header("Connection") != "close"

    async def _steps(self, connection: _Connection, steps: Iterable[Step], framing: str) -> bool:
        for step in steps:
            if isinstance(step, bytes):
                await connection.write(_framed(step, framing))
            elif isinstance(step, Feed):
                async for part in step.parts():
                    await connection.write(_framed(part, framing))
            elif isinstance(step, asyncio.Event):
                await step.wait()
            elif step is CLOSE:
                return False
            elif step is RESET:
                connection.abort()
                return False
            elif isinstance(step, _Ending):
                await asyncio.Event().wait()
            else:
                await asyncio.sleep(step)
        return True


class _Connection(asyncio.Protocol):
    """The bytes of one client. What waits on a client that has gone is cancelled."""

    def __init__(self, server: RudeHttp) -> None:
        self.server = server
        self.number = 0
        self.lost = False
        self.task: asyncio.Task[None] | None = None
        self._data = bytearray()
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if (sock := transport.get_extra_info("socket")) is not None:
            # Else the system holds back a chunk until the one before is acknowledged, and a reset drops it unsent.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server._came(self)

    def data_received(self, data: bytes) -> None:
        self._data += data
        self._arrived.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        self.server._went(self)

    def _cancel(self) -> None:
        self.lost = True
        if self.task is not None and self.task is not asyncio.current_task():
            self.task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def abort(self) -> None:
        """A reset: what was not sent is dropped."""
        sock = self.transport.get_extra_info("socket")
        if sock is not None and not self.transport.is_closing():
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, (1).to_bytes(4, "little") + bytes(4))
        self.transport.abort()
        self._cancel()

    async def write(self, data: bytes) -> None:
        """Each write leaves by itself, so that chunks stay the chunks they were."""
        self.transport.write(data)
        await asyncio.sleep(0)
        await self._writable.wait()

    async def request(self) -> Request:
        """The next request, body and all. Raises ValueError for what is no HTTP."""
        head = await self._until(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ", 2)
        pairs = [line.partition(":") for line in lines[1:] if line]
        headers = tuple((name, value.strip(" \t")) for name, _, value in pairs)
        known = {name.lower(): value for name, value in headers}
        if known.get("transfer-encoding", "").lower() == "chunked":
            body = await self._chunks()
        else:
            body = await self._exactly(int(known.get("content-length", "0")))
        return Request(method, target, headers, body, asyncio.get_running_loop().time(), self.number)

    async def _more(self) -> None:
        self._arrived.clear()
        await self._arrived.wait()

    async def _until(self, mark: bytes) -> bytes:
        while (end := self._data.find(mark)) < 0:
            await self._more()
        return (await self._exactly(end + len(mark)))[: -len(mark)]

    async def _exactly(self, size: int) -> bytes:
        while len(self._data) < size:
            await self._more()
        taken = bytes(self._data[:size])
        del self._data[:size]
        return taken

    async def _chunks(self) -> bytes:
        whole = b""
        while size := int((await self._until(b"\r\n")).partition(b";")[0], 16):
            whole += (await self._exactly(size + 2))[:-2]
        await self._until(b"\r\n")
        return whole


def _head(reply: Reply, steps: Iterable[Step]) -> bytes:
    lines = [f"HTTP/1.1 {reply.status} Whatever", *(f"{name}: {value}" for name, value in reply.headers)]
    said = {name.lower() for name, _ in reply.headers}
    if reply.framing == "length" and "content-length" not in said and reply.status not in (204, 304):
        lines.append(f"Content-Length: {sum(len(step) for step in steps if isinstance(step, bytes))}")
    elif reply.framing == "chunked":
        lines.append("Transfer-Encoding: chunked")
    elif reply.framing == "close":
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _framed(data: bytes, framing: str) -> bytes:
    if framing != "chunked":
        return data
    return b"%x\r\n%s\r\n" % (len(data), data) if data else b""
