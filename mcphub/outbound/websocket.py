"""Owns a WebSocket towards another machine: how it is opened, its frames in and out, and how it ended.

It must not know MCP, nor who asks. It alone imports websockets, which is asked for no redirects, no compression and
nothing of this process's environment: proxies and certificates are those of `proxies.py` and `trust.py`.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio
import anyio.to_thread
import httpcore2
import httpx2
from websockets.asyncio import messages
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidStatus,
    InvalidURI,
    TooManyFragments,
)
from websockets.typing import Subprotocol

from mcphub.errors import TransportError
from mcphub.outbound import close_codes
from mcphub.outbound.connections import CONNECT_TIMEOUT, KEEP_ALIVE, TlsClosed
from mcphub.outbound.dial import dial
from mcphub.outbound.failures import (
    Peer,
    by_way,
    ended_unsaid,
    may_want_certificate,
    renamed,
    short,
    unusable_proxy,
    wants_certificate,
    wants_tls,
    written,
)
from mcphub.outbound.proxied import AtProxy
from mcphub.outbound.proxies import proxy_for, proxy_variable
from mcphub.outbound.tls_handshake import asks_for_certificate, speaks_tls
from mcphub.outbound.trust import tls_context
from mcphub.outbound.tunnel import open_tunnel
from mcphub.spec import TlsFiles

Header = tuple[bytes, bytes]
#: A silent peer is asked so often whether it is there, and may take so long to say so, seconds. The answer waits behind
#: whatever a server of one thread is at, so that a slow call must not look like a dead connection.
PING_EVERY = 20.0
PONG_WITHIN = 60.0
#: Seconds for the server to agree to be a WebSocket once it is connected.
AGREE_WITHIN = 30.0
#: Seconds that the closing handshake may take.
CLOSE_WITHIN = 2.0
#: Bytes that wait in the connection before more are queued by us.
_WRITE_LIMIT = 1 << 18
#: A server picks it or none (the convention of the official SDKs).
SUBPROTOCOL = Subprotocol("mcp")
#: Pieces that one message may come in. The library's own limit is 4096, which a large answer that a server flushes by
#: the kilobyte passes; each one costs some 200 bytes until the message is whole.
FRAGMENTS = 1 << 16
messages.MAX_FRAGMENTS = FRAGMENTS
_NOTHING = "closed the connection without an answer"
_PORTS = {"ws": 80, "wss": 443}
_LOG = logging.getLogger("mcphub.outbound.websocket.frames")
_LOG.setLevel(logging.CRITICAL + 1)  # what it says holds headers, or is said by us


class Rejected(Exception):
    """The server answered with another HTTP status than 101; redirects are not followed. `headers` by name in lower
    case."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body


class _NoConnection(Exception):
    """Nobody took it in time."""


class Closed(Exception):
    """The connection is over; its text says why, for a person."""


class _Connection(ClientConnection):
    """One that can end before it began: behind a proxy that happens where TLS with the server fails."""

    begun = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.begun = True
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.begun:
            super().connection_lost(exc)


class _Connect(connect):
    """One attempt, to this address alone; with `tunnel` by way of the proxy that this leads through."""

    tunnel: Callable[[], Awaitable[asyncio.Transport]] | None = None

    async def open_tcp_connection(self) -> ClientConnection:
        if self.tunnel is None:
            return await super().open_tcp_connection()
        transport: asyncio.Transport | None = await self.tunnel()
        assert transport is not None
        connection = self.factory(self.ws_uri)
        transport.set_protocol(connection)
        context = self.create_connection_kwargs.get("ssl")
        if context is not None:
            transport = await asyncio.get_running_loop().start_tls(
                transport, connection, context, server_hostname=self.ws_uri.host
            )
            assert transport is not None
        connection.connection_made(transport)
        return connection

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class WebSocket:
    """An open connection. Opened, used and closed by one task, except that one other may send."""

    def __init__(self, connection: ClientConnection, limit: int) -> None:
        self._connection = connection
        self._limit = limit

    async def receive(self) -> str | bytes:
        """The next message, its fragments joined: text, or what came as binary. Raises Closed."""
        try:
            return await self._connection.recv()
        except ConnectionClosed as e:
            raise Closed(self._why(e)) from None

    async def send(self, text: bytes) -> None:
        """Send one message; returns when the peer takes more. Raises Closed."""
        try:
            await self._connection.send(text, text=True)
        except ConnectionClosed as e:
            raise Closed(self._why(e)) from None

    async def close(self) -> None:
        """Say goodbye, at most CLOSE_WITHIN seconds, and be gone."""
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(CLOSE_WITHIN):
                await self._connection.close()
            self._connection.transport.abort()
            await self._connection.wait_closed()

    def _why(self, closed: ConnectionClosed) -> str:
        theirs, ours = closed.rcvd, closed.sent
        if theirs is not None and (ours is None or closed.rcvd_then_sent):
            return close_codes.closed(theirs.code, theirs.reason)
        if isinstance(closed.__cause__, TooManyFragments):
            return "a message came in too many fragments"
        match ours.code if ours is not None else 0:
            case 1007:
                return "the server sent text that is not UTF-8"
            case 1009:
                return f"a message is longer than {self._limit >> 20} MiB"
            case 1011:
                return f"the server did not answer a ping within {PONG_WITHIN:g} s"
            case 1002:
                return f"the server broke the WebSocket protocol: {ascii(ours.reason[:120]) if ours else ''}"
        return f"the server is gone without a word ({close_codes.said(1006, '')})"


