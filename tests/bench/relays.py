"""Owns the floor under the gateway: a relay from a Unix socket to one stdio server, on asyncio's buffered protocols.

It must not know mcphub: it does the least that any gateway has to do (decode the envelope, rewrite the id and the name
of the tool, pass `params` and `result` as bytes) and nothing else, so what mcphub costs above it is mcphub's own.

    python relays.py SOCKET -- SERVER ARGV...

One client at a time. Each side has one receive buffer that is used again; large results go out as views of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence

import msgspec

#: Results below this are copied into one frame, above it they are sent as a view of the receive buffer.
VIEW_FROM = 4096
SMALLEST = 1 << 16
KEEP_AT_MOST = 1 << 20

Frames = Sequence[bytes | memoryview]


class Envelope(msgspec.Struct, omit_defaults=True):
    """A JSON-RPC message whose payload stays bytes."""

    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"")
    result: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")


class Call(msgspec.Struct, omit_defaults=True):
    """The params of tools/call, as far as a router reads them."""

    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")
    meta: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="_meta")


class Codec:
    """Rewrites one message: `up` from the client to the server, `down` the other way. The ids in flight live here."""

    def __init__(self) -> None:
        self.decode = msgspec.json.Decoder(Envelope).decode
        self.decode_call = msgspec.json.Decoder(Call).decode
        self.encode = msgspec.json.Encoder().encode
        self.waiting: dict[int | str, int | str] = {}
        self.last = 0

    def up(self, line: memoryview) -> Frames:
        """The same request under an id of ours, the exposed name `mcp__SERVER__TOOL` cut down to the tool's own."""
        message = self.decode(line)
        if message.id is None:
            return [bytes(line) + b"\n"]
        self.last += 1
        self.waiting[self.last] = message.id
        params = bytes(message.params) or b"{}"
        if message.method == "tools/call":
            call = self.decode_call(message.params)
            name = self.encode(call.name.rsplit("__", 1)[-1])
            meta = b',"_meta":' + bytes(call.meta) if bytes(call.meta) else b""
            params = b'{"name":%s,"arguments":%s%s}' % (name, bytes(call.arguments), meta)
        return [
            b'{"jsonrpc":"2.0","id":%d,"method":%s,"params":%s}\n' % (self.last, self.encode(message.method), params)
        ]

    def down(self, line: memoryview) -> Frames:
        """The same reply under the client's id; a large result is three frames, the middle one a view of LINE."""
        message = self.decode(line)
        if message.method is not None or message.id is None:
            return [bytes(line) + b"\n"]
        request_id = self.encode(self.waiting.pop(message.id, None))
        error = memoryview(message.error)
        key, body = (b"error", error) if error else (b"result", memoryview(message.result))
        if len(body) < VIEW_FROM:
            return [b'{"jsonrpc":"2.0","id":%s,"%s":%s}\n' % (request_id, key, body)]
        return [b'{"jsonrpc":"2.0","id":%s,"%s":' % (request_id, key), body, b"}\n"]


class Outlet:
    """Where one side's frames go; filled in when the other side is connected."""

    transport: asyncio.WriteTransport | None = None


class Side(asyncio.BufferedProtocol):
    """Lines of one side, rewritten, to the outlet of the other."""

    def __init__(self, rewrite: Callable[[memoryview], Frames], to: Outlet, own: Outlet) -> None:
        self.rewrite, self.to, self.own = rewrite, to, own
        self.buffer = bytearray(SMALLEST)
        self.start = self.end = 0  # the unconsumed bytes
        self.lent = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.own.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        if len(self.buffer) - self.end < SMALLEST // 2:
            size = self.end - self.start
            if self.start > len(self.buffer) // 2:
                self.buffer[:size] = self.buffer[self.start : self.end]
                self.start, self.end = 0, size
            else:
                self.buffer.extend(bytes(len(self.buffer)))
        return memoryview(self.buffer)[self.end :]

    def buffer_updated(self, nbytes: int) -> None:
        scan, self.end = self.end, self.end + nbytes
        buffer, start = self.buffer, self.start
        out: list[bytes | memoryview] = []
        view = memoryview(buffer)
        while (newline := buffer.find(b"\n", scan, self.end)) >= 0:
            if newline > start:
                out += self.rewrite(view[start:newline])
            scan = start = newline + 1
        self.start = start
        if out and self.to.transport is not None:
            self.send(out, self.to.transport)
        if self.lent:
            self.renew()
        elif start == self.end:
            self.start = self.end = 0
            if len(buffer) > KEEP_AT_MOST:  # give a large message's buffer back
                self.buffer = bytearray(SMALLEST)

    def send(self, frames: Frames, transport: asyncio.WriteTransport) -> None:
        """One write for small frames; views go out as they are, and may then still be held by the transport."""
        if len(frames) == 1 or max(map(len, frames)) >= SMALLEST // 2:
            for frame in frames:
                transport.write(frame)
            # From Python 3.12 on (and on uvloop) a write that could not be finished keeps the view itself, not a
            # copy: the buffer under it belongs to the transport until it has drained, so it is not used again.
            self.lent = any(isinstance(frame, memoryview) for frame in frames) and (
                transport.get_write_buffer_size() > 0
            )
        else:
            transport.write(b"".join(frames))

    def renew(self) -> None:
        """A new buffer that begins with the unconsumed bytes; the old one lives as long as its views."""
        rest = self.buffer[self.start : self.end]
        self.buffer = bytearray(max(SMALLEST, 2 * len(rest)))
        self.buffer[: len(rest)] = rest
        self.start, self.end = 0, len(rest)
        self.lent = False


async def relay(path: str, stdin: socket.socket, stdout: socket.socket) -> None:
    """Serve PATH, in front of the server whose standard streams STDIN and STDOUT are, until cancelled."""
    loop = asyncio.get_running_loop()
    codec, client, child = Codec(), Outlet(), Outlet()
    writing, _ = await loop.create_connection(asyncio.Protocol, sock=stdin)
    child.transport = writing
    await loop.create_connection(lambda: Side(codec.down, client, Outlet()), sock=stdout)
    server = await loop.create_unix_server(lambda: Side(codec.up, child, client), path)
    async with server:
        await server.serve_forever()


def main(path: str, argv: Sequence[str]) -> None:
    """Start ARGV on two socketpairs and relay to it from PATH; the server ends when its input does."""
    stdin, child_stdin = socket.socketpair()
    stdout, child_stdout = socket.socketpair()
    with child_stdin, child_stdout:
        process = subprocess.Popen(argv, stdin=child_stdin.fileno(), stdout=child_stdout.fileno())
    try:
        asyncio.run(relay(path, stdin, stdout))
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(sys.argv[1], sys.argv[sys.argv.index("--") + 1 :])
