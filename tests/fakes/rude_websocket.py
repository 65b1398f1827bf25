"""Owns a WebSocket server on the loopback for tests: what it answers, each way of closing, all handshakes logged.

It must not know MCP. It is the server of the library `websockets`; `async with RudeWebSocket(answer) as server`, then
`server.url`.
"""

from __future__ import annotations

import asyncio
import http
import ssl
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

#: Answers one text message on its connection.
Answer = Callable[[ServerConnection, str], Awaitable[None]]
#: The status that a handshake is refused with, and headers; None = it is not.
Refuse = Callable[[Request], tuple[int, dict[str, str]] | None]


class RudeWebSocket:
    """`handshakes` are the requests so far, `messages` what came, `closes` the close codes of clients."""

    def __init__(
        self,
        answer: Answer,
        *,
        refuse: Refuse = lambda request: None,
        greet: Callable[[ServerConnection], Awaitable[None]] | None = None,
        subprotocols: bool = True,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.handshakes: list[Request] = []
        self.messages: list[str] = []
        self.closes: list[int | None] = []
        self.url = ""
        self._news = asyncio.Event()
        self._answer = answer
        self._refuse = refuse
        self._greet = greet
        self._subprotocols = [Subprotocol("mcp")] if subprotocols else None
        self._tls = tls
        self._server: Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._serve, "127.0.0.1", 0, process_request=self._asked, ssl=self._tls, max_size=64 << 20,
            subprotocols=self._subprotocols, close_timeout=1, ping_interval=None,
        )  # fmt: skip
        scheme = "wss" if self._tls else "ws"
        self.url = f"{scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/mcp"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    def _asked(self, connection: ServerConnection, request: Request) -> Response | None:
        self.handshakes.append(request)
        refusal = self._refuse(request)
        if refusal is None:
            return None
        status, headers = refusal
        found = Headers({**headers, "Content-Length": "4", "Connection": "close"})
        return Response(status, http.HTTPStatus(status).phrase, found, b"no!\n")

    async def _serve(self, connection: ServerConnection) -> None:
        try:
            if self._greet is not None:
                await self._greet(connection)
            async for message in connection:
                assert isinstance(message, str)
                self.messages.append(message)
                await self._answer(connection, message)
        except ConnectionClosed:
            pass
        self.closes.append(connection.close_code)
        self._news.set()

    async def until_closed(self, count: int) -> None:
        """Until so many connections have ended."""
        while len(self.closes) < count:
            self._news.clear()
            await self._news.wait()