async def open_websocket(
    text: str, headers: Sequence[Header], env: Mapping[str, str], tls: TlsFiles | None, limit: int
) -> tuple[WebSocket, tuple[str, ...]]:
    """(an open connection to this URL, warnings about the way there). No message may be larger than `limit` bytes.
    Raises TransportError as `renamed` does, or of the kinds `no_response` and `refused`, and Rejected."""
    url = _parsed(text)
    port = url.port or _PORTS[url.scheme]
    peer = Peer(written(url.host, port), plain="ws")
    scheme = "https" if url.scheme == "wss" else "http"
    via, bad = proxy_for(scheme, url.host, port, env)
    warnings = tuple(f"NO_PROXY: {ascii(item)[1:-1][:60]!r} is no host, address or network" for item in bad)
    proxy = None
    if via:
        variable = proxy_variable(scheme, env)
        proxy = _proxy(via, variable)
        between = written(proxy.host, proxy.port or (443 if proxy.scheme == "https" else 80))
        peer = Peer(peer.server, between, variable, "ws")
    context = await anyio.to_thread.run_sync(tls_context, env, tls) if url.scheme == "wss" else None
    secure_proxy = await anyio.to_thread.run_sync(tls_context, env) if via.startswith("https:") else None
    made: list[_Connection] = []
    most = CONNECT_TIMEOUT + AGREE_WITHIN

    def make(*args: Any, **options: Any) -> ClientConnection:
        made.append(_Connection(*args, **options))
        scope.deadline = anyio.current_time() + most  # the server is reached
        return made[-1]

    try:
        with anyio.fail_after(CONNECT_TIMEOUT + most) as scope:
            target = written(url.raw_host.decode("ascii").strip("[]"), port)
            tunnel = functools.partial(open_tunnel, proxy, target, secure_proxy) if proxy is not None else None
            connection = await _connected(url, port, headers, tunnel, context, limit, make)
    except InvalidStatus as e:
        found = {name.lower(): value for name, value in e.response.headers.raw_items()}
        raise Rejected(e.response.status_code, found, bytes(e.response.body or b"")) from None
    except (AtProxy, httpcore2.ProxyError) as e:
        raise renamed(e, peer) from None
    except InvalidURI as e:
        raise TransportError(f"cannot use the url: {e.msg}", kind="config") from None
    except _NoConnection as e:
        raise renamed(httpcore2.ConnectTimeout(str(e)), peer) from None
    except TimeoutError as e:
        if isinstance(e, OSError) and e.errno is not None:
            raise renamed(_connect_error(e), peer) from None
        text = f"{peer.server} did not become a WebSocket within {most:g} s"
        raise by_way(TransportError(text, kind="no_response"), peer) from None
    except (InvalidHandshake, EOFError, ConnectionResetError, BrokenPipeError) as e:
        if made and not made[-1].begun:
            raise await _certified(renamed(_tls_closed(e), peer), peer, url, port, via, tls) from None
        if made and isinstance(broken := made[-1].connection_exc, OSError) and not isinstance(e, OSError):
            failed = renamed(_connect_error(broken), peer)
            if isinstance(broken, ConnectionError):
                failed = await _certified(failed, peer, url, port, via, tls)
            raise failed from None
        if isinstance(e, InvalidMessage) or not isinstance(e, InvalidHandshake):
            why = _unread(e)
            if why == _NOTHING and url.scheme == "ws" and not via and await speaks_tls(url.host, port):
                raise wants_tls(peer.server, "wss") from None
            failed = by_way(TransportError(f"{peer.server} is no WebSocket: it {why}", kind="refused"), peer)
            if why == _NOTHING:
                failed = await _certified(failed, peer, url, port, via, tls)
            raise failed from None
        raise by_way(TransportError(f"{peer.server} is no WebSocket: {short(e)}", kind="refused"), peer) from None
    except OSError as e:  # of TLS too
        error = _connect_error(e)
        if url.scheme == "wss" and ended_unsaid(error):
            raise await _certified(renamed(error, peer), peer, url, port, via, tls) from None
        raise renamed(error, peer) from None
    return WebSocket(connection, limit), warnings


