"""Owns where a browser comes back to after a sign-in: a listener for one sign-in, with constant pages (RFC 8252, 7.3).

It must not judge what came: whether it belongs to the sign-in is for whoever waits. Implements sign_in.Listen.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl

import anyio

from mcphub.auth.failures import FlowFailure, SignInFailed
from mcphub.auth.sign_in import Pairs
from mcphub.login import pages
from mcphub.login.loopback_http import NOT_FOUND, Exchange, LoopbackServer, Response

PATH = "/callback"
#: Arrivals that wait to be looked at; more of them are strangers.
MOST_WAITING = 8
#: Parameters of one answer.
MOST_FIELDS = 32

_RESPONSES = {
    "done": Response(200, pages.DONE),
    "failed": Response(400, pages.FAILED),
    "strange": Response(400, pages.STRANGE),
}


class CallbackArrival:
    """Implements sign_in.Arrival."""

    def __init__(self, exchange: Exchange, pairs: Pairs) -> None:
        self.pairs = pairs
        self._exchange = exchange

    async def answer(self, page: str) -> None:
        self._exchange.respond(_RESPONSES[page])
        await self._exchange.gone()


class CallbackListener:
    """Implements sign_in.Callback."""

    def __init__(self, host: str, port: int) -> None:
        """Raises OSError."""
        self._waiting: list[CallbackArrival] = []
        self._came = anyio.Event()
        self.server = LoopbackServer(port, self._serve, both=host == "localhost")
        self.redirect_uri = f"http://{host}:{self.server.port}{PATH}"

    async def next(self) -> CallbackArrival:
        while not self._waiting:
            await self._came.wait()
        return self._waiting.pop(0)

    def _serve(self, exchange: Exchange) -> None:
        if exchange.path != PATH:
            exchange.respond(NOT_FOUND)
            return
        try:
            pairs = parse_qsl(exchange.query, keep_blank_values=True, max_num_fields=MOST_FIELDS)
        except ValueError:
            pairs = []
        if len(self._waiting) >= MOST_WAITING:
            exchange.respond(_RESPONSES["strange"])
            return
        self._waiting.append(CallbackArrival(exchange, pairs))
        came, self._came = self._came, anyio.Event()
        came.set()

    def turn_away(self) -> None:
        """Whoever still waits came too late."""
        for arrival in self._waiting:
            arrival._exchange.respond(_RESPONSES["strange"])


@asynccontextmanager
async def listening(host: str, port: int) -> AsyncIterator[CallbackListener]:
    """A listener for one sign-in, at http://`host`:`port`/callback; port 0 = any free one. Raises SignInFailed
    (`callback_unavailable`)."""
    try:
        callback = CallbackListener(host, port)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        what = f"port {port}" if port else "any port"
        cause = "another program listens there" if taken else error.strerror or str(error)
        todo = "; end that program, or choose another oauth.callbackPort and register it" if taken and port else ""
        text = f"cannot wait for the browser on {what} of the loopback: {cause}{todo}"
        raise SignInFailed(FlowFailure.CALLBACK_UNAVAILABLE, text) from None
    async with callback.server.serving():
        try:
            yield callback
        finally:
            callback.turn_away()
