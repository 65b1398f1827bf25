"""One request on its way over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcphub.protocol import jsonrpc
from mcphub.protocol.http_answer import Refusal
from mcphub.protocol.mirrored import Told
from mcphub.spec import HttpSpec, Origin, Scope, Secret, ServerSpec
from mcphub.transport.http_request import HttpRequest, after_signer, common_headers, rest_of, time_for, worded

pytestmark = pytest.mark.anyio


def made(method: str, params: dict[str, Any]) -> HttpRequest:
    body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).encode()
    return HttpRequest(7, method, body, Told(jsonrpc.decode(body)))


@pytest.mark.parametrize(
    ("method", "params", "modern", "endless"),
    [
        ("tools/call", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}, True, False),
        ("tools/call", {"_meta": {"progressToken": 7}}, False, False),
        ("subscriptions/listen", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}, True, True),
    ],
)
async def test_what_it_is(method: str, params: dict[str, Any], modern: bool, endless: bool) -> None:
    """Its era is that of its `_meta`; one whose stream is meant to stay open takes no place of others."""
    request = made(method, params)
    assert (request.modern, request.endless, request.counted) == (modern, endless, not endless)
    assert not (request.answered or request.sent or request.cancelled)


@pytest.mark.parametrize(
    ("challenge", "kind"),
    [
        ("", "refused"),
        ("Bearer", "refused"),
        ('Bearer error="invalid_token"', "refused"),
        ('Bearer error_description="insufficient_scope, error=\\"insufficient_scope\\""', "refused"),
        ('Bearer error="insufficient_scope", scope="a"', "needs_auth"),
        ('Basic realm="x", Bearer error="insufficient_scope"', "needs_auth"),
    ],
)
def test_what_a_403_means(challenge: str, kind: str) -> None:
    """1.1: more is to be allowed where it says so; anything else is no matter of signing in."""
    found = after_signer(Refusal("refused", "HTTP 403 Forbidden", challenge=challenge, forbidden=True), None)
    assert (found.kind, found.message) == (kind, "HTTP 403 Forbidden")


@pytest.mark.parametrize(
    ("own", "credentials", "names", "signed"),
    [
        ({}, b"", ["Accept-Encoding", "User-Agent"], False),
        ({}, b"Basic eA==", ["Accept-Encoding", "User-Agent", "Authorization"], True),
        ({"authorization": " Bearer t "}, b"Basic eA==", ["Accept-Encoding", "User-Agent", "authorization"], True),
        ({"user-agent": "mine", "X-Key": "k"}, b"", ["Accept-Encoding", "user-agent", "X-Key"], False),
    ],
)
def test_headers_of_every_request(own: dict[str, str], credentials: bytes, names: list[str], signed: bool) -> None:
    """What the entry says comes before ours and before the URL's own credentials, whatever the case of its name."""
    headers, has_credentials = common_headers(own, credentials)
    assert [name.decode() for name, _ in headers] == names
    assert has_credentials is signed
    assert all(value == value.strip() for _, value in headers)


@pytest.mark.parametrize(
    ("kind", "retry_after", "left", "least"),
    [
        ("rate_limited", 2.0, 600.0, 2.0),
        ("rate_limited", 0.0, 600.0, 1.0),
        ("rate_limited", 30.0, 600.0, 30.0),
        ("rate_limited", 31.0, 600.0, None),
        ("rate_limited", 3600.0, 1e9, None),
        ("rate_limited", 20.0, 19.0, None),
        ("rate_limited", 0.0, 0.5, None),
        ("rate_limited", 2.0, -1.0, None),
        ("status", 2.0, 600.0, None),
        ("refused", 0.0, 600.0, None),
        ("needs_auth", 1.0, 600.0, None),
    ],
)
def test_the_rest_before_another_try(kind: str, retry_after: float, left: float, least: float | None) -> None:
    """C075: the time that is asked for, with a fifth of jitter at most, where it is bearable and somebody still waits
    then; else none, so that it is told now."""
    found = [rest_of(Refusal(kind, "x", True, retry_after), left) for _ in range(20)]
    if least is None:
        assert set(found) == {None}
    else:
        assert all(rest is not None and least <= rest <= least * 1.2 for rest in found)


def test_how_long_somebody_waits() -> None:
    """C075: a list is waited for as long as a start may take, a call as long as a call may."""
    spec = ServerSpec("s", Origin(Scope.USER, "/f", "s"), HttpSpec(Secret("http://h/")), 7.0, 9.0)
    assert [time_for(method, spec) for method in ("tools/list", "tools/call", "resources/read")] == [7.0, 9.0, 9.0]


@pytest.mark.parametrize(
    ("kind", "signed", "text"),
    [
        ("refused", False, "tools/list: HTTP 404"),
        ("older", False, "tools/list: HTTP 404"),
        ("lost", False, "HTTP 404"),
        ("needs_auth", False, "wants credentials, and its entry has none; set a header that it accepts"),
        ("needs_auth", True, "refuses the credentials of its entry (HTTP 404); correct them in `headers`"),
    ],
)
def test_how_a_refusal_is_told(kind: str, signed: bool, text: str) -> None:
    """C093: what the server said names the request; a sign-in says what can be done about it."""
    assert worded("tools/list", Refusal(kind, "HTTP 404"), signed).startswith(text)


@pytest.mark.parametrize("kind", ["refused", "status", "rate_limited"])
def test_a_proxy_that_may_have_spoken(kind: str) -> None:
    """C073: an answer that came by way of a proxy which sees it in the clear names that; one that never came does not,
    since it names by itself where it was lost."""
    via = "tools/list: HTTP 502 (by way of the proxy p:3128)"
    assert worded("tools/list", Refusal(kind, "HTTP 502"), False, None, "p:3128") == via
    assert worded("tools/list", Refusal("lost", "gone"), False, None, "p:3128") == "gone"
