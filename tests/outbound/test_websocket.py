"""How a WebSocket is reached: through the proxy that the environment names, and not by one that cannot be used."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from anyio.streams.tls import TLSListener
from websockets.asyncio.server import ServerConnection

from mcphub.errors import TransportError
from mcphub.outbound.websocket import Closed, credentials, open_websocket
from mcphub.spec import TlsFiles
from tests.fakes.certificates import Authority
from tests.fakes.rude_websocket import RudeWebSocket
from tests.fakes.tunnel import proxy

pytestmark = pytest.mark.anyio


async def echo(connection: ServerConnection, message: str) -> None:
    await connection.send(message)


@asynccontextmanager
async def listening(
    serve: Callable[[Any], Awaitable[None]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """A server of bytes; its port."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    served = TLSListener(listener, tls, standard_compatible=False) if tls is not None else listener
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(served.serve, serve)
        yield listener.extra(anyio.abc.SocketAttribute.local_port)
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
    assert f"the proxy 127.0.0.1:{port} of HTTP_PROXY refuses" in str(caught.value)
    assert "407 Proxy Authentication Required; give its user and password in the URL of HTTP_PROXY" in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("via", ["socks5://127.0.0.1:9", "http://", "http://[::1"])
async def test_a_proxy_that_is_none(via: str) -> None:
    """What cannot be a proxy is an error of the configuration, and the server is not reached around it."""
    with pytest.raises(TransportError, match="cannot use the proxy of the environment") as caught:
        await open_websocket("ws://far.example/", [], {"HTTP_PROXY": via}, None, 1 << 20)
    assert caught.value.kind == "config"


async def failed(url: str, env: dict[str, str], tls: TlsFiles | None = None) -> TransportError:
    with anyio.fail_after(10), pytest.raises(TransportError) as caught:
        await open_websocket(url, [], env, tls, 1 << 20)
    return caught.value


@pytest.mark.parametrize("url", ["ws://far.example/", "wss://far.example/"])
async def test_a_proxy_that_does_not_work(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """C073: whatever fails before the proxy has led to the server is said to be the proxy's, whichever variable names
    it; no credentials are shown."""

    async def close(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()

    async def garbage(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"\x00\xffgarbage\r\n\r\n")

    async def hush(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            with pytest.raises(anyio.EndOfStream):
                while True:
                    await stream.receive()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        unused = listener.getsockname()[1]
    async with listening(close) as closing, listening(garbage) as babbling, listening(hush) as silent:
        for via, kind, said in (
            (f"http://u:s3cret@127.0.0.1:{unused}", "unreachable", "nothing listens there"),
            ("http://u:s3cret@no-such-proxy.invalid:1", "unreachable", "cannot resolve no-such-proxy.invalid"),
            (f"https://u:s3cret@127.0.0.1:{closing}", "unreachable", "it closed the connection in the TLS handshake"),
            (f"https://u:s3cret@127.0.0.1:{babbling}", "tls", "does not speak TLS, and was asked to: its URL should"),
            (f"http://u:s3cret@127.0.0.1:{closing}", "unreachable", "it closed the connection without an answer"),
            (f"http://u:s3cret@127.0.0.1:{babbling}", "unreachable", "it does not speak HTTP as a proxy should"),
            (f"http://u:s3cret@127.0.0.1:{silent}", "unreachable", "takes the connection, but did not lead to far."),
        ):
            if f":{silent}" in via:
                monkeypatch.setattr("mcphub.outbound.tunnel.LEAD_WITHIN", 0.2)
            error = await failed(url, {"all_proxy": via})
            assert said in str(error)
            assert f"the proxy {via.rpartition('@')[2]} of all_proxy" in str(error)
            assert error.kind == kind
            assert "s3cret" not in str(error)


async def test_tls_by_way_of_a_proxy(tmp_path: Path) -> None:
    """C074: whose certificate is not trusted is told apart, the proxy's or the server's, and nothing is left unhandled
    in the loop; with both trusted it works."""
    authority, other = Authority.made(tmp_path), tmp_path / "other"
    other.mkdir()
    stranger = Authority.made(other)
    trusted = {"SSL_CERT_FILE": str(authority.path)}
    unhandled: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    async with (
        RudeWebSocket(echo, tls=authority.server("far.example")) as server,
        RudeWebSocket(echo, tls=stranger.server("far.example")) as strange,
        proxy(tls=authority.server("127.0.0.1")) as (good, _),
        proxy(tls=stranger.server("127.0.0.1")) as (bad, _),
        proxy() as (plain, _),
    ):
        url = server.url.replace("127.0.0.1", "far.example")
        with anyio.fail_after(10):
            connection, _ = await open_websocket(
                url, [], {**trusted, "HTTPS_PROXY": f"https://127.0.0.1:{good}"}, None, 1 << 20
            )
            await connection.send(b"hello")
            assert await connection.receive() == "hello"
            await connection.close()
        error = await failed(url, {**trusted, "HTTPS_PROXY": f"https://127.0.0.1:{bad}"})
        said = f"the certificate of the proxy 127.0.0.1:{bad} of HTTPS_PROXY cannot be trusted: "
        assert (error.kind, str(error).startswith(said)) == ("tls", True)
        for via in (f"http://127.0.0.1:{plain}", f"https://127.0.0.1:{good}"):
            error = await failed(strange.url.replace("127.0.0.1", "far.example"), {**trusted, "HTTPS_PROXY": via})
            assert error.kind == "tls"
            assert str(error).startswith("the certificate of far.example:") and "cannot be trusted" in str(error)
            assert str(error).endswith(f"(by way of the proxy {via.rpartition('/')[2]} of HTTPS_PROXY)")
    assert unhandled == []


async def test_wss_to_a_port_without_tls() -> None:
    """The scheme that the URL should have is named."""

    async def refuse(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    async with listening(refuse) as port:
        error = await failed(f"wss://127.0.0.1:{port}/", {})
    assert error.kind == "tls" and "the URL should begin with ws://" in str(error)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_certificate_that_is_wanted_unsaid(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """asyncio's own servers hang up without an alert: that they had asked for a certificate is found out, by way of a
    proxy it is said that it may be so, and of a server that asked for none nothing of it."""
    authority = Authority.made(tmp_path)
    tls = authority.server("127.0.0.1", "far.example")
    tls.maximum_version = version
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(authority.path)
    trusted = {"SSL_CERT_FILE": str(authority.path)}
    async with RudeWebSocket(echo, tls=tls) as server, proxy() as (port, _):
        error = await failed(server.url, trusted)
        assert error.kind == "tls"
        assert "asks for a client certificate, and ends the connection without one; name one in tls.cert" in str(error)
        url = server.url.replace("127.0.0.1", "far.example")
        error = await failed(url, {**trusted, "HTTPS_PROXY": f"http://127.0.0.1:{port}"})
        assert "may want a client certificate" in str(error) or "wants a client certificate" in str(error)

    async def close(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            await stream.receive()

    async with listening(close, authority.server("127.0.0.1")) as port:
        error = await failed(f"wss://127.0.0.1:{port}/", trusted)
    assert "certificate" not in str(error)
    assert str(error) == f"127.0.0.1:{port} is no WebSocket: it closed the connection without an answer"


async def test_credentials_of_a_url() -> None:
    """The user part is decoded; an address of another kind is refused."""
    assert credentials("wss://a%40b:c@h/") == b"Basic YUBiOmM="
    assert credentials("wss://h/") == b""
    for url in ("https://h/", "ws://", "ws://h:port/"):
        with pytest.raises(TransportError, match="cannot use the url"):
            credentials(url)
