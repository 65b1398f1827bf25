"""Streamable HTTP towards a server that is as rude as the field."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcphub.protocol.http_answer import SESSION_GONE
from mcphub.transport import http_request, http_session, streamable_http
from mcphub.transport.streamable_http import HttpChannel
from tests.fakes.hub import eventually
from tests.fakes.ordinary_mcp import OrdinaryMcp
from tests.fakes.rude_http import (
    CLOSE,
    NEVER,
    RESET,
    Answer,
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
    stream,
)
from tests.transport.http_peers import Peer, linked

pytestmark = pytest.mark.anyio

CALL: dict[str, Any] = {"name": "echo", "arguments": {"text": "hello"}}
PROGRESS = encoded({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}})
CHANGED = encoded({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})


# -- both eras


async def test_a_modern_request() -> None:
    """Each modern request travels alone, with the headers that repeat what its body says."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url, {"X-Team": "blue"}) as peer:
        found = await peer.result("tools/call", CALL, modern=True)
        assert found["result"]["content"][0]["text"] == "hello"
        [request] = server.requests
        wanted = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "echo",
            "X-Team": "blue",
            "Mcp-Session-Id": None,
        }
        assert {name: request.header(name) for name in wanted} == wanted
        assert request.message["params"]["arguments"] == {"text": "hello"}
    assert [r.method for r in server.requests] == ["POST"]


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("prompts/get", {"name": "p"}, "p"),
        ("resources/read", {"uri": "file:///é"}, "=?base64?ZmlsZTovLy/DqQ==?="),
        ("tasks/get", {"taskId": "7"}, "7"),
        ("tools/list", {}, None),
        ("server/discover", {}, None),
    ],
)
async def test_names_in_headers(method: str, params: dict[str, Any], name: str | None) -> None:
    """Mcp-Method is the method, Mcp-Name what it is about, encoded where a header cannot carry it."""
    async with RudeHttp(OrdinaryMcp(era="both")) as server, linked(server.url) as peer:
        await peer.ask(method, params, modern=True)
        [request] = server.requests
        assert (request.header("Mcp-Method"), request.header("Mcp-Name")) == (method, name)


async def test_a_legacy_session() -> None:
    """C067: no version and no session before they are known, both on all that follows, DELETE at the end. Before a
    version is agreed on, who routes by the method finds it in a header."""
    mcp = OrdinaryMcp(era="legacy", version="2025-06-18")
    async with RudeHttp(mcp) as server:
        async with linked(server.url) as peer:
            await peer.initialize("2024-10-07")
            assert (await peer.result("tools/call", CALL))["result"]["content"][0]["text"] == "hello"
            for request in server.requests:
                first = request.key == "initialize"
                assert request.header("MCP-Protocol-Version") == (None if first else "2025-06-18"), request.key
                assert request.header("Mcp-Session-Id") == (None if first else "session-1"), request.key
                assert request.header("Mcp-Method") == ("initialize" if first else None), request.key
        [farewell] = server.sent("DELETE")
        assert farewell.header("Mcp-Session-Id") == "session-1"
        assert mcp.known == set()


async def test_a_legacy_server_without_sessions() -> None:
    """Where there was no session id, none is sent and nothing is ended."""
    async with RudeHttp(OrdinaryMcp(era="legacy", sessions=False)) as server:
        async with linked(server.url) as peer:
            await peer.initialize()
            await peer.result("tools/list")
        assert {request.header("Mcp-Session-Id") for request in server.requests} == {None}
        assert server.sent("DELETE") == []


@pytest.mark.parametrize("session", ["a b", "ä", "x" * 5000])
async def test_session_ids_that_are_none(session: str) -> None:
    """A session id that no header may carry is not sent back."""
    mcp = OrdinaryMcp(era="legacy", sessions=False)
    async with RudeHttp(mcp) as server, linked(server.url) as peer:
        made = body(b"").with_headers(("Mcp-Session-Id", session))
        server.on("initialize", lambda r: body(r.result(mcp.initialized(r))).with_headers(*made.headers))
        await peer.initialize()
        await peer.result("tools/list")
        assert {request.header("Mcp-Session-Id") for request in server.requests} == {None}
        assert any("session id" in note for note in peer.notes)


@pytest.mark.parametrize("modern", [False, True])
async def test_an_answer_on_a_stream(modern: bool) -> None:
    """What comes before the answer is handed on as it comes, under the id of the request it belongs to."""
    feed = Feed()

    def slow(request: Request) -> Reply:
        return stream(event(PROGRESS), feed)

    async with RudeHttp(OrdinaryMcp(era="both")) as server, linked(server.url) as peer:
        server.on("tools/call", slow)
        mid = peer.start("tools/call", CALL, modern=modern)
        await peer.told.until(lambda: peer.told.frames)
        assert peer.told.frames == [(mid, PROGRESS)]
        assert peer.link.channel.current is None
        feed.send(event(server.requests[-1].result({})))
        feed.end()
        assert await peer.ended(mid) == "answered"
        assert [current for current, _ in peer.told.frames] == [mid, mid]


