"""Owns a request that is answered without a task of its own: from the callback that has read it to that which answers.

It must not know what is asked. Most answers are one document, written where the server's reply is read; one that
becomes a stream, or takes long, gets a task after all, and goes on there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

from mcphub.httpserver.document import Refusal
from mcphub.httpserver.interrupt import Interruptible
from mcphub.sessions.http_answer import Answer

if TYPE_CHECKING:
    # The daemon listens before uvicorn, whose import is long, is there.
    from mcphub.httpserver.connection import Connection


class Quick:
    """One such request. `statuses` are HTTP's by JSON-RPC error code, others 200; `over` is called once, when it is
    answered or nobody waits for it any more, in a later turn of the loop."""

    __slots__ = ("_connection", "_of", "_over", "answer", "began", "statuses")

    def __init__(
        self,
        of: QuickAnswers,
        connection: Connection,
        answer: Answer,
        statuses: Mapping[int, int],
        over: Callable[[], None],
    ) -> None:
        self.answer = answer
        self.began = 0.0
        self.statuses = statuses
        self._of = of
        self._connection = connection
        self._over: Callable[[], None] | None = over

    def ready(self) -> None:
        """It can be written: a document now, a stream by a task."""
        connection = self._connection
        found = self.answer.document()
        if found is not None:
            code, body = found
            fields = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
            if connection.answer_at_once(self.statuses.get(code, 200), fields, body):
                connection.on_lost = None
                self.end()
                return
        self.go_on()

    def go_on(self) -> None:
        """In a task."""
        self._of.waiting.pop(self, None)
        self.answer.on_ready = None
        self._connection.scope["state"]["quick"] = self
        self._connection.run(self._of.rest)

    def end(self) -> None:
        """Nothing more of it is to be written. Harmless where that is known."""
        over, self._over = self._over, None
        if over is not None:
            self._of.waiting.pop(self, None)
            self.answer.on_ready = None
            self._of.loop.call_soon(over)  # whoever has sent the answer may be in the middle of something


class QuickAnswers:
    """Those of one endpoint that become streams after the same time (`patience`, seconds), in the order in which they
    began."""

    def __init__(self, refusal: Refusal, patience: Callable[[], float]) -> None:
        self._patience = patience
        self.loop = asyncio.get_running_loop()
        self.waiting: dict[Quick, None] = {}
        self.rest = Interruptible(self._rest, refusal)
        self._timer: asyncio.TimerHandle | None = None

    def begin(
        self, connection: Connection, answer: Answer, statuses: Mapping[int, int], over: Callable[[], None]
    ) -> None:
        """What is sent into ANSWER from here on is written."""
        quick = Quick(self, connection, answer, statuses, over)
        quick.began = self.loop.time()
        answer.on_ready = quick.ready
        connection.on_lost = quick.end
        self.waiting[quick] = None
        if self._timer is None:
            # One for all of them, not one each.
            self._timer = self.loop.call_later(self._patience(), self._late)

    def _late(self) -> None:
        """Answers that take long say that they are still there, which is a stream's to say."""
        self._timer = None
        now = self.loop.time()
        patience = self._patience()
        for quick in list(self.waiting):
            left = quick.began + patience - now
            if left > 0:
                self._timer = self.loop.call_later(left, self._late)
                return
            quick.answer.become_stream()

    async def _rest(self, scope: Scope, receive: Receive, send: Send) -> None:
        quick: Quick = scope["state"]["quick"]
        try:
            await quick.answer.write(send, lambda code: quick.statuses.get(code, 200))
        finally:
            quick.end()

    def close(self) -> None:
        """End what still writes; what waits was ended before."""
        self.rest.close()
