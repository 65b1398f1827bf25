"""Owns a raw MCP agent over Streamable HTTP: one connection a request, every header and event visible to the test.

It must not hide anything that a client library would: statuses, sessions and streams are the test's to handle.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.fakes.agent import LEGACY, MODERN, Message, modern_meta, strict_json

NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


@dataclass
class Reply:
    """One answer. `document` is its JSON, `messages` the data of its events; comments are kept apart. `ids` are those
    of its events, of which one without data has `retry` beside it, in milliseconds, -1 = none came."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    comments: list[str] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    retry: int = -1

    @property
    def document(self) -> Any:
        """The JSON, or the only message of a stream, which an answer becomes that takes a little longer."""
        if self.headers["content-type"] == "text/event-stream":
            [message] = self.messages
            return message
        assert self.headers["content-type"] == "application/json", self
        return strict_json(self.body)

    @property
    def response(self) -> Message:
        """The final response, in whichever form it came."""
        found: Message = self.messages[-1] if self.messages else self.document
        return found


class Exchange:
    """An answer that is being read."""

    def __init__(self, stream: ByteStream, reply: Reply, reader: BufferedByteReceiveStream) -> None:
        self.stream = stream
        self.reply = reply
        self._reader = reader
        self._lines = b""

    async def part(self) -> bytes:
        """The next chunk of the body, b"" at its orderly end."""
        if self.reply.headers.get("transfer-encoding") != "chunked":
            size = int(self.reply.headers.get("content-length", "0")) - len(self.reply.body)
            data = await self._reader.receive_exactly(size) if size else b""
        else:
            size = int(await self._reader.receive_until(b"\r\n", 32), 16)
            data = (await self._reader.receive_exactly(size + 2))[:-2]
        self.reply.body += data
        return data

    async def event(self) -> Message | None:
        """The next message of an event stream, None at its end."""
        while True:
            block, gap, rest = self._lines.partition(b"\n\n")
            if not gap:
                data = await self.part()
                if not data:
                    assert not self._lines, self._lines
                    return None
                self._lines += data
                continue
            self._lines = rest
            if block.startswith(b":"):
                self.reply.comments.append(block.decode())
            elif not self._primed(block):
                fields = [line.partition(": ")[::2] for line in block.decode("utf-8").split("\n")]
                if len(fields) == 3:
                    name, number = fields.pop(1)
                    assert name == "id", block
                    self.reply.ids.append(number)
                assert [name for name, _ in fields] == ["event", "data"], block
                assert fields[0][1] == "message"
                message: Message = strict_json(fields[1][1].encode())
                self.reply.messages.append(message)
                return message

    def _primed(self, block: bytes) -> bool:
        """Whether this is an event without data, which is taken then."""
        lines = block.decode().split("\n")
        if not lines[0].startswith("id: "):
            return False
        assert lines[1].startswith("retry: ") and lines[2:] == ["data: "], block
        self.reply.ids.append(lines[0][4:])
        self.reply.retry = int(lines[1][7:])
        return True

    async def primed(self) -> str:
        """The id in the event without data that this stream begins with."""
        while not self.reply.ids:
            data = await self.part()
            assert data, "the stream ended"
            block, gap, self._lines = (self._lines + data).partition(b"\n\n")
            assert gap and self._primed(block), block
        return self.reply.ids[0]

    async def comment(self) -> str:
        """The next comment; a message before it is an error."""
        seen = len(self.reply.comments)
        while len(self.reply.comments) == seen:
            block, gap, rest = self._lines.partition(b"\n\n")
            if not gap:
                data = await self.part()
                assert data, "the stream ended"
                self._lines += data
                continue
            self._lines = rest
            if self._primed(block):
                continue
            assert block.startswith(b":"), block
            self.reply.comments.append(block.decode())
        return self.reply.comments[-1]

    async def whole(self) -> Reply:
        if self.reply.headers.get("content-type") == "text/event-stream":
            while await self.event() is not None:
                pass
        else:
            while await self.part():
                pass
        return self.reply


