"""Lines to envelopes and back: the fast decoder, the slow one, and a third that is slower than both."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types.jsonrpc import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from mcphub.protocol import jsonrpc
from mcphub.protocol.jsonrpc import UNSET, Envelope, Mended, NotAMessage, Raw, decode, repair


def shown(env: Envelope) -> dict[str, Any]:
    """The members an envelope has, payloads as text."""
    out: dict[str, Any] = {} if env.id is UNSET else {"id": env.id}
    if env.method is not None:
        out["method"] = env.method
    for name in ("params", "result", "error"):
        if payload := bytes(getattr(env, name)):
            out[name] = payload.decode()
    return out


OPEN = '{"jsonrpc":"2.0",'


@pytest.mark.parametrize(
    ("line", "members"),
    [
        ('"id":1,"method":"ping"}', {"id": 1, "method": "ping"}),
        ('"id":"1","method":"ping"}', {"id": "1", "method": "ping"}),
        ('"id":"","method":""}', {"id": "", "method": ""}),
        ('"id":"\u6f22\\u0061","method":"\\u0070ing"}', {"id": "\u6f22a", "method": "ping"}),
        ('"id":-5,"method":"ping"}', {"id": -5, "method": "ping"}),
        ('"id":-0,"method":"ping"}', {"id": 0, "method": "ping"}),
        ('"id":7.0,"result":{}}', {"id": 7, "result": "{}"}),
        ('"id":1e2,"result":{}}', {"id": 100, "result": "{}"}),
        (f'"id":{2**64 + 1},"method":"ping"}}', {"id": 2**64 + 1, "method": "ping"}),
        (f'"id":{"9" * 4300},"method":"ping"}}', {"id": int("9" * 4300), "method": "ping"}),
        ('"id":null,"error":{"code":1}}', {"id": None, "error": '{"code":1}'}),
        ('"id":null,"method":"ping"}', {"id": None, "method": "ping"}),
        ('"result":{}}', {"result": "{}"}),
        ('"method":"a","params":[ 1 ]}', {"method": "a", "params": "[ 1 ]"}),
        ('"method":"a","params":null}', {"method": "a", "params": "null"}),
        ('"id":1,"result":null}', {"id": 1, "result": "null"}),
        ('"id":1,"result": { } }', {"id": 1, "result": "{ }"}),
        ('"id":1,"result":{},"error":null}', {"id": 1, "result": "{}"}),
        ('"id":1,"error":{"code":1},"result":null}', {"id": 1, "error": '{"code":1}'}),
        ('"id":1,"error":null,"result":null}', {"id": 1, "result": "null"}),
        ('"id":1,"error":null}', {"id": 1, "error": "null"}),
        ('"id":1,"method":null,"params":null,"result":{},"error":null}', {"id": 1, "params": "null", "result": "{}"}),
        ('"id":1,"result":{"a":1,"a":2},"x":3}', {"id": 1, "result": '{"a":1,"a":2}'}),
        ('"id":1,"result":{},"":1}', {"id": 1, "result": "{}"}),
        ('"i\\u0064":1,"result":{}}', {"id": 1, "result": "{}"}),
        ('"id":1,"result":"\\ud83d\\ude00"}', {"id": 1, "result": '"\\ud83d\\ude00"'}),
        ('"id":1,"result":"\\ud83d"}', {"id": 1, "result": '"\\ufffd"'}),
        ('"id":1,"result":"\\ude00\\ud83d\\u0041"}', {"id": 1, "result": '"\\ufffd\\ufffd\\u0041"'}),
        ('"id":1,"result":"\\\\ud83d"}', {"id": 1, "result": '"\\\\ud83d"'}),
        ('"id":1,"result":["\\\\\\ud83d","\\""]}', {"id": 1, "result": '["\\\\\\ufffd","\\""]'}),
        ('"id":1,"method":"\\ud800x","params":{}}', {"id": 1, "method": "\ufffdx", "params": "{}"}),
    ],
)
def test_messages(line: str, members: dict[str, Any]) -> None:
    """C054, C058: what can be understood is, ids keep their type, and half a surrogate pair becomes U+FFFD."""
    assert shown(decode((OPEN + line).encode())) == members
    assert shown(repaired := repair((OPEN + line).encode())) == members
    assert (type(repaired) is Mended) == ("ufffd" in json.dumps(members))


@pytest.mark.parametrize(
    "line", [b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"result":{}}', b'  {"jsonrpc" : "2.0" ,\t"id":1,"result": {} }\r ']
)
def test_white_space_and_a_byte_order_mark(line: bytes) -> None:
    """C046: a byte order mark and blanks around and between members are no part of the message."""
    assert shown(decode(line)) == {"id": 1, "result": "{}"}


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b"", "noise"),
        (b" \t", "noise"),
        (b"\xef\xbb\xbf", "noise"),
        ("\u256d\u2500 FastMCP \u2500\u256e".encode(), "noise"),
        (b'[INFO] {"not":"rpc"}', "batch"),
        (b'{"level":30,"msg":"pino log"}', "noise"),
        (b"{}", "noise"),
        (b'{"jsonrpc":"1.0"}', "noise"),
        (b"42", "noise"),
        (b"null", "noise"),
        (b'"hi"', "noise"),
        (b"[]", "batch"),
        (b"Content-Length: 120", "content-length"),
        (b"content-length:120\r", "content-length"),
        (b"\xff\xfe", "noise"),
        (b"{\xff}", "encoding"),
        (b'{"jsonrpc":"2.0","id":1,"result":"\xe9"}', "encoding"),
        (b'{"jsonrpc":"2.0","id":1,"result":"\xed\xa0\x80"}', "encoding"),
        (b'{"jsonrpc":"2.0","id":1,"result":NaN}', "json"),
        (b'{"jsonrpc":"2.0","id":1,"result":[-Infinity]}', "json"),
        (b'{"jsonrpc":"2.0","id":1,"result":"\x01"}', "json"),
        (b'{"jsonrpc":"2.0","id":1,"result":{}', "json"),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}{}', "json"),
        (b'{"jsonrpc":"2.0","id":1,"result":{},}', "json"),
        (b'{"jsonrpc":"2.0","id":01,"result":{}}', "json"),
        (b'{"jsonrpc":"2.0" "id":1}', "json"),
        (b'{"jsonrpc"}', "json"),
        (b"{1:2}", "json"),
        (b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "json"),
        (b'{"jsonrpc":"2.0","id":1,"result":' + b'{"a":' * 100_000, "json"),
        (b'{"id":1,"method":"ping"}', "envelope"),
        (b'{"jsonrpc":2.0,"id":1,"method":"ping"}', "envelope"),
        (b'{"jsonrpc":"2.0"}', "envelope"),
        (b'{"jsonrpc":"2.0","id":1}', "envelope"),
        (b'{"jsonrpc":"2.0","id":1,"fooo":1}', "envelope"),
        (b'{"jsonrpc":"2.0","id":5,"id":6,"result":{}}', "envelope"),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","params":{}}', "envelope"),
        (b'{"jsonrpc":"2.0","method":"a","method":"bcdef","params":{}}', "envelope"),
        (b'{"jsonrpc":"2.0","result":1,"result":{}}', "envelope"),
        (b'{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}', "envelope"),
        (b'{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"a"}', "envelope"),
        (b'{"jsonrpc":"2.0","id":1,"i\\u0064":2,"method":"a"}', "envelope"),
        (b'{"jsonrpc":"2.0","id":true,"method":"a"}', "envelope"),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"a"}', "envelope"),
        (b'{"jsonrpc":"2.0","id":1e300,"method":"a"}', "envelope"),
        (b'{"jsonrpc":"2.0","id":1e999,"method":"a"}', "envelope"),
        (b'{"jsonrpc":"2.0","id":[1],"method":"a"}', "envelope"),
        (b'{"jsonrpc":"2.0","id":{},"method":"a"}', "envelope"),
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":"a"}', "envelope"),
        (b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"a"}', "envelope"),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', "envelope"),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}', "envelope"),
        (b'{"jsonrpc":"2.0","error":{"code":1,"message":"x"},"id":1,"result":1}', "envelope"),
        (b'{"jsonrpc": "2.0", "id": 1, "result": {}, "error": 1}', "envelope"),
        (b'{"jsonrpc":"2.0","id":1,"method":["a"]}', "envelope"),
    ],
)
def test_lines_that_are_no_message(line: bytes, kind: str) -> None:
    """C045, C052, C054, C056, C057: each kind of rubbish is named, and nothing but NotAMessage is raised."""
    with pytest.raises(NotAMessage) as caught:
        decode(line)
    assert caught.value.kind == kind
    assert len(str(caught.value)) < 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
MEMBER = st.tuples(
    st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x", ""]),
    JSON | st.sampled_from(["2.0", "\ud800", 7.0, 2**70, "a\\", "\U0001f642"]),
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Objects near the shape of a message, written in several styles, with or without a broken byte."""
    members = draw(st.lists(MEMBER, max_size=4))
    if draw(st.booleans()):
        members.insert(draw(st.integers(0, len(members))), ("jsonrpc", "2.0"))
    comma, colon = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " :  ")]))
    ascii_ = draw(st.booleans())
    body = comma.join(
        json.dumps(k, ensure_ascii=ascii_) + colon + json.dumps(v, ensure_ascii=ascii_, separators=(comma, colon))
        for k, v in members
    )
    data = bytearray(f"{{{body}}}".encode("utf-8", "surrogatepass"))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(data)


