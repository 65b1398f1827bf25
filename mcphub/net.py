"""Owns HTTP towards other machines: the client, its TLS, proxies, limits and redirects, what its failures are called.

It must not know MCP, nor who asks. The one module that imports httpx2, and imported itself only when a remote server is
opened: 90 ms and 10 MiB are for those who have one. Requests go to httpx2's own connection pool (httpcore2): no cookies
are kept, no credentials or proxies are taken from this process's environment, and a request costs half.
"""

from __future__ import annotations

import base64
import functools
import ipaddress
import logging
import os
import select
import socket
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread
import httpcore2
import httpx2

from mcphub.address import address, is_loopback
from mcphub.errors import TransportError

#: Seconds for the connection, TLS included; for one write of a request.
CONNECT_TIMEOUT = 10.0
WRITE_TIMEOUT = 60.0
#: Seconds an idle connection is kept: below the 5 s after which common servers close theirs, since a request that meets
#: that moment is lost.
KEEP_IDLE = 4.0
KEPT_CONNECTIONS = 100
#: Redirects in a row.
MAX_REDIRECTS = 5
#: When a silent peer is asked whether it is still there, and when it counts as gone, seconds.
PROBE_AFTER, PROBE_EVERY, PROBES = 60, 15, 4
#: Unsent bytes of one request's head and body that leave in one write.
TOGETHER = 1 << 16
#: Bytes that one step of decompressing gives at most: a bomb must not be held whole.
INFLATED = 1 << 20

Header = tuple[bytes, bytes]
_DEFAULT_PORTS = {"http": 80, "https": 443}


# --- proxies ---------------------------------------------------------------------------------------------------------


