"""The HTTP+SSE transport over real sockets: where messages go, what comes back, what is refused, and its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcphub.protocol import eventstream
from mcphub.protocol.http_answer import SESSION_GONE
from mcphub.spec import SseSpec
from mcphub.transport import http_request, http_sse
from tests.fakes.certificates import Authority
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import (
    BOM,
    CLOSE,
    NEVER,
    RESET,
    Feed,
    Reply,
    Request,
    RudeHttp,
    body,
    chopped,
    comment,
    empty,
    encoded,
    event,
    raw,
    redirect,
    stream,
)
from tests.transport.http_peers import Peer, linked

pytestmark = pytest.mark.anyio

NOTE = encoded({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})


class Old(OrdinaryMcp):
    """An ordinary server of this transport that holds back what a test wants to answer itself."""

    def __init__(self, **more: Any) -> None:
        super().__init__(era="sse", **more)

    @property
    def feed(self) -> Feed:
        return self.feeds[-1]

    def say(self, message: Any) -> None:
        self.feed.send(event(message if isinstance(message, bytes) else encoded(message), name="message"))


@asynccontextmanager
async def old(**more: Any) -> AsyncIterator[tuple[RudeHttp, Old]]:
    server = Old(**more)
    async with RudeHttp(server, path="/sse") as http:
        yield http, server


@asynccontextmanager
async def peer_of(http: RudeHttp, **more: Any) -> AsyncIterator[Peer]:
    async with linked(http.url, kind=SseSpec, **more) as peer:
        yield peer


def accepted(request: Request) -> Reply:
    return body(b"Accepted", "text/plain", status=202)


def text(mid: int, said: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": mid, "result": {"content": [{"type": "text", "text": said}]}}


# -- an ordinary session


async def test_a_session() -> None:
    """One stream for all that comes, a POST to the endpoint for each message that goes, the entry's headers on all of
    them; nothing of Streamable HTTP is said; the end closes the stream and says nothing more."""
    async with old() as (http, server):
        async with peer_of(http, headers={"Authorization": "Bearer t0ken", "X-Team": "a"}) as peer:
            await peer.initialize()
            found = await peer.result("tools/call", {"name": "echo", "arguments": {"text": "漢🙂"}})
            assert found["result"]["content"][0]["text"] == "漢🙂"
            server.say(NOTE)
            await peer.told.until(lambda: NOTE in [data for _, data in peer.told.frames])
            assert {current for current, _ in peer.told.frames} == {None}
            assert peer.link.usable((b"{}",)) == ((b"{}",), ())
            assert (peer.link.pid, await peer.link.exit_code(0)) == (None, None)
        await http.until(lambda: http.requests[0].left)
        get, *posts = http.requests
        assert (get.method, get.target, get.header("Accept")) == ("GET", "/sse", "text/event-stream")
        assert [post.key for post in posts] == ["initialize", "notifications/initialized", "tools/call"]
        for post in posts:
            assert (post.method, post.target) == ("POST", "/messages?s=1")
            assert post.header("Content-Type") == "application/json"
        for request in http.requests:
            assert (request.header("Authorization"), request.header("X-Team")) == ("Bearer t0ken", "a")
            assert request.header("MCP-Protocol-Version") is None
            assert request.header("Mcp-Session-Id") is None
        assert peer.notes == []


async def test_answers_in_another_order() -> None:
    """C084: one stream carries the answers to all calls: each caller gets its own, in whatever order they come, with a
    notification and an answer to nobody between them."""
    async with old() as (http, server), peer_of(http) as peer:
        await peer.initialize()
        http.on("tools/call", accepted, times=3)
        calls = [peer.start("tools/call", {"name": "echo", "arguments": {"text": str(n)}}) for n in range(3)]
        await http.until(lambda: len(http.sent("tools/call")) == 3)
        server.say(text(calls[2], "third"))
        assert await peer.ended(calls[2]) == "answered"
        assert [peer.told.kind(mid) for mid in calls[:2]] == ["", ""]
        server.say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
        server.say(text(4711, "nobody"))
        server.say(text(calls[0], "first"))
        server.say(text(calls[1], "second"))
        for mid, said in zip(calls, ("first", "second", "third"), strict=True):
            assert await peer.ended(mid) == "answered"
            answers = [m for m in peer.told.messages if m.get("id") == mid]
            assert [m["result"]["content"][0]["text"] for m in answers] == [said]


@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_the_grammar_of_the_stream(size: int) -> None:
    """C080: a byte order mark, comments, CR LF, CR, several data lines, ids and unknown events, in any chunking; data
    that is no message is handed on as such, what is unfinished at the end is dropped."""
    feed = Feed()
    said = (
        BOM
        + b": ping\r\n\r\nretry: 250\r\nevent: endpoint\r\ndata: /messages\r\n\r\n"
        + b"id: e1\r\ndata:\r\n\r\n"
        + b'event: message\r\ndata: {"jsonrpc":"2.0",\r\ndata: "id":1,"result":{}}\r\n\r\n'
        + b'data:{"no":"space"}\n\nfoo: bar\n\nevent: other\ndata: {"jsonrpc":"2.0","method":"x"}\n\n'
        + b'data: {"jsonrpc":"2.0","method":"cr"}\r\rdata: {"jsonrpc":"2.0","method":"unfinished"}\n'
    )
    http = RudeHttp(lambda request: stream(*chopped(said, size), feed) if request.method == "GET" else empty(202))
    async with http, peer_of(http) as peer:
        assert await peer.ask("ping") == "answered"
        await peer.told.until(lambda: len(peer.told.frames) == 3)
        feed.end()
        await peer.told.until(lambda: peer.told.ends)
        assert peer.told.messages == [
            {"jsonrpc": "2.0", "id": 1, "result": {}},
            {"no": "space"},
            {"jsonrpc": "2.0", "method": "cr"},
        ]


# -- the endpoint


@pytest.mark.parametrize(
    ("endpoint", "target"),
    [
        ("/messages?s=1", "/messages?s=1"),
        ("messages?s=1", "/a/messages?s=1"),
        ("?s=1", "/a/sse?s=1"),
        ("{origin}/messages", "/messages"),
        (" /messages\t", "/messages"),
        ("//127.0.0.1:{port}/messages", "/messages"),
        ("http://user:pw@127.0.0.1:{port}/messages#x", "/messages"),
        ("\\\\evil.example/c", "/a/\\\\evil.example/c"),
    ],
)
async def test_endpoints_within_the_origin(endpoint: str, target: str) -> None:
    """C082: what the stream names is resolved against the stream's URL, whatever its form."""

    def ordinary(request: Request) -> Reply:
        if request.method == "GET":
            return stream(event(endpoint.format(origin=http.origin, port=http.port), name="endpoint"), NEVER)
        return accepted(request)

    http = RudeHttp(ordinary, path="/a/sse")
    async with http, peer_of(http) as peer:
        peer.start("initialize")
        await http.until(lambda: http.sent("initialize"))
        assert [request.target for request in http.sent("initialize")] == [target]
        assert http.sent("initialize")[0].header("Authorization") is None


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://localhost:{other}/s3cret",
        "//127.0.0.1:{other}/s3cret",
        "https://127.0.0.1:{port}/messages",
        "http://127.0.0.1:{port}@localhost:{other}/",
        "javascript:x",
        "http://[::1",
        "http://127.0.0.1:{port}x/",
        "/a\x0bb",
    ],
)
async def test_endpoints_of_another_origin(endpoint: str) -> None:
    """B22: C082: another host, port or scheme is refused by name before anything goes there, and nothing is posted
    anywhere; the path that was named, which may be a secret, is not told."""
    async with RudeHttp(accepted) as other:
        http = RudeHttp(accepted, path="/sse")
        async with http, peer_of(http, headers={"Authorization": "Bearer t0ken"}) as peer:
            named = endpoint.format(other=other.port, port=http.port)
            http.on("GET", stream(event(named, name="endpoint"), NEVER))
            mid = peer.start("initialize")
            assert await peer.ended(mid) == "refused"
            assert "nothing is sent there" in peer.told.text(mid)
            assert "s3cret" not in peer.told.text(mid)
            assert await peer.ask("tools/list") == "refused"
        assert [request.key for request in http.requests] == ["GET"]
        assert other.requests == []


