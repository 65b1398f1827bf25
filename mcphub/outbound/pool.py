"""Owns the connections to servers: which one a request takes, how long an idle one is kept, the end of all.

It must not know what is asked. Requests that fit into one write go over connections of our own, at a fifth of what they
cost in httpx2's pool (httpcore2), which has the rest: the way through a proxy, and what is too large.
"""

from __future__ import annotations

import asyncio
import functools
import re
import ssl
from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

import anyio
import anyio.lowlevel
import httpcore2

from mcphub.outbound.connections import CONNECT_TIMEOUT, KEEP_ALIVE, TOGETHER, Backend, TlsClosed, TlsTimeout
from mcphub.outbound.dial import dial
from mcphub.outbound.guard import Guard
from mcphub.outbound.line import Header, Line
from mcphub.outbound.proxied import Way

#: Seconds for one write of a request.
WRITE_TIMEOUT = 60.0
#: Seconds an idle connection is kept: below the 5 s after which common servers close theirs, since a request that meets
#: that moment is lost.
KEEP_IDLE = 4.0
KEPT_CONNECTIONS = 100

#: No limit on the wait for a connection or for data: who asks has a deadline of its own.
_TIMEOUTS = {"timeout": {"connect": CONNECT_TIMEOUT, "read": None, "write": WRITE_TIMEOUT, "pool": None}}
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_VALUE = re.compile(rb"(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?").fullmatch

Origin = tuple[bytes, bytes, int]


class Response(Protocol):
    """An answer whose head has come. Exactly one of `release` and `aclose` ends it."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Sequence[Header]: ...

    def whole(self) -> bytes | None:
        """All of the body where it is here already; else None, and `aiter_stream` has it."""

    def aiter_stream(self) -> AsyncGenerator[bytes, None]: ...

    def release(self) -> bool:
        """Let it go; False where `aclose` must be awaited for that."""

    async def aclose(self) -> None: ...


class _OnLine:
    """The answer on a connection of our own."""

    __slots__ = ("_line", "_origin", "_pool", "headers", "status")

    def __init__(self, line: Line, pool: Pool, origin: Origin) -> None:
        self.status = line.status
        self.headers = line.headers
        self._line = line
        self._pool = pool
        self._origin = origin

    def whole(self) -> bytes | None:
        return self._line.whole()

    def aiter_stream(self) -> AsyncGenerator[bytes, None]:
        return self._line.aiter_stream()

    def release(self) -> bool:
        self._pool.take_back(self._line, self._origin)
        return True

    async def aclose(self) -> None:
        self.release()


class _FromCore:
    """The answer on a connection of httpcore2's."""

    __slots__ = ("_response", "headers", "status")

    def __init__(self, response: httpcore2.Response) -> None:
        self.status = response.status
        self.headers = response.headers
        self._response = response

    def whole(self) -> bytes | None:
        return None

    def aiter_stream(self) -> AsyncGenerator[bytes, None]:
        return self._response.aiter_stream()

    def release(self) -> bool:
        return False

    async def aclose(self) -> None:
        await self._response.aclose()


