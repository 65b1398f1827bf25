"""Where a document about the sign-in is looked for, and what of it is believed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcphub.protocol.protected_resource import WELL_KNOWN, authorization_server, places

URL = "https://m.example/public/mcp?x=1"
GOOD: dict[str, Any] = {"resource": "https://m.example/public/mcp", "authorization_servers": ["https://as.example/t1"]}


@pytest.mark.parametrize(
    ("url", "found"),
    [
        (URL, [f"{WELL_KNOWN}/public/mcp?x=1", WELL_KNOWN]),
        ("https://m.example/mcp/", [f"{WELL_KNOWN}/mcp", WELL_KNOWN]),
        ("https://m.example/", [WELL_KNOWN]),
        ("https://m.example", [WELL_KNOWN]),
        ("http://m.example?x=1", [WELL_KNOWN]),
    ],
)
def test_places(url: str, found: list[str]) -> None:
    """C093: below the well-known path first, then that path alone."""
    assert list(places(url)) == found


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({}, "https://as.example"),
        ({"resource": "https://m.example/"}, "https://as.example"),
        ({"resource": "https://m.example:443/public"}, "https://as.example"),
        ({"resource": "https://m.example/pub"}, ""),
        ({"resource": "https://other.example/public/mcp"}, ""),
        ({"resource": "http://m.example/public/mcp"}, ""),
        ({"resource": "https://m.example/public/mcp#x"}, ""),
        ({"resource": 5}, ""),
        ({"authorization_servers": []}, ""),
        ({"authorization_servers": None}, ""),
        ({"authorization_servers": [5]}, ""),
        ({"authorization_servers": ["javascript:alert(1)"]}, ""),
        ({"authorization_servers": ["https://"]}, ""),
        ({"authorization_servers": ["https://u:s3cret@as.example:8443/x?y"]}, "https://as.example:8443"),
        ({"authorization_servers": ["https://as.example:x/"]}, ""),
        ({"authorization_servers": ["https://as.example", "https://b.example"]}, "https://as.example"),
        ({"authorization_servers": ["https://ünì.example/"]}, "https://\\xfcn\\xec.example"),
        ({"authorization_servers": ["https://[::1/"]}, ""),
    ],
)
def test_documents(more: dict[str, Any], found: str) -> None:
    """C093: one of this very resource that names a server; what is shown of that is its origin, escaped."""
    assert authorization_server(json.dumps(GOOD | more).encode(), URL) == found


@pytest.mark.parametrize("document", [b"", b"null", b"<html>", b"[]", b"{}", b"[" * 5000, b'{"resource":"\xff"}'])
def test_what_is_no_document(document: bytes) -> None:
    """C093: anything else says nothing, and nothing is raised."""
    assert authorization_server(document, URL) == ""