async def test_a_stream_that_stays_open_after_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer frees its place at once; what follows it for a moment is still heard, then the stream is closed."""
    monkeypatch.setattr(streamable_http, "MAX_RUNNING", 1)
    monkeypatch.setattr(streamable_http, "AFTER_ANSWER", 0.3)
    feed = Feed()
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        server.on("tools/call", lambda r: stream(event(r.result({})), feed))
        assert await peer.ask("tools/call", CALL, modern=True) == "answered"
        assert await peer.ask("tools/call", CALL, modern=True) == "answered"
        feed.send(event(CHANGED))
        await peer.told.until(lambda: peer.told.frames[-1][1] == CHANGED)
        await server.until(lambda: server.requests[0].left)


# -- cancellation


async def test_a_modern_cancellation() -> None:
    """The stream is closed and nothing is sent; nobody is told of a request that was withdrawn."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        for count, reply in enumerate((stream(event(PROGRESS), NEVER), body(b"x").after(NEVER)), 1):
            server.on("tools/call", reply)
            mid = peer.start("tools/call", CALL, modern=True)
            await server.until(lambda count=count: len(server.requests) == count)  # type: ignore[misc]
            peer.cancel(mid)
            await server.until(lambda: server.requests[-1].left)
        assert [request.key for request in server.requests] == ["tools/call", "tools/call"]
        assert peer.told.unanswered_ == []


async def test_a_legacy_cancellation() -> None:
    """The server is told by a message; a disconnect alone would not be one, and comes after it."""
    async with RudeHttp(OrdinaryMcp(era="legacy")) as server, linked(server.url) as peer:
        await peer.initialize()
        server.on("tools/call", stream(event(PROGRESS), NEVER))
        mid = peer.start("tools/call", CALL)
        await peer.told.until(lambda: peer.told.frames[-1][1] == PROGRESS)
        peer.cancel(mid)
        await server.until(lambda: server.sent("tools/call")[0].left)
        [cancelled] = server.sent("notifications/cancelled")
        assert cancelled.params == {"requestId": mid, "reason": "x"}
        assert cancelled.header("Mcp-Session-Id") == "session-1"
        assert peer.told.unanswered_ == []


@pytest.mark.parametrize("modern", [False, True])
async def test_cancellations_of_nothing(modern: bool) -> None:
    """What is over, or never was, needs no cancellation: nothing is sent."""
    async with RudeHttp(OrdinaryMcp(era="both")) as server, linked(server.url) as peer:
        if not modern:
            await peer.initialize()
        mid = peer.start("tools/list", modern=modern)
        await peer.ended(mid)
        for one in (mid, 99):
            peer.cancel(one)
        await peer.ask("tools/list", modern=modern)
        assert server.sent("notifications/cancelled") == []


async def test_requests_that_wait_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond so many at once they wait here; one that is cancelled meanwhile is never sent. Listens do not count."""
    monkeypatch.setattr(streamable_http, "MAX_RUNNING", 2)
    monkeypatch.setattr(streamable_http, "FULL_AT", 3)
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        gate = Feed()
        server.on("tools/call", lambda r: stream(gate, event(r.result({}))), times=2)
        listen = peer.start("subscriptions/listen", {"notifications": {}}, modern=True)
        await server.until(lambda: server.sent("subscriptions/listen"))
        mids = [peer.start("tools/call", CALL, modern=True) for _ in range(4)]
        await server.until(lambda: len(server.sent("tools/call")) == 2)
        channel = peer.link.channel
        assert channel.full is False
        last = peer.start("tools/call", CALL, modern=True)
        fullness = [channel.full]
        peer.cancel(mids[2])
        assert [*fullness, channel.full] == [True, False]
        gate.end()
        gate.end()
        for mid in (mids[0], mids[1], mids[3], last):
            assert await peer.ended(mid) == "answered"
        assert [r.message["id"] for r in server.sent("tools/call")] == [mids[0], mids[1], mids[3], last]
        assert peer.told.kind(mids[2]) == ""
        assert peer.told.kind(listen) == ""


# -- E. HTTP


ODD = [
    empty(202),
    body(b"Accepted", "text/plain", status=202),
    body(b"", status=200),
    body(b"null"),
    body(b'{"jsonrpc":"2.0","id":null}'),
    empty(204),
    stream(NEVER),
    stream(event(CHANGED), NEVER),
    body(b"x", status=400),
    raw(CLOSE),
    body(b"x" * (2 << 20)),
]


@pytest.mark.parametrize("reply", ODD, ids=range(len(ODD)))
async def test_answers_to_notifications(reply: Reply) -> None:
    """C063: every 2xx will do, what else comes is noted, and the next request is not held up."""
    async with RudeHttp(OrdinaryMcp(era="legacy")) as server, linked(server.url) as peer:
        server.on("notifications/initialized", reply)
        await peer.initialize()
        assert await peer.ask("tools/list") == "answered"
        assert peer.told.ends == []
        odd = reply.status == 400 or reply.framing == "raw"
        await eventually(lambda: len(peer.notes) == odd, timeout=5)


async def test_nothing_overtakes_the_end_of_the_handshake() -> None:
    """C063: a legacy server hears `initialized` before anything else of the session."""
    go = Feed()
    async with RudeHttp(OrdinaryMcp(era="legacy")) as server, linked(server.url) as peer:
        server.on("notifications/initialized", Reply(202, (), (), before=(go,)))
        await peer.initialize()
        mid = peer.start("tools/list")
        await server.until(lambda: server.sent("notifications/initialized"))
        await anyio.wait_all_tasks_blocked()
        assert server.sent("tools/list") == []
        go.end()
        assert await peer.ended(mid) == "answered"


TYPES: list[tuple[str | None, str]] = [
    ("application/json; charset=utf-8", "answered"),
    ("Application/JSON", "answered"),
    (None, "answered"),
    ("text/plain", "answered"),
    ("text/html", "answered"),
]


@pytest.mark.parametrize(("kind", "outcome"), TYPES)
async def test_content_types(kind: str | None, outcome: str) -> None:
    """C064: what is a message counts whatever it is called; what is called otherwise is noted."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        server.on("tools/list", lambda r: body(r.result({}), kind))
        assert await peer.ask("tools/list", modern=True) == outcome
        assert bool(peer.notes) == (kind is None or not kind.lower().startswith("application/json"))


