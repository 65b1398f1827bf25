"""Owns one HTTP exchange with a server on the loopback, for tests of the servers themselves.

It must not follow, retry or interpret anything; chunks are put together, since their sizes say nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import anyio

from tests.fakes.agent import LEGACY, MODERN, Message, modern_meta, strict_json
from tests.fakes.rude_http import encoded

ACCEPT = ("Accept", "application/json, text/event-stream")


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def messages(self) -> list[Message]:
        """The JSON-RPC messages in it, of an event stream all."""
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            lines = self.body.decode().splitlines()
            return [strict_json(line[5:].encode()) for line in lines if line.startswith("data:") and line[5:].strip()]
        return [strict_json(self.body)] if self.body else []

    @property
    def response(self) -> Message:
        return next(message for message in self.messages if "method" not in message)


async def exchange(url: str, method: str, data: bytes = b"", *headers: tuple[str, str], timeout: float = 10) -> Answer:
    """One request on a connection of its own."""
    address = urlsplit(url)
    assert address.hostname is not None and address.port is not None
    lines = [
        f"{method} {address.path or '/'}{'?' if address.query else ''}{address.query} HTTP/1.1",
        f"Host: {address.netloc}",
        "Connection: close",
        f"Content-Length: {len(data)}",
        *(f"{name}: {value}" for name, value in headers),
    ]
    received = bytearray()
    with anyio.fail_after(timeout):
        async with await anyio.connect_tcp(address.hostname, address.port) as stream:
            await stream.send("\r\n".join([*lines, "", ""]).encode() + data)
            try:
                while True:
                    received += await stream.receive(1 << 20)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    pairs = [line.partition(":") for line in rest]
    known = {name.lower(): value.strip() for name, _, value in pairs}
    if known.get("transfer-encoding") == "chunked":
        body = _joined(body)
    return Answer(int(first.split()[1]), known, body)


def _joined(chunked: bytes) -> bytes:
    """The body of chunks; it may stop anywhere."""
    parts, start = [], 0
    while (end := chunked.find(b"\r\n", start)) > start and (size := int(chunked[start:end], 16)):
        parts.append(chunked[end + 2 : end + 2 + size])
        start = end + 2 + size + 2
    return b"".join(parts)


async def post(url: str, message: Any, *headers: tuple[str, str], timeout: float = 10) -> Answer:
    """One JSON-RPC message."""
    fixed = (ACCEPT, ("Content-Type", "application/json"))
    return await exchange(url, "POST", encoded(message), *fixed, *headers, timeout=timeout)


async def modern(
    url: str, method: str, params: Message | None = None, *, capabilities: Message | None = None, name: str = ""
) -> Answer:
    """A request of the modern era with the headers that belong to it."""
    meta = {"_meta": modern_meta(MODERN, capabilities)}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), **meta}}
    headers = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", method), *([("Mcp-Name", name)] if name else [])]
    return await post(url, message, *headers)


async def legacy_session(url: str) -> tuple[tuple[str, str], ...]:
    """The handshake; the headers of every later request."""
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    answer = await post(url, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
    headers: tuple[tuple[str, str], ...] = (("MCP-Protocol-Version", answer.response["result"]["protocolVersion"]),)
    if "mcp-session-id" in answer.headers:
        headers += (("Mcp-Session-Id", answer.headers["mcp-session-id"]),)
    accepted = await post(url, {"jsonrpc": "2.0", "method": "notifications/initialized"}, *headers)
    assert accepted.status == 202
    return headers
