"""Owns the way from an ASGI request to a handler and back: route, access, query, errors as JSON.

It must not know sockets or listeners, nor what a handler does.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import assert_never
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request as StarletteRequest
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import Receive, Scope, Send

from mcphub.control.access import refusal
from mcphub.control.hub import Hub
from mcphub.control.responses import begin_lines, end_lines, send_error, send_line
from mcphub.control.routes import Answer, Route, Stream
from mcphub.control.wire import Reply, Request, write_error, write_report
from mcphub.errors import ControlError
from mcphub.httpserver.document import send_json

log = logging.getLogger(__name__)


def build_app(hub: Hub, routes: Sequence[Route], owner: int) -> Starlette:
    """The ASGI application of the control API; expects the peer in `scope["state"]["peer"]` and a body that comes in
    one message. `owner` is the uid that OwnerAccess means."""
    register_url_convertor("text", _AnyText())
    built = []
    for route in routes:
        entry = StarletteRoute(route.path, _Endpoint(hub, route, owner), methods=[route.method])
        entry.methods = {route.method}  # Starlette adds HEAD to GET, and the HEAD of a stream would never end
        built.append(entry)
    app = Starlette(routes=built, exception_handlers={HTTPException: _unrouted})
    app.router.redirect_slashes = False
    return app


class _AnyText(PathConvertor):
    """The rest of a path, a line break in it too, which Starlette's own stops at: a name is to be told that it is none,
    and not that there is no such path."""

    regex = r"(?s:.*)"


def _unrouted(request: StarletteRequest, error: Exception) -> Response:
    """The answer to what is not in the table."""
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.scope['path']}"
    allowed = (error.headers or {}).get("Allow")
    if allowed:
        message = f"cannot answer {what}: this path takes {allowed}"
    else:
        message = f"cannot answer {what}: there is no such path; docs/control-api.md lists them"
    return Response(write_error(error.status_code, message), error.status_code, error.headers, "application/json")


class _Endpoint:
    """One route as an ASGI application (an instance, since Starlette would turn a function into something else)."""

    def __init__(self, hub: Hub, route: Route, owner: int) -> None:
        self._hub = hub
        self._route = route
        self._owner = owner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            peer = scope["state"]["peer"]
            if (why := refusal(self._route.access, peer, self._owner)) is not None:
                raise ControlError(f"cannot {self._route.method} {self._route.path}: {why}", status=403)
            query = parse_qsl(scope["query_string"].decode("latin-1"), True, errors="surrogateescape")
            first = dict(reversed(query))
            request = Request(peer, scope["path_params"], first, (await receive())["body"])
            match self._route.kind:
                case Answer(handler):
                    await _answer(await handler(self._hub, request), send)
                case Stream(handler):
                    async with aclosing(handler(self._hub, request)) as reports:
                        await self._stream(reports, send)
                case _:
                    assert_never(self._route.kind)
        except Exception as error:  # nothing of the answer has been sent: both ways raise before they begin only
            await send_error(send, *self._described(error))

    async def _stream(self, reports: AsyncGenerator[object, None], send: Send) -> None:
        report = await anext(reports, None)
        await begin_lines(send)
        try:
            while True:
                await send_line(send, b"\n" if report is None else write_report(report))
                report = await anext(reports)
        except StopAsyncIteration:
            pass
        except Exception as error:
            await send_line(send, write_error(*self._described(error)))
        await end_lines(send)

    def _described(self, error: Exception) -> tuple[int, str]:
        """Status and message of an error; a bug is logged, and its traceback stays in the log."""
        if isinstance(error, ControlError):
            return error.status or 500, str(error)
        log.error("bug: %s %s failed", self._route.method, self._route.path, exc_info=error)
        return 500, "the daemon failed to answer: this is a bug, and its log says more"


async def _answer(reply: Reply, send: Send) -> None:
    body = write_report(reply.report)
    try:
        await send_json(send, 200, body)
    finally:
        if reply.then is not None:
            reply.then()