async def test_endpoints_of_another_scheme(tmp_path: Path) -> None:
    """C082: from https to http of the same host and port is another origin."""
    authority = Authority.made(tmp_path)
    named = ""

    def ordinary(request: Request) -> Reply:
        return stream(event(named, name="endpoint"), NEVER) if request.method == "GET" else accepted(request)

    async with RudeHttp(ordinary, path="/sse", tls=authority.server("127.0.0.1")) as http:
        env = {"SSL_CERT_FILE": str(authority.path)}
        named = f"http://127.0.0.1:{http.port}/messages"
        async with peer_of(http, env=env) as peer:
            assert await peer.ask("initialize") == "refused"
        named = f"https://127.0.0.1:{http.port}/messages"
        async with peer_of(http, env=env) as peer:
            peer.start("initialize")
            await http.until(lambda: http.sent("initialize"))


async def test_a_second_endpoint() -> None:
    """C082: another endpoint on the same stream is noted and never used, whether or not it is of the same origin."""
    async with RudeHttp(accepted) as other, old() as (http, server), peer_of(http) as peer:
        await peer.initialize()
        server.feed.send(event(f"{other.url}/c", name="endpoint") + event("/elsewhere", name="endpoint"))
        assert await peer.ask("ping") == "answered"
        assert {request.target for request in http.requests if request.method == "POST"} == {"/messages?s=1"}
        assert other.requests == []
        assert sum("another endpoint" in line for line in peer.notes) == 2


