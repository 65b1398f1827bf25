"""Owns how one whole JSON document is written over ASGI.

It must not know what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from starlette.types import Send

#: The body that says why a request is refused: from HTTP status and message.
Refusal = Callable[[int, str], bytes]


async def send_document(send: Send, status: int, fields: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
    """One whole document whose length is among `fields`; in one step where `send` can do that (`at_once`)."""
    at_once = getattr(send, "at_once", None)
    if at_once is not None and at_once(status, fields, body):
        return
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def send_json(send: Send, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    """One whole document with its length."""
    fields = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    fields += [(name.encode("latin-1"), value.encode("latin-1")) for name, value in (headers or {}).items()]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body, "more_body": False})
