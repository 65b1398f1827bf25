"""What an HTTP answer to one message means."""

from __future__ import annotations

import json
import re
from email.utils import formatdate
from typing import Any

import pytest

from mcphub.protocol.http_answer import (
    SESSION_GONE,
    Head,
    Refusal,
    addressed,
    has_result,
    older,
    one_line,
    reply,
    said_in,
    seconds,
    shown,
)

NOW = 1_800_000_000.0
RESULT = b'{"jsonrpc":"2.0","id":7,"result":{}}'
ERROR = b'{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no"}}'
HTML = b"<html><title>Sign in</title>\x1b[2J</html>"
JSON = "application/json"


def answer(
    status: int,
    body: bytes = b"",
    kind: str = JSON,
    *,
    session: bool = False,
    probing: bool = False,
    retry_after: str = "",
    location: str = "",
    challenge: str = "",
) -> bytes | Refusal:
    head = Head(status, kind, retry_after, location, challenge)
    return reply(7, head, body, session=session, probing=probing, now=NOW)


def refused(found: bytes | Refusal) -> Refusal:
    assert isinstance(found, Refusal), found
    return found


# -- media types


@pytest.mark.parametrize(
    "kind",
    [
        JSON,
        "application/json; charset=utf-8",
        "Application/JSON;charset=UTF-8",
        "",
        "text/plain",
        "application/vnd.api+json",
        "text/html",
    ],
)
@pytest.mark.parametrize("body", [RESULT, b" \r\n" + RESULT + b"\n", b"\xef\xbb\xbf" + RESULT])
def test_json_by_any_name(kind: str, body: bytes) -> None:
    """C064: what is a JSON-RPC message counts, whatever its content type says and whatever is around it."""
    assert answer(200, body, kind) == RESULT


@pytest.mark.parametrize("kind", ["text/event-stream", "Text/Event-Stream;charset=UTF-8", " text/event-stream ; x=y"])
def test_streams(kind: str) -> None:
    """C064: parameters and case say nothing; only a 2xx is a stream."""
    assert Head(200, kind).streams
    assert not Head(500, kind).streams
    assert not Head(200, "text/plain").streams


def test_a_page_is_no_answer() -> None:
    """C064: a page says its status, type and beginning, escaped, and that it may be one to sign in on."""
    found = refused(answer(200, HTML, "text/html; charset=utf-8"))
    assert found.kind == "unreadable"
    assert "HTTP 200 OK" in found.message
    assert "text/html" in found.message
    assert "sign-in page" in found.message
    assert "\\x1b[2J" in found.message
    assert "\x1b" not in found.message


def test_long_bodies_are_cut() -> None:
    """A message holds 200 characters of a body at most, and no half of one."""
    assert shown("é".encode() * 500).count("\\xe9") == 200
    assert len(shown(b"x" * 10_000)) < 220


@pytest.mark.parametrize("status", [200, 400, 500])
@pytest.mark.parametrize("kind", ["text/plain", JSON])
@pytest.mark.parametrize(
    "body", [b"<p>%b</p>", b'{"error":"%b"}', b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"%b"}}']
)
def test_secrets_are_taken_out_before_anything_is_cut(status: int, kind: str, body: bytes) -> None:
    """S12: half of a secret is one too; an error stays the JSON that it was. What comes with a status of success and is
    a message is the server's own."""
    secret = "q7" * 400

    def clean(text: str) -> str:
        return text.replace(secret, "***")

    said = body % secret.encode()
    found = reply(7, Head(status, kind), said, session=False, probing=False, now=NOW, clean=clean)
    told = found.message if isinstance(found, Refusal) else found.decode()
    if status == 200 and body.startswith(b'{"jsonrpc'):
        assert secret in told
    else:
        assert "q7q7" not in told and ("***" in told) == (status != 200 or body[:1] != b"{")
        assert isinstance(found, Refusal) or json.loads(found)["error"]["message"] == "***"


def test_an_error_that_cannot_be_cleaned() -> None:
    """Nothing is shown of one that is no JSON any more without its secret, nor of one of a megabyte."""
    for body, clean in ((b'{"error":"k3y"}', lambda text: text.replace("k3y", '"')), (b"x" * (1 << 21), str)):
        found = reply(7, Head(400, JSON), body, session=False, probing=False, now=NOW, clean=clean)
        assert refused(found).message == "HTTP 400 Bad Request"


@pytest.mark.parametrize("status", [200, 202, 204])
def test_nothing_is_no_answer_to_a_request(status: int) -> None:
    """C063: a request that is merely accepted has no answer."""
    found = refused(answer(status))
    assert found.kind == "unreadable"
    assert str(status) in found.message