class Pairs(list[tuple[str, Any]]):
    """An object as the oracle reads it."""


def oracle(line: bytes) -> dict[str, Any] | None:
    """What a line says by the rules of `repair`, from Python's own parser; None for what is no message."""
    data = line.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n")

    def refuse(_: str) -> None:
        raise ValueError

    try:
        pairs = json.loads(data.decode(), object_pairs_hook=Pairs, parse_constant=refuse)
    except ValueError:
        return None
    if not isinstance(pairs, Pairs):
        return None
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [k for k, _ in pairs if k in ("jsonrpc", "id", "method", "params", "result", "error")]
        if len(set(names)) < len(names):
            return None
    if fields.get("jsonrpc") != "2.0" or b'"2.0"' not in data:
        return None
    out: dict[str, Any] = {}
    if "id" in fields:
        mid = fields["id"]
        if type(mid) is float and mid.is_integer() and abs(mid) <= 2**53:
            mid = int(mid)
        if mid is not None and type(mid) not in (int, str) or mid != whole(mid):
            return None
        out["id"] = mid
    if fields.get("method") is not None:
        if not isinstance(fields["method"], str):
            return None
        out["method"] = whole(fields["method"])
    if "result" in fields and fields.get("error", 0) is None:
        del fields["error"]
    elif "error" in fields and fields.get("result", 0) is None:
        del fields["result"]
    out |= {k: whole(fields[k]) for k in ("params", "result", "error") if k in fields}
    if "method" in out and out.keys() & {"result", "error"} or {"result", "error"} <= out.keys():
        return None
    return out if out.keys() & {"method", "result", "error"} else None


