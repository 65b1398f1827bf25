"""How a WebSocket is reached: through the proxy that the environment names, and not by one that cannot be used."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest
from websockets.asyncio.server import ServerConnection

from mcphub.errors import TransportError
from mcphub.outbound.websocket import Closed, credentials, open_websocket
from tests.fakes.certificates import Authority
from tests.fakes.rude_websocket import RudeWebSocket

pytestmark = pytest.mark.anyio


async def echo(connection: ServerConnection, message: str) -> None:
    await connection.send(message)


@asynccontextmanager
async def proxy(status: str) -> AsyncIterator[tuple[int, list[str]]]:
    """A proxy on the loopback that leads every CONNECT to 127.0.0.1; its port, and the heads that it got."""
    heads: list[str] = []

    async def pass_on(source: anyio.abc.ByteStream, target: anyio.abc.ByteStream) -> None:
        async for data in source:
            await target.send(data)
        await target.send_eof()

    async def handle(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive()
            heads.append(head.decode())
            await stream.send(f"HTTP/1.1 {status}\r\n\r\n".encode())
            if status.startswith("200"):
                port = int(head.split()[1].rpartition(b":")[2])
                async with await anyio.connect_tcp("127.0.0.1", port) as far, anyio.create_task_group() as tasks:
                    tasks.start_soon(pass_on, stream, far)
                    tasks.start_soon(pass_on, far, stream)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield listener.extra(anyio.abc.SocketAttribute.local_port), heads
        tasks.cancel_scope.cancel()


async def refused(url: str) -> TransportError:
    with anyio.fail_after(10), pytest.raises(TransportError) as caught:
        await open_websocket(url, [], {}, None, 1 << 20)
    return caught.value


async def test_a_peer_that_sends_garbage() -> None:
    """It is named as it is where HTTP is asked for."""

    async def handle(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"\x00\xffgarbage\r\n\r\n")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        error = await refused(f"ws://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}/")
        tasks.cancel_scope.cancel()
    assert error.kind == "refused"
    assert "is no WebSocket: it does not speak HTTP as it should: " in str(error)


async def test_ws_to_a_port_that_wants_tls(tmp_path: Path) -> None:
    """Most servers only close; whether they would have spoken TLS is looked at."""
    authority = Authority.made(tmp_path)
    async with RudeWebSocket(echo, tls=authority.server("127.0.0.1")) as server:
        error = await refused(server.url.replace("wss:", "ws:"))
    assert error.kind == "tls"
    assert str(error).endswith("looks like TLS, and was asked without: the URL should begin with wss://")


async def test_nobody_takes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that is named is the one that the attempt took."""
    monkeypatch.setattr("mcphub.outbound.websocket.CONNECT_TIMEOUT", 0.1)

    async def nowhere(host: str, port: int) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr("mcphub.outbound.websocket.dial", nowhere)
    error = await refused("ws://127.0.0.1:9/")
    assert (str(error), error.kind) == ("no connection to 127.0.0.1:9 within 10 s", "unreachable")


async def test_a_proxy() -> None:
    """C073: a tunnel is asked for, by plain HTTP for ws:// too; credentials go to the proxy and nowhere else."""
    with anyio.fail_after(10):
        async with RudeWebSocket(echo) as server, proxy("200 OK") as (port, heads):
            url = server.url.replace("127.0.0.1", "far.example")
            env = {"HTTP_PROXY": f"http://u:s3cret@127.0.0.1:{port}", "NO_PROXY": "10.0.0.0/99"}
            socket, warnings = await open_websocket(url, [(b"X-A", b"b")], env, None, 1 << 20)
            await socket.send(b"hello")
            assert await socket.receive() == "hello"
            await socket.close()
            with pytest.raises(Closed):
                await socket.receive()
            assert "10.0.0.0/99" in warnings[0]
            assert heads[0].startswith("CONNECT far.example:") and "Proxy-Authorization: Basic " in heads[0]
            [request] = server.handshakes
            assert request.headers["X-A"] == "b" and "Proxy-Authorization" not in request.headers


async def test_a_proxy_that_refuses() -> None:
    """C073: it is named, and none of its credentials."""
    with anyio.fail_after(10):
        async with proxy("407 Proxy Authentication Required") as (port, _):
            env = {"HTTP_PROXY": f"http://u:s3cret@127.0.0.1:{port}"}
            with pytest.raises(TransportError) as caught:
                await open_websocket("ws://far.example/", [], env, None, 1 << 20)
    assert caught.value.kind == "unreachable"
    assert f"the proxy 127.0.0.1:{port} refuses" in str(caught.value)
    assert "407; give its user and password in the URL of HTTP_PROXY" in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("via", ["socks5://127.0.0.1:9", "http://", "http://[::1"])
async def test_a_proxy_that_is_none(via: str) -> None:
    """What cannot be a proxy is an error of the configuration, and the server is not reached around it."""
    with pytest.raises(TransportError, match="cannot use the proxy of the environment") as caught:
        await open_websocket("ws://far.example/", [], {"HTTP_PROXY": via}, None, 1 << 20)
    assert caught.value.kind == "config"


async def test_credentials_of_a_url() -> None:
    """The user part is decoded; an address of another kind is refused."""
    assert credentials("wss://a%40b:c@h/") == b"Basic YUBiOmM="
    assert credentials("wss://h/") == b""
    for url in ("https://h/", "ws://", "ws://h:port/"):
        with pytest.raises(TransportError, match="cannot use the url"):
            credentials(url)
