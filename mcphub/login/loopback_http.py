"""Owns a small HTTP server on the loopback, for the few requests of one person's browser.

It must not know what is served. Each connection carries one GET without a body; whatever else comes is answered 404,
and nothing that came is ever in an answer. Nothing listens but on 127.0.0.1, and ::1 at the same port.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager

import anyio
import msgspec

#: Bytes of request line and headers, seconds for them to come, connections at once.
MAX_HEAD = 16 * 1024
HEAD_TIMEOUT = 10.0
MOST = 32
#: Seconds in which an answer must be read.
FLUSH = 2.0
#: How often another free port is tried, where ::1 has another listener there.
TRIES = 20

_REQUEST = re.compile(rb"([A-Z]{1,16}) (/[\x21-\x7e]*) HTTP/1\.[01]")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*")
_REASONS = {200: "OK", 303: "See Other", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 503: "Busy"}
#: On every answer: nothing runs, nothing is loaded, framed, kept or told to the next site.
GUARDS = (
    ("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
)


class Response(msgspec.Struct, frozen=True):
    """`more` are further headers."""

    status: int
    page: str
    more: tuple[tuple[str, str], ...] = ()

    def encoded(self, *, head: bool = False) -> bytes:
        body = self.page.encode("utf-8")
        fields = (
            ("Content-Type", "text/html; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
            *GUARDS,
            *self.more,
        )
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
        return f"HTTP/1.1 {self.status} {_REASONS[self.status]}\r\n{lines}\r\n".encode("latin-1") + body


NOT_FOUND = Response(404, "<!doctype html><meta charset=utf-8><title>mcphub</title><p>There is nothing here.")
_BAD = Response(400, "<!doctype html><meta charset=utf-8><title>mcphub</title><p>This is no request.")
_BUSY = Response(503, "<!doctype html><meta charset=utf-8><title>mcphub</title><p>Too many connections.")


class Exchange:
    """One GET that came; it is answered once. `peer` and `own` are the two ends of its connection."""

    def __init__(self, path: str, query: str, headers: dict[str, str], wire: _Connection) -> None:
        self.path = path
        self.query = query
        self.headers = headers
        self._wire = wire

    @property
    def peer(self) -> tuple[str, int]:
        host, port = self._wire.transport.get_extra_info("peername")[:2]
        return str(host), int(port)

    @property
    def own(self) -> tuple[str, int]:
        host, port = self._wire.transport.get_extra_info("sockname")[:2]
        return str(host), int(port)

    def respond(self, response: Response) -> None:
        self._wire.respond(response)

    async def gone(self) -> None:
        """Until the answer is on its way and the connection closed, or the browser left; FLUSH seconds at most."""
        with anyio.move_on_after(FLUSH):
            await self._wire.closed.wait()


Serve = Callable[[Exchange], None]


class _Connection(asyncio.Protocol):
    def __init__(self, server: LoopbackServer) -> None:
        self.transport: asyncio.Transport
        self.closed = asyncio.Event()
        self._server = server
        self._head = b""
        self._timer: asyncio.TimerHandle | None = None
        self._given = False
        self._answered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._server.open.add(self)
        self._timer = asyncio.get_running_loop().call_later(HEAD_TIMEOUT, transport.abort)
        if len(self._server.open) > MOST:
            self.respond(_BUSY)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._server.open.discard(self)
        self.closed.set()

    def data_received(self, data: bytes) -> None:
        if self._given or self._answered:
            return
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if len(self._head) > MAX_HEAD or (end < 0 and b"\n\n" in self._head):
            self.respond(_BAD)
        elif end >= 0:
            self._given = True
            self._route(self._head[:end])

    def eof_received(self) -> bool:
        return self._given and not self._answered  # it may have shut its own half only

    def _route(self, head: bytes) -> None:
        if self._timer is not None:
            self._timer.cancel()
        first, *lines = head.split(b"\r\n")
        request = _REQUEST.fullmatch(first)
        headers: dict[str, str] = {}
        for line in lines:
            found = _HEADER.fullmatch(line)
            if found is None or (name := found[1].decode("ascii").lower()) in headers:
                self.respond(_BAD)
                return
            headers[name] = found[2].decode("latin-1")
        if request is None:
            self.respond(_BAD)
        elif request[1] != b"GET" or not _ours(headers.get("host", ""), self._server.port):
            self.respond(NOT_FOUND)
        else:
            path, _, query = request[2].decode("ascii").partition("?")
            self._server.serve(Exchange(path, query, headers, self))

    def respond(self, response: Response) -> None:
        if self._answered:
            return
        self._answered = True
        if self._timer is not None:
            self._timer.cancel()
        if not self.transport.is_closing():
            self.transport.write(response.encoded())
            self.transport.close()
            self._timer = asyncio.get_running_loop().call_later(FLUSH, self.transport.abort)


def _ours(host: str, port: int) -> bool:
    """Whether a Host header is one of the loopback's names: another is a page that was made to lead here."""
    name, colon, number = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not colon:
        name, number = host, "80"
    return name.lower() in ("127.0.0.1", "localhost", "[::1]") and number == str(port)


class LoopbackServer:
    """Sockets that listen on the loopback from the start; `serving` answers on them. `serve` is called for each GET."""

    def __init__(self, port: int, serve: Serve, *, both: bool = False) -> None:
        """`port` 0 = any free one; `both`: nobody else may listen there on ::1, where a browser may go as well. Raises
        OSError."""
        self.serve = serve
        self.open: set[_Connection] = set()
        self.sockets = _bound(port, both)
        self.port: int = self.sockets[0].getsockname()[1]

    def close(self) -> None:
        """For one that never served."""
        for sock in self.sockets:
            sock.close()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        with ExitStack() as stack:
            for sock in self.sockets:
                stack.callback(sock.close)
            servers = [await loop.create_server(lambda: _Connection(self), sock=sock) for sock in self.sockets]
            try:
                yield
            finally:
                for server in servers:
                    server.close()
                for connection in list(self.open):
                    connection.respond(NOT_FOUND)
                with anyio.CancelScope(shield=True), anyio.move_on_after(FLUSH):
                    for connection in list(self.open):
                        await connection.closed.wait()
                for connection in list(self.open):
                    connection.transport.abort()


def _bound(port: int, both: bool) -> list[socket.socket]:
    last: OSError | None = None
    for _ in range(1 if port else TRIES):
        four = _listening(socket.AF_INET, "127.0.0.1", port)
        try:
            return [four, _listening(socket.AF_INET6, "::1", four.getsockname()[1])]
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return [four]  # this machine has no ::1
            if port and not both:
                return [four]
            four.close()
            last = error
    assert last is not None
    raise last


def _listening(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((host, port))
        sock.listen(MOST)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock
