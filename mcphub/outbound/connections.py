"""Owns one connection to a server or a proxy: how it is opened and kept, and when what is sent leaves.

It must not know what is sent.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Iterable
from typing import Any

import anyio
import httpcore2

from mcphub.outbound.guard import Guard

#: Seconds for the connection, TLS included.
CONNECT_TIMEOUT = 10.0
#: When a silent peer is asked whether it is still there, and when it counts as gone, seconds.
PROBE_AFTER, PROBE_EVERY, PROBES = 60, 15, 4
#: Unsent bytes of one request's head and body that leave in one write.
TOGETHER = 1 << 16


class TlsTimeout(httpcore2.ConnectTimeout):
    """The server took the connection, and did not finish the TLS handshake in time."""


class TlsClosed(httpcore2.ConnectError):
    """The server took the connection, and closed it in the middle of the TLS handshake."""


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


class Backend(httpcore2.AsyncNetworkBackend):
    """Opens such connections, with a guard to no place that it refuses."""

    def __init__(self, guard: Guard | None = None) -> None:
        self._inner = httpcore2.AnyIOBackend()
        self._guard = guard

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        if self._guard is not None:
            host = await self._checked(self._guard, host, port)
        return _Stream(await self._inner.connect_tcp(host, port, timeout, local_address, socket_options))

    async def _checked(self, guard: Guard, host: str, port: int) -> str:
        """An address of this host, so that nobody looks it up a second time."""
        try:
            found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            for _, _, _, _, address in found:
                guard.check(host, port, str(address[0]))
        except (OSError, UnicodeError) as e:
            raise httpcore2.ConnectError(str(e)) from e
        return str(found[0][4][0])


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


KEEP_ALIVE = _keep_alive()
