"""From an ASGI request to a handler and back, through the real server."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator

import anyio
import pytest
from starlette.types import Message

from mcphub.control.access import OpenAccess, OwnerAccess
from mcphub.control.app import build_app
from mcphub.control.hub import Hub
from mcphub.control.routes import Answer, Route, Stream
from mcphub.control.wire import Reply, Request
from mcphub.errors import ControlError
from mcphub.transport.peer import Peer
from tests.fakes.canned_hub import CannedHub
from tests.fakes.raw_http import answer, ask, exchange, request

pytestmark = pytest.mark.anyio


async def test_a_report_comes_back(hub: CannedHub, path: str) -> None:
    """The whole way: socket, route, handler, JSON."""
    status, report = await ask(path, "GET", "/v1/status?workspace=%2Fw&name=time")
    assert status == 200
    assert report == hub.status("/w", "time")


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "kind", "said"),
    [
        ("GET", "/", b"", 404, "not_found", "no such path"),
        ("GET", "/v1/status/", b"", 404, "not_found", "no such path"),
        ("GET", "/v1/%2e%2e/status", b"", 404, "not_found", "no such path"),
        ("GET", "//v1/status", b"", 404, "not_found", "no such path"),
        ("POST", "/v1/status", b"", 405, "method_not_allowed", "takes GET"),
        ("OPTIONS", "/v1/call", b"", 405, "method_not_allowed", "takes POST"),
        ("GET", "/v1/status?name=none", b"", 404, "not_found", "no server none"),
        ("GET", "/v1/status/watch?name=none", b"", 404, "not_found", "no server none"),
        ("GET", "/v1/logs/none", b"", 404, "not_found", "no server none"),
        ("GET", "/v1/logs/time?lines=x", b"", 400, "bad_request", "whole number"),
        ("GET", "/v1/tools?schemas=x", b"", 400, "bad_request", "1 or 0"),
        ("POST", "/v1/call", b"", 400, "bad_request", "tool"),
        ("POST", "/v1/call", b"{", 400, "bad_request", "truncated"),
        ("POST", "/v1/call", b'{"tool":"echo","args":{}}', 400, "bad_request", "args"),
        ("POST", "/v1/call", b'{"tool":"echo","arguments":[]}', 400, "bad_request", "must be a JSON object"),
        ("POST", "/v1/call", b'{"tool":"none"}', 404, "not_found", "no tool none"),
        ("POST", "/v1/reconnect", b'{"name":"none"}', 404, "not_found", "no server none"),
        ("POST", "/v1/approve", b'{"name":"none","digest":""}', 404, "not_found", "none"),
        ("POST", "/v1/reject", b'{"name":"none"}', 404, "not_found", "none"),
    ],
)
async def test_what_cannot_be_answered(
    hub: CannedHub, path: str, method: str, target: str, body: bytes, status: int, kind: str, said: str
) -> None:
    """Every refusal is JSON with a status, a kind and a message that says why; nothing was asked of the hub."""
    got, document = await ask(path, method, target, body)
    assert (got, document["error"]["kind"]) == (status, kind)
    assert said in document["error"]["message"]
    assert [asked for asked in hub.asked if asked[0] != "call"] == []


async def test_a_method_that_is_not_taken_says_which_is(hub: CannedHub, path: str) -> None:
    """RFC 9110, 15.5.6: a 405 names the allowed method; HEAD is not allowed either, since the stream has no end."""
    data = await exchange(path, request("PUT", "/v1/stop"))
    assert b"\r\nallow: POST\r\n" in data
    assert (await exchange(path, request("HEAD", "/v1/status/watch"))).startswith(b"HTTP/1.1 405 ")


async def test_a_bug_is_logged_and_not_shown(
    hub: CannedHub, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The traceback is for the log; the client is told that there is one. The next request is answered as ever."""
    hub.raises = RuntimeError("boom")
    for target in ("/v1/status", "/v1/status/watch"):
        status, document = await ask(path, "GET", target)
        assert (status, document["error"]["kind"]) == (500, "internal")
        assert "boom" not in document["error"]["message"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    assert "boom" in caplog.text
    hub.raises = None
    assert (await ask(path, "GET", "/v1/status"))[0] == 200


async def test_names_and_workspaces_keep_their_bytes(hub: CannedHub, path: str) -> None:
    """A name may hold a slash, a directory may be no UTF-8; of a parameter given twice the first counts."""
    hub.servers[0]["name"] = "a/b 中"
    assert (await ask(path, "GET", "/v1/logs/a%2Fb%20%E4%B8%AD"))[1]["name"] == "a/b 中"
    status, report = await ask(path, "GET", "/v1/status?workspace=/w%FF&name=a/b+%E4%B8%AD&name=other")
    assert (status, len(report["servers"])) == (200, 1)


async def test_curl_works(hub: CannedHub, path: str) -> None:
    """The documented way by hand."""
    command = ["curl", "-sS", "--max-time", "5", "--unix-socket", path, "http://mcphub/v1/status"]
    done = await anyio.run_process(command)
    assert json.loads(done.stdout) == hub.status("", None)
    body = '{"tool":"echo","arguments":{"text":"hi"}}'
    done = await anyio.run_process([*command[:-1], "-d", body, "http://mcphub/v1/call"])
    assert json.loads(done.stdout)["result"]["content"][0]["text"] == "hi"


async def _serve(route: Route, uid: int = 0) -> list[Message]:
    """One GET of the route's path by a peer of that uid, owner 0, without any socket."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": route.method,
        "path": route.path,
        "raw_path": route.path.encode(),
        "query_string": b"",
        "headers": [],
        "state": {"peer": Peer(uid, uid, 1)},
    }
    await build_app(CannedHub(), [route], 0)(scope, receive, send)
    return sent


async def test_access_is_judged_before_the_handler() -> None:
    """Whom the listener let in for reading is refused with 403 where something would change."""
    ran = []

    async def handler(hub: Hub, request: Request) -> Reply:
        ran.append(request.peer.uid)
        return Reply({})

    refused = await _serve(Route("POST", "/x", OwnerAccess(), Answer(handler)), uid=7)
    assert refused[0]["status"] == 403
    assert (await _serve(Route("POST", "/x", OwnerAccess(), Answer(handler))))[0]["status"] == 200
    assert (await _serve(Route("GET", "/x", OpenAccess(), Answer(handler)), uid=7))[0]["status"] == 200
    assert ran == [0, 7]


async def test_a_stream_that_fails_ends_with_the_error() -> None:
    """The status is gone by then, so the last line says it."""

    async def handler(hub: Hub, request: Request) -> AsyncGenerator[object, None]:
        yield {"n": 1}
        yield None
        raise ControlError("the server is gone", status=404)

    sent = await _serve(Route("GET", "/x", OpenAccess(), Stream(handler)))
    lines = b"".join(message["body"] for message in sent[1:]).split(b"\n")
    assert lines[:2] == [b'{"n":1}', b""]
    assert json.loads(lines[2])["error"] == {"message": "the server is gone", "kind": "not_found"}
    assert sent[-1]["more_body"] is False


async def test_what_follows_an_answer_comes_after_it() -> None:
    """The daemon stops once its answer is written."""
    order: list[str] = []

    async def handler(hub: Hub, request: Request) -> Reply:
        order.append("handler")
        return Reply({}, then=lambda: order.append("then"))

    sent = await _serve(Route("POST", "/x", OwnerAccess(), Answer(handler)))
    assert order == ["handler", "then"]
    assert sent[-1]["more_body"] is False


async def test_requests_follow_each_other_on_one_connection(hub: CannedHub, path: str) -> None:
    """HTTP/1.1 keeps the connection unless told otherwise."""
    with anyio.fail_after(5):
        async with await anyio.connect_unix(path) as stream:
            for number in range(3):
                await stream.send(b"GET /v1/nothing%d HTTP/1.1\r\nHost: x\r\n\r\n" % number)
                assert answer(await stream.receive())[0] == 404
