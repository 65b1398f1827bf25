"""Owns what an HTTP client costs a request: three of them, each alone in a process, against the same echo endpoint.

It must not know the benchmark that starts it. It prints one JSON object: requests, rate (a second), CPU (us a request).

    python http_clients.py floor|httpx2|mcphub URL CONCURRENCY SECONDS

`floor` is a hand-written HTTP/1.1 protocol with connections kept alive: what asyncio itself costs. `httpx2` is its
AsyncClient, used as its documentation says. `mcphub` is the transport for remote servers, as a connection uses it.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio

Post = Callable[[int], Awaitable[None]]

WARM_UP = 3
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-11-25",
    "Mcp-Session-Id": "bench",
}
TEXT = "x" * 100


def call(number: int) -> bytes:
    """One call of the echo tool, as a frame without its newline."""
    params = b'{"name":"echo","arguments":{"text":"%s"}}' % TEXT.encode()
    return b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}' % (number, params)


def check(body: bytes, number: int) -> None:
    """Raises ValueError where BODY does not answer this call."""
    if b'"id":%d,' % number not in body or TEXT.encode() not in body:
        raise ValueError(f"call {number} was answered {body[:200]!r}")


class RawConnection(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        received = self.received
        received += data
        end = received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(received[:end]).lower()
        at = head.find(b"content-length:")
        stop = end + 4 + int(head[at + 15 :].split(b"\r\n", 1)[0])
        if len(received) >= stop and self.answer is not None:
            body = bytes(received[end + 4 : stop])
            received.clear()
            self.answer.set_result(body)


@asynccontextmanager
async def floor(url: str) -> AsyncIterator[Post]:
    """The hand-written client."""
    where = urlsplit(url)
    host, port = str(where.hostname), where.port or 80
    loop = asyncio.get_running_loop()
    free: list[RawConnection] = []
    lines = [f"POST {where.path} HTTP/1.1", f"Host: {where.netloc}", *(f"{k}: {v}" for k, v in HEADERS.items())]
    head = "\r\n".join(lines).encode()

    async def post(number: int) -> None:
        connection = free.pop() if free else (await loop.create_connection(RawConnection, host, port))[1]
        connection.answer = loop.create_future()
        body = call(number)
        connection.transport.write(b"%s\r\nContent-Length: %d\r\n\r\n%s" % (head, len(body), body))
        check(await connection.answer, number)
        free.append(connection)

    try:
        yield post
    finally:
        for connection in free:
            connection.transport.close()


@asynccontextmanager
async def httpx2_client(url: str) -> AsyncIterator[Post]:
    """The client that mcphub's own is compared with."""
    import httpx2

    limits = httpx2.Limits(max_connections=64, max_keepalive_connections=64)
    async with httpx2.AsyncClient(limits=limits, timeout=30, trust_env=False) as client:

        async def post(number: int) -> None:
            response = await client.post(url, content=call(number), headers=HEADERS)
            check(response.content, number)

        yield post


class Replies:
    """Implements channel.Receiver: each answer ends the wait for it."""

    def __init__(self) -> None:
        self.waiting: dict[int, asyncio.Future[bytes]] = {}

    def frame(self, line: bytes | memoryview) -> None:
        body = bytes(line)
        number = int(body[body.index(b'"id":') + 5 :].split(b",", 1)[0])
        self.waiting.pop(number).set_result(body)

    def too_long(self, head: bytes, message: str) -> None:
        raise AssertionError(message)

    def unanswered(self, request_id: int, kind: str, message: str) -> None:
        self.waiting.pop(request_id).set_exception(ConnectionError(f"{kind}: {message}"))

    def lost(self, reason: str) -> None:
        for waiter in self.waiting.values():
            waiter.set_exception(ConnectionError(reason))


@asynccontextmanager
async def mcphub_client(url: str) -> AsyncIterator[Post]:
    """mcphub's transport, after the handshake of the older era."""
    from mcphub.net import http_client
    from mcphub.transport.streamable_http import HttpChannel

    replies = Replies()
    loop = asyncio.get_running_loop()
    async with http_client(url, {}) as client, anyio.create_task_group() as tasks:
        channel = HttpChannel(client, {}, replies, lambda text: print(text, file=sys.stderr))
        await tasks.start(channel.run)

        async def ask(number: int, frame: bytes) -> bytes:
            waiter: asyncio.Future[bytes] = loop.create_future()
            replies.waiting[number] = waiter
            channel.send(frame + b"\n")
            return await waiter

        async def post(number: int) -> None:
            check(await ask(number, call(number)), number)

        hello = b'"params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"b","version":"1"}}'
        await ask(10**9, b'{"jsonrpc":"2.0","id":1000000000,"method":"initialize",%s}' % hello)
        channel.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        yield post
        tasks.cancel_scope.cancel()


CLIENTS = {"floor": floor, "httpx2": httpx2_client, "mcphub": mcphub_client}


async def measure(name: str, url: str, concurrency: int, seconds: float) -> dict[str, float]:
    """Keep CONCURRENCY requests on their way for SECONDS, warmed up."""
    last = 0
    done = 0

    async def worker(post: Post, until: float) -> None:
        nonlocal last, done
        while time.perf_counter() < until:
            last += 1
            await post(last)
            done += 1

    async def together(post: Post, until: float) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(concurrency):
                tasks.start_soon(worker, post, until)

    async with CLIENTS[name](url) as post:
        await together(post, time.perf_counter() + seconds / WARM_UP)
        done = 0
        begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        await together(post, begun + seconds)
        passed, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"requests": done, "rate": done / passed, "cpu_us": cpu / done * 1e6}


if __name__ == "__main__":
    found = asyncio.run(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
    print(json.dumps(found))
