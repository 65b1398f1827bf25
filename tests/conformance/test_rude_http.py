"""The rude server does what its script says, byte for byte, and logs what it got."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator

import anyio
import pytest

from tests.conformance import http_client
from tests.conformance.http_client import exchange, post
from tests.fakes import rude_http
from tests.fakes.agent import Message
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import BOM, CLOSE, NEVER, RESET, Feed, Reply, Request, RudeHttp, body, empty, event, stream

pytestmark = pytest.mark.anyio

LIST: Message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture
async def server() -> AsyncIterator[RudeHttp]:
    async with RudeHttp(OrdinaryMcp(sessions=False)) as server:
        yield server
    assert server.open == 0


async def test_log(server: RudeHttp) -> None:
    """Method, target, headers and body of each request are kept; requests are found by their JSON-RPC method."""
    await post(server.url + "?a=b", LIST, ("X-Secret", "  s "))
    [request] = server.sent("tools/list")
    assert (request.method, request.target, request.path) == ("POST", "/mcp?a=b", "/mcp")
    assert request.header("x-secret") == "s"
    assert request.message == LIST
    await exchange(server.url, "GET")
    await post(server.url, {"jsonrpc": "2.0", "id": 1, "result": {}})
    await exchange(server.url, "POST", b"no json")
    assert [request.key for request in server.requests] == ["tools/list", "GET", "response", "POST"]


async def test_rules(server: RudeHttp) -> None:
    """A rule holds for as many requests as it says, in order, then the ordinary answer is back."""
    server.on("tools/list", empty(503, ("Retry-After", "2")))
    server.on("tools/list", rude_http.redirect(307, "/other"))
    server.on("GET", body(b"<html>", "text/html", status=404), times=None)
    first, second, third = [await post(server.url, LIST) for _ in range(3)]
    assert (first.status, first.headers["retry-after"]) == (503, "2")
    assert (second.status, second.headers["location"]) == (307, "/other")
    assert third.response["result"]["tools"]
    for _ in range(3):
        answer = await exchange(server.url, "GET")
        assert (answer.status, answer.headers["content-type"], answer.body) == (404, "text/html", b"<html>")


KINDS = ["application/json; charset=utf-8", "Text/Event-Stream;charset=UTF-8", "text/plain", None]


@pytest.mark.parametrize("kind", KINDS)
async def test_content_types(server: RudeHttp, kind: str | None) -> None:
    """Any content type, or none, goes with any body; so does a BOM."""
    server.on("tools/list", lambda request: body(BOM + request.result({"tools": []}), kind))
    answer = await post(server.url, LIST)
    assert answer.headers.get("content-type") == kind
    assert answer.body.startswith(BOM + b'{"jsonrpc"')


async def test_streams(server: RudeHttp) -> None:
    """Events in chunks that care for nothing, with every kind of line end, ids, retries and comments; gzip too."""
    parts = [
        event('{"a":\n1}', name="message", id="e1", retry=250, newline="\r\n"),
        rude_http.comment(" ping", "\r"),
        event("{}", newline="\r"),
    ]
    whole = BOM + b"".join(parts)
    assert parts[0] == b'event: message\r\nid: e1\r\nretry: 250\r\ndata: {"a":\r\ndata: 1}\r\n\r\n'
    server.on("tools/list", stream(*rude_http.chopped(whole, 1)))
    server.on("tools/list", body(whole, "text/event-stream").gzipped())
    server.on("tools/list", stream(*rude_http.slowly(whole, 20, 0.001)))
    assert (await post(server.url, LIST)).body == whole
    packed = await post(server.url, LIST)
    assert (packed.headers["content-encoding"], gzip.decompress(packed.body)) == ("gzip", whole)
    assert (await post(server.url, LIST)).body == whole


async def test_big_event(server: RudeHttp) -> None:
    """64 MiB in one event, made while it is sent."""
    size = 64 << 20
    server.on("tools/list", lambda _: rude_http.streamed(rude_http.big(b'data: "', size, b'"\n\n')))
    assert len((await post(server.url, LIST, timeout=20)).body) == size + 10


@pytest.mark.parametrize(
    ("reply", "status", "got"),
    [
        (stream(b"data: {", CLOSE), 200, b"data: {"),
        (Reply(200, (("Content-Length", "100"),), (b"short", CLOSE)), 200, b"short"),
        (Reply(200, (), (b"until the end",), "close"), 200, b"until the end"),
        (rude_http.raw(b"HTTP/1.1 299 Odd\r\nX: y\r\n\r\nraw"), 299, b"raw"),
    ],
    ids=["stream that ends early", "short body", "no length", "raw"],
)
async def test_endings(server: RudeHttp, reply: Reply, status: int, got: bytes) -> None:
    """A body may end before its end, or have none."""
    server.on("tools/list", reply)
    answer = await post(server.url, LIST)
    assert (answer.status, answer.body) == (status, got)


async def test_reset(server: RudeHttp) -> None:
    """A reset in place of an answer is no answer at all."""
    server.on("tools/list", rude_http.raw(RESET))
    with pytest.raises(IndexError):
        await post(server.url, LIST)


async def test_a_client_that_leaves(server: RudeHttp) -> None:
    """A client that closes before the answer is whole is seen."""
    server.on("tools/list", stream(b": hello\n\n", NEVER))
    with anyio.move_on_after(0.2):
        await post(server.url, LIST)
    await server.until(lambda: server.requests[0].left and server.open == 0)


async def test_a_test_in_control(server: RudeHttp) -> None:
    """An answer can wait for the test, and a stream can be written by it."""
    go, feed = asyncio.Event(), Feed()
    server.on("tools/list", body(b"{}").after(go))
    server.on("GET", stream(feed))
    bodies: list[bytes] = []

    async def ask(method: str) -> None:
        answer = await (post(server.url, LIST) if method == "POST" else exchange(server.url, method))
        bodies.append(answer.body)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "POST")
        await server.until(lambda: server.requests)
        go.set()
        tasks.start_soon(ask, "GET")
        feed.send(event("one"))
        feed.send(event("two"))
        feed.end()
    assert sorted(bodies) == [b"data: one\n\ndata: two\n\n", b"{}"]


async def test_one_connection_for_several_requests(server: RudeHttp) -> None:
    """Connections are kept, and requests say which one they came on."""
    head = b"GET /mcp HTTP/1.1\r\nHost: x\r\n\r\n"
    chunked = b"POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    async with await anyio.connect_tcp("127.0.0.1", server.port) as client:
        await client.send(head + chunked)
        await server.until(lambda: len(server.requests) == 2)
    assert [request.connection for request in server.requests] == [0, 0]
    assert server.requests[1].body == b"{}"


async def test_sessions() -> None:
    """Requests need the session that initialize gave; one that was forgotten is 404."""
    ordinary = OrdinaryMcp()
    async with RudeHttp(ordinary) as server:
        assert (await post(server.url, LIST)).status == 400
        session = await http_client.legacy_session(server.url)
        assert (await post(server.url, LIST, *session)).response["result"]["tools"]
        ordinary.expire()
        gone = await post(server.url, LIST, *session)
        assert (gone.status, gone.response["error"]["code"]) == (404, -32001)


async def test_both_eras() -> None:
    """A modern request is answered in its own shape, and refused when its headers do not repeat the body."""
    async with RudeHttp(OrdinaryMcp("both")) as server:
        await http_client.legacy_session(server.url)
        answer = await http_client.modern(server.url, "tools/list")
        assert answer.response["result"]["resultType"] == "complete"
        wrong = await http_client.modern(server.url, "tools/call", {"name": "echo"}, name="ohce")
        assert (wrong.status, wrong.response["error"]["code"]) == (400, -32020)


async def test_the_old_transport() -> None:
    """The stream says first where to post, then carries the answers of all posts."""
    ordinary = OrdinaryMcp("sse")
    async with RudeHttp(ordinary, path="/sse") as server:
        got: list[bytes] = []

        async def listen() -> None:
            got.append((await exchange(server.url, "GET")).body)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            await server.until(lambda: ordinary.feeds)
            answer = await post(server.origin + ordinary.endpoint, LIST)
            assert answer.status == 202
            ordinary.feeds[0].end()
        assert got[0].startswith(b"event: endpoint\ndata: /messages?s=1\n\nevent: message\ndata: {")


async def test_a_rule_that_breaks() -> None:
    """A mistake in a test's script fails that test instead of looking like a rude answer."""

    def wrong(request: Request) -> Reply:
        raise KeyError("the script is wrong")

    with pytest.raises(BaseExceptionGroup) as caught:
        async with RudeHttp(OrdinaryMcp()) as server:
            server.on("tools/list", wrong)
            await post(server.url, LIST)
            await anyio.sleep_forever()
    assert caught.group_contains(KeyError)