class HttpAgent:
    """An agent at one URL (`http://...`) or Unix socket with a path (`unix:///...#/mcp`)."""

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        self._socket = parts.path if parts.scheme == "unix" else ""
        self._address = (parts.hostname or "", parts.port or 0)
        self.path = parts.fragment if self._socket else parts.path
        self.host = "localhost" if self._socket else parts.netloc
        self.session = ""
        self.version = ""

    @asynccontextmanager
    async def open(
        self, method: str, headers: Mapping[str, str | None] = {}, body: bytes = b"", path: str = ""
    ) -> AsyncIterator[Exchange]:
        """Sends one request and reads the head of the answer. A header None is left out."""
        async with self.open_now(method, headers, body, path) as stream:
            reader = BufferedByteReceiveStream(stream)
            head = (await reader.receive_until(b"\r\n\r\n", 1 << 16)).decode("latin-1").split("\r\n")
            found = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            yield Exchange(stream, Reply(int(head[0].split()[1]), found), reader)

    @asynccontextmanager
    async def open_now(
        self, method: str, headers: Mapping[str, str | None] = {}, body: bytes = b"", path: str = ""
    ) -> AsyncIterator[ByteStream]:
        """Sends one request, and hangs up at the end of the context."""
        fields: dict[str, str | None] = {
            "Host": self.host,
            "Accept": "application/json, text/event-stream",
            "Connection": "close",
        }
        if method == "POST":
            fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        fields |= headers
        lines = [f"{method} {path or self.path} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items() if v is not None)]
        if self._socket:
            stream: ByteStream = await anyio.connect_unix(self._socket)
        else:
            stream = await anyio.connect_tcp(*self._address)
        async with stream:
            try:
                await stream.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
            except anyio.BrokenResourceError:
                pass  # refused before its end; the reason may still be there
            yield stream

    async def ask(
        self,
        method: str,
        headers: Mapping[str, str | None] = {},
        body: bytes = b"",
        *,
        path: str = "",
        timeout: float = 20,
    ) -> Reply:
        with anyio.fail_after(timeout):
            async with self.open(method, headers, body, path) as exchange:
                return await exchange.whole()

    # -- legacy

    @property
    def legacy_headers(self) -> dict[str, str | None]:
        return {"Mcp-Session-Id": self.session or None, "MCP-Protocol-Version": self.version or None}

    async def initialize(self, version: str = LEGACY) -> Reply:
        """The handshake; remembers the session."""
        params = {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "fake-http-agent", "version": "1"},
        }
        reply = await self.ask("POST", {}, encoded("initialize", params, 0))
        if "result" in reply.document:
            self.session = reply.headers["mcp-session-id"]
            self.version = reply.document["result"]["protocolVersion"]
            assert (await self.notify("notifications/initialized")).status == 202
        return reply

    async def request(self, method: str, params: Message | None = None, *, id: int | str = 1) -> Reply:
        return await self.ask("POST", self.legacy_headers, encoded(method, params, id))

    async def notify(self, method: str, params: Message | None = None) -> Reply:
        return await self.ask("POST", self.legacy_headers, encoded(method, params, None))

    # -- modern

    async def modern(
        self,
        method: str,
        params: Message | None = None,
        *,
        meta: Message | None = None,
        headers: Mapping[str, str | None] = {},
        id: int | str = 1,
    ) -> Reply:
        head, body = modern(method, params, meta=meta, id=id)
        return await self.ask("POST", {**head, **headers}, body)


def encoded(method: str, params: Message | None, id: int | str | None) -> bytes:
    message: Message = {"jsonrpc": "2.0", **({"id": id} if id is not None else {}), "method": method}
    return json.dumps({**message, **({"params": params} if params is not None else {})}).encode()


def modern(
    method: str, params: Message | None = None, *, meta: Message | None = None, id: int | str = 1
) -> tuple[dict[str, str | None], bytes]:
    """Headers and body of a modern request."""
    params = params or {}
    headers: dict[str, str | None] = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    if method in NAMED_BY:
        headers["Mcp-Name"] = params[NAMED_BY[method]]
    return headers, encoded(method, {**params, "_meta": {**modern_meta(), **(meta or {})}}, id)