async def test_a_stream_by_another_case() -> None:
    """C064: `Text/Event-Stream;charset=UTF-8` is a stream."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        server.on("tools/list", lambda r: stream(event(r.result({})), kind="Text/Event-Stream;charset=UTF-8"))
        assert await peer.ask("tools/list", modern=True) == "answered"


async def test_a_page_instead_of_an_answer() -> None:
    """C064: a page is told as what it is, escaped."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        server.on("tools/list", body(b"<html>\x1b[2JSign in", "text/html"))
        assert await peer.ask("tools/list", modern=True) == "unreadable"
        text = peer.told.text(1)
        assert text.startswith("tools/list: ")
        assert "text/html" in text
        assert "\\x1b" in text


GONE: list[Answer] = [
    body(b'{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}', status=404),
    body(b"Not Found", "text/plain", status=404),
    lambda r: body(r.error(-32000, "Bad Request: No valid session ID provided"), status=400),
]


@pytest.mark.parametrize("reply", GONE, ids=range(len(GONE)))
async def test_a_session_that_is_over(reply: Answer) -> None:
    """C065: five calls at once that are refused for it are given back, and so is what comes after; then the link ends,
    without a DELETE of what is not there."""
    async with RudeHttp(OrdinaryMcp(era="legacy")) as server:
        async with linked(server.url) as peer:
            await peer.initialize()
            await peer.result("tools/list")
            server.on("tools/call", reply, times=None)
            mids = [peer.start("tools/call", CALL) for _ in range(5)]
            await peer.told.until(lambda: peer.told.unanswered_)
            late = peer.start("tools/call", CALL)
            await peer.told.until(lambda: peer.told.ends)
            assert peer.told.ends == [SESSION_GONE]
            assert {peer.told.kind(mid) for mid in [*mids, late]} == {"session"}
            frames = peer.link.returned
            assert sorted(frames) == [*mids, late]
            assert json.loads(frames[mids[0]])["params"] == CALL
            assert frames[mids[0]].endswith(b"}\n")
        assert server.sent("DELETE") == []
        assert len(server.sent("tools/call")) == 5


async def test_a_session_that_is_over_while_a_call_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """C065: a call that is still running is not waited for for ever, and is not given back: it may have had effects."""
    monkeypatch.setattr(streamable_http, "LAST_VERDICTS", 0.1)
    mcp = OrdinaryMcp(era="legacy")
    async with RudeHttp(mcp) as server, linked(server.url) as peer:
        await peer.initialize()
        server.on("tools/call", stream(event(PROGRESS), NEVER))
        running = peer.start("tools/call", CALL)
        await peer.told.until(lambda: peer.told.frames[-1][1] == PROGRESS)
        mcp.expire()
        refused = peer.start("tools/list")
        await peer.told.until(lambda: peer.told.ends)
        assert list(peer.link.returned) == [refused]
        assert peer.told.kind(running) == ""


async def test_404_without_a_session_is_a_plain_refusal() -> None:
    """C065: a server that gave no session cannot have lost one."""
    async with RudeHttp(OrdinaryMcp(era="legacy", sessions=False)) as server, linked(server.url) as peer:
        await peer.initialize()
        server.on("tools/list", empty(404))
        assert await peer.ask("tools/list") == "refused"
        assert await peer.ask("tools/list") == "answered"


@pytest.mark.parametrize(
    ("reply", "probe"),
    [
        (body(b"no", "text/plain", status=400), "answered"),
        (body(b"<html>", "text/html", status=404), "answered"),
        (empty(405), "answered"),
        (empty(202), "answered"),
        (empty(401), "needs_auth"),
        (empty(403), "refused"),
        (empty(429), "rate_limited"),
        (empty(503), "status"),
        (raw(CLOSE), "lost"),
    ],
    ids=range(9),
)
async def test_what_the_probe_hears(reply: Reply, probe: str) -> None:
    """C068, B21: what is no MCP answers the probe with an error; who guards the server, or its trouble, does not."""
    async with RudeHttp(OrdinaryMcp(era="legacy")) as server, linked(server.url) as peer:
        server.on("server/discover", reply, times=None)
        mid = peer.start("server/discover", modern=True)
        assert await peer.ended(mid) == probe
        assert len([request for request in server.requests if request.method == "POST"]) == 1
        if probe == "answered":
            assert peer.told.messages[-1]["error"]["code"] == -32600


async def test_a_probe_that_is_not_answered_is_given_up() -> None:
    """C068: once a legacy server has agreed, the probe that it left open is closed."""
    async with RudeHttp(OrdinaryMcp(era="legacy")) as server, linked(server.url) as peer:
        server.on("server/discover", body(b"x").after(NEVER))
        peer.start("server/discover", modern=True)
        await server.until(lambda: server.requests)
        await peer.initialize()
        await server.until(lambda: server.requests[0].left)


async def test_requests_share_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other they need one; of a burst only some stay to wait for more."""
    monkeypatch.setattr(streamable_http, "MAX_RESTING", 2)
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:

        def working() -> int:
            return len([task for task in asyncio.all_tasks() if "HttpChannel._work" in task.get_name()])

        for _ in range(3):
            assert await peer.ask("tools/list", modern=True) == "answered"
        assert working() == 1
        burst = [peer.start("tools/list", modern=True) for _ in range(5)]
        for mid in burst:
            assert await peer.ended(mid) == "answered"
        await eventually(lambda: working() == 2, timeout=5)


async def test_redirects() -> None:
    """C071: one within the origin is followed, another is refused, and the message says where it led."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        server.on("tools/list", Reply(308, (("Location", "/mcp/"),)))
        assert await peer.ask("tools/list", modern=True) == "answered"
        assert server.requests[-1].path == "/mcp/"
        server.on("tools/list", Reply(302, (("Location", "https://login.example/?token=s3cret"),)))
        assert await peer.ask("tools/list", modern=True) == "refused"
        assert "redirected to https://login.example, which is not followed" in peer.told.text(2)
        assert "s3cret" not in peer.told.text(2)


async def test_one_request_too_many() -> None:
    """C075: a refusal before anything was done is waited out where the server says how long, and not for ever."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        server.on("tools/call", empty(429, ("Retry-After", "1")))
        begun = anyio.current_time()
        assert await peer.ask("tools/call", CALL, modern=True) == "answered"
        assert anyio.current_time() - begun >= 1.0
        assert len(server.requests) == 2


async def test_too_long_a_wait() -> None:
    """C075: an hour is not waited inside a call; it ends now and says how long, and the link remembers."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        server.on("tools/call", empty(429, ("Retry-After", "3600")), times=None)
        assert await peer.ask("tools/call", CALL, modern=True) == "rate_limited"
        assert "retry after 3600 s" in peer.told.text(1)
        assert peer.link.retry_after == 3600.0
        assert len(server.requests) == 1


async def test_too_many_for_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """C075: a server that refuses again and again is asked three times."""
    monkeypatch.setattr(http_request, "RATE_REST", 0.02)
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        server.on("tools/call", empty(429), times=None)
        assert await peer.ask("tools/call", CALL, modern=True) == "rate_limited"
        assert len(server.requests) == 3


async def test_a_call_that_is_refused_is_cancelled_while_it_waits() -> None:
    """C075: who cancels meanwhile hears nothing, and nothing is sent again."""
    async with RudeHttp(OrdinaryMcp(era="legacy")) as server, linked(server.url) as peer:
        await peer.initialize()
        server.on("tools/call", empty(429, ("Retry-After", "20")))
        mid = peer.start("tools/call", CALL)
        assert isinstance(channel := peer.link.channel, HttpChannel)
        assert channel.untouched(mid), "it was not sent yet"
        await server.until(lambda: server.sent("tools/call"))
        await anyio.wait_all_tasks_blocked()
        assert channel.untouched(mid), "it was refused"
        peer.cancel(mid)
        await peer.result("tools/list")
        assert not channel.untouched(mid)
        assert server.sent("notifications/cancelled") == []
        assert len(server.sent("tools/call")) == 1


async def test_503_is_the_servers_trouble() -> None:
    """C075: it is told at once with the time it asks for, and not tried again here: it may have acted."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        server.on("tools/call", empty(503, ("Retry-After", "7")))
        assert await peer.ask("tools/call", CALL, modern=True) == "status"
        assert peer.link.retry_after == 7.0
        assert len(server.requests) == 1


RUDE_STATUSES = [400, 401, 403, 404, 409, 422, 429, 500, 501, 502, 503, 504]


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("status", RUDE_STATUSES)
async def test_a_result_beside_a_status_that_says_error(status: int, modern: bool) -> None:
    """Who has the result was answered: the caller gets it, nothing is sent again, and the session goes on."""
    async with RudeHttp(OrdinaryMcp(era="modern" if modern else "legacy")) as server, linked(server.url) as peer:
        if not modern:
            await peer.initialize()
        headers = (("Retry-After", "1"),)
        for kind in ("application/json", "text/plain"):
            server.on("tools/call", lambda r, k=kind: body(r.result({"done": 1}), k, status=status, headers=headers))  # type: ignore[misc]
            found = await peer.result("tools/call", CALL, modern=modern)
            assert found["result"] == {"done": 1}
        assert await peer.ask("tools/list", modern=modern) == "answered"
        assert len(server.sent("tools/call")) == 2
        assert (peer.told.unanswered_, peer.told.ends) == ([], [])


@pytest.mark.parametrize(
    ("status", "kind", "sent"),
    [(400, "refused", 1), (404, "session", 1), (409, "refused", 1), (429, "rate_limited", 3), (500, "status", 1),
     (503, "status", 1)],
)  # fmt: skip
async def test_a_result_of_another_request_beside_a_status(
    monkeypatch: pytest.MonkeyPatch, status: int, kind: str, sent: int
) -> None:
    """The status decides, as without it; what it says is no matter of the one who asked, whose ids are others."""
    monkeypatch.setattr(http_request, "RATE_REST", 0.02)
    async with RudeHttp(OrdinaryMcp(era="legacy")) as server, linked(server.url) as peer:
        await peer.initialize()
        reply = body(b'{"jsonrpc":"2.0","id":4711,"result":{"done":1}}', status=status)
        server.on("tools/call", reply, times=None)
        mid = peer.start("tools/call", CALL)
        assert await peer.ended(mid) == kind
        assert len(server.sent("tools/call")) == sent
        assert not {"4711", "jsonrpc", "done"} & set(peer.told.text(mid).replace('"', " ").replace(":", " ").split())


@pytest.mark.parametrize(("status", "kind"), [(401, "needs_auth"), (403, "needs_auth")])
async def test_a_result_beside_a_challenge(status: int, kind: str) -> None:
    """Who is sent to a sign-in was not served, whatever stands beside the challenge."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        challenge = ("WWW-Authenticate", 'Bearer error="insufficient_scope"')
        server.on("tools/call", lambda r: body(r.result({}), status=status, headers=(challenge,)))
        assert await peer.ask("tools/call", CALL, modern=True) == kind
        assert await peer.ask("tools/call", CALL, modern=True) == "answered"


@pytest.mark.parametrize("status", [400, 404, 503])
async def test_a_handshake_beside_a_status_that_says_error(status: int) -> None:
    """It agrees on version and session as any other, and is no reason to try an older transport."""
    async with RudeHttp(OrdinaryMcp(era="legacy", sessions=False)) as server, linked(server.url) as peer:
        agreed = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
        headers = (("Mcp-Session-Id", "s-1"),)
        server.on("initialize", lambda r: body(r.result(agreed), status=status, headers=headers))
        await peer.initialize()
        assert await peer.ask("tools/list") == "answered"
        [listed] = server.sent("tools/list")
        assert listed.header("Mcp-Session-Id") == "s-1"
        assert listed.header("MCP-Protocol-Version") == "2025-06-18"


async def test_a_probe_beside_a_status_that_says_error() -> None:
    """C068: a result says that the server is modern, whatever its status."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        for status in (400, 500):
            server.on("server/discover", lambda r, s=status: body(r.result({"supportedVersions": []}), status=s))  # type: ignore[misc]
            assert "result" in await peer.result("server/discover", modern=True)


async def test_slow_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """C077: only the caller's deadline ends a call, be it silent, commented or plain JSON; streams stay open."""
    monkeypatch.setattr(streamable_http, "BEGIN", 0.2)
    monkeypatch.setattr(http_session, "BEGIN", 0.2)
    async with RudeHttp(OrdinaryMcp(era="legacy", standing=True)) as server, linked(server.url) as peer:
        await peer.initialize()
        await server.until(lambda: server.sent("GET"))
        server.on("tools/call", lambda r: body(r.result({})).after(0.6))
        server.on("tools/call", lambda r: stream(comment(), 0.3, comment(), 0.3, event(r.result({}))))
        mids = [peer.start("tools/call", CALL) for _ in range(2)]
        assert [await peer.ended(mid) for mid in mids] == ["answered", "answered"]
        assert len(server.sent("GET")) == 1
        assert not server.sent("GET")[0].left


@pytest.mark.parametrize("method", ["initialize", "ping", "tools/list", "resources/templates/list", "logging/setLevel"])
async def test_a_request_of_its_own_that_does_not_begin(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """C077: what mcphub asks for itself is no work of minutes: its answer begins in time, or it has failed."""
    monkeypatch.setattr(streamable_http, "BEGIN", 0.2)
    async with RudeHttp(OrdinaryMcp(era="legacy")) as server, linked(server.url) as peer:
        server.on(method, body(b"x").after(NEVER))
        assert await peer.ask(method) == "no_response"


@pytest.mark.parametrize(("method", "modern"), [("ping", False), ("server/discover", True)])
async def test_a_question_that_is_not_answered(monkeypatch: pytest.MonkeyPatch, method: str, modern: bool) -> None:
    """C077: an answer that begins and never ends holds none of the requests that only ask whether somebody answers."""
    monkeypatch.setattr(streamable_http, "BEGIN", 0.2)
    async with RudeHttp(OrdinaryMcp(era="modern" if modern else "legacy")) as server, linked(server.url) as peer:
        server.on(method, stream(comment(), NEVER))
        assert await peer.ask(method, modern=modern) == "no_response"
        await server.until(lambda: server.requests[-1].left)


async def test_a_listen_that_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """C077: what nobody has a deadline for must begin in time."""
    monkeypatch.setattr(streamable_http, "BEGIN", 0.2)
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        server.on("subscriptions/listen", body(b"x").after(NEVER))
        assert await peer.ask("subscriptions/listen", {"notifications": {}}, modern=True) == "ended"


# -- F. SSE


@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_a_stream_of_everything(size: int) -> None:
    """C080: the grammar on the wire, in any chunking: one answer, one message that is none, a priming event."""

    def reply(request: Request) -> Reply:
        answer = request.result({"漢": "🙂"})
        head, tail = answer[:16], answer[16:]
        data = (
            b"\xef\xbb\xbf: ping\r\n\r\nretry: 250\r\nid: e1\r\ndata:\r\n\r\n"
            b'data:{"no":"space"}\n\nfoo: bar\nevent: message\r\ndata: ' + head + b"\r\ndata: " + tail + b"\r\n\r\n"
            b"event: other\ndata: x\n\nid: bad\0id\ndata: unfinished"
        )
        return stream(*chopped(data, size))

    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        server.on("tools/list", reply)
        assert await peer.ask("tools/list", modern=True) == "answered"
        assert [data for _, data in peer.told.frames][0] == b'{"no":"space"}'
        assert peer.told.messages[1]["result"] == {"漢": "🙂"}
        assert len(peer.told.frames) == 2


async def test_answers_in_another_order() -> None:
    """C084: each request has its own stream, so nothing can be mixed up; each caller gets its own answer."""
    feeds = [Feed(), Feed(), Feed()]
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        for feed in feeds:
            server.on("tools/call", stream(feed))
        mids = [peer.start("tools/call", {**CALL, "arguments": {"n": n}}, modern=True) for n in range(3)]
        await server.until(lambda: len(server.requests) == 3)
        by_n = {request.params["arguments"]["n"]: (request, feeds[i]) for i, request in enumerate(server.requests)}
        for n in (2, 0, 1):
            request, feed = by_n[n]
            feed.send(event(request.result({"n": n})))
            feed.end()
            assert await peer.ended(mids[n]) == "answered"
        assert [m["result"]["n"] for m in peer.told.messages] == [2, 0, 1]
        assert [current for current, _ in peer.told.frames] == [mids[2], mids[0], mids[1]]


async def test_an_event_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """C050: its own request ends with the reason, the connection goes on."""
    monkeypatch.setattr(streamable_http, "MAX_MESSAGE", 1000)
    monkeypatch.setattr("mcphub.protocol.eventstream.EventDecoder.__init__.__defaults__", (1000,))
    big = b"x" * 2000
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        server.on("tools/call", stream(b"data: " + big, NEVER))
        assert await peer.ask("tools/call", CALL, modern=True) == "unreadable"
        server.on("tools/call", body(big))
        assert await peer.ask("tools/call", CALL, modern=True) == "unreadable"
        assert "larger" in peer.told.text(2)
        assert await peer.ask("tools/list", modern=True) == "answered"


# -- failures


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (raw(CLOSE), "lost"),
        (raw(RESET), "lost"),
        (stream(event(PROGRESS), RESET), "lost"),
        (stream(event(PROGRESS), CLOSE), "lost"),
        (empty(500), "status"),
        (empty(502), "status"),
        (empty(404), "refused"),
        (empty(413), "refused"),
        (empty(401), "needs_auth"),
        (empty(403), "refused"),
        (empty(202), "unreadable"),
        (body(b"{}"), "unreadable"),
    ],
    ids=range(12),
)
async def test_requests_without_an_answer(reply: Reply, kind: str) -> None:
    """C086, K1.4: each ends at once with what is known of it, and the next one is answered: one failure ends no
    link."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        server.on("tools/call", reply)
        assert await peer.ask("tools/call", CALL, modern=True) == kind
        assert await peer.ask("tools/call", CALL, modern=True) == "answered"
        assert peer.told.ends == []


async def test_a_server_that_is_gone() -> None:
    """C091: nothing was sent, and that is said."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server:
        url = server.url
    async with linked(url) as peer:
        assert await peer.ask("tools/call", CALL, modern=True) == "unreachable"
        assert peer.told.text(1) == f"nothing listens at 127.0.0.1:{server.port}"


