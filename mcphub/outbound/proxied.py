"""Owns where a request stands on its way through a proxy, and how long the proxy may take to open that way.

It must not know what is asked, nor what failures are called. A failure before the way is open is the proxy's: `AtProxy`
holds it. Of httpcore2 it takes the extension `trace`, which says what is begun and done for one request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import httpcore2

from mcphub.outbound.connections import TlsClosed, TlsTimeout

#: Seconds for a proxy to lead to a server, from the first attempt to reach the proxy: below what a server's start takes
#: at most by default, so that it can be said who was slow.
LEAD_WITHIN = 20.0


class NoWay(Exception):
    """The proxy takes the connection, and did not lead to the server within LEAD_WITHIN."""


class AtProxy(Exception):
    """The way to the proxy failed, or the proxy itself, before anything was asked of the server: `error` says how."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Way:
    """Of one request. `missing` is told what is waited for, "" = nothing any more; `tunnel`: the server's TLS begins
    only once the proxy has led to it."""

    def __init__(self, proxy: str, tunnel: bool, missing: Callable[[str], None]) -> None:
        self._proxy = proxy
        self._tunnel = tunnel
        self._missing = missing
        self._at_proxy = self._in_tls = False
        self._limit = anyio.CancelScope()

    async def trace(self, event: str, info: dict[str, Any]) -> None:
        """The extension of that name. A connection that is used again has none of these events."""
        match event:
            case "connection.connect_tcp.started":
                self._at_proxy = True
                self._limit.deadline = anyio.current_time() + LEAD_WITHIN
                self._missing(f"connection to the proxy {self._proxy}")
            case "connection.start_tls.started":
                self._in_tls = True
                self._missing(f"answer of the proxy {self._proxy} to the TLS handshake")
            case "connection.connect_tcp.complete" | "connection.start_tls.complete":
                self._in_tls = False
                self._missing(f"answer {'of' if self._tunnel else 'by way of'} the proxy {self._proxy}")
            case "http11.send_request_headers.started" if not self._tunnel:
                self._led()
            case "proxy.start_tls.started":
                self._in_tls = True
                self._led()
                self._missing("answer to the TLS handshake")
            case "proxy.start_tls.complete":
                self._in_tls = False
                self._missing("")

    def _led(self) -> None:
        self._at_proxy = False
        self._limit.deadline = float("inf")

    async def request(self, core: httpcore2.AsyncConnectionPool, request: httpcore2.Request) -> httpcore2.Response:
        """Send it, and wait for the head of its answer. Raises AtProxy, or what httpcore2 does."""
        try:
            with self._limit:
                return await core.handle_async_request(request)
        except Exception as e:
            error = self._of_tls(e) if self._in_tls else e
            if self._at_proxy and not isinstance(error, httpcore2.ProxyError | httpcore2.LocalProtocolError):
                raise AtProxy(error) from e
            if error is e:
                raise
            raise error from e
        raise AtProxy(NoWay())

    def _of_tls(self, error: Exception) -> Exception:
        if isinstance(error, httpcore2.ConnectTimeout):
            return TlsTimeout(str(error))
        if isinstance(error, httpcore2.ConnectError):
            closed = isinstance(error.__cause__, anyio.EndOfStream | anyio.BrokenResourceError)
            return TlsClosed(str(error)) if closed else error
        return error
