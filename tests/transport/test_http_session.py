"""A legacy session: its own stream, streams taken up again, its end."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from mcphub.protocol.http_answer import SESSION_GONE
from mcphub.transport import http_session
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import CLOSE, NEVER, RESET, Reply, RudeHttp, body, empty, encoded, event, raw, stream
from tests.transport.http_peers import linked

pytestmark = pytest.mark.anyio

CALL: dict[str, Any] = {"name": "echo", "arguments": {"text": "hello"}}
PROGRESS = encoded({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}})
CHANGED = encoded({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})


@pytest.mark.parametrize("status", [405, 404, 400, 406, 501, 500])
async def test_a_server_without_a_stream_of_its_own(status: int) -> None:
    """C062: whatever GET is answered with, it is asked once and says nothing about the server's health."""
    async with RudeHttp(OrdinaryMcp(era="legacy")) as server, linked(server.url) as peer:
        server.on("GET", empty(status), times=None)
        await peer.initialize()
        await server.until(lambda: server.sent("GET"))
        assert await peer.ask("tools/list") == "answered"
        assert await peer.ask("tools/list") == "answered"
        assert len(server.sent("GET")) == 1
        assert peer.told.ends == []
        assert peer.notes == []


FAREWELLS = [empty(405), empty(404), empty(204), body(b"bye"), body(b"x").after(NEVER), raw(RESET)]


@pytest.mark.parametrize("reply", FAREWELLS, ids=range(len(FAREWELLS)))
async def test_the_end_of_a_session(reply: Reply, monkeypatch: pytest.MonkeyPatch) -> None:
    """C079: however DELETE is answered, or not, the link closes in bounded time and says nothing of it."""
    monkeypatch.setattr(http_session, "GOODBYE", 0.3)
    async with RudeHttp(OrdinaryMcp(era="legacy")) as server:
        server.on("DELETE", reply)
        async with linked(server.url) as peer:
            await peer.initialize()
            await peer.result("tools/list")
            begun = anyio.current_time()
        assert anyio.current_time() - begun < 10
        assert len(server.sent("DELETE")) == 1
        assert peer.notes == []


async def test_no_farewell_to_a_server_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """C079: nothing is said to a server that does not listen any more."""
    monkeypatch.setattr(http_session, "GOODBYE", 60.0)
    async with RudeHttp(OrdinaryMcp(era="legacy")) as server:
        url = server.url
        peer_link = linked(url)
        peer = await peer_link.__aenter__()
        await peer.initialize()
        await peer.result("tools/list")
    assert await peer.ask("tools/list") == "unreachable"
    begun = anyio.current_time()
    await peer_link.__aexit__(None, None, None)
    assert anyio.current_time() - begun < 10


async def test_the_servers_own_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no request asked for comes on a GET stream, belongs to no request, and resumes behind its last event."""
    monkeypatch.setattr(http_session, "RETRY", 60.0)  # the server names another time
    mcp = OrdinaryMcp(era="legacy", standing=True)
    async with RudeHttp(mcp) as server, linked(server.url) as peer:
        await peer.initialize()
        await server.until(lambda: mcp.feeds)
        first = server.sent("GET")[0]
        assert first.header("Accept") == "text/event-stream"
        assert first.header("Mcp-Session-Id") == "session-1"
        assert first.header("Last-Event-ID") is None
        mcp.feeds[0].send(event(CHANGED, id="e1", retry=50))
        await peer.told.until(lambda: peer.told.frames[-1] == (None, CHANGED))
        mcp.feeds[0].end()
        begun = anyio.current_time()
        await server.until(lambda: len(server.sent("GET")) == 2)
        assert anyio.current_time() - begun > 0.04
        assert server.sent("GET")[1].header("Last-Event-ID") == "e1"


async def test_the_servers_own_stream_says_that_the_session_is_over() -> None:
    """C065: a server that restarted is noticed when its stream is taken up again, before a call is refused."""
    mcp = OrdinaryMcp(era="legacy", standing=True)
    async with RudeHttp(mcp) as server, linked(server.url) as peer:
        await peer.initialize()
        await server.until(lambda: mcp.feeds)
        mcp.feeds[0].send(event(CHANGED, retry=10))
        await peer.told.until(lambda: peer.told.frames[-1][1] == CHANGED)
        mcp.expire()
        mcp.feeds[0].end()
        await peer.told.until(lambda: peer.told.ends)
        assert peer.told.ends == [SESSION_GONE]


async def test_streams_that_end_together_are_not_asked_for_together() -> None:
    """Twelve that end at the same moment come back at different ones, none before the server's own time."""
    mcp = OrdinaryMcp(era="legacy", standing=True)
    async with RudeHttp(mcp) as server, AsyncExitStack() as stack:
        for count in range(12):
            peer = await stack.enter_async_context(linked(server.url))
            await peer.initialize()
            await server.until(lambda count=count: len(mcp.feeds) == count + 1)  # type: ignore[misc]
        for feed in mcp.feeds[:]:
            feed.send(event(CHANGED, retry=200))
            feed.end()
        begun = anyio.current_time()
        await server.until(lambda: len(server.sent("GET")) == 24)
        waits = sorted(request.at - begun for request in server.sent("GET")[12:])
        assert waits[0] > 0.19
        assert waits[-1] - waits[0] > 0.03


