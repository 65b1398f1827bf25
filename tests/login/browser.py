"""Owns a browser of one line: a GET, and what came back; and raw bytes on a connection. It follows no redirect."""

from __future__ import annotations

from dataclasses import dataclass

import anyio


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    page: str


async def raw(port: int, data: bytes, host: str = "127.0.0.1") -> bytes:
    """Everything that the other side answers until it closes."""
    found = b""
    with anyio.fail_after(10):
        async with await anyio.connect_tcp(host, port) as stream:
            await stream.send(data)
            try:
                while True:
                    found += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return found


async def get(port: int, path: str, *, host: str = "127.0.0.1", method: str = "GET", **headers: str) -> Answer:
    """`headers` have underscores for dashes."""
    name = f"[{host}]" if ":" in host else host
    fields = {"Host": f"{name}:{port}", **{key.replace("_", "-"): value for key, value in headers.items()}}
    lines = "".join(f"{key}: {value}\r\n" for key, value in fields.items() if value)
    return parsed(await raw(port, f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode(), host))


def parsed(data: bytes) -> Answer:
    head, _, page = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines)
    assert int(fields["Content-Length"]) == len(page)
    return Answer(int(first.split()[1]), fields, page.decode())
