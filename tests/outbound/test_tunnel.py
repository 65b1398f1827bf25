"""Tunnels over real sockets: what a proxy may answer to CONNECT."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import anyio.lowlevel
import httpcore2
import httpx2
import pytest

from mcphub.outbound.proxied import AtProxy, NoWay
from mcphub.outbound.tunnel import MAX_HEAD, open_tunnel

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def answering(*pieces: bytes) -> AsyncIterator[tuple[httpx2.URL, list[bytes]]]:
    """A proxy that answers so, piece by piece, and then hangs up; its URL, and what it was asked."""
    asked: list[bytes] = []

    async def handle(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            asked.append(await stream.receive())
            for piece in pieces:
                await stream.send(piece)
                await anyio.lowlevel.checkpoint()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        yield httpx2.URL(f"http://us%20er:s3cret@127.0.0.1:{port}"), asked
        tasks.cancel_scope.cancel()


async def test_what_is_asked() -> None:
    """The target as it is given, and the credentials of the proxy's URL; the answer's headers say nothing."""
    async with answering(b"HTTP/1.1 200 Con", b"nection established\r\nVia: x\r\n", b"\r\n") as (proxy, asked):
        with anyio.fail_after(5):
            transport = await open_tunnel(proxy, "[::1]:443", None)
        transport.abort()
    credentials = base64.b64encode(b"us er:s3cret")
    head = b"CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\nProxy-Authorization: Basic " + credentials + b"\r\n\r\n"
    assert asked == [head]


@pytest.mark.parametrize(
    ("pieces", "kind", "said"),
    [
        ((), httpcore2.ReadError, ""),
        ((b"HTTP/1.1 200 OK\r\n",), httpcore2.RemoteProtocolError, "HTTP/1.1 200 OK"),
        ((b"SSH-2.0-x\r\n",), httpcore2.RemoteProtocolError, "SSH-2.0-x"),
        ((b"x" * (MAX_HEAD + 1),), httpcore2.RemoteProtocolError, "xxx"),
        ((b"HTTP/1.1 200 OK\r\n\r\nmore",), httpcore2.RemoteProtocolError, "something follows its answer"),
    ],
)
async def test_what_is_no_answer(pieces: tuple[bytes, ...], kind: type[Exception], said: str) -> None:
    """Whatever a proxy says that opens no tunnel is its failure, said without the credentials."""
    async with answering(*pieces) as (proxy, _):
        with anyio.fail_after(5), pytest.raises(AtProxy) as caught:
            await open_tunnel(proxy, "m.example:443", None)
    assert isinstance(caught.value.error, kind)
    assert said in str(caught.value) and "s3cret" not in str(caught.value)


async def test_a_refusal() -> None:
    """Status and reason are what the proxy said."""
    async with answering(b"HTTP/1.0 403 Not here\r\nContent-Length: 3\r\n\r\nno!") as (proxy, _):
        with anyio.fail_after(5), pytest.raises(httpcore2.ProxyError, match="403 Not here"):
            await open_tunnel(proxy, "m.example:443", None)


async def test_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for an answer is bounded, and the connection is closed then."""
    monkeypatch.setattr("mcphub.outbound.tunnel.LEAD_WITHIN", 0.1)
    ended = anyio.Event()

    async def hush(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                while True:
                    await stream.receive()
            ended.set()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, hush)
        proxy = httpx2.URL(f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}")
        with anyio.fail_after(5):
            with pytest.raises(AtProxy) as caught:
                await open_tunnel(proxy, "m.example:443", None)
            await ended.wait()
        tasks.cancel_scope.cancel()
    assert isinstance(caught.value.error, NoWay)