def proxy_for(scheme: str, host: str, port: int, env: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The URL of the proxy for one origin, "" = none, and the items of NO_PROXY that say nothing.

    HTTPS_PROXY or HTTP_PROXY, else ALL_PROXY; the lower-case name wins, as with curl. The loopback is never asked for
    by way of a proxy. NO_PROXY holds host names (with all below them), addresses, networks, each with a port or not.
    """
    proxy = _variable(env, f"{scheme}_proxy") or _variable(env, "all_proxy")
    if not proxy or is_loopback(host):
        return "", ()
    bad: list[str] = []
    for item in _variable(env, "no_proxy").replace(" ", ",").split(","):
        if not item:
            continue
        found = _bypasses(item, host, port)
        if found:
            return "", ()
        if found is None:
            bad.append(item)
    return proxy if "://" in proxy else f"http://{proxy}", tuple(bad)


def _variable(env: Mapping[str, str], name: str) -> str:
    return (env.get(name) or env.get(name.upper()) or "").strip()


def _bypasses(item: str, host: str, port: int) -> bool | None:
    """Whether an item of NO_PROXY covers this host; None for what is no such item."""
    if item == "*":
        return True
    where = address(host)
    if "/" in item:
        try:
            network = ipaddress.ip_network(item, strict=False)
        except ValueError:
            return None
        return where is not None and where in network
    name, colon, digits = item.rpartition(":")
    if colon and digits and (":" not in name or name.endswith("]")):
        if not (digits.isascii() and digits.isdecimal()):
            return None
        if int(digits[:6]) != port:
            return False
        item = name
    item = item.strip("[]").lower().removeprefix("*").strip(".")
    named = address(item)
    if named is not None:
        return named == where
    if not item or set(item) & set("*?@ \\"):
        return None
    host = host.lower().rstrip(".")
    return host == item or host.endswith("." + item)


# --- TLS -------------------------------------------------------------------------------------------------------------


def tls_context(env: Mapping[str, str]) -> ssl.SSLContext:
    """Whom to trust: the system's store, or SSL_CERT_FILE and SSL_CERT_DIR in its place; NODE_EXTRA_CA_CERTS adds to
    either. Verification cannot be turned off. Raises TransportError (kind `config`)."""
    names = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")
    paths = [env.get(name) or env.get(name.lower()) or "" for name in names]
    for name, path in zip(names, paths, strict=True):
        if path and not os.path.exists(path):
            raise TransportError(f"cannot read the certificates of {name}: there is no {path}", kind="config")
    try:
        return _tls_context(*paths, tuple(os.stat(path).st_mtime_ns if path else 0 for path in paths))
    except (OSError, ssl.SSLError) as e:
        given = ", ".join(f"{name}={path}" for name, path in zip(names, paths, strict=True) if path)
        raise TransportError(f"cannot use the certificates of {given or 'the system'}: {e}", kind="config") from None


@functools.lru_cache(maxsize=4)
def _tls_context(file: str, directory: str, extra: str, changed: tuple[int, ...]) -> ssl.SSLContext:
    """Made once for all servers: the system's store is a megabyte, and 20 ms to read."""
    if file or directory:
        context = ssl.create_default_context(cafile=file or None, capath=directory or None)
    else:
        context = httpx2.create_ssl_context(trust_env=False)
    if extra:
        context.load_verify_locations(cafile=extra)
    return context


# --- failures --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Peer:
    """Whom failures are about: the server, and the proxy in between, as `HOST:PORT`; "" = none."""

    server: str
    proxy: str = ""


def renamed(error: Exception, peer: Peer) -> TransportError:
    """A failure of the HTTP client under a name of our own.

    Kinds: `unreachable` and `tls` (nothing was sent), `lost`, `config` (the request cannot be sent).
    """
    causes = list(_causes(error))
    first = peer.proxy or peer.server
    to = f"the proxy {peer.proxy}" if peer.proxy else peer.server
    if isinstance(error, httpcore2.ProxyError):
        return TransportError(f"the proxy {peer.proxy} refuses: {_short(error)}", kind="unreachable")
    if isinstance(error, httpcore2.ConnectTimeout | httpcore2.PoolTimeout):
        return TransportError(f"no connection to {to} within {CONNECT_TIMEOUT:g} s", kind="unreachable")
    if isinstance(error, httpcore2.ConnectError):
        for cause in causes:
            if isinstance(cause, ssl.SSLCertVerificationError):
                why = cause.verify_message or str(cause)
                return TransportError(f"the certificate of {peer.server} cannot be trusted: {why}", kind="tls")
            if isinstance(cause, ssl.SSLError):
                why = (cause.reason or str(cause)).replace("_", " ").lower()
                return TransportError(f"TLS with {peer.server} failed: {why}", kind="tls")
            if isinstance(cause, socket.gaierror):
                return TransportError(f"cannot resolve {first.rpartition(':')[0]}", kind="unreachable")
        if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
            return TransportError(f"nothing listens at {first}", kind="unreachable")
        named = [c.strerror for c in causes if isinstance(c, OSError) and c.strerror]
        why = named[-1] if named else "the connection was closed"
        return TransportError(f"cannot connect to {to}: {why}", kind="unreachable")
    if isinstance(error, httpcore2.TimeoutException):
        return TransportError(f"{peer.server} takes no data", kind="lost")
    if isinstance(error, httpcore2.RemoteProtocolError):
        if "without sending a response" in str(error):
            return TransportError(f"{peer.server} closed the connection without an answer", kind="lost")
        if "incomplete" in str(error) or "peer closed" in str(error):
            return TransportError(f"{peer.server} closed the connection in the middle of its answer", kind="lost")
        return TransportError(f"{peer.server} does not speak HTTP as it should: {_short(error)}", kind="lost")
    if isinstance(error, zlib.error):
        return TransportError(f"the answer of {peer.server} is badly compressed", kind="lost")
    if isinstance(error, httpcore2.LocalProtocolError | httpcore2.UnsupportedProtocol):
        return TransportError(f"cannot send this request to {peer.server}: {_short(error)}", kind="config")
    return TransportError(f"the connection to {peer.server} broke", kind="lost")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """What is behind an error, all of it, each once."""
    seen: set[int] = set()
    stack: list[BaseException | None] = [error]
    while stack:
        one = stack.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, BaseExceptionGroup):
            stack += one.exceptions
        stack += [one.__context__, one.__cause__]


def _short(error: Exception) -> str:
    return ascii(str(error))[1:-1][:200] or type(error).__name__


#: What of the HTTP client is renamed. AnyIO's own, and those of the system, come through where a connection is closed
#: under a request that is being written.
_FAILURES = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.UnsupportedProtocol,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    OSError,
    zlib.error,
)


# --- one connection --------------------------------------------------------------------------------------------------


class _Stream(httpcore2.AsyncNetworkStream):
    """A connection on which a request's head and body leave in one write, when the answer is first read."""

    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner = inner
        self._out: list[bytes] = []
        self._size = 0
        self._timeout: float | None = None
        sock = inner.get_extra_info("socket")
        self._fd = sock.fileno() if sock is not None else -1

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._out:
            try:
                await self._flush()
            except httpcore2.WriteError:
                pass  # a server may refuse before it has read everything: then its answer is there
        return await self._inner.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._out.append(buffer)
        self._size += len(buffer)
        self._timeout = timeout
        if self._size > TOGETHER:
            await self._flush()

    async def _flush(self) -> None:
        data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out.clear()
        self._size = 0
        await self._inner.write(data, self._timeout)

    async def aclose(self) -> None:
        self._out.clear()
        self._fd = -1
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        try:
            if self._out:
                await self._flush()
            return _Stream(await self._inner.start_tls(ssl_context, server_hostname, timeout))
        except BaseException:
            # The pool forgets a connection whose handshake is cancelled, and would leave it open.
            with anyio.CancelScope(shield=True):
                await self.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        if info != "is_readable":
            return self._inner.get_extra_info(info)
        # Asked of every idle connection before every request: one that is readable was closed by the server.
        if self._fd < 0:
            return True
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(0))


