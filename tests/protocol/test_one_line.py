"""Bodies that are laid out over several lines."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.protocol import jsonrpc
from mcphub.protocol.jsonrpc import NotAMessage
from mcphub.protocol.one_line import on_one_line


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (b'{\r\n "a": "\\n"\n}', b'{"a":"\\n"}'),
        (b'\n[1,\r2.50e+3,"\\u00e9\\/"]\n', b'[1,2.50e+3,"\\u00e9\\/"]'),
        (b'{"a":1,\n"a":2}', b'{"a":1,"a":2}'),
        (b'{"a":\n"\\ud800"}', b'{"a": "\\ud800"}'),
        (b"no JSON\nat all", b"no JSON at all"),
    ],
)
def test_laid_out(body: bytes, line: bytes) -> None:
    """C049: white space between the tokens goes, every value keeps its bytes; what JSON allows but a strict reader does
    not stays readable too."""
    assert on_one_line(body) == line


def test_nothing_to_do() -> None:
    """A body without a line break is not copied."""
    body = b'{ "a" : 1 }'
    assert on_one_line(body) is body


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("inside", [b'"a%b"', b'"\\ud800%b"', b'"\\%b"', b'"%b', b'{"k%b":1}', b'["",""a%b"]'])
def test_a_line_break_inside_a_string(end: bytes, inside: bytes) -> None:
    """C049: it is not JSON, so it must not become JSON of another text, nor break the framing behind it."""
    line = on_one_line(b'{"jsonrpc":"2.0","id":1,"method":"x",\n"params":{"a":%b}}' % (inside % end))
    assert b"\n" not in line and b"\r" not in line
    with pytest.raises(NotAMessage) as caught:
        jsonrpc.decode(line)
    assert caught.value.kind == "json"


@given(st.binary(max_size=20) | st.text('{}[]",:\\\r\n 1nua', max_size=20).map(str.encode))
def test_it_makes_nothing_readable(body: bytes) -> None:
    """C049: whatever comes, it is one line after, and JSON only if it was, of the same value."""
    line = on_one_line(body)
    assert b"\n" not in line and b"\r" not in line
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return
    assert json.loads(body) == found


def test_large_and_deep_bodies() -> None:
    """C049: megabytes of rows, laid out, are a message in a moment, whatever their number of values; deep nesting is
    refused as it is in one line."""
    rows = [{"id": n, "name": f"name {n}", "tags": ["a", "b"]} for n in range(250_000)]
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"rows": rows}}, indent=1).encode()
    assert body.count(b",") > jsonrpc.MAX_COMMAS
    start = time.perf_counter()
    assert jsonrpc.decode(on_one_line(body)).method == "x"
    assert time.perf_counter() - start < 10
    deep = b'{"jsonrpc":"2.0","id":1,"method":"x",\n"params":%b}' % (b"[" * 5000 + b"]" * 5000)
    with pytest.raises(NotAMessage):
        jsonrpc.decode(on_one_line(deep))
