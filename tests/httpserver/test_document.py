"""A whole JSON document over ASGI."""

from __future__ import annotations

import pytest
from starlette.types import Message

from mcphub.httpserver.document import send_json

pytestmark = pytest.mark.anyio


class Sent:
    """What an ASGI server was given."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def __call__(self, message: Message) -> None:
        self.messages.append(message)


async def test_a_document_has_its_length() -> None:
    """A client of HTTP/1.0 knows when it has all."""
    sent = Sent()
    await send_json(sent, 200, b"{}\n", {"allow": "GET"})
    start, body = sent.messages
    assert start["status"] == 200
    assert dict(start["headers"]) == {
        b"content-type": b"application/json",
        b"content-length": b"3",
        b"allow": b"GET",
    }
    assert (body["body"], body["more_body"]) == (b"{}\n", False)
