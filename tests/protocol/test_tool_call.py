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


# --- several ----------------------------------------------------------------------------------------------------------


def call_line(mid: int, arguments: Any = None) -> bytes:
    return compact({**CALL, "id": mid, "params": {"name": "s__t", "arguments": {} if arguments is None else arguments}})


def each_by_itself(lines: list[bytes]) -> None:
    """What several lines give together is what `read` gives for each, or nothing."""
    found = tool_call.several(lines)
    if found is None:
        return
    name, mids, arguments = found
    assert len(mids) == len(arguments) == len(lines)
    for line, mid, given_ in zip(lines, mids, arguments, strict=True):
        alone = tool_call.read(line)
        assert alone is not None and line.isascii()
        assert (alone[0], alone[1].name, bytes(alone[1].arguments)) == (mid, name, bytes(given_))
        assert not alone[1].meta
        assert mid == b"%d" % json.loads(line)["id"]


def test_calls_of_one_tool() -> None:
    """They come with the tool's name, and each with its own id and the bytes of its arguments, in their order."""
    lines = [call_line(7, {"a": [1, "x"]}), call_line(-8), compact(dict(reversed(CALL.items()))), call_line(2**70)]
    found = tool_call.several(lines)
    assert found is not None
    assert (found[0], found[1]) == ("s__t", [b"7", b"-8", b"7", b"%d" % 2**70])
    assert [bytes(one) for one in found[2]] == [b'{"a":[1,"x"]}', b"{}", b'{"a":[1,"x"]}', b"{}"]
    each_by_itself(lines)


def test_calls_whose_params_have_blanks() -> None:
    """As those of one call may, and also beside others that have none."""
    params = json.dumps(CALL["params"]).encode()
    blanks = compact({**CALL, "params": 0}).replace(b":0}", b":" + params + b"}")
    found = tool_call.several([blanks, call_line(8), blanks])
    assert found is not None
    assert [bytes(one) for one in found[2]] == [b'{"a": [1, "x"]}', b"{}", b'{"a": [1, "x"]}']


def in_params(members: bytes) -> bytes:
    return compact(CALL)[:-2] + b"," + members + b"}}"


