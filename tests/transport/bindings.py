"""Owns one open link of each transport, with the same script at its far end: a program, sockets, or a callable.

It must not know what is asked.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from websockets.asyncio.server import ServerConnection

from mcphub.spec import (
    HttpSpec,
    InProcessSpec,
    Origin,
    Scope,
    Secret,
    ServerSpec,
    SseSpec,
    StdioSpec,
    WsSpec,
)
from mcphub.transport.kinds import TRANSPORTS
from mcphub.transport.link import Surroundings
from mcphub.transport.process import Launcher
from mcphub.transport.stderr import StderrRing
from mcphub.transport.wire import Batch
from tests.fakes import scripted
from tests.fakes.rude_http import RESET, Feed, Reply, Request, RudeHttp, body, empty, event, raw, stream
from tests.fakes.rude_websocket import RudeWebSocket
from tests.fakes.scripted import Gone, Script, cut
from tests.transport.http_peers import Message, Peer, Told

BINDINGS = ("stdio", "http", "sse", "ws", "in-process")
#: Those whose far end can go away.
LEAVING = BINDINGS[:-1]
AnySpec = StdioSpec | HttpSpec | InProcessSpec


class Tolerant(Told):
    """What is no JSON is a frame like any other, and no message."""

    @property
    def messages(self) -> list[Message]:
        return [json.loads(data) for _, data in self.frames if data.startswith(b"{")]


@asynccontextmanager
async def opened(kind: str) -> AsyncIterator[Peer]:
    """An open link of this kind. When it closes, the receiver was told so once, and no error of ours was reported."""
    async with _FAR_ENDS[kind]() as (transport, servers), Launcher() as launcher:
        spec = ServerSpec("s", Origin(Scope.USER, "/mcp.json", "s"), transport)
        errors: list[BaseException] = []
        env = {"PATH": os.environ["PATH"], "HOME": "/"}
        around = Surroundings(launcher, Batch(), lambda: env, servers, grace=0.1, report=errors.append)
        told, notes = Tolerant(), StderrRing()
        async with TRANSPORTS[kind](spec, around, told, notes) as link:
            told.channel = link.channel
            yield Peer(link, told, notes, errors)
        assert len(told.ends) == 1
        assert errors == []


@asynccontextmanager
async def _stdio() -> AsyncIterator[tuple[AnySpec, dict[str, Any]]]:
    path = Path(scripted.__file__)
    yield StdioSpec(sys.executable, (Secret("-I"), Secret("-S"), Secret(str(path)))), {}


class _Pages:
    """The script over Streamable HTTP, or over HTTP+SSE where `feed` is open."""

    def __init__(self) -> None:
        self.script = Script()
        self.feed = Feed()

    def posted(self, request: Request) -> Reply:
        if request.method != "POST":
            return empty(405)
        try:
            pieces = self.script.answers(request.message)
        except Gone:
            return raw(RESET)
        if "id" not in request.message:
            return empty(202)
        if request.message["method"] == "silent":
            return stream(Feed())
        if len(pieces) == 1 and not pieces[0][1]:
            return body(pieces[0][0])
        return stream(*(part for data, size in pieces for part in cut(event(data), size)))

    def old(self, request: Request) -> Reply:
        if request.method == "GET":
            self.feed.send(event("/messages", name="endpoint"))
            return stream(self.feed)
        try:
            for data, size in self.script.answers(request.message):
                for part in cut(event(data, name="message"), size):
                    self.feed.send(part)
        except Gone:
            self.feed.end()
        return empty(202)


@asynccontextmanager
async def _http() -> AsyncIterator[tuple[AnySpec, dict[str, Any]]]:
    async with RudeHttp(_Pages().posted) as http:
        yield HttpSpec(Secret(http.url), {}, http.url), {}


@asynccontextmanager
async def _sse() -> AsyncIterator[tuple[AnySpec, dict[str, Any]]]:
    async with RudeHttp(_Pages().old) as http:
        yield SseSpec(Secret(http.url), {}, http.url), {}


@asynccontextmanager
async def _ws() -> AsyncIterator[tuple[AnySpec, dict[str, Any]]]:
    script = Script()

    async def answer(connection: ServerConnection, message: str) -> None:
        try:
            pieces = script.answers(json.loads(message))
        except Gone:
            connection.transport.abort()
            return
        for data, size in pieces:
            # In pieces it is a message of many frames, which need not end where a character does.
            await connection.send(cut(data, size) if size else data, text=True)

    async with RudeWebSocket(answer) as server:
        yield WsSpec(Secret(server.url), {}, server.url), {}


@asynccontextmanager
async def _in_process() -> AsyncIterator[tuple[AnySpec, dict[str, Any]]]:
    script = Script()

    async def never(mid: int) -> dict[str, Any]:
        try:
            await anyio.sleep_forever()
        finally:
            script.cancelled.append(mid)
        return {}

    def handle(method: str, params: dict[str, Any]) -> Any:
        if method == "silent":
            return never(params["mid"])
        if method == "garbage":
            return object()
        return script.result(method, params)

    yield InProcessSpec("x"), {"x": handle}


_FAR_ENDS = {"stdio": _stdio, "http": _http, "sse": _sse, "ws": _ws, "in-process": _in_process}
