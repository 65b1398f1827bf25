"""One HTTP/1.1 connection: what counts as an answer, when the connection can be used again, what a failure is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import anyio
import httpcore2
import pytest

from mcphub.outbound import line as line_module
from mcphub.outbound.line import Line

pytestmark = pytest.mark.anyio

ASK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n"


class Server(asyncio.Protocol):
    """Answers each request with the next of these writes; an empty one closes."""

    def __init__(self, answers: Sequence[bytes]) -> None:
        self.answers = list(answers)
        self.transport: asyncio.Transport | None = None
        self.received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self.received.endswith(b"\r\n\r\n") and self.transport is not None:
            self.received.clear()
            answer = self.answers.pop(0)
            self.transport.write(answer)
            if not self.answers:
                self.transport.close()


@asynccontextmanager
async def line_to(*answers: bytes) -> AsyncIterator[Line]:
    """A line to a server with these answers; it closes behind the last one. `b""` at the end keeps it open."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Server(answers), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    _, line = await loop.create_connection(Line, "127.0.0.1", port)
    try:
        with anyio.fail_after(5):
            yield line
    finally:
        line.abort()
        await line.lost.wait()
        server.close()
        await server.wait_closed()


async def body_of(line: Line) -> bytes:
    return b"".join([chunk async for chunk in line.aiter_stream()])


@pytest.mark.parametrize(
    ("answer", "body", "stays"),
    [
        (OK + b"Content-Length: 2\r\n\r\nab", b"ab", True),
        (OK + b"Content-Length: 0\r\n\r\n", b"", True),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n2;x=y\r\nbc\r\n0\r\nX-Trailer: 1\r\n\r\n", b"abc", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\na", b"a", True),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\na", b"a", True),
        (OK + b"Content-Length: 2\r\nConnection: close\r\n\r\nab", b"ab", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab", b"ab", False),
        (OK + b"Content-Length: 1\r\n\r\na" + OK + b"Content-Length: 1\r\n\r\nb", b"a", False),
    ],
)
async def test_an_answer_and_what_becomes_of_its_connection(answer: bytes, body: bytes, stays: bool) -> None:
    """The body is what RFC 9112 says; the connection stays unless one side wants its end, or more came than was asked
    for."""
    async with line_to(answer, b"") as line:
        await line.ask(ASK)
        assert line.status in (200, 204)
        assert b"link" not in dict(line.headers)
        assert await body_of(line) == body
        assert line.release() is stays
        assert line.usable(0.0) is stays


async def test_two_requests_on_one_connection() -> None:
    """The second answer has nothing of the first."""
    first = OK + b"X-First: 1\r\nContent-Length: 3\r\n\r\none"
    async with line_to(first, OK + b"Content-Length: 3\r\n\r\ntwo", b"") as line:
        await line.ask(ASK)
        assert (dict(line.headers)[b"x-first"], line.whole()) == (b"1", b"one")
        assert line.release()
        await line.ask(ASK)
        assert await body_of(line) == b"two"
        assert b"x-first" not in dict(line.headers)


async def test_a_body_that_ends_with_its_connection() -> None:
    """Without a length and chunks the end of the connection is the end of the body, and nothing is lost."""
    async with line_to(OK + b"\r\nall of it") as line:
        await line.ask(ASK)
        assert await body_of(line) == b"all of it"
        assert not line.release()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "without sending a response"),
        (b"HTTP/1.1 200 OK\r\nContent-", "without sending a response"),
        (b"\x00\x01\x02 this is no HTTP\r\n\r\n", None),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", None),
        (OK + b"X: " + b"y" * line_module.MAX_HEAD + b"\r\n\r\n", "too large"),
    ],
)
async def test_what_is_no_answer(answer: bytes, words: str | None) -> None:
    """The request fails at once, under the name that httpcore2 has for it."""
    async with line_to(answer) as line:
        with pytest.raises(httpcore2.RemoteProtocolError, match=words):
            await line.ask(ASK)
        assert not line.release()


@pytest.mark.parametrize(
    "answer",
    [OK + b"Content-Length: 9\r\n\r\nab", OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"],
    ids=["length", "chunks"],
)
async def test_a_body_that_breaks_off(answer: bytes) -> None:
    """What came is given, then it is said that it was not all."""
    async with line_to(answer) as line:
        await line.ask(ASK)
        stream = line.aiter_stream()
        assert await anext(stream) == b"ab"
        with pytest.raises(httpcore2.RemoteProtocolError, match="incomplete|peer closed"):
            await anext(stream)
        assert line.whole() is None


async def test_a_body_that_nobody_takes_makes_the_server_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than the limit and one read is held; all of it comes once it is taken."""
    monkeypatch.setattr(line_module, "HIGH", 1 << 16)
    size = 16 << 20
    held: Callable[[Line], int] = lambda line: sum(map(len, line._chunks))  # noqa: E731
    async with line_to(OK + b"Content-Length: %d\r\n\r\n" % size + bytes(size), b"") as line:
        await line.ask(ASK)
        for _ in range(200):
            await anyio.lowlevel.checkpoint()
        assert held(line) < 1 << 20
        assert len(await body_of(line)) == size
        assert line.release()


async def test_words_that_nobody_asked_for_end_an_idle_connection() -> None:
    """A server that speaks out of turn, or closes, is not asked again on that connection."""
    async with line_to(OK + b"Content-Length: 1\r\n\r\na") as line:
        await line.ask(ASK)
        assert await body_of(line) == b"a"
        line.release()
        await line.lost.wait()
        assert not line.usable(0.0)


async def test_a_request_that_is_cancelled_leaves_nothing() -> None:
    """Whoever waits may go; the connection goes too, and nothing is reported later."""
    async with line_to(OK + b"Content-Length: 9\r\n\r\nab", b"") as line:
        await line.ask(ASK)
        with anyio.move_on_after(0.05):
            await body_of(line)
        assert not line.release()
        await line.lost.wait()
