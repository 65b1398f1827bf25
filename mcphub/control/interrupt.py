"""Owns the end of a request from outside: its client hung up, or the server closes.

It must not know routes or handlers. A hang-up can only be heard once the body is in, so it reads the body too.
"""

from __future__ import annotations

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcphub.control.responses import send_error
from mcphub.control.wire import MAX_BODY
from mcphub.errors import ControlError

#: Seconds without a byte after which the rest of a body is not waited for.
BODY_TIMEOUT = 20.0


class Interruptible:
    """ASGI middleware: the application is cancelled where it stands when nobody waits for its answer any more."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: set[anyio.CancelScope] = set()
        self._closing = False

    def close(self) -> None:
        """End every open request: status 503 where no answer has begun, the orderly end of the stream elsewhere."""
        self._closing = True
        for scope in self._open:
            scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(send)
        with anyio.CancelScope() as whole:
            self._open.add(whole)
            try:
                if self._closing:
                    whole.cancel()
                await self._run(scope, receive, answer)
            finally:
                self._open.discard(whole)
        if whole.cancelled_caught:
            await answer.finish()

    async def _run(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        try:
            body = await _read_body(scope, receive)
        except ControlError as error:
            await send_error(answer.send, error.status, str(error), {"connection": "close"})
            return
        if body is None:
            return
        request: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return request.pop() if request else await receive()

        async def hang_up() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(hang_up)
            await self._app(scope, replay, answer.send)
            group.cancel_scope.cancel()


class _Answer:
    """What has been sent of the answer so far."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._begun = False
        self._complete = False
        self._stream = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._begun = True
            self._stream = all(name != b"content-length" for name, _ in message["headers"])
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._complete = True

    async def finish(self) -> None:
        if not self._begun:
            await send_error(self._send, 503, "cannot answer: the daemon is stopping", {"connection": "close"})
        elif self._stream and not self._complete:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


async def _read_body(scope: Scope, receive: Receive) -> bytes | None:
    """The whole body; None when the client hung up before its end. Raises ControlError 408 and 413."""
    too_large = ControlError(f"cannot read the request body: it is longer than {MAX_BODY} bytes", status=413)
    for name, value in scope["headers"]:
        if name == b"content-length" and int(value) > MAX_BODY:
            raise too_large
    parts: list[bytes] = []
    size = 0
    more = True
    while more:
        with anyio.move_on_after(BODY_TIMEOUT) as waiting:
            message = await receive()
        if waiting.cancelled_caught:
            raise ControlError(f"cannot wait for the request body: no byte for {BODY_TIMEOUT:g} s", status=408)
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY:
            raise too_large
        more = message.get("more_body", False)
    return b"".join(parts)