@pytest.mark.parametrize("body", [b'{"hello":1}', b'{"jsonrpc":"2.0"', b"{}", b'{"jsonrpc":"1.0","id":7,"result":{}}'])
def test_json_that_is_no_message(body: bytes) -> None:
    """C054: what is not strict JSON-RPC is unreadable, and says why."""
    assert refused(answer(200, body)).kind == "unreadable"


# -- statuses


@pytest.mark.parametrize("status", [400, 404, 409, 413, 422, 500, 501])
def test_a_message_counts_whatever_the_status(status: int) -> None:
    """A JSON-RPC error is the answer even beside a status that says error: none is fixed for most of them."""
    assert answer(status, ERROR) == ERROR
    assert answer(status, ERROR, "text/plain") == ERROR


@pytest.mark.parametrize("status", [401, 403, 429, 502, 503, 504])
def test_guards_and_gateways_do_not_speak_for_the_server(status: int) -> None:
    """What stands in front of a server may write JSON-RPC too; its status counts."""
    assert isinstance(answer(status, ERROR), Refusal)


@pytest.mark.parametrize(
    ("status", "kind", "later"),
    [
        (400, "refused", False),
        (401, "needs_auth", False),
        (403, "refused", False),
        (404, "refused", False),
        (405, "refused", False),
        (408, "rate_limited", True),
        (413, "refused", False),
        (429, "rate_limited", True),
        (431, "refused", False),
        (500, "status", True),
        (501, "refused", False),
        (502, "status", True),
        (503, "status", True),
        (504, "status", True),
        (599, "status", True),
    ],
)
@pytest.mark.parametrize("body", [b"", HTML, b'{"error":"x"}'])
def test_statuses(status: int, kind: str, later: bool, body: bytes) -> None:
    """C086: 4xx is final but for those that say later; 5xx may pass, and may have acted."""
    found = refused(answer(status, body, "text/html"))
    assert (found.kind, found.later) == (kind, later)
    assert found.message.startswith(f"HTTP {status}")


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 405, 408, 409, 429, 500, 501, 502, 503, 504])
@pytest.mark.parametrize("body", [RESULT, b'{"id":"7","jsonrpc":"2.0","result":null}', b"[" + RESULT + b"]"])
@pytest.mark.parametrize("session", [False, True])
def test_a_result_counts_whatever_the_status(status: int, body: bytes, session: bool) -> None:
    """Who has the result of this very request was answered: no status makes that another call, or another session."""
    assert answer(status, body, session=session) == body
    assert answer(status, body, "text/html", probing=True, retry_after="1") == body


def test_a_result_is_the_servers_own() -> None:
    """It is handed on as it is beside an error too, however long it is."""
    body = b'{"jsonrpc":"2.0","id":7,"result":{"k3y":"%b"}}' % (b"x" * (2 << 20))

    def clean(text: str) -> str:
        return text.replace("k3y", "***")

    assert reply(7, Head(500, JSON), body, session=False, probing=False, now=NOW, clean=clean) == body


@pytest.mark.parametrize(("status", "kind"), [(401, "needs_auth"), (403, "refused")])
def test_a_challenge_is_no_answer(status: int, kind: str) -> None:
    """Whoever is to sign in was not served, whatever stands beside the challenge."""
    found = refused(answer(status, RESULT, challenge="Bearer"))
    assert (found.kind, found.challenge, found.message[:8]) == (kind, "Bearer", f"HTTP {status}")


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "refused"), (404, "refused"), (429, "rate_limited"), (500, "status"), (503, "status")]
)
@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":70,"result":{}}',
        b'{"jsonrpc":"2.0","id":null,"result":{}}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"jsonrpc":"1.0","id":7,"result":{}}',
        b'{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":"x"}}',
        b'{"jsonrpc":"2.0","id":7,"result":{}',
        b'{"jsonrpc":"2.0","id":7,"result":{"x":"\xff"}}',
        b'{"id":7,"result":{}}',
    ],
)
def test_what_is_no_result_of_this_request(status: int, kind: str, body: bytes) -> None:
    """The status decides; and nothing of the body is told, which names requests that its reader knows nothing of."""
    assert not has_result(7, body)
    found = refused(answer(status, body))
    assert found.kind == kind
    assert re.fullmatch(rf"HTTP {status} [A-Za-z ]+", found.message)


