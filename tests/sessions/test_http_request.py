"""Tables for the look at an HTTP request: who may come in, which era it is, what contradicts itself."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.protocol.envelope import CAPABILITIES_KEY, VERSION_KEY
from mcphub.protocol.jsonrpc import Raw
from mcphub.sessions.http_request import (
    Head,
    Message,
    Refused,
    accepts,
    arguments_differ,
    endpoint_path,
    read_head,
    read_message,
    unwrapped,
)

TOKEN = "the-token-of-this-test-0123456789"
BOTH = "application/json, text/event-stream"


def head(method: str = "POST", path: str = "/mcp", *, token: str | None = None, **headers: Any) -> Head | Refused:
    """What is said of a request; a header `mcp_name` is `mcp-name`, a list comes several times."""
    named: dict[str, str | list[str]] = {"accept": BOTH, "host": "localhost", **headers}
    raw = [
        (name.replace("_", "-").encode(), one.encode("latin-1"))
        for name, value in named.items()
        for one in ([value] if isinstance(value, str) else value)
    ]
    return read_head(method, path, raw, token)


def status(found: Head | Refused) -> int:
    return found.status if isinstance(found, Refused) else 200


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://localhost", 200),
        ("http://localhost:3000", 200),
        ("https://127.0.0.1:1", 200),
        ("http://[::1]:8080", 200),
        ("HTTP://LOCALHOST", 200),
        ("https://evil.example", 403),
        ("null", 403),
        ("", 403),
        ("http://localhost.evil.example", 403),
        ("http://evil.example/localhost", 403),
        ("http://127.0.0.1.evil.example", 403),
        ("http://localhost@evil.example", 403),
        ("http://localhost:80@evil.example", 403),
        ("file://", 403),
        ("http://localhost, https://evil.example", 403),
    ],
)
def test_origin(origin: str, expected: int) -> None:
    """C180: a page of the network asks in vain, whether a token is needed or not."""
    assert status(head(origin=origin)) == expected
    assert status(head(origin=origin, token=TOKEN, authorization=f"Bearer {TOKEN}")) == expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", 200),
        ("localhost:7712", 200),
        ("127.0.0.1:7712", 200),
        ("[::1]:7712", 200),
        ("evil.example", 403),
        ("evil.example:7712", 403),
        ("127.0.0.1.evil.example", 403),
        ("127.0.0.2", 403),
        ("0.0.0.0", 403),
        ("localhost:7712, evil.example", 403),
        ("localhost ", 200),
        ("", 403),
    ],
)
def test_host(host: str, expected: int) -> None:
    """C180: a name that was bent to this machine is not served; behind the kernel's word the name does not matter."""
    assert status(head(host=host, token=TOKEN, authorization=f"Bearer {TOKEN}")) == expected
    assert status(head(host=host)) == 200


def test_two_hosts_are_no_host() -> None:
    """What two readers could read differently is refused."""
    assert status(head(host=["localhost", "evil.example"], token=TOKEN, authorization=f"Bearer {TOKEN}")) == 403
    assert status(head(origin=["http://localhost", "https://evil.example"])) == 403


@pytest.mark.parametrize(
    ("path", "authorization", "expected"),
    [
        ("/mcp", f"Bearer {TOKEN}", 200),
        ("/mcp", f"bearer  {TOKEN}", 200),
        (f"/t/{TOKEN}/mcp", "", 200),
        (f"/t/{TOKEN}/mcp", "Bearer of another service", 200),
        ("/mcp", "", 401),
        ("/mcp", TOKEN, 401),
        ("/mcp", f"Basic {TOKEN}", 401),
        ("/mcp", f"Bearer {TOKEN[:-1]}", 401),
        ("/mcp", f"Bearer {TOKEN}x", 401),
        ("/t//mcp", "", 401),
        ("/t/x/mcp", "", 401),
        ("/nothing", "", 401),
        ("/nothing", f"Bearer {TOKEN}", 404),
        (f"/t/{TOKEN}/nothing", "", 404),
        (f"/t/{TOKEN}", "", 404),
        ("/t/\xff/mcp", "", 401),
    ],
)
def test_token(path: str, authorization: str, expected: int) -> None:
    """The token opens, in a header or in the path; whoever has none learns nothing, not even which paths there are."""
    found = head(path=path, token=TOKEN, authorization=authorization)
    assert status(found) == expected
    if isinstance(found, Refused):
        assert TOKEN not in found.message
        assert ("www-authenticate" in found.headers) == (expected == 401)


