"""The small HTTP server on the loopback, on real sockets."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import anyio
import psutil
import pytest

from mcphub.login import loopback_http
from mcphub.login.loopback_http import GUARDS, MAX_HEAD, MOST, Exchange, LoopbackServer, Response
from tests.fakes.hub import eventually
from tests.login.browser import get, parsed, raw

pytestmark = pytest.mark.anyio

seen: list[tuple[str, str]] = []


def serve(exchange: Exchange) -> None:
    seen.append((exchange.path, exchange.query))
    exchange.respond(Response(200, "here"))


@pytest.fixture
async def server() -> AsyncIterator[LoopbackServer]:
    seen.clear()
    made = LoopbackServer(0, serve)
    async with made.serving():
        yield made


async def test_a_page_and_its_headers(server: LoopbackServer) -> None:
    """S16, 1.8: a GET by each name of the loopback, on both addresses; each answer forbids what a page could do."""
    for host, name in (("127.0.0.1", ""), ("::1", ""), ("127.0.0.1", "localhost"), ("::1", "LOCALHOST")):
        answer = await get(server.port, "/a?b=c", host=host, **({"Host": f"{name}:{server.port}"} if name else {}))
        assert (answer.status, answer.page) == (200, "here")
        assert {name: answer.headers[name] for name, _ in GUARDS} == dict(GUARDS)
        assert answer.headers["Connection"] == "close"
    assert seen == [("/a", "b=c")] * 4


async def test_nothing_listens_elsewhere(server: LoopbackServer) -> None:
    """C101, S16: on 127.0.0.1 and ::1 alone, at one port."""
    found = [one.laddr for one in psutil.Process().net_connections("inet") if one.status == psutil.CONN_LISTEN]
    assert {(place.ip, place.port) for place in found if place.port == server.port} == {
        ("127.0.0.1", server.port), ("::1", server.port),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET / HTTP/1.1\r\nHost: evil.example:{port}\r\n", 404),
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", 404),
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1:1\r\n", 404),
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example:{port}\r\n", 404),
        ("GET / HTTP/1.1\r\n", 404),
        ("POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n", 404),
        ("HEAD / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n", 404),
        ("OPTIONS / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n", 404),
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: 127.0.0.1:{port}\r\n", 400),
        ("GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n", 400),
        ("GET / HTTP/2.0\r\nHost: 127.0.0.1:{port}\r\n", 400),
        ("GET / HTTP/1.1\r\n folded\r\n", 400),
        ("GET /\x00 HTTP/1.1\r\n", 400),
        ("\x16\x03\x01\r\n", 400),
        ("GET / HTTP/1.1\nHost: 127.0.0.1:{port}\n\n\r\n", 400),
        ("GET / HTTP/1.1\r\nX: " + "x" * MAX_HEAD + "\r\n", 400),
    ],
)
async def test_what_is_not_served(server: LoopbackServer, head: str, status: int) -> None:
    """C100, S16: another method, another host, what is no HTTP: a constant answer, and nobody is told of it."""
    answer = parsed(await raw(server.port, head.format(port=server.port).encode("latin-1") + b"\r\n"))
    assert answer.status == status
    assert "evil" not in answer.page
    assert seen == []


async def test_a_head_without_end(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that never ends is ended; a client that leaves is nothing; too many at once are told so."""
    assert parsed(await raw(server.port, b"x" * (MAX_HEAD + 1))).status == 400
    monkeypatch.setattr(loopback_http, "HEAD_TIMEOUT", 0.05)
    assert await raw(server.port, b"GET /") == b""
    async with await anyio.connect_tcp("127.0.0.1", server.port):
        pass
    monkeypatch.setattr(loopback_http, "HEAD_TIMEOUT", 10.0)
    streams = [await anyio.connect_tcp("127.0.0.1", server.port) for _ in range(MOST)]
    await eventually(lambda: len(server.open) >= MOST, timeout=10)
    assert parsed(await raw(server.port, b"")).status == 503
    for stream in streams:
        await stream.aclose()
    assert (await get(server.port, "/")).status == 200


async def test_the_end_answers_who_waits() -> None:
    """A browser that waits when it is over gets an answer, and the port is free."""
    made = LoopbackServer(0, lambda exchange: waiting.append(exchange))
    waiting: list[Exchange] = []
    answers = []
    async with anyio.create_task_group() as tasks, made.serving():

        async def ask() -> None:
            answers.append(await get(made.port, "/"))

        tasks.start_soon(ask)
        await eventually(lambda: waiting, timeout=10)
    assert [one.status for one in answers] == [404]
    waiting[0].respond(Response(200, "too late"))
    with pytest.raises(OSError):
        await anyio.connect_tcp("127.0.0.1", made.port)


def half_taken() -> socket.socket:
    """A listener on ::1, at a port that is free on 127.0.0.1."""
    while True:
        half = socket.create_server(("::1", 0), family=socket.AF_INET6)
        try:
            socket.create_server(("127.0.0.1", half.getsockname()[1])).close()
            return half
        except OSError:
            half.close()


async def test_a_port_that_is_taken() -> None:
    """C100: a fixed one is an error; of any other, one is found where nobody else has the other half of `localhost`."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError):
        LoopbackServer(taken.getsockname()[1], serve)
    with half_taken() as half:
        port = half.getsockname()[1]
        alone = LoopbackServer(port, serve)
        assert [sock.family for sock in alone.sockets] == [socket.AF_INET]
        alone.close()
        with pytest.raises(OSError):
            LoopbackServer(port, serve, both=True)