def test_nothing_was_asked() -> None:
    """What no request asked for has no result."""
    assert not has_result(0, b'{"jsonrpc":"2.0","id":0,"result":{}}')


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", ""),
        (b"Bad Gateway", "'Bad Gateway'"),
        (b'{"error":"x","id":70}', """'{"error":"x","id":70}'"""),
        (b'{"error":"x","id":7}', ""),
        (b'{"error":"x","requestId": "7"}', ""),
        (ERROR, "'no'"),
        (b'{"jsonrpc":"2.0","id":8,"error":"down"}', "'down'"),
        (b'{"jsonrpc":"2.0","id":8,"error":{"code":1}}', ""),
        (RESULT, ""),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}', ""),
        (b"[" + RESULT + b"]", ""),
        (b"data: " + RESULT, ""),
        (b'{"seen":"{\\"jsonrpc\\":\\"2.0\\",\\"id\\":7}"}', ""),
        (b"<p>{&quot;jsonrpc&quot;:&quot;2.0&quot;}", ""),
        (b"<p>{&quot;id&quot;:7}", ""),
        (b"no jsonrpc here", "'no jsonrpc here'"),
        (b"x" * 190 + RESULT, ""),
    ],
)
def test_what_is_told_of_a_body(body: bytes, told: str) -> None:
    """A JSON-RPC error says its message; whatever else repeats a message, or the id of the request, says nothing."""
    assert said_in(7, body) == told
    assert "7" not in refused(answer(200, b"x" + body)).message.replace("70", "")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_that_are_not_followed(status: int) -> None:
    """C071: it is said where to, which often is a page to sign in on."""
    found = refused(answer(status, location="https://login.example"))
    assert found.kind == "refused"
    assert "redirected to https://login.example" in found.message


def test_a_loop_of_redirects() -> None:
    """C071: it is said how many there were, and not that the last one was not followed."""
    head = Head(307, location="http://here", followed=5)
    found = reply(7, head, b"", session=False, probing=False, now=NOW)
    assert isinstance(found, Refusal)
    said = "HTTP 307 Temporary Redirect: redirected again after 5 redirects in a row, which are too many"
    assert (found.kind, found.message) == ("refused", said)


# -- ids


def test_an_error_without_an_id_is_for_this_request() -> None:
    """C065: a server that refuses before it reads the id says null; on this answer it can be no other's."""
    for member in (b'"id":null,', b""):
        body = b'{"jsonrpc":"2.0",' + member + b'"error":{"code":-32000,"message":"x","data":[1]}}'
        found = answer(400, body)
        assert isinstance(found, bytes)
        assert json.loads(found) == {"jsonrpc": "2.0", "id": 7, "error": {"code": -32000, "message": "x", "data": [1]}}


@pytest.mark.parametrize(
    ("message", "answers"),
    [
        (RESULT, True),
        (ERROR, True),
        (b'{"id":7,"result":{},"jsonrpc":"2.0"}', True),
        (b'{"jsonrpc":"2.0","id":"7","result":{}}', True),
        (b'{"jsonrpc":"2.0","id":70,"result":{}}', False),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping"}', False),
        (b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"result":1}}', False),
        (b'{"no":"rpc"}', False),
        (b"[]", False),
        (b"x", False),
    ],
)
def test_what_answers_a_request(message: bytes, answers: bool) -> None:
    """Only the response to the request ends it; what comes before on its stream does not."""
    assert addressed(7, message) == (message, answers)


# -- sessions


@pytest.mark.parametrize(
    ("status", "body", "gone"),
    [
        (404, b"", True),
        (404, HTML, True),
        (404, b'{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}', True),
        (404, b'{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found"}}', False),
        (404, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}', False),
        (404, b'{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"Session not found"}}', True),
        (404, b'{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no such thing"}}', False),
        (404, b'{"jsonrpc":"2.0","id":"7","error":{"code":-32002,"message":"Resource not found"}}', False),
        (404, b'{"jsonrpc":"2.0","id":8,"error":{"code":-32602,"message":"no such thing"}}', True),
        (404, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}', True),
        (404, RESULT, False),
        (400, b'{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"the session token is invalid"}}', False),
        (400, b'{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"unknown session"}}', False),
        (400, b'{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"No valid session ID provided"}}', True),
        (400, b'{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"Session expired"}}', True),
        (400, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"unknown session"}}', True),
        (400, b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session"},"id":null}', True),
        (400, b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"}}', True),
        (400, b'{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no such session type"}}', False),
        (400, ERROR, False),
        (400, b"", False),
        (200, RESULT, False),
    ],
)
def test_a_session_that_is_gone(status: int, body: bytes, gone: bool) -> None:
    """C065: 404, or the words of the SDKs in a 400, to a request that named a session; never without one, and never an
    ordinary error that names the request."""
    found = answer(status, body, session=True)
    assert (isinstance(found, Refusal) and found.kind == "session") == gone
    if gone:
        assert refused(found).message == SESSION_GONE
    without = answer(status, body)
    assert not (isinstance(without, Refusal) and without.kind == "session")


# -- the probe


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, b"", ""),
        (400, b"Bad Request", "text/plain"),
        (404, HTML, "text/html"),
        (405, b"", ""),
        (406, b"{}", JSON),
        (501, b"", ""),
        (200, b"", JSON),
        (202, b"", ""),
        (200, HTML, "text/html"),
        (200, b'{"hello":1}', JSON),
        (302, b"", ""),
    ],
)
def test_the_probe_learns_that_a_server_is_old(status: int, body: bytes, kind: str) -> None:
    """C068: whatever has nothing to do with MCP becomes an error, and the probe falls back to initialize."""
    found = answer(status, body, kind, probing=True)
    assert isinstance(found, bytes)
    said = json.loads(found)
    assert (said["id"], said["error"]["code"]) == (7, -32600)
    assert str(status) in said["error"]["message"]