def whole(value: Any) -> Any:
    """The value with U+FFFD for each half of a surrogate pair."""
    if isinstance(value, str):
        return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in value)
    if isinstance(value, Pairs):
        return Pairs((whole(k), whole(v)) for k, v in value)
    return [whole(v) for v in value] if isinstance(value, list) else value


def read(line: bytes, decoder: Any) -> dict[str, Any] | None:
    try:
        members = shown(decoder(line))
    except NotAMessage:
        return None
    return {
        k: json.loads(v, object_pairs_hook=Pairs) if k in ("params", "result", "error") else v
        for k, v in members.items()
    }


@given(lines())
def test_fast_and_slow_decoder_agree_with_an_oracle(line: bytes) -> None:
    """C054: a line means the same to the fast path, the slow path and Python's own parser, or nothing to all three."""
    expected = oracle(line)
    assert read(line, decode) == expected
    assert read(line, repair) == expected


@given(st.binary() | st.text().map(lambda s: b'{"jsonrpc":"2.0",' + s.encode("utf-8", "surrogatepass")))
def test_any_bytes_at_all(line: bytes) -> None:
    """C052: no bytes raise anything but NotAMessage."""
    for view in (line, memoryview(line)):
        try:
            decode(view)
        except NotAMessage:
            pass


