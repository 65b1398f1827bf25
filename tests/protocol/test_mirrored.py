"""What stands in headers too: names, encodings, the table of each tool. The official SDK is the oracle."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import (
    decode_header_value,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)

from mcphub.protocol import jsonrpc
from mcphub.protocol.jsonrpc import UNSET, Raw
from mcphub.protocol.mirrored import (
    BadAnnotation,
    Told,
    agreed_version,
    custom,
    encode,
    says_mismatch,
    standard,
    table_of,
    tables,
)

VERSION = "2026-07-28"
META: dict[str, Any] = {"io.modelcontextprotocol/protocolVersion": VERSION}


def told(method: str, params: Any = None, **more: Any) -> Told:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, **more}
    if params is not None:
        message["params"] = params
    return Told(jsonrpc.decode(json.dumps(message).encode()))


# -- values


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("plain", b"plain"),
        ("", b""),
        ("a b", b"a b"),
        (" a", b"=?base64?IGE=?="),
        ("a ", b"=?base64?YSA=?="),
        ("a\tb", b"=?base64?YQli?="),
        ("a\r\nX: y", b"=?base64?YQ0KWDogeQ==?="),
        ("é", b"=?base64?w6k=?="),
        ("=?base64?YQ==?=", b"=?base64?PT9iYXNlNjQ/WVE9PT89?="),
        ("=?BASE64?YQ==?=", b"=?BASE64?YQ==?="),
        ("\x7f", b"=?base64?fw==?="),
    ],
)
def test_values(value: str, header: bytes) -> None:
    """What a header cannot carry as it is, and what looks like the encoding, is encoded."""
    assert encode(value) == header
    assert decode_header_value(header.decode("ascii")) == value


@given(st.text())
def test_any_value(value: str) -> None:
    """The official SDK encodes the same, and reads back what went in; a header is never split."""
    header = encode(value)
    assert header == encode_header_value(value).encode("ascii")
    assert decode_header_value(header.decode("ascii")) == value
    assert header == header.strip()
    assert not set(header) & set(range(0x20))


# -- what a message tells


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "t", "arguments": {}}, "t"),
        ("prompts/get", {"name": "p"}, "p"),
        ("resources/read", {"uri": "file:///é"}, "file:///é"),
        ("tasks/get", {"taskId": "7"}, "7"),
        ("tasks/cancel", {"taskId": "7"}, "7"),
        ("tools/list", {"name": "x"}, None),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}}, None),
        ("resources/read", {"name": "x"}, None),
        ("tools/call", None, None),
    ],
)
def test_names(method: str, params: Any, name: str | None) -> None:
    """Mcp-Name repeats the member that the method is about, and no other."""
    assert told(method, params).name == name


def test_a_modern_request() -> None:
    """The version is that of `_meta`, so that header and body cannot differ."""
    found = told("tools/call", {"name": "a b", "arguments": {"x": 1}, "_meta": META})
    assert found.version == VERSION
    assert standard("tools/call", found) == [
        (b"MCP-Protocol-Version", VERSION.encode()),
        (b"Mcp-Method", b"tools/call"),
        (b"Mcp-Name", b"a b"),
    ]


@pytest.mark.parametrize("params", [{}, {"_meta": {}}, {"_meta": {"progressToken": 3}}, [1, 2]])
def test_a_legacy_request(params: Any) -> None:
    """Without the version in `_meta` a message is of the legacy era, whatever else is in it."""
    assert told("tools/call", params).version == ""


def test_params_that_cannot_be_read_do_not_hide_the_era() -> None:
    """A name of a wrong type is for the server to refuse; the request is modern all the same."""
    found = told("tools/call", {"name": 5, "_meta": META})
    assert (found.version, found.name) == (VERSION, None)


def test_cancellations() -> None:
    """A cancellation names a request, other notifications none."""
    assert told("notifications/cancelled", {"requestId": 7, "reason": "x"}).cancels == 7
    assert told("notifications/progress", {"requestId": 7}).cancels is UNSET


@pytest.mark.parametrize(
    ("response", "version"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}', b"2025-06-18"),
        (b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":7}}', b""),
        (b'{"jsonrpc":"2.0","id":1,"error":{}}', b""),
        (b"x", b""),
    ],
)
def test_the_agreed_version(response: bytes, version: bytes) -> None:
    """C067: the version that counts is the one the server answered with."""
    assert agreed_version(response) == version


# -- annotations


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def note(header: Any, kind: Any = "string", **more: Any) -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": header, **more}


GOOD: list[Any] = [
    schema(a=note("Region"), b=note("Count", "integer"), c=note("Flag", "boolean")),
    schema(a=schema(b=schema(c=note("Deep")))),
    schema(a={"type": "string"}),
    schema(**{"x-mcp-header": {"type": "string"}}),
    schema(a={"type": "string", "default": {"x-mcp-header": "1"}, "enum": [{"x-mcp-header": ""}]}),
    schema(a=note("!#$%&'*+-.^_`|~0aZ")),
    {"type": "object", "properties": {"a": note("A")}, "oneOf": [{"required": ["a"]}]},
    None,
    True,
]
BAD: list[Any] = [
    schema(a=note("")),
    schema(a=note("a b")),
    schema(a=note("a\r\nb")),
    schema(a=note("é")),
    schema(a=note("a:")),
    schema(a=note(7)),
    schema(a=note(None)),
    schema(a=note("A", "number")),
    schema(a=note("A", "object")),
    schema(a=note("A", "array")),
    schema(a=note("A", ["string", "null"])),
    schema(a={"x-mcp-header": "A"}),
    schema(a=note("Same"), b=note("sAME")),
    schema(a=note("Same"), b=schema(c=note("same"))),
    {"type": "object", "x-mcp-header": "Root"},
    schema(a={"type": "array", "items": note("A")}),
    schema(a={"type": "array", "prefixItems": [note("A")]}),
    schema(a={"anyOf": [note("A")]}),
    {"oneOf": [schema(a=note("A"))]},
    {"type": "object", "allOf": [schema(a=note("A"))]},
    {"type": "object", "not": schema(a=note("A"))},
    {"type": "object", "if": schema(a=note("A")), "then": True},
    {"type": "object", "$defs": {"x": note("A")}, "properties": {"a": {"$ref": "#/$defs/x"}}},
    {"type": "object", "patternProperties": {".*": note("A")}},
    {"type": "object", "additionalProperties": note("A")},
    {"type": "object", "dependentSchemas": {"a": schema(b=note("A"))}},
]


@pytest.mark.parametrize("found", GOOD, ids=str)
def test_good_annotations(found: Any) -> None:
    """The table has the path and header of each; what stands in data is no annotation. The official SDK agrees."""
    table = table_of(found)
    assert find_invalid_x_mcp_header(found) is None
    assert table == {path: f"Mcp-Param-{token}".encode() for path, token in x_mcp_header_map(found).items()}


@pytest.mark.parametrize("found", BAD, ids=str)
def test_bad_annotations(found: Any) -> None:
    """B51: Every rule of the specification has its counter-example. The official SDK agrees."""
    with pytest.raises(BadAnnotation):
        table_of(found)
    assert find_invalid_x_mcp_header(found) is not None


def test_a_list_of_tools() -> None:
    """A tool with a bad annotation is dropped and named, the others stay with their bytes, whatever they are."""
    good = {"name": "good", "inputSchema": schema(r=note("Region"))}
    bad = {"name": "bad\u001b[2J", "inputSchema": schema(r=note("a b"))}
    plain = b'{ "name" : "plain","inputSchema":{"type":"object"} }'
    broken = b'{"name":"broken","x-mcp-header"'
    hidden = b'{"name":"hidden","inputSchema":{"properties":{"a":{"type":"number","\\u0078-mcp-header":"A"}}}}'
    tools = [json.dumps(good).encode(), json.dumps(bad).encode(), plain, broken, hidden]
    kept, found, warnings = tables(tools)
    assert kept == (tools[0], plain, broken)
    assert found == {"good": {("r",): b"Mcp-Param-Region"}}
    assert len(warnings) == 2
    assert "bad\\x1b[2J" in warnings[0]
    assert "hidden" in warnings[1]


# -- headers of a call

TABLE = table_of(
    schema(
        region=note("Region"),
        count=note("Count", "integer"),
        flag=note("Flag", "boolean"),
        deep=schema(er=schema(x=note("X"), y=note("Y"))),
    )
)


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "eu"}, {"Region": "eu"}),
        ({"region": ""}, {"Region": ""}),
        ({"region": " é"}, {"Region": "=?base64?IMOp?="}),
        ({"region": None, "count": None}, {}),
        ({"count": 7}, {"Count": "7"}),
        ({"count": -(2**53) + 1}, {"Count": "-9007199254740991"}),
        ({"flag": True}, {"Flag": "true"}),
        ({"flag": False}, {"Flag": "false"}),
        ({"deep": {"er": {"x": "1", "y": "2"}}}, {"X": "1", "Y": "2"}),
        ({"deep": {"er": None}}, {}),
        ({"deep": "no object"}, {}),
        ({"region": ["eu"], "count": {"a": 1}}, {}),
        ({}, {}),
    ],
)
def test_headers_of_a_call(arguments: dict[str, Any], headers: dict[str, str]) -> None:
    """One header for each annotated argument that is there and a scalar. The official SDK sends the same."""
    raw = Raw(json.dumps(arguments).encode())
    found = {name.decode(): value.decode() for name, value in custom(TABLE, raw)}
    assert found == {f"Mcp-Param-{name}": value for name, value in headers.items()}
    by_path = {path: header.decode().removeprefix("Mcp-Param-") for path, header in TABLE.items()}
    assert found == mcp_param_headers(by_path, arguments)


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"null", b'{"region":' + b"[" * 5000 + b"}"])
def test_arguments_that_cannot_be_read(raw: bytes) -> None:
    """Whatever the arguments are, the request goes out and the server judges it."""
    assert custom(TABLE, Raw(raw)) == []


@pytest.mark.parametrize(
    ("response", "mismatch"),
    [
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"x"}}', True),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"-32020"}}', False),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":-32020}}', False),
        (b"-32020", False),
    ],
)
def test_a_mismatch(response: bytes, mismatch: bool) -> None:
    """Only the code says it."""
    assert says_mismatch(response) is mismatch
