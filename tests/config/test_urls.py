"""What a URL and a header may be, and what of them is secret."""

from __future__ import annotations

import pytest

from mcphub.config.urls import (
    header_fault,
    is_credential,
    open_host,
    secrets_of,
    url_fault,
    value_fault,
    written_by_us,
)
from mcphub.spec import HttpSpec, Secret


@pytest.mark.parametrize(
    "url", ["https://h", "http://127.0.0.1:8000/mcp", "HTTPS://h/", "https://u:p@[::1]:9/?a=b", "https://ü.example/"]
)
def test_good_urls(url: str) -> None:
    """What can be reached is accepted as it stands."""
    assert url_fault(url) == ""


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h.example",
        "ftp://h/",
        "https://",
        "https://h:99999/",
        "https://[::1/",
        "https://h/a b",
        "https://h/\n",
        "https://h\\x/",
        "javascript:alert(1)",
    ],
)
def test_bad_urls(url: str) -> None:
    """What cannot be reached, or reads differently to different programs, is refused."""
    assert url_fault(url)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://h.example:80/", "h.example"),
        ("https://h.example/", ""),
        ("http://localhost/", ""),
        ("http://127.0.0.1/", ""),
        ("http://[::1]/", ""),
        ("http://localhost.example/", "localhost.example"),
        ("http://[", ""),
    ],
)
def test_hosts_in_the_open(url: str, host: str) -> None:
    """Plain http matters where it leaves the machine."""
    assert open_host(url) == host


@pytest.mark.parametrize("name", ["X", "x-api-key", "Authorization", "!#$%&'*+-.^_`|~9"])
def test_header_names(name: str) -> None:
    """A token of RFC 9110."""
    assert header_fault(name) == ""
    assert not written_by_us(name)


@pytest.mark.parametrize("name", ["", "a b", "a:", "a\r\nb", "é", "a\0"])
def test_bad_header_names(name: str) -> None:
    """What is no token could end the header and begin another."""
    assert header_fault(name)


@pytest.mark.parametrize("name", ["content-length", "Transfer-Encoding", "MCP-PROTOCOL-VERSION", "mcp-param-x"])
def test_headers_of_ours(name: str) -> None:
    """Whatever their case."""
    assert written_by_us(name)


@pytest.mark.parametrize(
    ("value", "good"),
    [
        ("", True),
        ("Bearer abc", True),
        ("a\tb", True),
        ("é", True),
        ("a\nb", False),
        ("a\r", False),
        ("\0", False),
        ("\x1b", False),
        ("\x7f", False),
        ("漢", False),
    ],
)
def test_header_values(value: str, good: bool) -> None:
    """What would break the request is refused, without repeating what may be a secret."""
    fault = value_fault(value)
    assert (fault == "") == good
    assert value not in fault or value == ""


@pytest.mark.parametrize(
    "name",
    [
        "GITHUB_TOKEN",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "AWS_BEARER_TOKEN_BEDROCK",
        "NPM_TOKEN",
        "HTTPS_PROXY",
        "https_proxy",
        "DB_PASSWORD",
        "SENTRY_DSN",
        "GH_PAT",
        "token",
        "AWS_SECRET_ACCESS_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
    ],
)
def test_credentials_by_name(name: str) -> None:
    """A variable that says what it is."""
    assert is_credential(name)


@pytest.mark.parametrize("name", ["HOME", "TEAM", "MONKEY", "PATH", "KEYBOARD", "AUTHOR", "COMPATIBLE", "TOKENS2", ""])
def test_others_by_name(name: str) -> None:
    """A word inside a word says nothing."""
    assert not is_credential(name)


def test_what_is_secret() -> None:
    """C025: values of headers with and without the word in front, user, password, and values of the query."""
    spec = HttpSpec(
        Secret("https://us%20er:pw@h.example/path?a=q1&b=q2"), {"Authorization": Secret("Bearer t1"), "X": Secret("t2")}
    )
    found = secrets_of(spec)
    assert {"Bearer t1", "t1", "t2", "us er", "pw", "q1", "q2"} <= found
    assert not found & {"", "h.example", "path", "a"}
