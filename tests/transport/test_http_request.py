"""One request on its way over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcphub.protocol import jsonrpc
from mcphub.protocol.mirrored import Told
from mcphub.transport.http_request import HttpRequest

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
