"""One connection: whom it lets in, and its limits."""

from __future__ import annotations

import json
import os
import socket
import stat
import struct
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio
import pytest
from starlette.types import Receive, Scope, Send

from mcphub.control import server
from mcphub.httpserver import connection
from mcphub.httpserver.connection import Terms
from mcphub.httpserver.document import send_json
from mcphub.httpserver.serve import serving
from tests.fakes.canned_hub import CannedHub, answering
from tests.fakes.raw_http import answer, ask, connected, exchange, read_all, request

pytestmark = pytest.mark.anyio

NOBODY = 65534


async def test_another_uid_is_let_down_without_an_answer(
    hub: CannedHub, path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The kernel's word counts: a peer of another uid gets the connection closed, and the log says who it was."""
    if os.geteuid() == 0:
        os.chmod(os.path.dirname(os.path.dirname(path)), 0o755)  # let nobody come as far as the socket itself
        os.chmod(os.path.dirname(path), 0o755)
        os.chmod(path, 0o666)
        code = (
            "import os, socket, sys\n"
            f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
            "s = socket.socket(socket.AF_UNIX); s.settimeout(5); s.connect(sys.argv[1])\n"
            "try:\n    s.sendall(b'GET /v1/status HTTP/1.0\\r\\n\\r\\n'); print(s.recv(100))\n"
            "except OSError: print(b'')\n"
        )
        done = await anyio.run_process([sys.executable, "-I", "-c", code, path])
        assert done.stdout == b"b''\n"
    else:
        monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
        assert await exchange(path, request("GET", "/v1/status")) == b""
        monkeypatch.undo()
    assert "refused a connection" in caplog.text
    assert (await ask(path, "GET", "/v1/status"))[0] == 200


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01 TLS hello\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET /v1/status HTTP/9.9\r\n\r\n", 400),
        (b"GET /v1/status HTTP/1.1\r\nA\x00: b\r\n\r\n", 400),
        (b"GET http://[::1 HTTP/1.1\r\n\r\n", 400),
        (b"POST /v1/call HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST /v1/call HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST /v1/call HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"CONNECT host:1 HTTP/1.1\r\n\r\n", 400),
        (b"GET /v1/status HTTP/1.1\r\n" + b"A: " + b"x" * 70_000, 431),
        (b"GET /v1/status HTTP/1.1\r\n" + b"A: b\r\n" * 20_000 + b"\r\n", 431),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET /v1/status HTTP/1.1\r\n" + b"x" * 70_000, 431),
        (b"\r\n" * 40_000, 431),
        (b"POST /v1/stop HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: b\r\n" * 20_000 + b"\r\n", 431),
    ],
)
async def test_what_is_not_a_request_of_bearable_size(hub: CannedHub, path: str, data: bytes, status: int) -> None:
    """Garbage and endless heads get one clean answer and a closed connection; the server goes on."""
    assert answer(await exchange(path, data))[0] == status
    assert hub.asked == []
    assert (await ask(path, "GET", "/v1/status"))[0] == 200


async def test_the_head_may_come_in_any_pieces(hub: CannedHub, path: str) -> None:
    """Byte by byte is the same request."""
    with anyio.fail_after(5):
        async with connected(path) as stream:
            for byte in request("GET", "/v1/status"):
                await stream.send(bytes([byte]))
            assert answer(await read_all(stream))[0] == 200


@asynccontextmanager
async def _served(path: str) -> AsyncIterator[CannedHub]:
    """A server of its own for a test that changed a limit first."""
    hub = CannedHub()
    async with answering(hub, path):
        yield hub


async def test_a_client_that_sends_nothing_is_let_down(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection without a request does not stay: at its start, within a head, and within a later one."""
    monkeypatch.setattr(connection, "HEAD_TIMEOUT", 0.05)
    async with _served(path):
        assert answer(await exchange(path, b""))[0] == 408
        assert answer(await exchange(path, b"GET /v1/status HT"))[0] == 408
        with anyio.fail_after(5):
            async with connected(path) as stream:
                await stream.send(b"GET /v1/none HTTP/1.1\r\n\r\n")
                assert answer(await stream.receive())[0] == 404
                await stream.send(b"GET /v1/status HT")
                assert answer(await read_all(stream))[0] == 408


async def test_a_client_that_does_not_read_is_let_down(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that nobody takes is dropped with its connection, also the last bytes of it."""
    monkeypatch.setattr(connection, "STALL_TIMEOUT", 0.05)
    async with _served(path) as hub:
        hub.lines = ["x" * 1000] * 2000
        with anyio.fail_after(5):
            async with connected(path) as stream:
                await stream.send(request("GET", "/v1/logs/time?lines=2000"))
                assert (await ask(path, "GET", "/v1/status"))[0] == 200  # others are answered meanwhile
                await hub_is_alone(path)
                assert len(await read_all(stream)) < 2_000_000


async def hub_is_alone(path: str) -> None:
    """Wait until every accepted connection to the path is gone from this process."""
    while True:
        found = [entry for entry in os.listdir("/proc/self/fd") if _is_accepted(int(entry), path)]
        if not found:
            return
        await anyio.sleep(0.01)


def _is_accepted(descriptor: int, path: str) -> bool:
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return False
        with socket.socket(fileno=os.dup(descriptor)) as sock:
            listening = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            return sock.getsockname() == path and not listening
    except OSError:
        return False


@pytest.fixture(autouse=True)
def no_descriptor_is_left() -> Iterator[None]:
    """What a test opens it closes. The loop of the test was made before."""
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) == before


