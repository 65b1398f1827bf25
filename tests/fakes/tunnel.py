"""Owns a proxy on the loopback for tests that makes tunnels, with TLS in front or without.

It must not know what goes through them.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.abc
from anyio.streams.tls import TLSListener


@asynccontextmanager
async def proxy(status: str = "200 OK", tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[int, list[str]]]:
    """A proxy on the loopback that leads every CONNECT to 127.0.0.1; its port, and the heads that it got."""
    heads: list[str] = []

    async def pass_on(
        source: anyio.abc.ByteStream, target: anyio.abc.ByteStream, tunnel: anyio.CancelScope
    ) -> None:
        # What is broken off on one side is so on the other, too.
        with suppress(anyio.BrokenResourceError, ssl.SSLError):
            async for data in source:
                await target.send(data)
        tunnel.cancel()

    async def handle(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive()
            heads.append(head.decode())
            await stream.send(f"HTTP/1.1 {status}\r\n\r\n".encode())
            if status.startswith("200"):
                port = int(head.split()[1].rpartition(b":")[2])
                async with await anyio.connect_tcp("127.0.0.1", port) as far, anyio.create_task_group() as tasks:
                    tasks.start_soon(pass_on, stream, far, tasks.cancel_scope)
                    tasks.start_soon(pass_on, far, stream, tasks.cancel_scope)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    served = TLSListener(listener, tls, standard_compatible=False) if tls is not None else listener
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(served.serve, handle)
        yield listener.extra(anyio.abc.SocketAttribute.local_port), heads
        tasks.cancel_scope.cancel()
