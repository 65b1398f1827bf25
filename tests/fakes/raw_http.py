"""Owns raw HTTP over a Unix socket for tests: bytes out, bytes in, nothing hidden.

It must not know routes.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
from anyio.abc import ByteStream


@contextmanager
def short_directory() -> Iterator[str]:
    """A directory whose path leaves room for a socket's."""
    directory = tempfile.mkdtemp(prefix="mcphub-", dir="/tmp")
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


@asynccontextmanager
async def connected(path: str) -> AsyncIterator[ByteStream]:
    async with await anyio.connect_unix(path) as stream:
        yield stream


async def read_all(stream: ByteStream) -> bytes:
    """Everything until the other side closes or resets."""
    data = b""
    try:
        while True:
            data += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return data


async def exchange(path: str, data: bytes) -> bytes:
    """Send bytes and read until the end, within five seconds."""
    with anyio.fail_after(5):
        async with connected(path) as stream:
            try:
                await stream.send(data)
            except anyio.BrokenResourceError:
                pass  # refused before its end; the reason may still be there
            return await read_all(stream)


def request(method: str, target: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: x", "Connection: close", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def answer(data: bytes) -> tuple[int, Any]:
    """Status and JSON of one whole answer with a length."""
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").lower().split("\r\n")
    assert "content-type: application/json" in lines, head
    assert f"content-length: {len(body)}" in lines, head
    return int(lines[0].split()[1]), json.loads(body)


async def ask(path: str, method: str, target: str, body: bytes = b"", *headers: str) -> tuple[int, Any]:
    return answer(await exchange(path, request(method, target, body, *headers)))