@pytest.mark.parametrize(
    "odd",
    [
        json.dumps(CALL).encode(),
        compact({**CALL, "params": {"name": "s__u", "arguments": {}}}),
        compact({**CALL, "params": {"name": "s__", "arguments": {}}}),
        compact({**CALL, "params": META}),
        in_params(b'"_meta":{}'),
        in_params(b'"_meta":null'),
        in_params(b'"_meta":0'),
        in_params(b'"inputResponses":{}'),
        in_params(b'"requestState":"x"'),
        in_params(b'"task":{}'),
        in_params(b'"":0'),
        in_params(b'"name":"s__t"'),
        in_params(b'"name":"s__u"'),
        in_params(b'"arguments":{"b":1}'),
        in_params(b'"arguments":0'),
        compact({**CALL, "params": {"name": "s__t"}}),
        compact({**CALL, "params": {"arguments": {}}}),
        compact({**CALL, "params": {"name": None, "arguments": {}}}),
        compact({**CALL, "params": {}}),
        compact({**CALL, "params": None}),
        compact({**CALL, "id": "7"}),
        compact({**CALL, "id": None}),
        compact({**CALL, "id": True}),
        compact(CALL).replace(b'"id":7', b'"id":7.0'),
        compact(CALL).replace(b'"id":7', b'"id":1e5'),
        compact(CALL).replace(b'"id":7', b'"id":07'),
        compact(CALL).replace(b'"id":7', b'"id":' + b"9" * 5000),
        compact(CALL).replace(b'"id":7', b'"id":7,"id":7'),
        compact(CALL).replace(b'"id":7', b'"id":123456789,"id":7'),
        compact(CALL).replace(b'"id":7,', b""),
        compact(CALL).replace(b'"id"', b'"jsonrpc":"2.0","id"'),
        compact(CALL).replace(b'"id"', b'"":0,"id"'),
        compact({**CALL, "jsonrpc": "1.0"}),
        compact({**CALL, "jsonrpc": 2.0}),
        compact({**CALL, "method": "tools/list"}),
        compact({**CALL, "result": {}}),
        compact({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
        compact({"jsonrpc": "2.0", "method": "tools/call", "params": CALL["params"]}),
        compact({"jsonrpc": "2.0", "id": 1, "result": {}}),
        compact([CALL]),
        call_line(7, {"a": "\u6f22"}),
        compact(CALL).replace(b'"x"', b'"\xe9"'),
        compact(CALL).replace(b'"x"', b'"\xed\xa0\x80"'),
        compact(CALL).replace(b"s__t", b"s__\xff"),
        compact(CALL).replace(b'"x"', b'"\\ud800"'),
        compact(CALL).replace(b'"x"', b"NaN"),
        compact(CALL).replace(b'"x"', b"[" * 3000 + b"]" * 3000),
        compact(CALL)[:-1],
        compact(CALL) + b"}",
        compact(CALL) * 2,
        b"[INFO] ready",
        b"{}",
        b"null",
        b"[" * 100_000,
    ],
)
@pytest.mark.parametrize("at", [0, 2, 4])
def test_one_that_is_no_such_call(odd: bytes, at: int) -> None:
    """Wherever it stands, all of them are left to be read one by one, however long or short the others are."""
    lines = [call_line(1), call_line(10**15), call_line(3, {"a": "x" * 90}), call_line(4)]
    assert tool_call.several(lines) is not None
    lines.insert(at, odd)
    assert tool_call.several(lines) is None


#: Ways to write a call otherwise, most of which make it none that can be read together with others.
CHANGES = st.sampled_from(
    [
        (b"", b""),
        (b"7", b"-0"),
        (b"7", b"1E2"),
        (b"7", b"7 "),
        (b'"id"', b'"i\\u0064"'),
        (b'"s__t"', b'"s__\\u0074"'),
        (b'"s__t"', b'"s\\/t"'),
        (b'"s__t"', b'"\\u00e9"'),
        (b'"s__t"', b'"s__t" '),
        (b'"s__t"', b'""'),
        (b'"params":', b'"params": '),
        (b'"arguments":', b'"arguments":  '),
        (b'"arguments"', b'"argument\\u0073"'),
        (b'"arguments":', b'"arguments":null,"arguments":'),
        (b'"arguments":', b'"_meta":{},"arguments":'),
        (b'"arguments"', b'"x"'),
        (b'"name":"s__t",', b""),
        (b'"id":7,', b'"id":7,"":0,'),
        (b"{", b" {"),
        (b"}}", b"}} "),
        (b'"2.0"', b'"2.\\u0030"'),
        (b"tools/call", b"tools\\/call"),
        (b"{}", b"null"),
        (b"{}", b"[1, 2]"),
        (b"{}", b'"\xc3\xa9"'),
        (b"{}", b'"\xe9"'),
    ]
)


@st.composite
def near_calls(draw: st.DrawFn) -> bytes:
    """A call, or what comes near to one."""
    line = compact({**CALL, "id": 7, "params": {"name": "s__t", "arguments": {}}})
    for old, new in draw(st.lists(CHANGES, max_size=2)):
        line = line.replace(old, new, 1) if old else line
    mid = draw(st.integers(-(10**12), 10**25))
    return line.replace(b'"id":7', b'"id":%d' % mid, 1) if draw(st.booleans()) else line


@given(st.lists(near_calls(), min_size=1, max_size=6))
def test_several_ways_of_writing_a_call(lines: list[bytes]) -> None:
    """Whatever is read together would have been read the same one by one."""
    each_by_itself(lines)


@given(near_calls(), st.integers(2, 4))
def test_the_same_way_of_writing(line: bytes, count: int) -> None:
    """What is read by itself is read together with its like, unless it has `_meta` or other letters than those of
    ASCII."""
    alone = tool_call.read(line)
    together = tool_call.several([line] * count)
    assert (together is not None) == (alone is not None and not alone[1].meta and line.isascii())


@given(st.lists(st.tuples(st.integers(), TEXT, st.booleans(), st.booleans()), min_size=1, max_size=5), TEXT)
def test_any_arguments(calls: list[tuple[int, str, bool, bool]], name: str) -> None:
    """The same with whatever names and arguments, escaped or not, with blanks or without."""
    lines = []
    for mid, text, escaped, blanks in calls:
        message = {**CALL, "id": mid, "params": {"name": name, "arguments": {"a": text}}}
        separators = (", ", ": ") if blanks else (",", ":")
        lines.append(json.dumps(message, separators=separators, ensure_ascii=escaped).encode())
    each_by_itself(lines)
