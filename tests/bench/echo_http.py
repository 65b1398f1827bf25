"""Owns the echo server as an HTTP endpoint: Streamable HTTP on a hand-written asyncio protocol, in both eras.

It must not know the gateways in front of it, nor import what `python -I -S` does not have.

    python -I -S echo_http.py PORT [--sse] [--tools N]

The tools are those of `echo_server.py` that answer at once. With `--sse` each answer is a stream of one event.
"""

from __future__ import annotations

import asyncio
import sys
from json import loads
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from echo_server import EchoServer, option  # type: ignore[import-not-found]

NOT_HERE = b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n"
ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Endpoint(asyncio.Protocol):
    """One connection; requests are answered in their order."""

    def __init__(self, server: EchoServer, sse: bool) -> None:
        self.server, self.sse = server, sse
        self.received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        received = self.received
        received += data
        while (end := received.find(b"\r\n\r\n")) >= 0:
            head = bytes(received[:end]).lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(received) < end + 4 + length:
                return
            body = bytes(received[end + 4 : end + 4 + length])
            del received[: end + 4 + length]
            self.transport.write(self.reply(head, body))

    def reply(self, head: bytes, body: bytes) -> bytes:
        """The whole answer to one request."""
        if not head.startswith(b"post"):
            return NOT_HERE if head.startswith(b"get") else EMPTY
        message = loads(body)
        text, _, _ = self.server.answer(message)
        if text is None:
            return ACCEPTED
        session = b"Mcp-Session-Id: bench\r\n" if message.get("method") == "initialize" else b""
        kind = b"text/event-stream" if self.sse else b"application/json"
        out = f"event: message\ndata: {text}\n\n".encode() if self.sse else text.encode()
        return b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n%sContent-Length: %d\r\n\r\n%s" % (kind, session, len(out), out)


async def serve(port: int) -> None:
    """Until cancelled, on the loopback."""
    echo, sse = EchoServer("echo", int(option("--tools", "5"))), "--sse" in sys.argv
    server = await asyncio.get_running_loop().create_server(lambda: Endpoint(echo, sse), "127.0.0.1", port, backlog=512)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(serve(int(sys.argv[1])))
    except KeyboardInterrupt:
        pass