class Pool:
    """The connections of one client; `proxy` stands in between, where there is one, and is shown as `between`."""

    def __init__(
        self,
        context: ssl.SSLContext,
        proxy: httpcore2.Proxy | None,
        guard: Guard | None = None,
        *,
        between: str = "",
    ) -> None:
        self._context = context
        self._guard = guard
        self._direct = proxy is None
        self._between = between
        #: What is missing of the first connection, or of the first answer by way of a proxy, "" = it is there.
        self.waits_for = ""
        self._reached = False
        self._idle: dict[Origin, list[Line]] = {}
        #: Set while there are idle connections: nobody may come to look whether they are too old.
        self._sweeping: asyncio.TimerHandle | None = None
        self._lines: set[Line] = set()
        #: Idle connections of the other pool are not to be used again.
        self._core_in_doubt = False
        self._core = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            proxy=proxy,
            max_connections=None,
            max_keepalive_connections=KEPT_CONNECTIONS,
            keepalive_expiry=KEEP_IDLE,
            network_backend=Backend(None if proxy is not None else guard),
            socket_options=KEEP_ALIVE,
        )

    @property
    def guarded(self) -> bool:
        """Whether not every place may be connected to."""
        return self._guard is not None

    async def request(
        self, method: str, url: httpcore2.URL, headers: Sequence[Header], body: bytes | None
    ) -> Response:
        """Send one request and wait for the head of its answer. Raises what `failures.renamed` takes."""
        head = _head(method, url.target, tuple(headers)) if self._direct else None
        if head is None or len(body or b"") > TOGETHER:
            if self._core_in_doubt:
                await self._forget_idle_of_core()
            return _FromCore(await self._by_core(method, url, _sized(headers, body), body))
        data = head + b"\r\n" if body is None else b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
        origin = (url.scheme, url.host, url.port or (443 if url.scheme == b"https" else 80))
        line = self._kept(origin) or await self._connected(origin)
        try:
            await line.ask(data)
        except BaseException:
            line.abort()
            self._lines.discard(line)
            raise
        return _OnLine(line, self, origin)

    async def _by_core(
        self, method: str, url: httpcore2.URL, headers: Sequence[Header], body: bytes | None
    ) -> httpcore2.Response:
        request = httpcore2.Request(method, url, headers=headers, content=body, extensions=_TIMEOUTS)
        if self._direct:
            return await self._core.handle_async_request(request)
        way = Way(self._between, url.scheme == b"https", self._missing)
        request.extensions = {**_TIMEOUTS, "trace": way.trace}
        response = await way.request(self._core, request)
        self._missing("")
        self._reached = True
        return response

    def _kept(self, origin: Origin) -> Line | None:
        idle = self._idle.get(origin, [])
        since = asyncio.get_running_loop().time() - KEEP_IDLE
        while idle and idle[0].idle_since < since:
            self._end(idle.pop(0))
        while idle:
            line = idle.pop()
            if line.usable(since):
                return line
            self._end(line)
        return None

    def _sweep(self) -> None:
        """End what was idle for too long; what is left is looked at again."""
        loop = asyncio.get_running_loop()
        since, self._sweeping = loop.time() - KEEP_IDLE, None
        for origin, lines in list(self._idle.items()):
            while lines and lines[0].idle_since <= since:
                self._end(lines.pop(0))
            if not lines:
                del self._idle[origin]
        if self._idle:
            self._sweeping = loop.call_later(KEEP_IDLE, self._sweep)

    def forget_idle(self) -> None:
        """Use none of the connections again that are idle now: the way that they take may be gone."""
        for line in [line for lines in self._idle.values() for line in lines]:
            self._end(line)
        self._idle.clear()
        self._core_in_doubt = bool(self._core.connections)

    async def _forget_idle_of_core(self) -> None:
        self._core_in_doubt = False
        for one in self._core.connections:
            if one.is_idle():
                await one.aclose()

    async def _connected(self, origin: Origin) -> Line:
        scheme, host, port = origin
        name = host.decode("ascii").strip("[]")
        context = self._context if scheme == b"https" else None
        if context is not None:
            context.set_alpn_protocols(["http/1.1"])
        dialled = False
        self._missing("connection")
        try:
            with anyio.fail_after(CONNECT_TIMEOUT):
                sock = await dial(name, port, self._guard)
                if context is not None:
                    dialled = True
                    self._missing("answer to the TLS handshake")
                try:
                    for option in KEEP_ALIVE:
                        sock.setsockopt(*option)
                    _, line = await asyncio.get_running_loop().create_connection(
                        Line, sock=sock, ssl=context, server_hostname=name if context is not None else None
                    )
                except BaseException:
                    sock.close()
                    raise
        except OSError as e:  # of TLS too
            if isinstance(e, TimeoutError) and e.errno is None:
                if dialled:
                    raise TlsTimeout(str(e)) from e
                raise httpcore2.ConnectTimeout(str(e)) from e
            if dialled and isinstance(e, ConnectionError | ssl.SSLEOFError):
                raise TlsClosed(str(e)) from e
            raise httpcore2.ConnectError(str(e)) from e
        self._lines.add(line)
        self._missing("")
        self._reached = True
        return line

    def _missing(self, what: str) -> None:
        self.waits_for = "" if self._reached else what

    def take_back(self, line: Line, origin: Origin) -> None:
        """Its answer is done with."""
        idle = self._idle.setdefault(origin, [])
        if line.release() and len(idle) < KEPT_CONNECTIONS:
            idle.append(line)
            if self._sweeping is None:
                self._sweeping = asyncio.get_running_loop().call_later(KEEP_IDLE, self._sweep)
        else:
            self._end(line)

    def _end(self, line: Line) -> None:
        line.abort()
        self._lines.discard(line)

    async def aclose(self) -> None:
        """Close every connection."""
        lines, self._lines = self._lines, set()
        self._idle.clear()
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        for line in lines:
            line.abort()
        for line in lines:
            await line.lost.wait()
        await self._core.aclose()


def _sized(headers: Sequence[Header], body: bytes | None) -> list[Header]:
    return [*headers] if body is None else [*headers, (b"Content-Length", b"%d" % len(body))]


@functools.lru_cache(maxsize=256)
def _head(method: str, target: bytes, headers: tuple[Header, ...]) -> bytes | None:
    """Request line and headers, each with its end; None where one is not as RFC 9110 wants it: httpcore2 says why."""
    if not all(_NAME(name) and _VALUE(value) for name, value in headers):
        return None
    lines = b"".join([b"%b: %b\r\n" % header for header in headers])
    return b"%b %b HTTP/1.1\r\n%b" % (method.encode("ascii"), target or b"/", lines)