@pytest.mark.parametrize("method", ["initialize", "ping", "tools/list"])
async def test_a_post_of_its_own_that_is_not_answered(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """C077: what mcphub asks for itself is no work of minutes: its POST is taken in time, or it has failed."""
    monkeypatch.setattr(http_sse, "BEGIN", 0.2)
    async with old() as (http, _), peer_of(http) as peer:
        http.on(method, raw(NEVER))
        assert await peer.ask(method) == "no_response"


async def test_a_stream_that_names_no_endpoint() -> None:
    """C082: a stream that opens and says nothing of use within the time of the start is told as that, whatever else it
    says; nothing is posted."""
    early = event(encoded({"jsonrpc": "2.0", "id": 1, "result": {}}), name="message")
    http = RudeHttp(lambda request: stream(comment("hello"), early, event("x", name="other"), NEVER), path="/sse")
    async with http, peer_of(http, startup_timeout=0.4) as peer:
        mid = peer.start("initialize")
        assert await peer.ended(mid) == "no_response"
        assert "named no endpoint" in peer.told.text(mid)
        assert peer.told.frames == []
        assert any("before it named its endpoint" in line for line in peer.notes)
        assert [request.key for request in http.requests] == ["GET"]


async def test_a_message_before_the_endpoint() -> None:
    """C082: it is dropped with a note, and the session goes on."""
    server = Old()

    def ordinary(request: Request) -> Reply:
        reply = server(request)
        if request.method != "GET":
            return reply
        return stream(event(NOTE, name="message"), *reply.body)

    async with RudeHttp(ordinary, path="/sse") as http, peer_of(http) as peer:
        await peer.initialize()
        assert NOTE not in [data for _, data in peer.told.frames]


async def test_what_waits_for_the_endpoint() -> None:
    """What is sent before the endpoint is known waits for it, in order, but for what was cancelled meanwhile, which the
    server never hears of; nothing overtakes the end of the handshake."""
    feed, answered = Feed(), asyncio.Event()

    def initialized(request: Request) -> Reply:
        return accepted(request).after(answered)

    http = RudeHttp(lambda request: stream(feed) if request.method == "GET" else accepted(request), path="/sse")
    http.on("notifications/initialized", initialized)
    async with http, peer_of(http) as peer:
        await http.until(lambda: http.sent("GET"))
        cancelled = peer.start("tools/list")
        peer.notify("notifications/initialized")
        kept = peer.start("tools/call")
        peer.cancel(cancelled)
        feed.send(event("/messages", name="endpoint"))
        await http.until(lambda: http.sent("notifications/initialized"))
        feed.send(event(NOTE))
        await peer.told.until(lambda: peer.told.frames)
        assert not http.sent("tools/call")
        answered.set()
        await http.until(lambda: http.sent("tools/call"))
        feed.send(event(encoded(text(kept, "x"))))
        assert await peer.ended(kept) == "answered"
        assert [r.key for r in http.requests] == ["GET", "notifications/initialized", "tools/call"]


# -- a stream that does not open


@pytest.mark.parametrize(
    ("reply", "kind", "part"),
    [
        (empty(404), "refused", "HTTP 404 Not Found"),
        (empty(405), "refused", "HTTP 405 Method Not Allowed"),
        (empty(401), "needs_auth", "offers no sign-in"),
        (empty(403), "refused", "HTTP 403 Forbidden"),
        (empty(503, ("Retry-After", "7")), "status", "retry after 7 s"),
        (empty(429, ("Retry-After", "3600")), "rate_limited", "retry after 3600 s"),
        (redirect(307, "http://localhost:1/x"), "refused", "redirected to http://localhost:1"),
        (redirect(302, "/login"), "refused", "redirected"),
        (body(b"<html>Sign in</html>", "text/html"), "refused", "no event stream"),
        (body(b'{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}'), "refused", "no event stream"),
        (body(b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"no"}}', status=404), "refused", "404"),
        (stream(comment("bye")), "refused", "ended before it named an endpoint"),
        (stream(b"event: endpoint\ndata: /unfinished"), "refused", "ended before it named an endpoint"),
        (stream(comment(), RESET), "lost", "the connection"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n", CLOSE), "lost", ""),
    ],
)
async def test_a_stream_that_does_not_open(reply: Reply, kind: str, part: str) -> None:
    """C071, C075: what was said instead reaches the one who asked, with the time it wants; nothing is posted."""
    async with RudeHttp(lambda request: reply, path="/sse") as http, peer_of(http) as peer:
        mid = peer.start("initialize")
        assert await peer.ended(mid) == kind
        assert part in peer.told.text(mid)
        assert peer.link.retry_after == {"status": 7.0, "rate_limited": 3600.0}.get(kind, 0.0)
        assert {request.method for request in http.requests} == {"GET"}


async def test_credentials_that_are_refused() -> None:
    """A 401 to an entry that has credentials speaks of these."""
    http = RudeHttp(lambda request: empty(401), path="/sse")
    async with http, peer_of(http, headers={"authorization": "Bearer t0ken"}) as peer:
        mid = peer.start("initialize")
        assert await peer.ended(mid) == "needs_auth"
        assert "refuses the credentials of its entry" in peer.told.text(mid)
        assert "t0ken" not in peer.told.text(mid)


async def test_nothing_listens() -> None:
    """C091: nothing was sent, and that is said."""
    async with RudeHttp(accepted) as http:
        url = http.url
    async with linked(url, kind=SseSpec) as peer:
        assert await peer.ask("initialize") == "unreachable"


async def test_a_redirect_within_the_origin() -> None:
    """C071: the stream's redirect is followed within the origin, and the endpoint is resolved against where it led."""
    server = Old(endpoint="messages")

    def ordinary(request: Request) -> Reply:
        if request.path == "/messages":
            return empty(404)
        return server(Request("POST", "messages", request.headers, request.body, request.at, request.connection)
                      if request.path == "/v1/messages" else request)  # fmt: skip

    async with RudeHttp(ordinary, path="/sse") as http:
        http.on("GET", redirect(308, "/v1/sse"))
        async with peer_of(http) as peer:
            await peer.initialize()
            assert [request.path for request in http.sent("initialize")] == ["/v1/messages"]


# -- what is posted


@pytest.mark.parametrize(
    "reply",
    [
        body(b"Accepted", "text/plain", status=202),
        empty(202),
        empty(204),
        body(b"null"),
        body(b'{"jsonrpc":"2.0","id":null}'),
        body(b"<html>", "text/html"),
        stream(NEVER),
        stream(event(NOTE)),
    ],
)
async def test_answers_to_posts(reply: Reply) -> None:
    """C063: every 2xx is accepted, whatever else it says, and holds up nothing; what counts comes on the stream."""
    async with old() as (http, server), peer_of(http) as peer:
        http.on("notifications/initialized", reply)
        await peer.initialize()
        http.on("tools/call", reply)
        mid = peer.start("tools/call")
        await http.until(lambda: http.sent("tools/call"))
        assert await peer.ask("ping") == "answered"
        server.say(text(mid, "x"))
        assert await peer.ended(mid) == "answered"
        assert NOTE not in [data for _, data in peer.told.frames]


async def test_a_post_that_is_answered_when_all_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some servers answer the POST only after the request: others are not held up, it is ended a while after the answer
    has come, and a cancellation reaches the server meanwhile."""
    monkeypatch.setattr(http_sse, "AFTER_ANSWER", 0.05)
    never = accepted(Request("POST", "", (), b"", 0, 0)).after(NEVER)
    async with old() as (http, server), peer_of(http) as peer:
        await peer.initialize()
        http.on("tools/call", never, times=2)
        answered, cancelled = peer.start("tools/call"), peer.start("tools/call")
        await http.until(lambda: len(http.sent("tools/call")) == 2)
        assert await peer.ask("ping") == "answered"
        server.say(text(answered, "x"))
        assert await peer.ended(answered) == "answered"
        peer.cancel(cancelled)
        await http.until(lambda: all(request.left for request in http.sent("tools/call")))
        assert http.sent("notifications/cancelled")[0].params["requestId"] == cancelled
        assert peer.told.kind(cancelled) == ""


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (empty(400), "refused"),
        (empty(413), "refused"),
        (empty(401), "needs_auth"),
        (empty(500), "status"),
        (empty(503), "status"),
        (redirect(307, "http://localhost:1/x"), "refused"),
        (raw(CLOSE), "lost"),
        (raw(b"HTTP/1.1 202 Accepted\r\nContent-Length: 8\r\n\r\nAcc", RESET), "lost"),
    ],
)
async def test_posts_that_fail(reply: Reply, kind: str) -> None:
    """C086: what could not be delivered ends at once with what is known of it, or with a note where nobody waits; the
    next request is answered."""
    async with old() as (http, _), peer_of(http) as peer:
        await peer.initialize()
        http.on("tools/call", reply)
        assert await peer.ask("tools/call") == kind
        assert await peer.ask("tools/call", {"arguments": {"text": "next"}}) == "answered"
        http.on("notifications/x", reply)
        peer.notify("notifications/x")
        await http.until(lambda: http.sent("notifications/x"))
        assert await peer.ask("ping") == "answered"
        with anyio.fail_after(5):
            while not any("notifications/x" in line for line in peer.notes):
                await anyio.lowlevel.checkpoint()


async def test_an_error_in_the_answer_to_a_post() -> None:
    """A JSON-RPC error beside a status that says no is the answer."""
    async with old() as (http, _), peer_of(http) as peer:
        await peer.initialize()
        http.on("tools/call", lambda request: body(request.error(-32602, "no such tool"), status=400))
        found = await peer.result("tools/call")
        assert found["error"] == {"code": -32602, "message": "no such tool"}


@pytest.mark.parametrize("status", [400, 401, 404, 409, 429, 500, 503])
async def test_a_result_in_the_answer_to_a_post(status: int) -> None:
    """The result of this request is its answer beside a status that says no too: nothing is sent again."""
    async with old() as (http, _), peer_of(http) as peer:
        await peer.initialize()
        http.on("tools/call", lambda request: body(request.result({"long": "x" * (2 << 20)}), status=status))
        assert len((await peer.result("tools/call"))["result"]["long"]) == 2 << 20
        assert await peer.ask("ping") == "answered"
        assert len(http.sent("tools/call")) == 1
        assert (peer.told.unanswered_, peer.told.ends) == ([], [])


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (b'{"jsonrpc":"2.0","id":4711,"result":{}}', "status"),
        (b'{"jsonrpc":"2.0","id":4711,"error":{"code":1,"message":"x"}}', "unreadable"),
        (b"[]", "unreadable"),
    ],
)
async def test_an_answer_to_another_request_in_that_to_a_post(message: bytes, kind: str) -> None:
    """A POST that was refused leaves nobody waiting, and what is told of it names no other request."""
    async with old() as (http, _), peer_of(http) as peer:
        await peer.initialize()
        http.on("tools/call", body(message, status=500))
        mid = peer.start("tools/call")
        assert await peer.ended(mid) == kind
        assert "4711" not in peer.told.text(mid)


async def test_one_request_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """C075: a refusal before anything was done is waited out, and not for ever."""
    monkeypatch.setattr(http_request, "RATE_REST", 0.02)
    async with old() as (http, _), peer_of(http) as peer:
        await peer.initialize()
        http.on("tools/call", empty(429), times=2)
        assert await peer.ask("tools/call") == "answered"
        http.on("tools/call", empty(429, ("Retry-After", "3600")))
        assert await peer.ask("tools/call") == "rate_limited"
        assert peer.link.retry_after == 3600
        assert len(http.sent("tools/call")) == 4


async def test_a_request_that_was_not_taken_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """C075: what is not sent yet, or was refused as one too many, is known not to have been acted on; what is sent is
    not."""
    monkeypatch.setattr(http_request, "RATE_REST", 0.02)
    async with old() as (http, _), peer_of(http) as peer:
        await peer.initialize()
        assert isinstance(channel := peer.link.channel, http_sse.HttpSseChannel)
        http.on("tools/call", empty(429, ("Retry-After", "20")))
        mid = peer.start("tools/call")
        assert channel.untouched(mid)
        await http.until(lambda: http.sent("tools/call"))
        await anyio.wait_all_tasks_blocked()
        assert channel.untouched(mid)
        peer.cancel(mid)
        await peer.ask("tools/list")
        assert not channel.untouched(mid)


async def test_what_waits_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """C089: what rests after a refusal counts as untouched in the moment in which all tasks end; what waits for its
    answer does not."""
    found: list[bool] = []
    async with old() as (http, _):
        with anyio.CancelScope() as scope:
            async with peer_of(http) as peer:
                await peer.initialize()
                assert isinstance(channel := peer.link.channel, http_sse.HttpSseChannel)
                http.on("tools/call", empty(202))
                http.on("tools/call", empty(429, ("Retry-After", "20")))
                mids = [peer.start("tools/call")]
                await http.until(lambda: len(http.sent("tools/call")) == 1)
                mids.append(peer.start("tools/call"))
                await http.until(lambda: len(http.sent("tools/call")) == 2)
                with anyio.fail_after(5):
                    while channel.untouched(mids[0]) or not channel.untouched(mids[1]):
                        await anyio.lowlevel.checkpoint()
                lost = peer.told.lost

                def ends(why: str) -> None:
                    found.extend(map(channel.untouched, mids))
                    lost(why)

                monkeypatch.setattr(peer.told, "lost", ends)
                scope.cancel()
                await anyio.lowlevel.checkpoint()
        assert found == [False, True]


async def test_requests_that_wait_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many POSTs at once and no more; from a number on the channel counts as full, and not for ever."""
    monkeypatch.setattr(http_sse, "MAX_POSTS", 2)
    monkeypatch.setattr(http_sse, "FULL_AT", 4)
    release = asyncio.Event()
    async with old() as (http, server), peer_of(http) as peer:
        await peer.initialize()
        http.on("tools/call", lambda request: accepted(request).after(release), times=5)
        calls = [peer.start("tools/call") for _ in range(5)]
        assert peer.link.channel.full
        await http.until(lambda: len(http.sent("tools/call")) == 2)
        release.set()
        await http.until(lambda: len(http.sent("tools/call")) == 5)
        for mid in calls:
            server.say(text(mid, "x"))
        for mid in calls:
            assert await peer.ended(mid) == "answered"
        assert await peer.ask("ping") == "answered"
        assert not peer.link.channel.full


async def test_questions_of_the_server() -> None:
    """A server's request comes on the stream, and our answer is posted to the endpoint."""
    async with old() as (http, server), peer_of(http) as peer:
        await peer.initialize()
        server.say({"jsonrpc": "2.0", "id": 9, "method": "roots/list"})
        await peer.told.until(lambda: any(m.get("method") == "roots/list" for m in peer.told.messages))
        peer.send({"jsonrpc": "2.0", "id": 9, "result": {"roots": []}})
        await http.until(lambda: http.sent("response"))
        assert http.sent("response")[0].message == {"jsonrpc": "2.0", "id": 9, "result": {"roots": []}}


# -- the end


@pytest.mark.parametrize(
    ("end", "part"),
    [
        (lambda server: server.feed.end(), "ended its event stream"),
        (lambda server: server.feed.send(b"data: " + b"x" * 5000 + b"\n\n"), "larger than"),
    ],
)
async def test_the_end_of_the_stream(
    end: Callable[[Old], None], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C091, C050: with the stream the session is over at once, whatever was in flight; nothing is taken up again."""
    monkeypatch.setattr(eventstream.EventDecoder.__init__, "__defaults__", (4096,))
    async with old() as (http, server), peer_of(http) as peer:
        await peer.initialize()
        http.on("tools/call", accepted)
        mid = peer.start("tools/call")
        await http.until(lambda: http.sent("tools/call"))
        end(server)
        await peer.told.until(lambda: peer.told.ends)
        assert part in peer.told.ends[0]
        assert peer.told.kind(mid) == ""
        peer.start("ping")
        assert len(http.sent("GET")) == 1


async def test_a_connection_that_is_reset() -> None:
    """C091: a server that is killed ends the session at once."""
    async with old() as (http, _), peer_of(http) as peer:
        await peer.initialize()
        http.on("ping", raw(RESET))
        await http.__aexit__(None, None, None)
        await peer.told.until(lambda: peer.told.ends)
        assert "closed the connection" in peer.told.ends[0] or "broke" in peer.told.ends[0]
        await http.__aenter__()


async def test_a_session_that_is_over() -> None:
    """C065: a POST that is refused with 404 though the stream is open: calls that were refused so are given back, and
    the session is over."""
    async with old() as (http, _), peer_of(http) as peer:
        await peer.initialize()
        http.on("*", body(b"Could not find session", "text/plain", status=404), times=None)
        calls = [peer.start("tools/call", {"n": n}) for n in range(5)]
        for mid in calls:
            assert await peer.ended(mid) == "session"
        await peer.told.until(lambda: peer.told.ends)
        assert peer.told.ends == [SESSION_GONE]
        assert [json.loads(peer.link.returned[mid])["params"]["n"] for mid in calls] == [0, 1, 2, 3, 4]


async def test_a_silent_stream_stays_open() -> None:
    """C077: silence ends nothing: neither a stream without a word nor a call without a limit of its own."""
    async with old() as (http, server), peer_of(http, startup_timeout=0.3) as peer:
        await peer.initialize()
        http.on("tools/call", accepted)
        mid = peer.start("tools/call")
        await http.until(lambda: http.sent("tools/call"))
        with anyio.move_on_after(0.6):
            await peer.told.until(lambda: peer.told.ends)
        server.feed.send(comment("ping"))
        server.say(text(mid, "late"))
        assert await peer.ended(mid) == "answered"


async def test_a_fault_in_the_receiver() -> None:
    """An exception there closes this channel only, and is reported."""
    async with old() as (http, server), peer_of(http) as peer:
        await peer.initialize()

        def explode(data: bytes) -> None:
            raise ValueError("boom")

        peer.told.on_frame = explode
        server.say(NOTE)
        await peer.told.until(lambda: peer.told.ends)
        assert "internal error" in peer.told.ends[0]
        assert [str(error) for error in peer.errors] == ["boom"]
        peer.errors.clear()