async def test_one_request_at_a_time(hub: CannedHub, path: str) -> None:
    """A request in front of an unanswered one is refused, and the unanswered one is cancelled: it could not be told
    later that its client is gone."""
    call = b'{"tool":"hang"}'
    head = b"POST /v1/call HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(call)
    with anyio.fail_after(5):
        async with connected(path) as stream:
            await stream.send(head + call)
            await hub.hanging.wait()
            await stream.send(b"GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n")
            status, document = answer(await read_all(stream))
            assert (status, document["error"]["kind"]) == (400, "bad_request")
            await hub.cancelled.wait()


async def test_so_many_connections_and_no_more(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one too many is told so; when one goes, the next is answered."""
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 2)
    async with _served(path):
        with anyio.fail_after(5):
            async with connected(path) as first, connected(path):
                await first.send(b"GET /v1/none HTTP/1.1\r\n\r\n")
                assert answer(await first.receive())[0] == 404
                assert answer(await exchange(path, b""))[0] == 503
            await hub_is_alone(path)
            assert (await ask(path, "GET", "/v1/status"))[0] == 200


async def test_a_reset_is_an_end_like_any_other(hub: CannedHub, path: str) -> None:
    """A client that leaves unread data behind disturbs nobody."""
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.connect(path)
            sock.sendall(request("GET", "/v1/status"))
    assert json.loads((await exchange(path, request("GET", "/v1/tools"))).partition(b"\r\n\r\n")[2])["revision"] == 1


class AtOnce:
    """What answers a request before a task is made for it: by its body, which says how."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []

    def __call__(self, one: connection.Connection, body: bytes) -> bool:
        if body == b"long way":
            return False
        self.taken.append(body)
        if body == b"go on":
            one.run(self.rest)
        else:
            size = int(body)
            assert one.answer_at_once(200, [(b"content-length", b"%d" % size)], b"x" * size)
        return True

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        data = (await receive())["body"]
        await send_json(send, 201, b"app: " + data)

    async def rest(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, 202, b"rest")


@pytest.mark.parametrize("keep", [True, False])
async def test_requests_that_are_answered_before_a_task_is_made(keep: bool) -> None:
    """Small and large answers, those that go on in a task, and those that go the long way, one after the other on one
    connection, or each on one that is closed behind it."""
    answers = AtOnce()
    terms = Terms(lambda transport: {}, 10, lambda status, text: text.encode(), answers)
    wanted = [
        (b"5", 200, b"xxxxx"),
        (b"go on", 202, b"rest"),
        (b"long way", 201, b"app: long way"),
        (b"100000", 200, b"x" * 100_000),
        (b"0" * connection.SHORT + b"1", 201, b"app: " + b"0" * connection.SHORT + b"1"),
    ]
    sock = socket.create_server(("127.0.0.1", 0))
    with sock, anyio.fail_after(10):
        async with serving(sock, answers.app, terms, lambda: None):
            port = sock.getsockname()[1]
            stream = await anyio.connect_tcp("127.0.0.1", port)
            for body, status, expected in wanted:
                close = b"" if keep else b"Connection: close\r\n"
                head = b"POST / HTTP/1.1\r\nHost: x\r\n%bContent-Length: %d\r\n\r\n" % (close, len(body))
                await stream.send(head)
                await stream.send(body)
                got = b""
                while not got.endswith(expected):
                    got += await stream.receive()
                assert got.startswith(b"HTTP/1.1 %d " % status)
                assert (b"connection: close" in got.partition(b"\r\n\r\n")[0]) is not keep
                if not keep:
                    with pytest.raises(anyio.EndOfStream):
                        await stream.receive()
                    await stream.aclose()
                    stream = await anyio.connect_tcp("127.0.0.1", port)
            await stream.aclose()
    assert answers.taken == [b"5", b"go on", b"100000"]
