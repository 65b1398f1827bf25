"""How an answer of the control API is written over ASGI."""

from __future__ import annotations

import json

import pytest
from starlette.types import Message

from mcphub.control.responses import begin_lines, end_lines, send_error, send_line

pytestmark = pytest.mark.anyio


class Sent:
    """What an ASGI server was given."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def __call__(self, message: Message) -> None:
        self.messages.append(message)


async def test_an_error_is_a_document() -> None:
    """Errors have the one form."""
    sent = Sent()
    await send_error(sent, 409, "changed")
    assert sent.messages[0]["status"] == 409
    assert json.loads(sent.messages[1]["body"]) == {"error": {"message": "changed", "kind": "conflict"}}


async def test_a_stream_has_no_length_and_an_end() -> None:
    """Without a length, the server frames each line."""
    sent = Sent()
    await begin_lines(sent)
    await send_line(sent, b"1\n")
    await end_lines(sent)
    assert b"content-length" not in dict(sent.messages[0]["headers"])
    assert [(m["body"], m["more_body"]) for m in sent.messages[1:]] == [(b"1\n", True), (b"", False)]
