"""Owns the floor under an HTTP endpoint: a bare ASGI application on uvicorn in front of one stdio server.

It must not know mcphub: it does the least that any such gateway has to do (decode the envelope, rewrite the id and the
name of the tool, one future a request) and nothing else: no eras, sessions, policy, or headers that are looked at.

    python asgi_relay.py PORT -- SERVER ARGV...
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import uvicorn
from relays import Codec  # type: ignore[import-not-found]


class Child(asyncio.SubprocessProtocol):
    """The server's lines to the futures that wait for them."""

    def __init__(self, codec: Codec, waiting: dict[int, asyncio.Future[bytes]]) -> None:
        self.codec, self.waiting = codec, waiting
        self.rest = b""

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        for line in lines:
            message = self.codec.decode(line)
            waiter = self.waiting.pop(message.id, None)
            if waiter is not None and not waiter.done():
                waiter.set_result(b"".join(self.codec.down(memoryview(line)))[:-1])


class Relay:
    """The ASGI application; the server is started with the first request."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.argv = argv
        self.codec = Codec()
        self.waiting: dict[int, asyncio.Future[bytes]] = {}
        self.to_child: asyncio.WriteTransport | None = None

    async def start(self) -> asyncio.WriteTransport:
        loop = asyncio.get_running_loop()
        child, _ = await loop.subprocess_exec(lambda: Child(self.codec, self.waiting), *self.argv, stderr=None)
        pipe = child.get_pipe_transport(0)
        assert isinstance(pipe, asyncio.WriteTransport)
        return pipe

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if self.to_child is None:
            self.to_child = await self.start()
        parts, more = [], True
        while more:
            event = await receive()
            parts.append(event.get("body", b""))
            more = event.get("more_body", False)
        line, body = b"".join(parts), b""
        if scope["method"] == "POST" and b'"id":' in line:
            frames = self.codec.up(memoryview(line))
            waiter = self.waiting[self.codec.last] = asyncio.get_running_loop().create_future()
            self.to_child.write(b"".join(frames))
            body = await waiter
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200 if body else 202, "headers": headers})
        await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    uvicorn.run(
        Relay(sys.argv[sys.argv.index("--") + 1 :]),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        http="httptools",
        loop="asyncio",
        log_level="error",
        access_log=False,
    )
