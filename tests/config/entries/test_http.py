"""Tables for the entries of servers at a URL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mcphub.config.entries.context import Context
from mcphub.spec import HttpSpec, Scope, Secret, SseSpec, WsSpec
from tests.config.entries.written import CONTEXT, parsed, problem, spec


def http(raw: Mapping[str, Any], scope: Scope = Scope.USER, context: Context = CONTEXT) -> HttpSpec:
    transport = spec({"type": "http", "url": "https://h.example/mcp", **raw}, scope, context).transport
    assert isinstance(transport, HttpSpec)
    return transport


@pytest.mark.parametrize("kind", ["http", "streamable-http", "streamableHttp"])
def test_a_remote_server(kind: str) -> None:
    """C011: a server at a URL by each of its names; its common fields mean what they mean for a program."""
    raw = {
        "type": kind,
        "url": "https://h.example/mcp",
        "headers": {"Authorization": "Bearer ${TOKEN}", "X-Team": "a"},
        "timeout": 5000,
        "era": "legacy",
        "disabledTools": ["x"],
    }
    found = spec(raw)
    assert found.transport == HttpSpec(
        Secret("https://h.example/mcp"),
        {"Authorization": Secret("Bearer tok-5"), "X-Team": Secret("a")},
        "https://h.example/mcp",
    )
    assert (found.call_timeout, found.era, found.disabled_tools) == (5.0, "legacy", ("x",))
    assert parsed(raw).warnings == ()


def test_a_server_of_the_older_transport() -> None:
    """C011: `sse` is HTTP+SSE, with the same fields; that transport carries the legacy era alone, and contradiction is
    an error."""
    raw = {"type": "sse", "url": "https://h.example/sse", "headers": {"Authorization": "Bearer ${TOKEN}"}}
    found = spec(raw)
    headers = {"Authorization": Secret("Bearer tok-5")}
    assert found.transport == SseSpec(Secret("https://h.example/sse"), headers, "https://h.example/sse")
    assert (found.transport.kind, found.era) == ("sse", "legacy")
    assert spec({**raw, "era": "legacy"}) == found
    assert "type 'sse' speaks the legacy era" in problem({**raw, "era": "modern"})
    assert spec({**raw, "type": "http", "era": "legacy"}).key() != found.key()
    assert parsed(raw).warnings == ()


def test_a_server_at_a_websocket() -> None:
    """C183: `ws` has the fields of the others, either era, and addresses of its own kind."""
    raw = {"type": "ws", "url": "wss://u:pw@h.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
    found = spec(raw)
    headers = {"Authorization": Secret("Bearer tok-5")}
    assert found.transport == WsSpec(Secret("wss://u:pw@h.example/mcp"), headers, "wss://***@h.example/mcp")
    assert (found.transport.kind, found.era) == ("ws", "")
    assert parsed(raw).warnings == ()
    [warning] = parsed({"type": "ws", "url": "ws://h.example/"}).warnings
    assert "plain ws to h.example" in warning
    assert "begins with ws:// or wss://" in problem({"type": "ws", "url": "${EMPTY}https://h/"})


def test_secrets_of_a_remote_server_do_not_print() -> None:
    """C025: neither the URL nor a header's value is in a repr."""
    found = spec({"type": "http", "url": "https://u:tok-1@h/?q=tok-2", "headers": {"A": "tok-3"}})
    assert "tok-" not in repr(found)
    assert "https://***@h/?***" in repr(found)


@pytest.mark.parametrize(
    ("raw", "path", "cause"),
    [
        ({"url": "https://${UNSET_U}.example/mcp"}, "url", "missing variable UNSET_U"),
        ({"headers": {"Authorization": "Bearer ${UNSET_T}"}}, "headers.Authorization", "missing variable UNSET_T"),
        ({"url": "${EMPTY}"}, "url", "expected an address that begins with http:// or https://"),
        ({"url": "${EMPTY}ftp://h"}, "url", "expected an address that begins with http:// or https://"),
        ({"url": "https:///mcp"}, "url", "names no host"),
        ({"url": "https://h.example:port/"}, "url", "no URL"),
        ({"url": "https://h.example/a b"}, "url", "no blanks"),
        ({"url": "https://h.example\\@evil.example/"}, "url", "no blanks, backslashes"),
        ({"headers": {"A": "x\r\nB: y"}}, "headers.A", "line break"),
        ({"headers": {"A": "x\ny\n"}}, "headers.A", "line break"),
        ({"headers": {"A": "x\u0000"}}, "headers.A", "NUL"),
        ({"headers": {"A": "x\u001b"}}, "headers.A", "control character"),
        ({"headers": {"A": "\u6f22"}}, "headers.A", "Latin-1"),
        ({"headers": {"A b": "x"}}, 'headers."A b"', "no header can have this name"),
        ({"headers": {"": "x"}}, 'headers.""', "no header can have this name"),
        ({"headers": {"A": 1}}, "headers.A", "expected a string, found a number; put it in quotes"),
        ({"headers": {"A": None}}, "headers.A", "expected a string, found null"),
        ({"headers": {"A": "1", "a": "2"}}, "headers.a", "stands twice"),
        ({"headers": ["A: b"]}, "headers", "expected an object, found a list"),
    ],
)
def test_wrong_remote_entries(raw: dict[str, Any], path: str, cause: str) -> None:
    """C020, C098: what cannot be sent as it is written fails that server by name, and nothing is sent."""
    said = problem({"type": "http", "url": "https://h.example/mcp", **raw})
    assert f"mcpServers.s.{path}" in said
    assert cause in said


