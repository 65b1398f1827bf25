"""Which URLs may be asked or shown while signing in, and which of them are of one place."""

from __future__ import annotations

import ast
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.auth import urls
from mcphub.auth.failures import SignInFailed
from tests.tables import Row, label, rows


def _literal(text: str) -> str:
    """A string, or a sum with one that is repeated, as the table writes it."""
    first, plus, more = text.partition(" + ")
    found = str(ast.literal_eval(first))
    if plus:
        sign, count = more.split(" * ")
        found += operator.mul(ast.literal_eval(sign), int(count))
    return found


@pytest.mark.parametrize("row", rows("auth", "urls"), ids=label)
def test_which_may_be_used(row: Row) -> None:
    """S1, S2, C114: https with a host and nothing that could be read in two ways; http only on this machine, for a
    server that is there too."""
    _, url, plain, why = row.columns
    found = urls.fault(_literal(url), plain=plain == "yes")
    if why == "-":
        assert found == ""
    else:
        assert why in found


@given(st.text(max_size=60), st.booleans())
def test_any_text_is_judged(text: str, plain: bool) -> None:
    """Whatever a server names, nothing is raised but our own failure, and what passes can be taken apart."""
    if not urls.fault(text, plain=plain):
        assert urls.origin(text)[0] in ("http", "https") and urls.host_of(text)
    urls.covers(text, "https://m.example/mcp")
    try:
        assert urls.checked(text, "token_endpoint", plain=plain) == text
    except SignInFailed as e:
        assert "token_endpoint" in str(e)


@pytest.mark.parametrize(
    ("value", "reason", "part"),
    [
        (None, "discovery_failed", "token_endpoint is missing"),
        (7, "discovery_failed", "no string"),
        ("", "discovery_failed", "missing"),
        ("javascript:alert(1)", "unsafe_url", "token_endpoint 'javascript:alert(1)' is not https"),
        ("https://a.example/\x1b[2J", "unsafe_url", "\\x1b"),
    ],
)
def test_a_refusal_names_the_field(value: object, reason: str, part: str) -> None:
    """C114: what is refused is named by its field, and shown without signs that do something to a terminal."""
    with pytest.raises(SignInFailed) as caught:
        urls.checked(value, "token_endpoint", plain=False)
    assert caught.value.reason == reason and part in str(caught.value) and "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("resource", "url", "same"),
    [
        ("https://m.example/mcp", "https://m.example/mcp", True),
        ("https://m.example/mcp/", "https://m.example/mcp", True),
        ("https://m.example/mcp", "https://m.example/mcp/", True),
        ("https://m.example", "https://m.example/mcp", True),
        ("https://m.example/", "https://m.example/a/b", True),
        ("https://m.example/a", "https://m.example/a/b", True),
        ("https://m.example:443/mcp", "https://m.example/mcp", True),
        ("https://M.Example/mcp", "https://m.example/mcp", True),
        ("https://m.example/mc", "https://m.example/mcp", False),
        ("https://m.example/mcp/x", "https://m.example/mcp", False),
        ("https://m.example/other", "https://m.example/mcp", False),
        ("https://m.example/MCP", "https://m.example/mcp", False),
        ("http://m.example/mcp", "https://m.example/mcp", False),
        ("https://m.example:8443/mcp", "https://m.example/mcp", False),
        ("https://evil.example/mcp", "https://m.example/mcp", False),
        ("https://m.example.evil.example/mcp", "https://m.example/mcp", False),
        ("https://m.example/mcp#x", "https://m.example/mcp", False),
        ("https://u@m.example/mcp", "https://m.example/mcp", False),
        ("https://m.example\\@evil.example/mcp", "https://m.example/mcp", False),
        ("https://m.example/mcp\n", "https://m.example/mcp", False),
        ("https://m.example:x/mcp", "https://m.example/mcp", False),
        ("urn:mcp", "https://m.example/mcp", False),
        ("", "https://m.example/mcp", False),
    ],
)
def test_whose_resource_it_is(resource: str, url: str, same: bool) -> None:
    """The same origin, and the server's own path or whole segments at its beginning (RFC 9728, 3.3)."""
    assert urls.covers(resource, url) is same


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://M.example:443/mcp/", "https://m.example/mcp/"),
        ("HTTPS://m.example/MCP?a=B", "https://m.example/MCP?a=B"),
        ("https://u:p@m.example/mcp#x", "https://m.example/mcp"),
        ("http://127.0.0.1:80/mcp", "http://127.0.0.1/mcp"),
        ("http://[::1]:8000/mcp", "http://[::1]:8000/mcp"),
        ("https://m.example", "https://m.example"),
    ],
)
def test_the_resource_of_a_server_that_names_none(url: str, expected: str) -> None:
    """C112: scheme and host in lower case, no default port, no fragment; the path stays what it is."""
    assert urls.canonical(url) == expected


def test_more_parameters() -> None:
    """A query that an endpoint has already stays before ours."""
    assert urls.with_query("https://a.example/x", "b=1") == "https://a.example/x?b=1"
    assert urls.with_query("https://a.example/x?a=1", "b=1") == "https://a.example/x?a=1&b=1"


def test_origins() -> None:
    """The port is that of the scheme where none is named; for people a host is as it was written."""
    assert urls.origin("https://A.example/x") == ("https", "a.example", 443)
    assert urls.origin("http://a.example:8080") == ("http", "a.example", 8080)
    assert urls.origin_text("https://A.example:443/x?y") == "https://A.example:443"
    assert urls.host_of("https://u@A.example:8443/x") == "A.example:8443"
    assert [urls.local(url) for url in ("http://[::1]:9/", "https://x.localhost/", "https://m.example/")] == [
        True, True, False,
    ]