async def test_a_stream_that_ends_at_once_is_not_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """C062: a server that opens its stream only to close it is asked less and less often."""
    monkeypatch.setattr(http_session, "RETRY", 0.05)
    async with RudeHttp(OrdinaryMcp(era="legacy")) as server, linked(server.url) as peer:
        server.on("GET", stream(), times=None)
        await peer.initialize()
        await server.until(lambda: len(server.sent("GET")) == 2)
        with anyio.move_on_after(1.5):
            await server.until(lambda: len(server.sent("GET")) == 3)
        assert len(server.sent("GET")) == 2


@pytest.mark.parametrize("ending", [CLOSE, RESET, None])
async def test_a_stream_that_ended_before_its_answer(ending: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A legacy stream with ids is taken up again after the time it named, with the last id, as often as it takes, and
    what comes belongs to its request."""
    monkeypatch.setattr(http_session, "RETRY", 60.0)  # the server names another time
    mcp = OrdinaryMcp(era="legacy")
    primed = event("", id="e1", retry=100)
    async with RudeHttp(mcp) as server, linked(server.url) as peer:
        server.on("GET", empty(405))
        server.on("GET", stream(event(PROGRESS, id="e2", retry=20)))
        await peer.initialize()
        await server.until(lambda: server.sent("GET"))
        server.on("tools/call", stream(primed, *((ending,) if ending is not None else ())))
        server.on("GET", lambda r: stream(event(server.sent("tools/call")[0].result({"n": 1}))))
        begun = anyio.current_time()
        mid = peer.start("tools/call", CALL)
        await server.until(lambda: len(server.sent("GET")) == 2)
        assert anyio.current_time() - begun > 0.09
        assert await peer.ended(mid) == "answered"
        assert [r.header("Last-Event-ID") for r in server.sent("GET")] == [None, "e1", "e2"]
        assert peer.told.frames[-2] == (mid, PROGRESS)
        assert peer.told.frames[-1][0] == mid


@pytest.mark.parametrize("reply", [empty(405), empty(404), body(b"x", status=400)], ids=["405", "404", "400"])
async def test_a_stream_that_cannot_be_resumed(reply: Reply) -> None:
    """C091: then the call is lost, and that is said at once."""
    async with RudeHttp(OrdinaryMcp(era="legacy")) as server, linked(server.url) as peer:
        server.on("GET", reply, times=None)
        await peer.initialize()
        server.on("tools/call", stream(event("", id="e1", retry=10)))
        mid = peer.start("tools/call", CALL)
        assert await peer.ended(mid) == "lost"
        assert "cannot be resumed" in peer.told.text(mid)


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("with_id", [False, True])
async def test_a_stream_that_ended_for_good(modern: bool, with_id: bool) -> None:
    """C091: without an id, or in the modern era, there is nothing to resume: the call is lost and nothing is asked."""
    async with RudeHttp(OrdinaryMcp(era="both")) as server, linked(server.url) as peer:
        if not modern:
            if with_id:
                return
            await peer.initialize()
            await server.until(lambda: server.sent("GET"))
        before = len(server.sent("GET"))
        server.on("tools/call", stream(event(PROGRESS, id="e1" if with_id else None)))
        mid = peer.start("tools/call", CALL, modern=modern)
        assert await peer.ended(mid) == "lost"
        assert len(server.sent("GET")) == before
