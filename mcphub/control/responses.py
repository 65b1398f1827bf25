"""Owns how the control API writes over ASGI: an error, or lines of NDJSON.

It must not know what is answered.
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import Send

from mcphub.control.wire import write_error
from mcphub.httpserver.document import send_json


async def send_error(send: Send, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
    """`{"error": {...}}` with its status."""
    await send_json(send, status, write_error(status, message), headers)


async def begin_lines(send: Send) -> None:
    """The head of a stream of NDJSON."""
    fields = [(b"content-type", b"application/x-ndjson"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 200, "headers": fields})


async def send_line(send: Send, line: bytes) -> None:
    """The next line of the stream, newline included."""
    await send({"type": "http.response.body", "body": line, "more_body": True})


async def end_lines(send: Send) -> None:
    """The orderly end of the stream."""
    await send({"type": "http.response.body", "body": b"", "more_body": False})