@pytest.mark.parametrize("status", [401, 403, 429, 500, 502, 503, 504, 408])
def test_the_probe_learns_nothing_of_the_era(status: int) -> None:
    """C068: who must sign in, is too many, or meets trouble has heard nothing about the era."""
    assert isinstance(answer(status, probing=True), Refusal)


@pytest.mark.parametrize("code", [-32020, -32021, -32022, -32601, -32000])
def test_errors_reach_the_probe(code: int) -> None:
    """C068: the probe itself tells a modern error from another."""
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "error": {"code": code, "message": "x"}}).encode()
    assert json.loads(answer(400, body, probing=True))["error"]["code"] == code  # type: ignore[arg-type]


# -- the older transport


@pytest.mark.parametrize(
    ("status", "body", "older_"),
    [
        (404, b"", True),
        (404, b"<pre>Cannot POST /sse</pre>", True),
        (405, b'{"detail":"Method Not Allowed"}', True),
        (405, b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"Method not allowed."},"id":null}', True),
        (404, b'{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found"}}', True),
        (400, b"session_id is required", True),
        (400, b'{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"Unsupported protocol version"}}', False),
        (404, b'{"jsonrpc":"2.0","id":7,"error":{"code":-32022,"message":"Unsupported protocol version"}}', False),
        (400, RESULT, False),
        (404, RESULT, False),
        (405, RESULT, False),
        (400, b'{"jsonrpc":"2.0","id":8,"result":{}}', True),
        (401, b"", False),
        (403, b"", False),
        (406, b"", False),
        (301, b"", False),
        (501, b"", False),
        (503, b"", False),
        (200, HTML, False),
        (200, RESULT, False),
        (404, b"[]", False),
    ],
)
def test_where_the_older_transport_is_tried(status: int, body: bytes, older_: bool) -> None:
    """C082: where `initialize` has nothing to be posted to; not where the server itself answers it, nor where it is in
    trouble or wants a sign-in. What was said is kept."""
    found = answer(status, body)
    judged = older(Head(status, JSON), found)
    if older_:
        assert refused(judged).kind == "older"
        assert str(status) in refused(judged).message
    else:
        assert judged is found


# -- Retry-After


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("2", 2.0),
        (" 120 ", 120.0),
        ("0", 0.0),
        ("3600", 3600.0),
        ("999999999999999", 86_400.0),
        ("-1", 0.0),
        ("1.5", 0.0),
        ("soon", 0.0),
        ("", 0.0),
        (formatdate(NOW + 30, usegmt=True), 30.0),
        (formatdate(NOW - 30, usegmt=True), 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400.0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 0.0),
        ("٣", 0.0),
    ],
)
def test_retry_after(header: str, found: float) -> None:
    """C075: seconds or a date, bounded; what is neither says nothing."""
    assert seconds(header, NOW) == found


def test_retry_after_is_told() -> None:
    """C075: a person reads how long it is."""
    found = refused(answer(429, retry_after="3600"))
    assert found.retry_after == 3600.0
    assert "retry after 3600 s" in found.message


# -- line breaks


def test_a_line_break_inside_a_string() -> None:
    """C049: it is no JSON, and does not become some by another character in its place."""
    pretty = b'{"jsonrpc":"2.0",\n"id":7,"result":{"a":"b\nc"}}'
    assert refused(answer(200, pretty)).kind == "unreadable"
    assert refused(answer(200, pretty.replace(b"\n", b"\r"))).kind == "unreadable"
    assert b"\n" not in one_line(pretty)


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"])
def test_a_pretty_message_is_one_line(ends: bytes) -> None:
    """C049: a message printed over several lines, or sent in several data lines, cannot break the framing behind it."""
    pretty = json.dumps({"jsonrpc": "2.0", "id": 7, "result": {"a": [1, "x\\n"]}}, indent=2).encode()
    body = ends.join(pretty.split(b"\n")) + ends
    found: Any = one_line(body)
    assert not set(found) & set(b"\r\n")
    assert json.loads(found) == json.loads(body)
    assert answer(200, body) == found
