"""Owns a tunnel through a proxy, as an asyncio transport: the connection to the proxy, and its answer to CONNECT.

It must not know what goes through it. Source: RFC 9110, 9.3.6. What it raises is `AtProxy` with the names that
httpcore2 gives, so that a failure is called the same whichever way a tunnel was made.
"""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
from typing import Any

import anyio
import httpcore2
import httpx2

from mcphub.outbound.connections import CONNECT_TIMEOUT, KEEP_ALIVE, TlsClosed, TlsTimeout
from mcphub.outbound.dial import dial
from mcphub.outbound.proxied import LEAD_WITHIN, AtProxy, NoWay

#: Bytes of the head of a proxy's answer.
MAX_HEAD = 1 << 16
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: ([^\r\n]*))?\r?\n")
_END = re.compile(rb"\r?\n\r?\n")


class _Asking(asyncio.Protocol):
    """Waits for the head of one answer; nothing may follow it before something is sent."""

    def __init__(self) -> None:
        self.head: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._read = b""

    def data_received(self, data: bytes) -> None:
        self._read += data
        if _END.search(self._read) or len(self._read) > MAX_HEAD:
            self._done(self._read)

    def connection_lost(self, exc: Exception | None) -> None:
        self._done(self._read)

    def _done(self, head: bytes) -> None:
        if not self.head.done():
            self.head.set_result(head)


async def open_tunnel(proxy: httpx2.URL, target: str, context: ssl.SSLContext | None) -> asyncio.Transport:
    """A transport that leads to `target` (`HOST:PORT`), which has not been asked anything; `context` is for a proxy at
    https://. Raises AtProxy, and httpcore2.ProxyError where the proxy refuses."""
    transport, asking = await _reached(proxy, context)
    try:
        user = f"{proxy.username}:{proxy.password}".encode()
        basic = b"Proxy-Authorization: Basic %b\r\n" % base64.b64encode(user) if proxy.userinfo else b""
        where = target.encode("ascii")
        transport.write(b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (where, where, basic))
        head = b""
        with anyio.move_on_after(LEAD_WITHIN) as scope:
            head = await asking.head
        if scope.cancelled_caught:
            raise AtProxy(NoWay())
        if not head:
            raise AtProxy(httpcore2.ReadError())
        status = _STATUS.match(head)
        if status is None or not _END.search(head):
            raise AtProxy(httpcore2.RemoteProtocolError(ascii(head[:80])[2:-1]))
        if not status[1].startswith(b"2"):
            raise httpcore2.ProxyError(f"{status[1].decode()} {(status[2] or b'').decode('ascii', 'replace')}".strip())
        if not head.endswith(b"\n"):
            raise AtProxy(httpcore2.RemoteProtocolError("something follows its answer"))
    except BaseException:
        transport.abort()
        raise
    _mend(transport)
    return transport


def _mend(transport: asyncio.Transport) -> None:
    """Let TLS inside of TLS fail with its own error: in Python 3.11 asyncio trips over an argument too many there."""
    protocol: Any = getattr(transport, "_ssl_protocol", None)
    abort: Any = getattr(protocol, "_abort", None)
    if abort is not None and abort.__code__.co_argcount == 1:
        protocol._abort = lambda error=None: abort()


async def _reached(proxy: httpx2.URL, context: ssl.SSLContext | None) -> tuple[asyncio.Transport, _Asking]:
    dialled = False
    try:
        with anyio.fail_after(CONNECT_TIMEOUT):
            sock = await dial(proxy.host, proxy.port or (443 if proxy.scheme == "https" else 80))
            dialled = True
            try:
                for option in KEEP_ALIVE:
                    sock.setsockopt(*option)
                name = proxy.host if context is not None else None
                return await asyncio.get_running_loop().create_connection(
                    _Asking, sock=sock, ssl=context, server_hostname=name
                )
            except BaseException:
                sock.close()
                raise
    except OSError as e:  # of TLS too
        error: Exception = httpcore2.ConnectError(str(e))
        if isinstance(e, TimeoutError) and e.errno is None:
            error = TlsTimeout() if dialled else httpcore2.ConnectTimeout()
        elif dialled and isinstance(e, ConnectionError | ssl.SSLEOFError):
            error = TlsClosed(str(e))
        error.__cause__ = e
        raise AtProxy(error) from e