@pytest.mark.parametrize(
    ("path", "workspace", "server"),
    [
        ("/mcp", "", ""),
        ("/mcp/", "", ""),
        ("/mcp/w/a1b2", "a1b2", ""),
        ("/mcp/s/db", "", "db"),
        ("/mcp/w/a1b2/s/db", "a1b2", "db"),
        ("/t/x/mcp/w/a1b2/s/db/", "a1b2", "db"),
    ],
)
def test_paths(path: str, workspace: str, server: str) -> None:
    """The path says what the agent sees; a token in it does not change which endpoint it is."""
    found = head(path=path)
    assert isinstance(found, Head)
    assert (found.workspace, found.server) == (workspace, server)
    assert found.path == endpoint_path(workspace, server)


@pytest.mark.parametrize(
    "path", ["/", "", "/mcp/x", "/mcp/w", "/mcp/w/", "/mcp/s/", "/mcp/s/a/w/b", "/MCP", "/mcpx", "/x/mcp", "/mcp/w/a/b"]
)
def test_no_path(path: str) -> None:
    """Nothing else is there."""
    assert status(head(path=path)) == 404


@pytest.mark.parametrize("method", ["PUT", "HEAD", "OPTIONS", "PATCH", "TRACE"])
def test_methods(method: str) -> None:
    """The answer says which there are; a preflight of a browser is refused like any other."""
    found = head(method)
    assert isinstance(found, Refused)
    assert (found.status, found.headers["allow"]) == (405, "POST, GET, DELETE")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_get_and_delete_need_a_session(method: str) -> None:
    """Row 16: without one they are methods that the modern endpoint does not have."""
    found = head(method)
    assert isinstance(found, Refused)
    assert (found.status, found.headers["allow"]) == (405, "POST")
    assert status(head(method, mcp_session_id="x")) == 200


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (BOTH, 200),
        ("*/*", 200),
        ("application/*;q=0.5, TEXT/*", 200),
        ("text/event-stream;q=0.9,application/json;charset=utf-8", 200),
        ("application/json", 406),
        ("text/event-stream", 406),
        ("text/html", 406),
        ("", 406),
        ("application/json, text/event-stream;q=0", 406),
        ("application/json, text/event-stream;q=0.0", 406),
    ],
)
def test_accept(accept: str, expected: int) -> None:
    """A client that cannot take both forms is told before anything happens."""
    assert status(head(accept=accept)) == expected


def test_accept_of_a_stream() -> None:
    """A GET brings events only, a DELETE nothing; a header that is missing allows everything."""
    assert status(head("GET", accept="text/event-stream", mcp_session_id="x")) == 200
    assert status(head("GET", accept="application/json", mcp_session_id="x")) == 406
    assert status(head("DELETE", accept="text/html", mcp_session_id="x")) == 200
    assert accepts(None, "application/json")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("", 415),
    ],
)
def test_content_type(kind: str, expected: int) -> None:
    """What a form of a page can send without asking first is not read."""
    assert status(head(content_type=kind)) == expected


# -- bodies


def meta(version: Any = "2026-07-28", capabilities: Any = {}, **more: Any) -> dict[str, Any]:  # noqa: B006
    return {VERSION_KEY: version, CAPABILITIES_KEY: capabilities, **more}


def read(message: Any, **headers: Any) -> Message:
    found = head(**headers)
    assert isinstance(found, Head)
    return read_message(message if isinstance(message, bytes) else json.dumps(message).encode(), found)


def call(name: str = "t", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "_meta": meta(), **params}}


MIRRORED: dict[str, str | list[str]] = {
    "mcp_protocol_version": "2026-07-28",
    "mcp_method": "tools/call",
    "mcp_name": "t",
}


