"""The WebSocket transport over real sockets: its handshake, frames, how it ends, and what is said of it (C183)."""

from __future__ import annotations

import base64
import json
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from websockets.asyncio import messages
from websockets.asyncio.server import ServerConnection

from mcphub.errors import TransportError
from mcphub.outbound import close_codes
from mcphub.outbound import websocket as outbound
from mcphub.outbound.connections import CONNECT_TIMEOUT
from mcphub.spec import TlsFiles, WsSpec
from mcphub.transport import websocket
from tests.fakes.certificates import Authority
from tests.fakes.rude_websocket import RudeWebSocket
from tests.fakes.scripted import dumped
from tests.transport.http_peers import Peer, linked
from tests.transport.peers import clean

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    async with clean():
        with anyio.fail_after(20):
            yield


def result(mid: int, **said: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": mid, "result": said}


async def echo(connection: ServerConnection, message: str) -> None:
    await connection.send(dumped(result(json.loads(message)["id"], ok=True)), text=True)


def saying(*texts: str | bytes) -> Callable[[ServerConnection, str], Awaitable[None]]:
    """Answers each message with these."""

    async def answer(connection: ServerConnection, message: str) -> None:
        for text in texts:
            await connection.send(text)

    return answer


@asynccontextmanager
async def peer_of(server: RudeWebSocket, **more: Any) -> AsyncIterator[Peer]:
    async with linked(server.url, kind=WsSpec, **more) as peer:
        yield peer


async def refused(url: str, **more: Any) -> TransportError:
    """What opening it raises."""
    with pytest.raises(TransportError) as caught:
        async with linked(url, kind=WsSpec, **more):
            raise AssertionError("opened")
    return caught.value


async def ended(peer: Peer) -> str:
    """Why the connection ended."""
    await peer.told.until(lambda: peer.told.ends)
    return peer.told.ends[0]


# -- the handshake


async def test_the_handshake() -> None:
    """C183, C180: the entry's headers and the credentials of its URL are on the upgrade, `mcp` is offered; no Origin,
    no compression."""
    async with RudeWebSocket(echo) as server:
        with_user = server.url.replace("ws://", "ws://u%40x:p%3Aw@")
        async with linked(with_user, {"X-Team": "a"}, kind=WsSpec) as peer:
            assert await peer.ask("x") == "answered"
        async with peer_of(server, headers={"authorization": "Bearer t0ken"}) as peer:
            assert await peer.ask("x") == "answered"
        first, second = (request.headers for request in server.handshakes)
        assert first["Authorization"] == "Basic " + base64.b64encode(b"u@x:p:w").decode()
        assert first["X-Team"] == "a"
        assert first["Sec-WebSocket-Protocol"] == "mcp"
        assert first["User-Agent"].startswith("mcphub/")
        assert "Origin" not in first and "Sec-WebSocket-Extensions" not in first
        assert second.get_all("Authorization") == ["Bearer t0ken"]
        await server.until_closed(2)
        assert server.closes == [1000, 1000]


async def test_a_server_without_the_subprotocol() -> None:
    """C183: one that selects none is spoken to all the same."""
    async with RudeWebSocket(echo, subprotocols=False) as server, peer_of(server) as peer:
        assert await peer.ask("x") == "answered"


@pytest.mark.parametrize(
    ("status", "headers", "kind", "part"),
    [
        (302, {"Location": "ws://127.0.0.1:1/other"}, "refused", "redirected"),
        (401, {"WWW-Authenticate": "Bearer"}, "needs_auth", "HTTP 401 Unauthorized"),
        (403, {}, "refused", "HTTP 403 Forbidden"),
        (403, {"WWW-Authenticate": 'Bearer error="insufficient_scope"'}, "needs_auth", "HTTP 403 Forbidden"),
        (404, {}, "refused", "HTTP 404 Not Found"),
        (429, {"Retry-After": "7"}, "rate_limited", "retry after 7 s"),
        (503, {}, "status", "HTTP 503 Service Unavailable"),
        (503, {"Retry-After": "7"}, "status", "retry after 7 s"),
        (503, {"Retry-After": "999999999"}, "status", "retry after 86400 s"),
        (503, {"Retry-After": "soon"}, "status", "HTTP 503 Service Unavailable"),
        (200, {}, "refused", "answered with HTTP 200 in place of a WebSocket: 'no!\\n'"),
    ],
)
async def test_refused_handshakes(status: int, headers: dict[str, str], kind: str, part: str) -> None:
    """C183: another status than 101 is named, with what it means; a redirect is not followed."""
    async with RudeWebSocket(echo, refuse=lambda request: (status, headers)) as server:
        error = await refused(server.url)
        assert error.kind == kind
        assert part in str(error)
        said = re.search("retry after ([0-9]+) s", part)
        assert error.retry_after == (float(said[1]) if said else 0.0)
        assert len(server.handshakes) == 1
        signed = await refused(server.url, headers={"Authorization": "Bearer t0ken-9"})
        assert "t0ken" not in str(signed)
        if kind == "needs_auth":
            assert "refuses the credentials of its entry" in str(signed)


async def test_what_is_no_websocket(monkeypatch: pytest.MonkeyPatch) -> None:
    """C183: nobody there, somebody who says nothing, somebody who says something else, and one who hangs up: each has
    its own words."""
    monkeypatch.setattr(outbound, "AGREE_WITHIN", 0.2 - CONNECT_TIMEOUT)

    async def serve(answer: bytes | None) -> TransportError:
        async def handle(stream: anyio.abc.ByteStream) -> None:
            async with stream:
                await stream.receive()
                if answer is None:
                    await done.wait()
                elif answer:
                    await stream.send(answer)

        done = anyio.Event()
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, handle)
            error = await refused(f"ws://127.0.0.1:{port}/")
            done.set()
            tasks.cancel_scope.cancel()
        assert str(port) in str(error)
        return error

    silent, other, short = await serve(None), await serve(b"SSH-2.0-x\r\n\r\n"), await serve(b"")
    assert (silent.kind, other.kind, short.kind) == ("no_response", "refused", "refused")
    assert "did not become a WebSocket" in str(silent)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    await listener.aclose()
    gone = await refused(f"ws://127.0.0.1:{port}/")
    assert (gone.kind, str(gone)) == ("unreachable", f"nothing listens at 127.0.0.1:{port}")


