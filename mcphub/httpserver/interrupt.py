"""Owns the end of a request from outside: its client hung up, or the server closes.

It must not know what is asked. A hang-up can only be heard once the body is in, so it reads the body too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcphub.httpserver.document import Refusal, send_json

if TYPE_CHECKING:
    # Whoever only wraps an application needs not wait for uvicorn's import, which is long.
    from mcphub.httpserver.connection import Connection

#: Bytes of one request body.
MAX_BODY = 64 * 1024 * 1024
#: Seconds without a byte after which the rest of a body is not waited for.
BODY_TIMEOUT = 20.0


class Interruptible:
    """ASGI middleware: the application is cancelled where it stands when nobody waits for its answer any more.

    The application gets the body in one message, and no other; `refusal` words what is answered in its place. It runs
    on Connection only.
    """

    def __init__(self, app: ASGIApp, refusal: Refusal) -> None:
        self._app = app
        self._refusal = refusal
        self._open: set[anyio.CancelScope] = set()
        self._closing = False

    def close(self) -> None:
        """End every open request: status 503 where no answer has begun, the orderly end of the stream elsewhere."""
        self._closing = True
        for scope in self._open:
            scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection: Connection = scope["state"]["connection"]
        answer = _Answer(send, self._refusal, connection)
        with anyio.CancelScope() as whole:
            self._open.add(whole)
            connection.on_lost = whole.cancel  # no task that waits for it: one a request costs more than all the rest
            try:
                if self._closing:
                    whole.cancel()
                await self._run(scope, receive, answer, connection)
            finally:
                connection.on_lost = None
                self._open.discard(whole)
        if whole.cancelled_caught:
            await answer.finish()

    async def _run(self, scope: Scope, receive: Receive, answer: _Answer, connection: Connection) -> None:
        try:
            body = await _read_body(scope, receive, connection.take_body)
        except _Refused as refused:
            body = self._refusal(refused.status, str(refused))
            await send_json(answer, refused.status, body, {"connection": "close"})
            return
        if body is None:
            return

        async def replay() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, answer)


class _Refused(Exception):
    """A body that is not read to its end."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class _Answer:
    """What has been sent of the answer so far. Implements ASGI's Send, and `at_once` of document.send_document."""

    def __init__(self, send: Send, refusal: Refusal, connection: Connection) -> None:
        self._send = send
        self._refusal = refusal
        self._connection = connection
        self._begun = False
        self._complete = False
        self._stream = False

    def at_once(self, status: int, fields: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        if not self._connection.answer_at_once(status, fields, body):
            return False
        self._begun = self._complete = True
        return True

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._begun = True
            self._stream = all(name != b"content-length" for name, _ in message["headers"])
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._complete = True

    async def finish(self) -> None:
        if not self._begun:
            body = self._refusal(503, "cannot answer: the daemon is stopping")
            await send_json(self._send, 503, body, {"connection": "close"})
        elif self._stream and not self._complete:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


async def _read_body(scope: Scope, receive: Receive, at_once: Callable[[], bytes | None]) -> bytes | None:
    """The whole body, which `at_once` has where all of it is here; None when the client hung up before its end. Raises
    _Refused 408 and 413."""
    too_large = _Refused(f"cannot read the request body: it is longer than {MAX_BODY} bytes", status=413)
    for name, value in scope["headers"]:
        if name == b"content-length" and int(value) > MAX_BODY:
            raise too_large
    body = at_once()
    if body is not None:
        if len(body) > MAX_BODY:
            raise too_large
        return body
    parts: list[bytes] = []
    size = 0
    more = True
    while more:
        with anyio.move_on_after(BODY_TIMEOUT) as waiting:
            message = await receive()
        if waiting.cancelled_caught:
            raise _Refused(f"cannot wait for the request body: no byte for {BODY_TIMEOUT:g} s", status=408)
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY:
            raise too_large
        more = message.get("more_body", False)
    return b"".join(parts)