async def test_a_server_that_comes_back() -> None:
    """C090: after a request was lost on the way, the next answer may be another server's: the lists count as changed,
    once."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        server.on("tools/call", raw(CLOSE))
        assert await peer.ask("tools/call", CALL, modern=True) == "lost"
        for _ in range(2):
            assert await peer.ask("tools/call", CALL, modern=True) == "answered"
        said = [message["method"] for message in peer.told.messages if "method" in message]
        assert said == [f"notifications/{what}/list_changed" for what in ("tools", "prompts", "resources")]


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer s3cret"}])
async def test_a_sign_in(headers: dict[str, str]) -> None:
    """C093: who has no credentials is told how to give some, who has wrong ones that they are, without looking for a
    sign-in; none is shown."""
    async with RudeHttp(lambda request: empty(401)) as server, linked(server.url, headers) as peer:
        assert await peer.ask("initialize", {"protocolVersion": "x"}) == "needs_auth"
        text = peer.told.text(1)
        assert ("wants credentials and offers no sign-in (HTTP 401 Unauthorized, no OAuth" in text) == (not headers)
        assert len(server.sent("GET")) == (0 if headers else 4)
        assert ("refuses the credentials" in text) == bool(headers)
        assert "`headers`" in text
        assert "s3cret" not in text


async def test_credentials_in_the_url() -> None:
    """The user part of a URL is sent as a header; a header of the entry wins."""
    async with RudeHttp(OrdinaryMcp(era="modern")) as server:
        url = server.url.replace("//", "//u:p@")
        for headers, sent in (({}, "Basic dTpw"), ({"authorization": " Bearer x "}, "Bearer x")):
            async with linked(url, headers) as peer:
                await peer.ask("tools/list", modern=True)
            assert server.requests[-1].header("Authorization") == sent


async def test_a_fault_in_the_receiver() -> None:
    """An exception where a message is handed on closes this channel, is reported, and does not go further."""

    def explode(data: bytes) -> None:
        raise ValueError("boom")

    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        peer.told.on_frame = explode
        peer.start("tools/list", modern=True)
        await peer.told.until(lambda: peer.told.ends)
        assert peer.told.ends == ["internal error: ValueError: boom"]
        assert [str(error) for error in peer.errors] == ["boom"]
        peer.errors.clear()


async def test_the_end_of_a_link_ends_all() -> None:
    """What is on its way when a link closes is dropped, streams too, and the server sees it."""
    mcp = OrdinaryMcp(era="legacy", standing=True)
    async with RudeHttp(mcp) as server:
        async with linked(server.url) as peer:
            await peer.initialize()
            await server.until(lambda: mcp.feeds)
            server.on("tools/call", stream(event(PROGRESS), NEVER))
            peer.start("tools/call", CALL)
            await peer.told.until(lambda: peer.told.frames[-1][1] == PROGRESS)
        await server.until(lambda: server.open == 0)
        assert peer.told.ends == [""]
        peer.start("tools/list")
        assert len(server.sent("tools/list")) == 0


# -- answers to the server


async def test_a_question_of_the_server() -> None:
    """A legacy server asks on a request's stream, under that request's id, and is answered by a POST of its own."""
    question = encoded({"jsonrpc": "2.0", "id": "q1", "method": "roots/list"})
    feed = Feed()
    async with RudeHttp(OrdinaryMcp(era="legacy")) as server, linked(server.url) as peer:
        await peer.initialize()
        server.on("tools/call", stream(event(question), feed))
        mid = peer.start("tools/call", CALL)
        await peer.told.until(lambda: peer.told.frames[-1] == (mid, question))
        peer.send({"jsonrpc": "2.0", "id": "q1", "result": {"roots": []}})
        await server.until(lambda: server.sent("response"))
        [answer] = server.sent("response")
        assert answer.message == {"jsonrpc": "2.0", "id": "q1", "result": {"roots": []}}
        assert answer.header("Mcp-Session-Id") == "session-1"
        feed.send(event(server.sent("tools/call")[0].result({})))
        feed.end()
        assert await peer.ended(mid) == "answered"


# -- annotations of tools

ANNOTATED = {
    "name": "echo",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string", "x-mcp-header": "Text"}}},
}
BAD = {"name": "bad", "inputSchema": {"type": "object", "properties": {"x": {"type": "number", "x-mcp-header": "X"}}}}


async def listed(peer: Peer, modern: bool) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
    found = await peer.result("tools/list", modern=modern)
    return peer.link.usable(tuple(encoded(tool) for tool in found["result"]["tools"]))


async def test_annotated_arguments() -> None:
    """B50: what a modern server's tool asks for stands in headers too; a tool that asks for it wrongly is not
    offered."""
    async with RudeHttp(OrdinaryMcp(era="modern", tools=[ANNOTATED, BAD])) as server, linked(server.url) as peer:
        kept, warnings = await listed(peer, modern=True)
        assert [json.loads(tool)["name"] for tool in kept] == ["echo"]
        assert len(warnings) == 1
        assert "tool bad: dropped" in warnings[0]
        await peer.ask("tools/call", {"name": "echo", "arguments": {"text": "é"}}, modern=True)
        assert server.requests[-1].header("Mcp-Param-Text") == "=?base64?w6k=?="
        await peer.ask("tools/call", {"name": "echo", "arguments": {"text": None}}, modern=True)
        assert server.requests[-1].header("Mcp-Param-Text") is None


async def test_annotations_of_a_legacy_server_are_none() -> None:
    """The legacy era knows no annotations: every tool is offered, and no header is added."""
    async with RudeHttp(OrdinaryMcp(era="legacy", tools=[ANNOTATED, BAD])) as server, linked(server.url) as peer:
        await peer.initialize()
        kept, warnings = await listed(peer, modern=False)
        assert (len(kept), warnings) == (2, ())
        await peer.ask("tools/call", CALL)
        assert server.requests[-1].header("Mcp-Param-Text") is None


@pytest.mark.parametrize("changed", [True, False])
async def test_annotations_that_have_changed(changed: bool) -> None:
    """B52: A call that is refused because of its headers is sent again once where a newer list gives it others; where
    it does not, the refusal is the answer."""
    mcp = OrdinaryMcp(era="modern")
    mismatch = -32020
    async with RudeHttp(mcp) as server, linked(server.url) as peer, anyio.create_task_group() as tasks:
        await listed(peer, modern=True)

        def relist(data: bytes) -> None:
            if b"tools/list_changed" in data:
                mcp.tools = [ANNOTATED] if changed else mcp.tools
                tasks.start_soon(listed, peer, True)

        peer.told.on_frame = relist
        server.on("tools/call", lambda r: body(r.error(mismatch, "Mcp-Param-Text is missing"), status=400))
        found = await peer.result("tools/call", CALL, modern=True)
        assert ("result" in found) == changed
        sent = [request.header("Mcp-Param-Text") for request in server.sent("tools/call")]
        assert sent == ([None, "hello"] if changed else [None])


# -- what waits when it ends


@pytest.mark.parametrize("how", ["abort", "cancel"])
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_what_waits_when_it_ends_is_never_sent(monkeypatch: pytest.MonkeyPatch, how: str, era: str) -> None:
    """C089: what waits for its turn, what rests after a refusal and what has just been started is not sent in the
    moment in which all tasks end, and counts as untouched in that moment; what is on its way does not."""
    monkeypatch.setattr(streamable_http, "MAX_RUNNING", 3)
    modern = era == "modern"
    kinds: dict[int, bool] = {}
    async with RudeHttp(OrdinaryMcp(era=era)) as server:
        with anyio.CancelScope() as scope:
            async with linked(server.url) as peer:
                if not modern:
                    await peer.initialize()
                server.on("tools/call", stream(NEVER))
                server.on("tools/call", empty(429, ("Retry-After", "20")))
                server.on("tools/call", body(b"{}"), times=None)
                assert isinstance(channel := peer.link.channel, HttpChannel)
                mids = [peer.start("tools/call", CALL, modern=modern)]
                await server.until(lambda: len(server.sent("tools/call")) == 1)
                mids.append(peer.start("tools/call", CALL, modern=modern))
                await server.until(lambda: len(server.sent("tools/call")) == 2)
                with anyio.fail_after(5):
                    while not channel.untouched(mids[1]):
                        await anyio.lowlevel.checkpoint()
                await anyio.wait_all_tasks_blocked()
                mids += [peer.start("tools/call", CALL, modern=modern) for _ in range(2)]
                lost = peer.told.lost
                monkeypatch.setattr(
                    peer.told, "lost", lambda why: (kinds.update((m, channel.untouched(m)) for m in mids), lost(why))
                )
                if how == "abort":
                    channel.abort()
                    await anyio.wait_all_tasks_blocked()
                else:
                    scope.cancel()
                    await anyio.lowlevel.checkpoint()
        assert [kinds[mid] for mid in (mids[0], mids[1], mids[3])] == [False, True, True]
        sent = [request.message["id"] for request in server.sent("tools/call")]
        assert sent[:2] == mids[:2] and mids[3] not in sent
        assert kinds[mids[2]] is False or mids[2] not in sent


async def test_mcphubs_own_requests_wait_for_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a server lives is asked whatever it does for others; an entry that allows more calls has more on their
    way."""
    monkeypatch.setattr(streamable_http, "MAX_RUNNING", 1)
    async with RudeHttp(OrdinaryMcp(era="modern")) as server, linked(server.url) as peer:
        server.on("tools/call", stream(NEVER), times=None)
        mids = [peer.start("tools/call", CALL, modern=True) for _ in range(2)]
        await server.until(lambda: server.sent("tools/call"))
        assert await peer.ask("tools/list", modern=True) == "answered"
        assert isinstance(channel := peer.link.channel, HttpChannel)
        assert [channel.untouched(mid) for mid in mids] == [False, True]
        channel._most = 2
        peer.start("tools/call", CALL, modern=True)
        await server.until(lambda: len(server.sent("tools/call")) == 2)