class _Backend(httpcore2.AsyncNetworkBackend):
    def __init__(self) -> None:
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._inner.connect_tcp(host, port, timeout, local_address, socket_options))


# --- the client ------------------------------------------------------------------------------------------------------


class Answer:
    """The head of an answer, and its body once. Valid inside the exchange that gave it."""

    __slots__ = ("_peer", "_response", "location", "status")

    def __init__(self, response: httpcore2.Response, peer: Peer, location: str) -> None:
        self.status = response.status
        #: The origin that a redirect leads to which was not followed, "" = none.
        self.location = location
        self._response = response
        self._peer = peer

    def header(self, name: bytes) -> str:
        """Its last value; `name` in lower case, "" = not there."""
        return _header(self._response, name)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes, decompressed. Raises TransportError (kind `lost`)."""
        encoding = self.header(b"content-encoding").lower()
        try:
            async with aclosing(self._response.aiter_stream()) as source:
                if encoding in ("", "identity"):
                    async for chunk in source:
                        yield chunk
                else:
                    inflate = _Inflate(encoding)
                    async for chunk in source:
                        for piece in inflate.feed(chunk):
                            yield piece
        except _FAILURES as e:
            raise renamed(e, self._peer) from None

    async def read(self, limit: int) -> bytes | None:
        """The whole body, None where it is larger. Raises TransportError (kind `lost`)."""
        parts: list[bytes] = []
        size = 0
        async with aclosing(self.chunks()) as chunks:
            async for chunk in chunks:
                parts.append(chunk)
                size += len(chunk)
                if size > limit:
                    return None
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _header(response: httpcore2.Response, name: bytes) -> str:
    for key, value in reversed(response.headers):
        if key.lower() == name:
            return value.decode("latin-1").strip(" \t")
    return ""


class _Inflate:
    """gzip and deflate, the latter with its wrapper or, as some servers do, without. Raises zlib.error."""

    def __init__(self, encoding: str) -> None:
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise zlib.error(f"unknown encoding {encoding[:40]}")
        self._bare = encoding == "deflate"
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            try:
                piece = self._inflate.decompress(data, INFLATED)
            except zlib.error:
                if not self._bare:
                    raise
                self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
                piece = self._inflate.decompress(data, INFLATED)
            self._bare = False
            if piece:
                yield piece
            data = self._inflate.unconsumed_tail


class HttpClient:
    """Connections to one URL; `warnings` are about the way there. Made by `http_client`."""

    def __init__(
        self, pool: httpcore2.AsyncConnectionPool, url: httpx2.URL, peer: Peer, warnings: Sequence[str]
    ) -> None:
        self.peer = peer
        self.warnings = tuple(warnings)
        #: `Authorization` from the user part of the URL, b"" = none.
        self.credentials = _basic(url)
        self._pool = pool
        self._go_to(url)

    def _go_to(self, url: httpx2.URL) -> None:
        self._url = url.copy_with(userinfo=b"", fragment=None)
        self._target = httpcore2.URL(
            scheme=self._url.raw_scheme, host=self._url.raw_host, port=self._url.port, target=self._url.raw_path
        )
        self._host: Header = (b"Host", self._url.netloc)

    @asynccontextmanager
    async def exchange(
        self, method: str, headers: Sequence[Header], body: bytes | None = None, *, begin: float | None = None
    ) -> AsyncIterator[Answer]:
        """One request; the answer's head has come, within `begin` seconds. Redirects are followed where 307 or 308
        leads to the same origin, or from http to https of the same host. Raises TransportError as `renamed` does, or of
        the kind `no_response`."""
        for hop in range(MAX_REDIRECTS + 1):
            sent = [self._host, *headers]
            if body is not None:
                sent.append((b"Content-Length", b"%d" % len(body)))
            request = httpcore2.Request(method, self._target, headers=sent, content=body, extensions=_TIMEOUTS)
            try:
                with anyio.fail_after(begin):
                    response = await self._pool.handle_async_request(request)
            except TimeoutError:
                text = f"{self.peer.server} did not begin to answer within {begin:g} s"
                raise TransportError(text, kind="no_response") from None
            except _FAILURES as e:
                raise renamed(e, self.peer) from None
            location = ""
            try:
                if 300 <= response.status < 400 and (said := _header(response, b"location")):
                    target = _joined(self._url, said)
                    followed = response.status in (307, 308) and hop < MAX_REDIRECTS
                    if followed and target is not None and _may_follow(self._url, target):
                        # Kept for what comes next: another round trip for every request would be in vain.
                        self._go_to(target)
                        continue
                    location = _origin(target)
                yield Answer(response, self.peer, location)
                return
            finally:
                with anyio.CancelScope(shield=True):
                    await response.aclose()

    async def aclose(self) -> None:
        await self._pool.aclose()


#: No limit on the wait for a connection or for data: who asks has a deadline of its own.
_TIMEOUTS = {"timeout": {"connect": CONNECT_TIMEOUT, "read": None, "write": WRITE_TIMEOUT, "pool": None}}


def _joined(url: httpx2.URL, location: str) -> httpx2.URL | None:
    try:
        return url.join(location)
    except (httpx2.InvalidURL, ValueError):
        return None


def _may_follow(url: httpx2.URL, target: httpx2.URL) -> bool:
    if target.scheme not in _DEFAULT_PORTS or target.host != url.host:
        return False
    if (target.scheme, _port(target)) == (url.scheme, _port(url)):
        return True
    return (url.scheme, _port(url)) == ("http", 80) and (target.scheme, _port(target)) == ("https", 443)


def _port(url: httpx2.URL) -> int:
    return url.port or _DEFAULT_PORTS[url.scheme]


def _origin(url: httpx2.URL | None) -> str:
    """Where a URL leads, without what may be secret in it."""
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}" if url is not None else "an address that is none"


def _basic(url: httpx2.URL) -> bytes:
    if not url.userinfo:
        return b""
    pair = f"{url.username}:{url.password}".encode()
    return b"Basic " + base64.b64encode(pair)


@asynccontextmanager
async def http_client(url: str, env: Mapping[str, str]) -> AsyncIterator[HttpClient]:
    """A client for one URL on the way that the hub's environment says; nothing is sent yet.
    Raises TransportError (kind `config`)."""
    client = await anyio.to_thread.run_sync(_build, url, env)
    try:
        yield client
    finally:
        with anyio.CancelScope(shield=True):
            await client.aclose()


def _build(text: str, env: Mapping[str, str]) -> HttpClient:
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError) as e:
        raise TransportError(f"cannot use the url: {_short(e)}", kind="config") from None
    if url.scheme not in _DEFAULT_PORTS or not url.host:
        raise TransportError("cannot use the url: it is not http:// or https:// with a host", kind="config")
    server = f"[{url.host}]:{_port(url)}" if ":" in url.host else f"{url.host}:{_port(url)}"
    via, bad = proxy_for(url.scheme, url.host, _port(url), env)
    warnings = [f"NO_PROXY: {ascii(item)[1:-1][:60]!r} is no host, address or network, and not used" for item in bad]
    proxy, between = _proxy(via, env)
    pool = httpcore2.AsyncConnectionPool(
        # http on its own port may be redirected to https.
        ssl_context=tls_context(env) if url.scheme == "https" or _port(url) == 80 else _trusting_nobody(),
        proxy=proxy,
        max_connections=None,
        max_keepalive_connections=KEPT_CONNECTIONS,
        keepalive_expiry=KEEP_IDLE,
        network_backend=_Backend(),
        socket_options=_KEEP_ALIVE,
    )
    return HttpClient(pool, url, Peer(server, between), warnings)


def _proxy(via: str, env: Mapping[str, str]) -> tuple[httpcore2.Proxy | None, str]:
    """(the proxy, its `HOST:PORT`). Credentials in its URL go to it alone, and into no message."""
    if not via:
        return None, ""
    try:
        url = httpx2.URL(via)
    except (httpx2.InvalidURL, ValueError):
        raise TransportError("cannot use the proxy of the environment: it is no URL", kind="config") from None
    if url.scheme not in _DEFAULT_PORTS or not url.host:
        text = f"cannot use the proxy of the environment: {url.scheme or 'no scheme'} is not http or https"
        raise TransportError(text, kind="config")
    address = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=_port(url), target=b"/")
    auth = (url.username.encode(), url.password.encode()) if url.userinfo else None
    context = tls_context(env) if url.scheme == "https" else None
    return httpcore2.Proxy(address, auth=auth, ssl_context=context), f"{url.host}:{_port(url)}"


def _trusting_nobody() -> ssl.SSLContext:
    """For http:// alone; costs nothing to make."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _keep_alive() -> list[tuple[int, int, int]]:
    """A peer that vanished without a word (a laptop that changed its network) is found out by the system."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (
        ("TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE", PROBE_AFTER),
        ("TCP_KEEPINTVL", PROBE_EVERY),
        ("TCP_KEEPCNT", PROBES),
    ):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


_KEEP_ALIVE = _keep_alive()
# Their debug logs hold headers.
for _name in ("httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.WARNING)