@given(st.binary(max_size=300))
def test_a_broken_reply_is_never_more_than_an_id(data: bytes) -> None:
    """Nothing is guessed from bytes, and nothing raised."""
    assert isinstance(jsonrpc.unreadable_reply(data), tuple)


@pytest.mark.parametrize(
    ("line", "ids"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"v":NaN}}', (7,)),
        (b'{"result":{"v":NaN,"id":8},"jsonrpc":"2.0","id":7}', (7,)),
        (b'{"jsonrpc":"2.0","id":"x","result":NaN}', ("x",)),
        (b'{"jsonrpc":"2.0","id":7,"result":' + b"[" * 5000, (7,)),
        (b'{"jsonrpc":"2.0","id":7,"result":[' + b"1," * 1_000_001 + b"NaN]}", (7,)),
        (b'{"jsonrpc":"2.0","id":7,"result":NaN,"id":8}', (7, 8)),
        (b'{"jsonrpc":"2.0","id":7,"id":8,"result":{}}', (7, 8)),
        (b'{"jsonrpc":"2.0","id":7}', (7,)),
        (b'{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":"x"}}', (7,)),
        (b'{"jsonrpc":"2.0","id":7,"method":"x","result":{}}', (7,)),
        (b'[{"jsonrpc":"2.0","id":7,"result":{}},{"jsonrpc":"2.0","method":"x","id":9}]', (7,)),
        (b'{"jsonrpc":"2.0","result":{"content":[]},"id":7 garbage', (7,)),
        (b'{"jsonrpc":"2.0","result":{"id":8},"id":7 garbage', ()),
        (b'{"jsonrpc":"2.0","id":7.0,"result":NaN}', ()),
        (b'[["id",7],["result",NaN]]', ()),
        (b'{"jsonrpc": "2.0", "id": "7", "error": {"x"', (7,)),
        (b' {"jsonrpc":"2.0","id":7,"result":"\xe9"}', (7,)),
        (b'{"jsonrpc":"2.0","id":07,"result":NaN}', ()),
        (b'{"jsonrpc":"2.0","id":7,"method":"x","params":NaN}', ()),
        (b'{"x":{"jsonrpc":"2.0","id":7,"result":NaN}}', ()),
        (b'{"jsonrpc":"2.0","id":' + b"7" * 30 + b',"result":NaN}', (int("7" * 30),)),
        (b"\xff", ()),
    ],
)
def test_whom_a_broken_line_was_for(line: bytes, ids: tuple[int | str, ...]) -> None:
    """C054: an answer that cannot be read still says whom it was for, so that nobody waits for a better one."""
    assert jsonrpc.unreadable_reply(memoryview(line)) == ids


@pytest.mark.parametrize("blank", [b"", b" "])
def test_a_line_of_many_values_is_refused_not_read_twice(blank: bytes) -> None:
    """A line that the fast decoder likes passes at any size; one it does not is looked at again only within a bound."""
    many = b"[" + b"1," * 2_000_000 + b"1]"
    fine = b'{"jsonrpc":"2.0","id":1,"result":' + many + b"}"
    assert len(decode(fine).result) == len(many)
    start = time.perf_counter()
    with pytest.raises(NotAMessage, match="too many values"):
        decode(fine[:-1] + blank + b',"x":1}')
    assert time.perf_counter() - start < 10