# -- frames


@pytest.mark.parametrize(
    ("said", "frames"),
    [
        ('{"a": 1}', [b'{"a": 1}']),
        ('{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
        ('{"a":1}\r\n\r\n{"b":\n', [b'{"a":1}', b'{"b":']),
        (" \n", []),
        ("", []),
    ],
)
async def test_messages_of_a_frame(said: str, frames: list[bytes]) -> None:
    """C183: two messages in one frame, each in a line, are two."""
    assert websocket.messages_of(said.encode()) == frames


async def test_a_message_laid_out_over_lines() -> None:
    """C183: it is one, in one line."""
    [line] = websocket.messages_of(b'{"a":\n  [1,\r\n 2]}\r\n')
    assert json.loads(line) == {"a": [1, 2]} and not set(line) & set(b"\r\n")


async def test_fragments_and_binary_messages() -> None:
    """C183: fragments are joined, also those that end within a character; what is binary is named and not read."""
    text = dumped(result(1, text="a\u6f22"))
    cut = text.index(b"\xe6") + 1

    async def answer(connection: ServerConnection, message: str) -> None:
        await connection.send(text)
        await connection.send([text[:5], text[5:cut], text[cut:]], text=True)

    async with RudeWebSocket(answer) as server, peer_of(server) as peer:
        assert await peer.result("x") == result(1, text="a\u6f22")
        assert peer.notes == [f"sent {len(text)} bytes in a binary message; only text is read"]
        assert len(peer.told.frames) == 1


# -- the end


@pytest.mark.parametrize(
    ("code", "reason", "said"),
    [
        (1000, "", "the server closed the WebSocket (1000 normal closure)"),
        (1001, "bye", "the server closed the WebSocket (1001 going away: 'bye')"),
        (1008, "no", "the server closed the WebSocket (1008 policy violation: 'no')"),
        (1011, "", "the server closed the WebSocket (1011 internal error)"),
        (4000, "x\ny", "the server closed the WebSocket (4000: 'x\\ny')"),
        (4401, "expired", f"{close_codes.UNAUTHORIZED} (4401 unauthorized: 'expired')"),
        (3000, "", f"{close_codes.UNAUTHORIZED} (3000 unauthorized)"),
    ],
)
async def test_close_codes(code: int, reason: str, said: str) -> None:
    """C183: a call that is under way when the server closes is lost at once, and code and reason are told."""

    async def answer(connection: ServerConnection, message: str) -> None:
        await connection.close(code, reason)

    async with RudeWebSocket(answer) as server, peer_of(server) as peer:
        peer.start("x")
        assert await ended(peer) == said


async def test_the_connection_breaks() -> None:
    """C183: without a close frame that is what is said."""

    async def answer(connection: ServerConnection, message: str) -> None:
        connection.transport.abort()

    async with RudeWebSocket(answer) as server, peer_of(server) as peer:
        peer.start("x")
        assert await ended(peer) == "the server is gone without a word (1006 the connection broke)"


async def test_a_silent_peer_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """C183: a half-open connection is found out by pings that nobody answers; one whose server is slow to answer a
    request stays."""
    monkeypatch.setattr(outbound, "PING_EVERY", 0.05)
    monkeypatch.setattr(outbound, "PONG_WITHIN", 0.2)
    asked = anyio.Event()

    async def answer(connection: ServerConnection, message: str) -> None:
        if json.loads(message)["method"] == "freeze":
            connection.transport.pause_reading()
        else:
            await asked.wait()
            await echo(connection, message)

    async with RudeWebSocket(answer) as server, peer_of(server) as peer:
        mid = peer.start("slow")
        await anyio.sleep(0.5)  # several pings long
        assert peer.told.ends == []
        asked.set()
        assert await peer.ended(mid) == "answered"
        peer.start("freeze")
        assert await ended(peer) == "the server did not answer a ping within 0.2 s"


async def test_what_a_server_may_not_send(monkeypatch: pytest.MonkeyPatch) -> None:
    """C049, C183: a message above the limit, text that is not UTF-8 and a broken frame end the connection by name."""
    monkeypatch.setattr(websocket, "MAX_MESSAGE", 1 << 20)
    monkeypatch.setattr(messages, "MAX_FRAGMENTS", 10)

    async def answer(connection: ServerConnection, message: str) -> None:
        match json.loads(message)["method"]:
            case "large":
                await connection.send("x" * ((1 << 20) + 1))
            case "many":
                await connection.send(["x"] * 11)
            case "latin":
                await connection.send(b'{"a": "\xe9"}', text=True)
            case _:
                connection.transport.write(b"\xc1\x01x")  # a reserved bit

    found = {}
    async with RudeWebSocket(answer) as server:
        for method in ("large", "many", "latin", "frame"):
            async with peer_of(server) as peer:
                peer.start(method)
                found[method] = await ended(peer)
    assert found["large"] == "a message is longer than 1 MiB"
    assert found["many"] == "a message came in too many fragments"
    assert found["latin"] == "the server sent text that is not UTF-8"
    assert found["frame"].startswith("the server broke the WebSocket protocol")


# -- certificates


async def test_tls_and_a_client_certificate(tmp_path: Path) -> None:
    """wss:// trusts what the environment names, or the entry's own authorities; a server that wants a certificate gets
    the entry's."""
    authority = Authority.made(tmp_path)
    tls = authority.server("127.0.0.1")
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(authority.path)
    cert, key = authority.client("me")
    files = TlsFiles(str(cert), str(key), str(authority.path))
    async with RudeWebSocket(echo, tls=tls) as server:
        async with peer_of(server, tls=files) as peer:
            assert await peer.ask("x") == "answered"
        untrusted = await refused(server.url)
        assert untrusted.kind == "tls" and "cannot be trusted" in str(untrusted)
        missing = await refused(server.url, tls=TlsFiles(cert="/nowhere.pem"))
        assert (missing.kind, "/nowhere.pem" in str(missing)) == ("config", True)


async def test_a_server_that_wants_a_certificate(tmp_path: Path) -> None:
    """One that gets none, or one that it does not know, says so in an alert after the handshake: that is named."""
    authority, other = Authority.made(tmp_path), tmp_path / "other"
    other.mkdir()
    tls = authority.server("127.0.0.1")
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(authority.path)
    stranger = Authority.made(other).client("me")
    trusted = {"SSL_CERT_FILE": str(authority.path)}
    unknown = TlsFiles(str(stranger[0]), str(stranger[1]))
    for files, said in ((None, "wants a client certificate"), (unknown, "refuses the client certificate")):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"wss://127.0.0.1:{listener.getsockname()[1]}/"
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, shaken, listener, tls)
                error = await refused(url, env=trusted, tls=files)
        assert error.kind == "tls"
        assert said in str(error)


def shaken(listener: socket.socket, tls: ssl.SSLContext) -> None:
    """One handshake, by blocking calls: asyncio's own server hangs up without the alert."""
    connection, _ = listener.accept()
    connection.settimeout(5)
    with tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False) as shaking:
        try:
            shaking.do_handshake()
        except OSError:
            pass
        shaking.shutdown(socket.SHUT_WR)
        while socket.socket.recv(shaking, 4096):  # closed with what is unread, it would reset the alert away
            pass
