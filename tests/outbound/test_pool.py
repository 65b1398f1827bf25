"""Which connection a request takes, how long an idle one is kept, and that none is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import httpcore2
import pytest

from mcphub.outbound import pool as pool_module
from mcphub.outbound.connections import TOGETHER
from mcphub.outbound.line import Header
from mcphub.outbound.pool import Pool
from mcphub.outbound.trust import trusting_nobody
from tests.fakes.rude_http import NEVER, Reply, Request, RudeHttp, body, stream

pytestmark = pytest.mark.anyio

HOST: Sequence[Header] = [(b"Host", b"x")]


def hello(request: Request) -> Reply:
    return body(b"hello")


@asynccontextmanager
async def pool() -> AsyncIterator[Pool]:
    made = Pool(trusting_nobody(), None)
    try:
        with anyio.fail_after(10):
            yield made
    finally:
        await made.aclose()


async def asked(made: Pool, url: str, data: bytes | None = b"{}", headers: Sequence[Header] = HOST) -> bytes:
    """One request whose answer is read to its end."""
    response = await made.request("POST", httpcore2.URL(url), headers, data)
    try:
        whole = response.whole()
        return whole if whole is not None else b"".join([chunk async for chunk in response.aiter_stream()])
    finally:
        if not response.release():
            await response.aclose()


async def test_requests_share_a_connection_one_after_the_other() -> None:
    """Two at once need two, and both are kept."""
    async with RudeHttp(hello) as server, pool() as made:
        for _ in range(3):
            assert await asked(made, server.url) == b"hello"
        assert server.connections == 1
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(asked, made, server.url)
        assert server.connections == 2
        assert await asked(made, server.url) == b"hello"
        assert server.connections == 2


async def test_a_connection_that_was_idle_for_long_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server may be about to close it, and a request that meets that moment is lost."""
    async with RudeHttp(hello) as server, pool() as made:
        await asked(made, server.url)
        monkeypatch.setattr(pool_module, "KEEP_IDLE", -1.0)
        await asked(made, server.url)
        assert server.connections == 2
        await server.until(lambda: server.open == 1)


async def test_what_is_idle_for_too_long_is_closed_though_nobody_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that keeps its side open for ever is no reason to keep ours."""
    monkeypatch.setattr(pool_module, "KEEP_IDLE", 0.05)
    async with RudeHttp(hello) as server, pool() as made:
        await asked(made, server.url)
        await server.until(lambda: server.open == 0)
        await asked(made, server.url)
        assert server.connections == 2
        await server.until(lambda: server.open == 0)
        assert not made._idle and made._sweeping is None


@pytest.mark.parametrize("size", [2, TOGETHER + 1], ids=["our own", "the other pool's"])
async def test_what_was_idle_when_the_way_changed_is_not_used(size: int) -> None:
    """It would lead nowhere; what is under way goes on, and is kept afterwards as ever."""
    data = b"x" * size
    async with RudeHttp(hello) as server, pool() as made:
        for _ in range(2):
            await asked(made, server.url, data)
        assert server.connections == 1
        held = asyncio.Event()
        server.on("*", stream(b"he", held, b"llo"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asked, made, server.url, data)
            await server.until(lambda: len(server.requests) == 3)
            await asked(made, server.url, data)
            assert server.connections == 2
            made.forget_idle()
            held.set()
        await asked(made, server.url, data)
        assert server.connections == (2 if size == 2 else 3)  # the other pool closes what is idle when it is used next
        await server.until(lambda: server.open == 1)


async def test_no_more_idle_connections_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst leaves a few behind, not all."""
    monkeypatch.setattr(pool_module, "KEPT_CONNECTIONS", 2)
    async with RudeHttp(hello) as server, pool() as made:
        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(asked, made, server.url)
        await server.until(lambda: server.open == 2)


async def test_an_answer_that_is_let_go_before_its_end_costs_its_connection() -> None:
    """What still came of it would be taken for the next answer."""
    async with RudeHttp(hello) as server, pool() as made:
        server.on("*", stream(b"x", NEVER))
        response = await made.request("POST", httpcore2.URL(server.url), HOST, b"{}")
        assert response.release()
        assert await asked(made, server.url) == b"hello"
        assert server.connections == 2


async def test_a_request_that_is_given_up_leaves_no_connection() -> None:
    """Whoever waits for the head may go at any time."""
    async with RudeHttp(hello) as server, pool() as made:
        server.on("*", Reply(body=(NEVER,), framing="raw"))
        with anyio.move_on_after(0.1):
            await asked(made, server.url)
        await server.until(lambda: server.open == 0)


@pytest.mark.parametrize("size", [0, TOGETHER, TOGETHER + 1])
async def test_bodies_of_every_size_arrive(size: int) -> None:
    """Those that fit into one write and those that do not."""
    async with RudeHttp(hello) as server, pool() as made:
        assert await asked(made, server.url, b"x" * size) == b"hello"
        assert server.requests[0].body == b"x" * size


async def test_a_large_body_that_is_refused_unread() -> None:
    """C068: the refusal is read though the body could not be written."""
    async with RudeHttp(hello) as server, pool() as made:
        server.on("*", body(b"no", status=413))
        response = await made.request("POST", httpcore2.URL(server.url), HOST, b"x" * (4 << 20))
        assert response.status == 413
        await response.aclose()


@pytest.mark.parametrize("header", [(b"X-A", b"a\r\nX-B: b"), (b"X A", b"a"), (b"X-A", b" a")])
async def test_headers_that_would_be_something_else_are_refused(header: Header) -> None:
    """A line break in a value must never become a header of its own."""
    async with RudeHttp(hello) as server, pool() as made:
        with pytest.raises(httpcore2.LocalProtocolError):
            await asked(made, server.url, b"{}", [*HOST, header])
        assert not server.requests


async def test_nothing_listens() -> None:
    """The failure has the name that httpcore2 gives it, with the system's own behind it."""
    async with RudeHttp(hello) as server:
        url = server.url
    async with pool() as made:
        with pytest.raises(httpcore2.ConnectError) as caught:
            await asked(made, url)
        assert isinstance(caught.value.__cause__, ConnectionRefusedError)


async def test_closing_ends_every_connection() -> None:
    """Idle ones and those whose answer is still on its way."""
    async with RudeHttp(hello) as server:
        async with pool() as made:
            server.on("*", stream(b"x", NEVER))
            await made.request("POST", httpcore2.URL(server.url), HOST, b"{}")
            await asked(made, server.url, b"x" * (TOGETHER + 1), HOST)
        await server.until(lambda: server.open == 0)