def test_large_values_in_the_slow_path_cost_time_in_proportion() -> None:
    """C049: twenty megabytes of text in an unusual envelope are read in well under a second."""
    line = b'{"jsonrpc":"2.0","id":1,"error":null,"result":"' + b"\\ud83d\\ude00x" * 1_600_000 + b'"}'
    start = time.perf_counter()
    assert len(decode(line).result) == len(line) - 47
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (b"[]", []),
        (b' [ {"a": 1} ,2,"\xe6\xbc\xa2"] ', [b'{"a": 1}', b"2", b'"\xe6\xbc\xa2"']),
        (b"[[[1]],{}]", [b"null", b"{}"]),
        (b"[" * 500 + b"]" * 500, [b"null"]),
    ],
)
def test_batches(line: bytes, parts: list[bytes]) -> None:
    """C057: each element of a batch comes by itself; an array in it is no message and not gone into."""
    assert jsonrpc.split_batch(memoryview(line)) == parts


@pytest.mark.parametrize(
    "line",
    [b"[INFO] x", b"[", b"[1]x", b"{}", b"[" * 100_000, b"[" + b"1," * 1000 + b"1]", b"[" + b"1," * 200_000 + b"1]"],
)
def test_what_is_no_batch(line: bytes) -> None:
    """C057: a line that only looks like a batch, or one beyond all measure, is refused as one line."""
    with pytest.raises(NotAMessage):
        jsonrpc.split_batch(line)


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        ('{"code":-32601,"message":"no","data":{"a": 1}}', (-32601, "no", '{"a": 1}')),
        ('{"code":-32601}', (-32601, "", "")),
        ('{"message":"no","code":"x","data":null}', (-32603, "no", "null")),
        (
            '{"code":-32000,"message":null}',
            (-32000, "the peer sent an error that is no JSON-RPC error object", ""),
        ),
        ('"it broke"', (-32603, "it broke", "")),
        ("null", (-32603, "the peer sent an error that is no JSON-RPC error object", "")),
        ("", (-32603, "the peer sent an error that is no JSON-RPC error object", "")),
        ("[1]", (-32603, "the peer sent an error that is no JSON-RPC error object", "")),
        (f'{{"code":{10**30},"message":"big"}}', (10**30, "big", "")),
        (
            f'{{"code":{"9" * 5000}}}',
            (-32603, "the peer sent an error that is no JSON-RPC error object", ""),
        ),
    ],
)
def test_errors_are_read_leniently(raw: str, error: tuple[int, str, str]) -> None:
    """Whatever stands in `error` becomes an integer code, a text and data."""
    found = jsonrpc.read_error(Raw(raw.encode()))
    assert (found.code, found.message, bytes(found.data).decode()) == error


def test_frames_are_what_the_specification_says() -> None:
    """Every frame is one line that the official types accept, with the id in the type it came in."""
    request = jsonrpc.request_frame(7, "tools/call", b'{"name":"\xe6\xbc\xa2"}')
    assert JSONRPCRequest.model_validate_json(request).params == {"name": "\u6f22"}
    assert JSONRPCRequest.model_validate_json(jsonrpc.request_frame(7, 'a"b')).method == 'a"b'
    assert JSONRPCNotification.model_validate_json(jsonrpc.notification_frame("x")).params is None
    assert JSONRPCNotification.model_validate_json(jsonrpc.notification_frame("x", b"{}")).params == {}
    for mid in (1, "1", 2**70, 'a"\n\u6f22', -1, ""):
        encoded = jsonrpc.encode_id(mid)
        result = jsonrpc.result_frame(encoded, memoryview(b"{}"))
        error = jsonrpc.error_frame(encoded, -32603, "line\nbreak", b"[1]")
        assert JSONRPCResponse.model_validate_json(result).id == mid
        assert JSONRPCError.model_validate_json(error).error.data == [1]
        assert type(decode(result[:-1]).id) is type(mid)
        for frame in (result, error):
            assert frame.endswith(b"}\n")
            assert frame.count(b"\n") == 1
    assert jsonrpc.encode_id(None) == b"null"
    assert json.loads(jsonrpc.error_frame(b"null", 1, "x")) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": 1, "message": "x"},
    }


@given(st.integers(-(10**40), 10**40) | st.text(st.characters(exclude_categories=["Cs"])))
def test_an_id_comes_back_as_it_went(mid: int | str) -> None:
    """C058: an id survives the way to the envelope and back, in its own type."""
    line = msgspec.json.encode({"jsonrpc": "2.0", "id": mid, "method": "ping"})
    found = decode(line).id
    assert found == mid
    assert type(found) is type(mid)
    assert isinstance(found, int | str)
    assert json.loads(jsonrpc.encode_id(found)) == mid