@pytest.mark.parametrize(
    ("message", "kind", "mid"),
    [
        ({"jsonrpc": "2.0", "id": 7, "method": "tools/list"}, "request", b"7"),
        ({"jsonrpc": "2.0", "id": "7", "method": "tools/list"}, "request", b'"7"'),
        ({"jsonrpc": "2.0", "id": None, "method": "tools/list"}, "request", b"null"),
        ({"jsonrpc": "2.0", "method": "notifications/initialized"}, "notification", b"null"),
        ({"jsonrpc": "2.0", "id": 7, "result": {}}, "response", b"null"),
        ([], "batch", b"null"),
        (b"", "unreadable", b"null"),
        (b"{", "unreadable", b"null"),
        (b"\xff", "unreadable", b"null"),
        ({"jsonrpc": "1.0", "id": 1, "method": "x"}, "unreadable", b"null"),
        (b"[" * 100_000, "batch", b"null"),
    ],
)
def test_kinds(message: Any, kind: str, mid: bytes) -> None:
    """Every body is something, and without a sign of the modern era it is legacy."""
    found = read(message)
    assert (found.kind, found.mid, found.modern) == (kind, mid, False)
    assert (found.refusal is not None) == (kind == "unreadable")


def test_the_handshake_is_legacy_whatever_a_header_says() -> None:
    """A client that probed with another version first may still send its header."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    assert not read(message, mcp_protocol_version="2026-07-28").modern


def test_a_modern_handshake_does_not_exist() -> None:
    """Row 8: in the modern era `initialize` is one more unknown method."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"_meta": meta()}}
    found = read(message, mcp_protocol_version="2026-07-28", mcp_method="initialize")
    assert found.refusal is not None
    assert (found.modern, found.refusal[0]) == (True, -32601)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mcp_method": "tools/call "},
        {"mcp_name": " t\t"},
        {"mcp_name": "=?base64?dA==?="},
        {"mcp_session_id": "x"},
        {"mcp_param_x": "1"},
    ],
)
def test_headers_that_agree(changes: dict[str, str]) -> None:
    """Row 13: outer white space, wrapped values, foreign headers and names in any case change nothing."""
    found = read(call(), **{**MIRRORED, **changes})
    assert (found.modern, found.refusal) == (True, None)


def test_header_names_in_any_case() -> None:
    """Row 13: names are compared without case."""
    raw = [(name.replace("_", "-").title().encode(), str(value).encode()) for name, value in MIRRORED.items()]
    found = read_head("POST", "/mcp", raw, None)
    assert isinstance(found, Head)
    assert read_message(json.dumps(call()).encode(), found).refusal is None


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"mcp_protocol_version": None}, "MCP-Protocol-Version header is missing"),
        ({"mcp_protocol_version": "2025-11-25"}, "'2025-11-25' does not match the body's '2026-07-28'"),
        ({"mcp_protocol_version": ["2026-07-28", "2026-07-28"]}, "came more than once"),
        ({"mcp_method": None}, "Mcp-Method header is missing"),
        ({"mcp_method": "TOOLS/CALL"}, "'TOOLS/CALL' does not match"),
        ({"mcp_method": "=?base64?dG9vbHMvY2FsbA==?="}, "does not match"),
        ({"mcp_name": None}, "Mcp-Name header is missing"),
        ({"mcp_name": "T"}, "'T' does not match the body's 't'"),
        ({"mcp_name": ["t", "t"]}, "came more than once"),
        ({"mcp_name": "=?base64?dA=?="}, "broken base64"),
        ({"mcp_name": "=?base64?dB==?="}, "broken base64"),
        ({"mcp_name": "=?base64?/w==?="}, "broken base64"),
        ({"mcp_name": "=?BASE64?dA==?="}, "does not match"),
        ({"mcp_name": "\xfc"}, "characters that it must not"),
    ],
)
def test_headers_that_differ(changes: dict[str, Any], part: str) -> None:
    """Rows 12 and 13: a required header that is missing, malformed, or unequal to the body."""
    headers = {name: value for name, value in {**MIRRORED, **changes}.items() if value is not None}
    found = read(call(), **headers)
    assert found.refusal is not None
    code, text = found.refusal
    assert (found.modern, code) == (True, -32020)
    assert part in text


@pytest.mark.parametrize(
    ("method", "member"),
    [("prompts/get", "name"), ("resources/read", "uri"), ("tasks/get", "taskId"), ("tools/list", "")],
)
def test_what_mcp_name_repeats(method: str, member: str) -> None:
    """Each method has its own member; a method without one needs no header."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta(), member or "x": "file:///\u6f22"}}
    headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": method}
    assert (read(message, **headers).refusal is None) == (not member)
    wrapped = base64.b64encode("file:///\u6f22".encode()).decode()
    assert read(message, **headers, mcp_name=f"=?base64?{wrapped}?=").refusal is None


@pytest.mark.parametrize(
    "found",
    [
        {"_meta": {VERSION_KEY: "2026-07-28"}},
        {"_meta": {CAPABILITIES_KEY: {}}},
        {"_meta": meta(version=1)},
        {"_meta": meta(capabilities=[])},
        {"_meta": meta(**{"io.modelcontextprotocol/logLevel": "loud"})},
    ],
)
def test_required_meta(found: dict[str, Any]) -> None:
    """Row 2: a required key that is missing or wrong is said first."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": found}
    seen = read(message)
    assert seen.refusal is not None
    assert (seen.modern, seen.refusal[0]) == (True, -32602)


