"""The life of an HTTP server on any listening socket; tests/control/test_server.py has more of its end."""

from __future__ import annotations

import asyncio
import socket

import anyio
import pytest
from starlette.types import Receive, Scope, Send

from mcphub.httpserver import serve
from mcphub.httpserver.connection import Terms
from mcphub.httpserver.document import send_json
from mcphub.httpserver.interrupt import Interruptible
from mcphub.httpserver.serve import serving
from tests.fakes.raw_http import read_all, request

pytestmark = pytest.mark.anyio


def refusal(status: int, message: str) -> bytes:
    return b'{"status":%d}' % status


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """`/wait` never ends by itself."""
    if scope["path"] == "/wait":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        await anyio.sleep_forever()
    await send_json(send, 200, scope["state"]["who"].encode())


def admit(transport: asyncio.Transport) -> dict[str, str]:
    """No connection waits for acknowledgements (Nagle's algorithm): an answer's end would come 40 ms late."""
    assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    return {"who": "you"}


async def test_a_tcp_socket_is_served_and_ended_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `admit` gives is in the scope; an open stream ends with its last chunk, at once, and no task stays."""
    monkeypatch.setattr(serve, "GRACE", 60.0)  # nobody has to be waited for
    tasks = len(asyncio.all_tasks())
    with anyio.fail_after(5), socket.create_server(("127.0.0.1", 0)) as sock:
        sock.setblocking(False)
        app = Interruptible(answer, refusal)
        terms = Terms(admit, 10, refusal)
        async with serving(sock, app, terms, app.close):
            port = sock.getsockname()[1]
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(request("GET", "/"))
                # Head and body leave in one write.
                assert (await stream.receive()).endswith(b"you")
                assert await read_all(stream) == b""
            waiting = await anyio.connect_tcp("127.0.0.1", port)
            await waiting.send(request("GET", "/wait"))
            assert b"begun" in await waiting.receive()
        async with waiting:
            assert (await read_all(waiting)).endswith(b"0\r\n\r\n")
    assert len(asyncio.all_tasks()) == tasks


async def test_who_is_not_admitted_gets_nothing() -> None:
    """The connection closes without a byte."""
    with anyio.fail_after(5), socket.create_server(("127.0.0.1", 0)) as sock:
        sock.setblocking(False)
        port = sock.getsockname()[1]
        async with (
            serving(sock, answer, Terms(lambda _: None, 10, refusal), lambda: None),
            await anyio.connect_tcp("127.0.0.1", port) as stream,
        ):
            assert await read_all(stream) == b""