@pytest.mark.parametrize(
    ("raw", "is_one"),
    [
        ('{"code":1,"message":""}', True),
        ('{"code":-32000,"message":"x","data":null}', True),
        ('{"code":"x","message":"x"}', False),
        ('{"code":1,"message":5}', False),
        ('{"message":"x"}', False),
        ('"boo"', False),
        ("null", False),
        ("[" * 5000 + "]" * 5000, False),
    ],
)
def test_what_an_error_object_is(raw: str, is_one: bool) -> None:
    """An integer code and a text, whatever else."""
    assert jsonrpc.is_error_object(Raw(raw.encode())) is is_one


# --- several results --------------------------------------------------------------------------------------------------


def result_line(mid: object, result: str = "{}") -> bytes:
    return f'{{"jsonrpc":"2.0","id":{mid},"result":{result}}}'.encode()


def each_by_itself(lines: list[bytes]) -> bool:
    """Whether these lines are taken together; then each has to be what `decode` makes of it."""
    ids, results = jsonrpc.several_results(lines)
    if not ids:
        assert not results
        return False
    assert len(ids) == len(results) == len(lines) == len(set(ids))
    for line, mid, result in zip(lines, ids, results, strict=True):
        alone = decode(line)
        assert (alone.id, alone.method, bytes(alone.error), bytes(alone.params)) == (mid, None, b"", b"")
        assert type(alone.id) is type(mid) is int
        assert bytes(alone.result) == bytes(result) and line.isascii()
        assert repair(line).id == mid and bytes(repair(line).result) == bytes(result)
    return True


def test_results_in_one_go() -> None:
    """Each comes with its own id and its own bytes, in their order, whatever the order of the members."""
    lines = [
        result_line(1, '{"content":[ ]}'),
        result_line(10**15),
        b'{"result":[1, "\\u00e9"],"id":-3,"jsonrpc":"2.0"}',
        result_line(2**64 + 1, "null"),
        result_line("9" * 4300, '"x"'),
    ]
    ids, results = jsonrpc.several_results(lines)
    assert ids == [1, 10**15, -3, 2**64 + 1, int("9" * 4300)]
    assert [bytes(one) for one in results] == [b'{"content":[ ]}', b"{}", b'[1, "\\u00e9"]', b"null", b'"x"']
    assert each_by_itself(lines)