@pytest.mark.parametrize("params", [{}, {"_meta": {}}, {"_meta": None}, {"_meta": 1}, [], None])
def test_a_modern_header_needs_a_modern_body(params: Any) -> None:
    """Row 2: whoever says 2026-07-28 in the header, and nothing in the body, has forgotten `_meta`."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping", **({"params": params} if params is not None else {})}
    seen = read(message, mcp_protocol_version="2026-07-28", mcp_method="ping")
    assert seen.refusal is not None
    assert (seen.modern, seen.refusal[0]) == (True, -32602)


@pytest.mark.parametrize("version", ["1900-01-01", "2025-11-25"])
def test_an_unknown_version_is_not_a_mismatch(version: str) -> None:
    """Rows 3 and 4: the gateway refuses it, with the versions there are; a header that differs comes first."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta(version)}}
    assert read(message, mcp_protocol_version=version, mcp_method="tools/list").refusal is None
    seen = read(message, mcp_protocol_version="2026-07-28", mcp_method="tools/list")
    assert seen.refusal is not None
    assert seen.refusal[0] == -32020


SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "plain": {"type": "string"},
        },
    }
).encode()


@pytest.mark.parametrize(
    ("arguments", "headers", "part"),
    [
        ({"plain": "x"}, {}, None),
        ({"region": "eu", "deep": {"n": 7}}, {"mcp_param_region": "eu", "mcp_param_n": "7"}, None),
        ({"region": "eu"}, {"MCP-Param-REGION": "eu", "mcp_param_other": "x"}, None),
        ({"region": " \u6f22"}, {"mcp_param_region": "=?base64?IOa8og==?="}, None),
        ({"region": None}, {}, None),
        ({"region": 1.5}, {}, None),
        ({"region": ["eu"]}, {}, None),
        ({"region": ""}, {"mcp_param_region": ""}, None),
        ({"region": "eu"}, {}, "Mcp-Param-Region header is missing"),
        ({"region": ""}, {}, "Mcp-Param-Region header is missing"),
        ({"deep": {"n": 7}}, {}, "Mcp-Param-N header is missing"),
        ({"region": "eu"}, {"mcp_param_region": "EU"}, "'EU' does not match the body's 'eu'"),
        ({"region": "eu"}, {"mcp_param_region": ["eu", "eu"]}, "came more than once"),
        ({"region": "eu"}, {"mcp_param_region": "=?base64?ZXU?="}, "broken base64"),
        ({}, {"mcp_param_region": "eu"}, "came without such an argument"),
        ({"region": None}, {"mcp_param_region": "eu"}, "came without such an argument"),
    ],
)
def test_arguments_in_headers(arguments: dict[str, Any], headers: dict[str, Any], part: str | None) -> None:
    """SEP-2243: an annotated argument stands in its header too, and the two must agree."""
    found = head(**headers)
    assert isinstance(found, Head)
    refused = arguments_differ(found, SCHEMA, Raw(json.dumps(arguments).encode()))
    assert (refused is None) == (part is None)
    if refused is not None and part is not None:
        assert refused[0] == -32020
        assert part in refused[1]


@pytest.mark.parametrize("schema", [b"{}", b'{"x-mcp-header":"a"}', b'{"a":"mcp-header"}', b"mcp-header"])
def test_schemas_without_a_table(schema: bytes) -> None:
    """Where no argument is annotated, or the annotation is not valid, nobody mirrors."""
    found = head(mcp_param_a="x")
    assert isinstance(found, Head)
    assert arguments_differ(found, schema, Raw(b'{"a":1}')) is None


@given(st.text())
def test_wrapping_is_reversible(text: str) -> None:
    """SEP-2243: every value survives its way through a header."""
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        return
    assert unwrapped(f"=?base64?{base64.b64encode(data).decode()}?=") == text