async def _certified(
    found: TransportError, peer: Peer, url: httpx2.URL, port: int, via: str, tls: TlsFiles | None
) -> TransportError:
    """What `found` says of a connection that the server ended unsaid, or that it wants a certificate."""
    given = tls is not None and bool(tls.cert)
    if url.scheme != "wss":
        return found
    if via:
        return found if given else may_want_certificate(found)
    return wants_certificate(found, peer, given) if await asks_for_certificate(url.host, port) else found


def _tls_closed(error: Exception) -> TlsClosed:
    wrapped = TlsClosed(str(error))
    wrapped.__cause__ = error
    return wrapped


def _unread(error: Exception) -> str:
    """Why there is no answer that could be read."""
    cause = error.__cause__ if isinstance(error, InvalidMessage) else error
    if isinstance(cause, EOFError | OSError) and not ("while reading" in str(cause) and "header" in str(cause)):
        return _NOTHING
    return f"does not speak HTTP as it should: {short(cause if isinstance(cause, Exception) else error)}"


async def _connected(
    url: httpx2.URL,
    port: int,
    headers: Sequence[Header],
    tunnel: Callable[[], Awaitable[asyncio.Transport]] | None,
    context: ssl.SSLContext | None,
    limit: int,
    make: Callable[..., ClientConnection],
) -> ClientConnection:
    options: dict[str, Any] = {}
    if context is not None:
        context.set_alpn_protocols(["http/1.1"])
        options["ssl"] = context
    sock = None
    if tunnel is None:
        with anyio.move_on_after(CONNECT_TIMEOUT):
            sock = await dial(url.host, port)
        if sock is None:
            raise _NoConnection
        for option in KEEP_ALIVE:
            sock.setsockopt(*option)
        options["sock"] = sock
    try:
        attempt = _Connect(
            str(url.copy_with(userinfo=b"", fragment=None)),
            subprotocols=[SUBPROTOCOL],
            compression=None,
            additional_headers=[(name.decode("ascii"), value.decode("latin-1")) for name, value in headers],
            user_agent_header=None,
            proxy=None,
            open_timeout=None,
            ping_interval=PING_EVERY,
            ping_timeout=PONG_WITHIN,
            close_timeout=CLOSE_WITHIN,
            max_size=limit,
            write_limit=_WRITE_LIMIT,
            logger=_LOG,
            create_connection=make,  # type: ignore[arg-type]
            **options,
        )
        attempt.tunnel = tunnel
        return await attempt
    except BaseException:
        if sock is not None:
            sock.close()
        raise


def credentials(text: str) -> bytes:
    """`Authorization` from the user part of a URL, b"" = none. Raises TransportError (kind `config`)."""
    url = _parsed(text)
    return b"Basic " + base64.b64encode(f"{url.username}:{url.password}".encode()) if url.userinfo else b""


def _parsed(text: str) -> httpx2.URL:
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError) as e:
        raise TransportError(f"cannot use the url: {short(e)}", kind="config") from None
    if url.scheme not in _PORTS or not url.host:
        raise TransportError("cannot use the url: it is not ws:// or wss:// with a host", kind="config")
    return url


def _proxy(via: str, variable: str) -> httpx2.URL:
    """Credentials in its URL go to it alone, and into no message."""
    try:
        url = httpx2.URL(via)
    except (httpx2.InvalidURL, ValueError):
        raise unusable_proxy(variable, "it is no URL") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise unusable_proxy(variable, f"{url.scheme or 'no scheme'} is not http or https, with a host")
    return url


def _connect_error(error: OSError) -> httpcore2.ConnectError:
    wrapped = httpcore2.ConnectError(str(error))
    wrapped.__cause__ = error
    return wrapped