@pytest.mark.parametrize(
    "odd",
    [
        result_line(1),
        result_line(10**15, "[1]"),
        result_line('"7"'),
        result_line("null"),
        result_line("true"),
        result_line("7.0"),
        result_line("7.5"),
        result_line("1E2"),
        result_line("1e5"),
        result_line("-0"),
        result_line("07"),
        result_line("9" * 5000),
        result_line("[7]"),
        result_line("7", " {}"),
        result_line("7", "{} "),
        result_line(" 7"),
        result_line("7 "),
        json.dumps({"jsonrpc": "2.0", "id": 7, "result": {}}).encode(),
        b" " + result_line(7),
        result_line(7) + b"\r",
        b"\xef\xbb\xbf" + result_line(7),
        b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"x"}}',
        b'{"jsonrpc":"2.0","id":7,"result":{},"error":null}',
        b'{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":"x"}}',
        b'{"jsonrpc":"2.0","id":7,"result":{},"":1}',
        b'{"jsonrpc":"2.0","id":7,"result":{},"method":"ping"}',
        b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{}}',
        b'{"jsonrpc":"2.0","id":7,"method":"ping"}',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}',
        b'{"jsonrpc":"2.0","id":7}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"id":7,"result":{}}',
        b'{"jsonrpc":"1.0","id":7,"result":{}}',
        b'{"jsonrpc":2.0,"id":7,"result":{}}',
        b'{"jsonrpc":"2.\\u0030","id":7,"result":{}}',
        b'{"jsonrpc":"2.0","i\\u0064":7,"result":{}}',
        b'{"jsonrpc":"2.0","id":7,"id":8,"result":{}}',
        b'{"jsonrpc":"2.0","id":123456789,"id":8,"result":{}}',
        b'{"jsonrpc":"2.0","id":7,"result":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":7,"result":{"a":"' + b"x" * 99 + b'"},"result":{}}',
        b'{"jsonrpc":"2.0","jsonrpc":"2.0","id":7,"result":{}}',
        result_line(7, '"\u6f22"'),
        b'{"jsonrpc":"2.0","id":7,"result":"\xe9"}',
        b'{"jsonrpc":"2.0","id":7,"result":"\xed\xa0\x80"}',
        result_line(7, '"\\ud83d"'),
        result_line(7, "NaN"),
        result_line(7, "[" * 3000 + "]" * 3000),
        result_line(7)[:-1],
        result_line(7) + result_line(8),
        b"[" + result_line(7) + b"]",
        b"[INFO] ready",
        b"{}",
        b"",
        b"[" * 100_000,
    ],
)
@pytest.mark.parametrize("at", [0, 2, 4])
def test_one_that_is_no_plain_result(odd: bytes, at: int) -> None:
    """Wherever it stands, all of them are left to be read one by one, however long or short the others are."""
    lines = [result_line(1), result_line(10**15, "{ }"), result_line(-5, '{"a":"' + "x" * 90 + '"}'), result_line(4)]
    assert each_by_itself(lines)
    lines.insert(at, odd)
    assert jsonrpc.several_results(lines) == ([], [])


#: Ways to write a result otherwise, shorter or longer than the plain one.
CHANGES = st.sampled_from(
    [
        (b'"id":7', b'"id":-0'),
        (b'"id":7', b'"id":1e9'),
        (b'"id":7', b'"id":7.0'),
        (b'"id":7', b'"id":"7"'),
        (b'"id":7', b'"id": 7'),
        (b'"id":7', b'"id":7,"id":7'),
        (b'"id":7', b'"id":1,"id":7'),
        (b'"id":7,', b""),
        (b'"id"', b'""'),
        (b'"jsonrpc":"2.0",', b""),
        (b'"2.0"', b'""'),
        (b'"jsonrpc"', b'"json"'),
        (b'"result"', b'"error"'),
        (b'"result"', b'"res\\u0075lt"'),
        (b'"result":', b'"result":0,"result":'),
        (b'"result":', b'"":0,"result":'),
        (b"{}", b""),
        (b"{}", b"0"),
        (b"{}", b"[1 ]"),
        (b"{}", b' "x"'),
        (b"{}", b'"\\ud800"'),
        (b"{}", b'"\xc3\xa9"'),
        (b"{}", b'"\xe9"'),
        (b"{}", b'{},"error":null'),
        (b"{}", b'{},"params":1'),
        (b"}}", b"}}\t"),
    ]
)


@st.composite
def near_results(draw: st.DrawFn) -> bytes:
    """A result, or what comes near to one."""
    line = result_line(7)
    for old, new in draw(st.lists(CHANGES, max_size=2)):
        line = line.replace(old, new, 1)
    return line.replace(b'"id":7', b'"id":%d' % draw(st.integers(-(10**12), 10**25)))


@given(st.lists(near_results() | lines(), min_size=1, max_size=5))
def test_what_is_taken_together_is_what_each_is(some: list[bytes]) -> None:
    """Nothing is taken that would be refused by itself, or be read otherwise."""
    each_by_itself(some)


@given(st.dictionaries(st.integers(), JSON, min_size=1, max_size=5), st.booleans())
def test_compact_results_are_taken_together(results: dict[int, Any], escaped: bool) -> None:
    """All compact results under ids of their own are, if they are of ASCII letters alone."""
    some = [
        json.dumps({"jsonrpc": "2.0", "id": mid, "result": result}, separators=(",", ":"), ensure_ascii=escaped)
        for mid, result in results.items()
    ]
    encoded = [text.encode() for text in some]
    assert each_by_itself(encoded) == b"".join(encoded).isascii()