def test_a_line_break_at_the_end_of_a_header() -> None:
    """A secret read from a file ends in a line break more often than not: it is not sent, and that is said."""
    context = Context({"T": "tok-1\r\n"}, "/e")
    raw = {"type": "http", "url": "https://h/", "headers": {"A": "Bearer ${T}"}}
    assert http({"headers": {"A": "Bearer ${T}"}}, context=context).headers == {"A": "Bearer tok-1"}
    [warning] = parsed(raw, context=context).warnings
    assert "headers.A: the line break" in warning
    assert "tok-1" not in warning


@pytest.mark.parametrize(
    ("raw", "key", "text"),
    [
        ({"args": []}, "args", "not used by a remote server"),
        ({"env": {"A": "1"}}, "env", "not used by a remote server"),
        ({"cwd": "/"}, "cwd", "not used by a remote server"),
        ({"oauth": {"clientID": "x"}}, "oauth.clientID", "unknown key"),
        ({"headers": {"Sec-WebSocket-Key": "x"}}, "headers.Sec-WebSocket-Key", "mcphub sets this header itself"),
        ({"hedaers": {}}, "hedaers", "unknown key"),
        ({"headers": {"content-TYPE": "x"}}, "headers.content-TYPE", "mcphub sets this header itself"),
        ({"headers": {"Mcp-Session-Id": "x"}}, "headers.Mcp-Session-Id", "mcphub sets this header itself"),
        ({"headers": {"Mcp-Param-A": "x"}}, "headers.Mcp-Param-A", "mcphub sets this header itself"),
        ({"headers": {"Host": "evil.example"}}, "headers.Host", "mcphub sets this header itself"),
        ({"url": "http://h.example/"}, "url", "plain http to h.example"),
        ({"url": "http://u:${TOKEN}@${TOKEN}.example/"}, "url", "plain http to ${TOKEN}.example"),
    ],
)
def test_warnings_of_remote_entries(raw: dict[str, Any], key: str, text: str) -> None:
    """What has no effect, and what is sent in the open, is said once."""
    [warning] = parsed({"type": "http", "url": "https://h.example/mcp", **raw}).warnings
    assert f"mcpServers.s.{key}: " in warning
    assert text in warning


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/", "http://localhost/mcp", "http://[::1]:80/", "https://h/"])
def test_plain_http_on_this_machine(url: str) -> None:
    """What does not leave the machine needs no TLS."""
    assert parsed({"type": "http", "url": url}).warnings == ()


def test_headers_that_mcphub_sets_are_not_sent() -> None:
    """A second Content-Length would let a request be split."""
    assert http({"headers": {"Content-Length": "5", "X": "y"}}).headers == {"X": "y"}


def test_a_project_cannot_send_a_credential_away() -> None:
    """A repository's URL and headers get no variable that is a credential by its name, set or not; yours do."""
    env = {"GITHUB_TOKEN": "tok-1", "MY_API_KEY": "tok-2", "TEAM": "blue", "HTTPS_PROXY": "http://u:tok-3@p"}
    context = Context(env, "/e")
    raw = {
        "type": "http",
        "url": "https://h.example/${TEAM}?k=${MY_API_KEY}",
        "headers": {
            "Authorization": "Bearer ${GITHUB_TOKEN}",
            "X": "${TEAM}${UNSET_SECRET}${HTTPS_PROXY:-own}",
            "Y": "${MONKEY:-m}",
        },
    }
    found = spec(raw, Scope.PROJECT, context)
    assert isinstance(found.transport, HttpSpec)
    assert str(found.transport.url) == "https://h.example/blue?k="
    assert found.transport.headers == {"Authorization": "Bearer ", "X": "blueown", "Y": "m"}
    assert found.workspace == "/w"
    said = parsed(raw, Scope.PROJECT, context).warnings
    assert {name for name in [*env, "UNSET_SECRET"] if any(f"{name} is a credential" in text for text in said)} == {
        "GITHUB_TOKEN",
        "MY_API_KEY",
        "HTTPS_PROXY",
        "UNSET_SECRET",
    }
    mine = {key: value for key, value in raw.items() if key != "headers"}
    transport = spec(mine, Scope.USER, context).transport
    assert isinstance(transport, HttpSpec)
    assert str(transport.url).endswith("k=tok-2")


def test_the_key_of_a_remote_server() -> None:
    """C009: two tenants at one URL differ by their headers and are two servers; the order of headers is nothing."""

    def key(**raw: Any) -> str:
        return spec({"type": "http", "url": "https://h/", **raw}).key().digest

    assert key() != key(headers={"A": "1"})
    assert key(headers={"A": "1"}) != key(headers={"A": "2"})
    assert key(headers={"A": "1", "B": "2"}) == key(headers={"B": "2", "A": "1"})
    assert key() != key(url="https://h/?t=1")
    assert key(type="streamable-http") == key()
