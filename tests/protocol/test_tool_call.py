"""A call read in one go is the one that the careful way would have read, or it is left to it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.protocol import jsonrpc, tool_call

CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "s__t", "arguments": {"a": [1, "x"]}}}
META = {"name": "s__t", "arguments": {}, "_meta": {"progressToken": 1}}


def compact(message: Any) -> bytes:
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("view", [bytes, memoryview])
def test_a_compact_call(view: Any) -> None:
    """Its parts are the bytes that were sent, whatever the order of the members."""
    for message in (CALL, dict(reversed(CALL.items()))):
        call = tool_call.read(view(compact(message)))
        assert call is not None
        assert (call[0], call[1].name, bytes(call[1].arguments)) == (b"7", "s__t", b'{"a":[1,"x"]}')
        assert not call[1].meta


def test_with_meta() -> None:
    """`_meta` is kept as it came."""
    call = tool_call.read(compact({**CALL, "params": META}))
    assert call is not None
    assert bytes(call[1].meta) == b'{"progressToken":1}'


def test_params_with_blanks() -> None:
    """Some write the envelope themselves and leave the params to Python's json."""
    params = json.dumps(CALL["params"]).encode()
    line = compact({**CALL, "params": 0}).replace(b":0}", b":" + params + b"}")
    call = tool_call.read(line)
    assert call is not None
    assert bytes(call[1].arguments) == b'{"a": [1, "x"]}'


@pytest.mark.parametrize(
    "line",
    [
        json.dumps(CALL).encode(),
        compact({**CALL, "id": "7"}),
        compact({**CALL, "id": None}),
        compact({**CALL, "id": 7.0}),
        compact({key: value for key, value in CALL.items() if key != "id"}),
        compact({**CALL, "method": "tools/list"}),
        compact({**CALL, "jsonrpc": "1.0"}),
        compact({**CALL, "params": {"name": "s__t"}}),
        compact({**CALL, "params": {"arguments": {}}}),
        compact({**CALL, "params": {"name": 5, "arguments": {}}}),
        compact({**CALL, "params": {**META, "requestState": "x"}}),
        compact({**CALL, "params": {**META, "inputResponses": {}}}),
        compact({**CALL, "params": [1]}),
        compact({**CALL, "result": {}}),
        compact({**CALL, "x": 5}),
        compact([CALL]),
        compact(CALL).replace(b'"id":7', b'"id":7,"id":8'),
        compact(CALL).replace(b'"name"', b'"name":"t","name"'),
        compact(CALL).replace(b'"arguments"', b'"arguments":1,"arguments"'),
        compact(CALL).replace(b',"arguments":{"a":[1,"x"]}', b"").replace(b'"id":7', b'"id":1234567,"id":7'),
        compact(CALL)[:-1],
        b"",
        b"{}",
        b"[" * 100_000,
    ],
)
def test_any_other_line(line: bytes) -> None:
    """What is not written in the usual way, or says more than is read here, is left to the careful way."""
    assert tool_call.read(line) is None


TEXT = st.text(st.characters(codec="utf-8"), max_size=9)


@given(st.integers(0, 10**18), TEXT, st.dictionaries(TEXT, TEXT, max_size=3), st.booleans())
def test_both_ways_agree(mid: int, name: str, arguments: dict[str, str], escaped: bool) -> None:
    """Where a line is read in one go, the careful way gives the same."""
    message = {**CALL, "id": mid, "params": {"name": name, "arguments": arguments}}
    line = json.dumps(message, separators=(",", ":")).encode() if escaped else compact(message)
    call = tool_call.read(line)
    if name.isascii() and name.isprintable() and '"' not in name and "\\" not in name:
        assert call is not None
    if call is not None:
        careful = jsonrpc.decode(line)
        assert (careful.id, careful.method) == (int(call[0]), "tools/call")
        params = json.loads(bytes(careful.params))
        assert params["name"] == call[1].name == name
        assert params["arguments"] == json.loads(bytes(call[1].arguments)) == arguments
