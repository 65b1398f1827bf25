"""What of `_meta` and `resultType` crosses a hop, against an oracle made of plain dicts."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types.methods import validate_server_result

from mcphub.protocol import envelope
from mcphub.protocol.envelope import (
    NO_META,
    InvalidMeta,
    RequestMeta,
    UnsupportedResult,
    UnsupportedVersion,
    hub_meta_member,
    is_text_result,
    plain_result,
    read_request_meta,
    request_meta,
    result_parts,
    with_warning,
)
from mcphub.protocol.jsonrpc import Raw

IO = "io.modelcontextprotocol/"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
#: Whether the server is modern, whether the agent is.
ERAS = [(False, False), (False, True), (True, False), (True, True)]
MODERN: dict[str, Any] = {IO + "protocolVersion": "2026-07-28", IO + "clientCapabilities": {}}


def raw(meta: Any) -> bytes:
    return json.dumps(meta).encode()


@pytest.mark.parametrize(
    ("meta", "read"),
    [
        ({}, NO_META),
        (None, NO_META),
        ({"progressToken": 5}, RequestMeta(progress_token=b"5")),
        ({"progressToken": "a\u6f22"}, RequestMeta(progress_token=b'"a\\u6f22"')),
        ({"progressToken": ""}, RequestMeta(progress_token=b'""')),
        ({"progressToken": 10**40}, RequestMeta(progress_token=b"1" + b"0" * 40)),
        ({"progressToken": None}, NO_META),
        ({IO + "related-task": {"taskId": "x"}, IO + "clientInfo": 5}, NO_META),
        ({"traceparent": "00-x", "a/b": [1, 2]}, RequestMeta(carried=b'"a/b":[1, 2]')),
        (
            {"traceparent": PARENT, "a/b": 1},
            RequestMeta(carried=b'"traceparent":"%b","a/b":1' % PARENT.encode(), trace=PARENT[3:35]),
        ),
        ({"tracestate": "a=1", "baggage": "a=1"}, RequestMeta(carried=b'"baggage":"a=1"')),
        (MODERN, RequestMeta(True, "2026-07-28")),
        (
            MODERN
            | {"baggage": "x=1", "progressToken": 1, IO + "logLevel": "debug", IO + "clientInfo": {"name": "n"}},
            RequestMeta(True, "2026-07-28", b"1", "debug", b'"baggage":"x=1"', "n"),
        ),
        (MODERN | {IO + "clientInfo": {}}, RequestMeta(True, "2026-07-28")),
        (MODERN | {IO + "clientInfo": {"name": "n" * 5000}}, RequestMeta(True, "2026-07-28", client="n" * 100)),
        (MODERN | {IO + "unknown": 1}, RequestMeta(True, "2026-07-28")),
    ],
)
def test_request_meta_as_read(meta: Any, read: RequestMeta) -> None:
    """Hop keys are taken out, trace context and vendor keys are kept as they are."""
    assert read_request_meta(raw(meta)) == read


@pytest.mark.parametrize(
    ("meta", "says"),
    [
        ([], "`_meta` is not an object"),
        ("x", "`_meta` is not an object"),
        (5, "`_meta` is not an object"),
        ({"progressToken": 1.5}, "`progressToken`"),
        ({"progressToken": True}, "`progressToken`"),
        ({"progressToken": []}, "`progressToken`"),
        ({"progressToken": {"a": 1}}, "`progressToken`"),
        ({IO + "protocolVersion": "2026-07-28"}, "lacks the required key io.modelcontextprotocol/clientCapabilities"),
        ({IO + "clientCapabilities": {}}, "lacks the required key io.modelcontextprotocol/protocolVersion"),
        (MODERN | {IO + "protocolVersion": 5}, "protocolVersion is not a string"),
        (MODERN | {IO + "protocolVersion": None}, "protocolVersion is not a string"),
        (MODERN | {IO + "clientCapabilities": None}, "clientCapabilities is not an object"),
        (MODERN | {IO + "clientCapabilities": []}, "clientCapabilities is not an object"),
        (MODERN | {IO + "logLevel": "loud"}, "logLevel must be one of debug"),
        (MODERN | {IO + "logLevel": None}, "logLevel must be one of debug"),
        (MODERN | {IO + "clientInfo": "me"}, "clientInfo is not an object"),
        (MODERN | {IO + "clientInfo": {"name": 10**100}}, "clientInfo is not an object with a name"),
    ],
)
def test_request_meta_that_is_refused(meta: Any, says: str) -> None:
    """What is missing or of a wrong type is named, so that an agent's author can correct it."""
    with pytest.raises(InvalidMeta, match=says):
        read_request_meta(raw(meta))


def test_request_meta_nested_beyond_reason() -> None:
    """Depth is an invalid meta, not a crash."""
    with pytest.raises(InvalidMeta):
        read_request_meta(b'{"a":' * 100_000 + b"1" + b"}" * 100_000)
    with pytest.raises(InvalidMeta):
        read_request_meta(b'{"progressToken":' + b"9" * 5000 + b"}")


@pytest.mark.parametrize("version", ["1900-01-01", "2025-11-25", "", "2026-07-28 "])
def test_versions_that_are_not_spoken_without_a_handshake(version: str) -> None:
    """A legacy date in the modern form is as unsupported as an unknown one."""
    with pytest.raises(UnsupportedVersion) as caught:
        read_request_meta(raw(MODERN | {IO + "protocolVersion": version}))
    assert caught.value.requested == version


def test_the_last_of_two_equal_keys_counts_everywhere() -> None:
    """A key that comes twice is read once, and crosses once."""
    meta = read_request_meta(b'{"a":1,"progressToken":1,"a":2,"progressToken":"x"}')
    assert meta == RequestMeta(progress_token=b'"x"', carried=b'"a":2')


@pytest.mark.parametrize("modern", [False, True])
@given(
    token=st.sampled_from([b"", b"5", b'"x"']),
    level=st.sampled_from(["", "debug"]),
    carried=st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)
def test_request_meta_as_written(modern: bool, token: bytes, level: str, carried: dict[str, int]) -> None:
    """The server sees the hub's own keys and token where its era has them, and what was carried."""
    members = b",".join(raw(k) + b":" + raw(v) for k, v in carried.items())
    meta = RequestMeta(modern=True, progress_token=token, log_level=level, carried=members, client="secret agent")
    written = request_meta(modern, meta, 77)
    found = json.loads(b'{"x":0%b}' % written).get("_meta", {})
    assert b"secret agent" not in written
    expected: dict[str, Any] = dict(carried)
    if token:
        expected["progressToken"] = 77
    if modern:
        expected |= MODERN | {IO + "clientInfo": json.loads(envelope.IMPLEMENTATION)}
        if level:
            expected[IO + "logLevel"] = level
    assert found == expected
    if not expected:
        assert written == b""
    if not token and not level and not carried:
        assert written == (envelope.HUB_META_MEMBER if modern else b"")


SERVER_INFO = json.loads(b"{%b}" % envelope.RESULT_META)


class Unread:
    """Text that is JSON of this value."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and json.loads(other) == self._value

    __hash__ = None  # type: ignore[assignment]


def oracle(result: dict[str, Any], from_modern: bool, to_modern: bool) -> dict[str, Any]:
    """The result that an agent should get, or ValueError."""
    out = dict(result)
    kind = out.pop("resultType", "complete")
    if from_modern and kind != "complete":
        raise ValueError(kind)
    meta = out.pop("_meta", None)
    if isinstance(meta, dict):
        meta = {k: v for k, v in meta.items() if not k.startswith("dev.mcphub/")}
    if not from_modern and not to_modern and "resultType" not in result:
        return result | {"_meta": meta} if "_meta" in result else result
    kept = {k: v for k, v in meta.items() if not k.startswith(IO)} if isinstance(meta, dict) else {}
    if to_modern:
        return out | {"resultType": "complete", "_meta": kept | SERVER_INFO}
    out.pop("ttlMs", None)
    out.pop("cacheScope", None)
    if not isinstance(out.get("structuredContent", {}), dict):
        text = {"type": "text", "text": Unread(out.pop("structuredContent"))}
        if isinstance(out.setdefault("content", []), list):
            out["content"] = [*out["content"], text]
    return out | ({"_meta": kept} if kept else {})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["x" * 5000, "resultType"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
KEYS = st.sampled_from(
    ["content", "isError", "structuredContent", "ttlMs", "cacheScope", "_meta", "resultType", "nested", "a/\u6f22\n"]
)
RESULTS = st.dictionaries(KEYS, VALUES, max_size=5) | st.fixed_dictionaries(
    {"content": VALUES},
    optional={
        "resultType": st.just("complete") | VALUES,
        "_meta": st.dictionaries(
            st.sampled_from([IO + "serverInfo", "dev.mcphub/error", "v/k", "traceparent"]), VALUES
        ),
        "structuredContent": VALUES,
        "ttlMs": st.integers(),
    },
)


@st.composite
def written(draw: st.DrawFn) -> tuple[dict[str, Any], bytes]:
    """A result and one of the ways to write it: blanks, escapes of letters that need none, the type at either end."""
    result = draw(RESULTS)
    if draw(st.booleans()) and "resultType" in result:
        result = {"resultType": result.pop("resultType"), **result}
    elif draw(st.booleans()):
        result["resultType"] = result.pop("resultType", "complete")
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,  ", " : ")]))
    data = json.dumps(result, separators=separators, ensure_ascii=draw(st.booleans()))
    if draw(st.booleans()):
        data = data.replace('"resultType"', '"\\u0072esult\\u0054ype"').replace('"_meta"', '"\\u005fmeta"')
        data = data.replace("dev.mcphub/", draw(st.sampled_from(["dev.mcphub\\/", "d\\u0065v\\u002Emcphub/"])))
    blank = draw(st.sampled_from(["", " ", "\t\r ", " " * 20]))
    return result, f"{{{blank}{data[1:-1]}{blank}}}".encode()


@pytest.mark.parametrize(("from_modern", "to_modern"), ERAS)
@given(written())
def test_results_against_the_oracle(from_modern: bool, to_modern: bool, case: tuple[dict[str, Any], bytes]) -> None:
    """For each pair of eras the parts joined are valid JSON with each key once, and mean what the oracle says."""
    result, data = case
    try:
        expected = oracle(result, from_modern, to_modern)
    except ValueError:
        with pytest.raises(UnsupportedResult):
            result_parts(memoryview(data), from_modern, to_modern)
        return
    joined = b"".join(result_parts(memoryview(data), from_modern, to_modern))
    pairs = json.loads(joined, object_pairs_hook=lambda pairs: pairs)
    assert len(dict(pairs)) == len(pairs)
    if not from_modern and not to_modern and (b"\\u0072esult" in data or len(data) > 4096) and joined == data:
        return  # between legacy peers a type is not looked for behind escapes, nor in the middle of a large result
    assert json.loads(joined) == expected
    plain = plain_result(Raw(data), from_modern)
    assert to_modern or plain is None or json.loads(plain) == expected


@pytest.mark.parametrize(("from_modern", "to_modern"), ERAS)
@pytest.mark.parametrize("size", [1, 5000, 20_000])
@pytest.mark.parametrize(
    "meta", ["_meta", "\\u005fmeta", "\\u005Fmeta", "_\\u006deta", "_m\\u0065ta", "_me\\u0074a", "_met\\u0061"]
)
@pytest.mark.parametrize("key", ["dev.mcphub/error", "dev.mcphub\\/x", "\\u0064ev.mcphub/x", "dev\\u002Emcphub/x"])
def test_nobody_speaks_in_its_name(key: str, meta: str, size: int, from_modern: bool, to_modern: bool) -> None:
    """Wherever the `_meta` stands, however the keys are written, and if there are two; it is counted, and a mention
    elsewhere is not."""
    claim, content = f'"{meta}":{{"a":1,"{key}":{{"retryable":true}}}}', f'"content":["{"x" * size} dev.mcphub/error"]'
    second = '"_meta":{"a":1}'
    for members in ([claim, content], [content, claim], [content, claim, content], [claim, content, second]):
        whole = f"{{{','.join(members)}" + (',"resultType":"complete"}' if from_modern else "}")
        counters: Counter[str] = Counter()
        joined = b"".join(result_parts(memoryview(whole.encode()), from_modern, to_modern, counters))
        found = json.loads(joined)
        assert found["_meta"] == {"a": 1, **(SERVER_INFO if to_modern else {})}
        assert joined.count(b"dev") == joined.count(b"dev.mcphub/error") == 1 and len(found["content"][0]) > size
        assert counters["claimed_keys"] == (members[-1] is not second)
        assert to_modern or plain_result(Raw(whole.encode()), from_modern) is None


ODD = rb'[1e2, 1.10,"\u00e9\/",  {"b":1, "a":2,"b":3}, 9999999999999999999999, "\ud83d\ude00", "%b"]'


@pytest.mark.parametrize(("from_modern", "to_modern"), ERAS)
@pytest.mark.parametrize("size", [0, 5000])
@pytest.mark.parametrize(
    "template", [rb'{"content": %b,"isError":false}', rb'{"content": %b,"_meta":{"v": %b},"resultType":"complete"}']
)
def test_other_bytes_are_not_altered(template: bytes, size: int, from_modern: bool, to_modern: bool) -> None:
    """Numbers, escapes, blanks, order and doubled keys inside a value arrive as the server wrote them."""
    odd = ODD % (b"x" * size)
    result = template.replace(b"%b", odd)
    joined = b"".join(result_parts(memoryview(result), from_modern, to_modern))
    assert joined.count(odd) == template.count(b"%b")
    if not from_modern and not to_modern and b"resultType" not in template:
        assert joined == result


@pytest.mark.parametrize(
    ("result", "joined"),
    [
        (b"{}", b"{}"),
        (b"{ }", b"{}"),
        (b'{"resultType":"complete"}', b"{}"),
        (b'{"a":1,"resultType":"complete"}', b'{"a":1}'),
        (b'{"resultType":"complete","a":1}', b'{"a":1}'),
        (b'{"a":{"resultType":"x"},"resultType":"complete"}', b'{"a":{"resultType":"x"}}'),
        (b'{"a":"\\"resultType\\":\\"complete\\"}"}', b'{"a":"\\"resultType\\":\\"complete\\"}"}'),
        (b'{"_meta":{},"resultType":"complete"}', b"{}"),
        (b'{"_meta":[1],"a":1}', b'{"a":1}'),
        (b'{"_meta":null,"a":1}', b'{"a":1}'),
        (b'{"a":1,"resultType":"x","resultType":"complete"}', b'{"a":1}'),
        (b'{"resultType":"\\u0063omplete"}', b"{}"),
    ],
)
def test_modern_results_for_legacy_agents(result: bytes, joined: bytes) -> None:
    """What the modern era added is gone, and nothing else."""
    assert b"".join(result_parts(memoryview(result), True, False)) == joined


@pytest.mark.parametrize("blanks", range(12))
def test_an_empty_result_with_blanks_inside(blanks: int) -> None:
    """Blanks in an empty object never become a comma without a member."""
    result = b"{" + b" " * blanks + b"}"
    for from_modern in (False, True):
        assert b"".join(result_parts(memoryview(result), from_modern, True)) == envelope.MODERN_HEAD + b"}"


@pytest.mark.parametrize(
    ("result", "named"),
    [
        ('{"resultType":"input_required"}', "input_required"),
        ('{"resultType":"weird\u6f22"}', "weird\u6f22"),
        ('{"resultType":null}', "null"),
        ('{"resultType":5}', "5"),
        ('{"resultType":["complete"]}', '["complete"]'),
        ('{"resultType":"%s"}' % ("x" * 500), "x" * 63),
        ("null", "not an object"),
        ("[]", "not an object"),
        ('"x"', "not an object"),
        ("", "not an object"),
    ],
)
@pytest.mark.parametrize("to_modern", [False, True])
def test_results_of_a_kind_that_was_not_agreed(result: str, named: str, to_modern: bool) -> None:
    """A modern result of another kind is refused and named, shortly."""
    with pytest.raises(UnsupportedResult) as caught:
        result_parts(memoryview(result.encode()), True, to_modern)
    assert caught.value.result_type == named


def test_a_legacy_server_cannot_speak_as_the_hub() -> None:
    """However a legacy server writes it, its result reaches a modern agent as complete and with the hub's name."""
    for key in ('"resultType"', '"\\u0072esultType"', '"resultTyp\\u0065"'):
        for meta in ('"_meta"', '"\\u005fmeta"', '"_m\\u0065ta"'):
            text = f'{{{key}:"input_required",{meta}:{{"{IO}serverInfo":{{"name":"evil"}},"v":1}},"content":[]}}'
            joined = json.loads(b"".join(result_parts(memoryview(text.encode()), False, True)))
            assert joined == {"content": [], "resultType": "complete", "_meta": SERVER_INFO | {"v": 1}}


@pytest.mark.parametrize(("from_modern", "to_modern"), ERAS)
def test_many_members_cost_time_in_proportion(from_modern: bool, to_modern: bool) -> None:
    """A hundred thousand members, small and large, take no time that grows with their square."""
    members = [f'"k{i}":"{"x" * (5000 if i % 1000 == 0 else 1)}"' for i in range(100_000)]
    result = ('{"resultType":"complete",' + ",".join(members) + "}").encode()
    start = time.perf_counter()
    parts = result_parts(memoryview(result), from_modern, to_modern)
    assert time.perf_counter() - start < 10
    assert len(json.loads(b"".join(parts))) == 100_000 + 2 * to_modern


def test_large_values_are_passed_as_views() -> None:
    """A large value is not copied on its way."""
    result = memoryview(b'{"content":"' + b"x" * 100_000 + b'","resultType":"complete"}')
    assert any(type(part) is memoryview and len(part) == 100_002 for part in result_parts(result, True, True))
    legacy = memoryview(b'{"content":"' + b"x" * 100_000 + b'"}')
    assert result_parts(legacy, False, False) == (legacy,)


def test_results_nested_beyond_reason() -> None:
    """Depth in a result is an unsupported result, not a crash."""
    deep = b'{"_meta":' + b"[" * 5000 + b"]" * 5000 + b"}"
    for from_modern, to_modern in ERAS:
        try:
            result_parts(memoryview(deep), from_modern, to_modern)
        except UnsupportedResult as e:
            assert e.result_type == "unreadable"


def test_what_agents_get_is_a_result_by_the_official_types() -> None:
    """The converted result of a call is one in the agent's own version."""
    legacy = b'{"content":[{"type":"text","text":"x"}],"isError":false}'
    modern = (
        b'{"resultType":"complete","content":[],"structuredContent":[1],"_meta":{"%bserverInfo":{"name":"s",'
        b'"version":"1"}}}' % IO.encode()
    )
    for from_modern, result in ((False, legacy), (True, modern)):
        for to_modern, version in ((False, "2025-11-25"), (True, "2026-07-28")):
            joined = json.loads(b"".join(result_parts(memoryview(result), from_modern, to_modern)))
            validate_server_result("tools/call", version, joined)


def test_the_data_of_an_error_of_ours() -> None:
    """Programs find what failed, and where, under one key."""
    data = json.loads(envelope.error_data("lost", "s", tool='t"', retryAfterMs=500))
    assert data == {
        "dev.mcphub/error": {
            "kind": "lost",
            "root": "transport",
            "layer": "connection",
            "retryable": True,
            "server": "s",
            "tool": 't"',
            "retryAfterMs": 500,
            "help": "docs/errors.md#lost",
        }
    }
    told = json.loads(envelope.error_data("lost", retryable=False, layer="network"))["dev.mcphub/error"]
    assert (told["retryable"], told["layer"], told["server"]) == (False, "network", "")
    # A kind that nobody has written about is still told.
    assert json.loads(envelope.error_data("new", "s")) == {"dev.mcphub/error": {"kind": "new", "server": "s"}}


@pytest.mark.parametrize(
    ("data", "both"),
    [
        (b"", {"dev.mcphub/error": {"a": 1}}),
        (b"{}", {"dev.mcphub/error": {"a": 1}}),
        (b"{ }", {"dev.mcphub/error": {"a": 1}}),
        (b'{"uri":"x:1"}', {"uri": "x:1", "dev.mcphub/error": {"a": 1}}),
        (b"null", {"dev.mcphub/error": {"a": 1}}),
        (b'{"note":"see dev.mcphub/error"}', {"note": "see dev.mcphub/error", "dev.mcphub/error": {"a": 1}}),
    ],
)
def test_what_is_said_beside_the_data_of_others(data: bytes, both: Any) -> None:
    """The data of a server's error stays what it is; whose it is stands beside it where that can be."""
    assert json.loads(envelope.add_to_data(data, b'{"dev.mcphub/error":{"a":1}}')) == both


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (b'{"content":[],"isError":true}', True),
        (b'{"isError" : true, "content":[]}', True),
        (b'{"isError":true,"structuredContent":{"a":1}}', True),
        (b'{"content":[],"isError":false}', False),
        (b'{"content":[{"type":"text","text":"\\"isError\\":true}"}]}', False),
        (b'{"content":[]}', False),
        (b'{"isError":"true","content":[]}', False),
        (b'{"isError":true,', False),
        (b'{"isError":true,"content":[' + b" " * (64 << 10) + b"]}", False),
    ],
)
def test_whether_a_result_says_that_it_is_an_error(result: bytes, says: bool) -> None:
    """The tool's own word counts, wherever in a result of usual size it stands."""
    assert envelope.says_error(result) is says


@pytest.mark.parametrize(
    ("result", "flagged"),
    [
        (b'{"content":[1.0]}', b'{"content":[1.0],"_meta":{W}}'),
        (b'{"_meta":{"own": 1},"content":[ ]}', b'{"_meta":{"own":1,W},"content":[ ]}'),
        (b'{"_meta":5}', b'{"_meta":5}'),
        (b"[]", b"[]"),
        (b"{", b"{"),
    ],
)
def test_a_warning_is_added(result: bytes, flagged: bytes) -> None:
    """C152: to a result that stays whole; one whose `_meta` cannot take it stays as it is."""
    warning = b'"dev.mcphub/warning":{"kind":"k","message":"m"}'
    assert with_warning(result, "k", "m") == flagged.replace(b"W", warning)


@pytest.mark.parametrize("offers", [b"", b'{"roots":{}}'])
def test_what_a_legacy_agent_can_do(offers: bytes) -> None:
    """B30: a modern server is told it with each request, a legacy one nothing."""
    for member in (hub_meta_member(offers), request_meta(True, RequestMeta(progress_token=b"1"), 7, offers)):
        meta = json.loads(b"{" + member[1:] + b"}")["_meta"]
        assert meta["io.modelcontextprotocol/clientCapabilities"] == json.loads(offers or b"{}")
    assert request_meta(False, RequestMeta(carried=b'"x":1'), 7, offers) == b',"_meta":{"x":1}'


# --- results of texts alone -------------------------------------------------------------------------------------------


def takes(result: bytes) -> bool:
    """Whether it is taken as a result of texts alone."""
    try:
        is_text_result(result)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def as_it_is(result: bytes) -> None:
    """A result of texts alone is the same for a legacy agent, also where it takes a closer look to see that, and where
    a modern server says that it is complete."""
    if not takes(result):
        return
    assert not envelope.says_error(result)
    complete = result[:-1] + envelope.COMPLETE_TAIL
    for from_modern, whole in ((False, result), (True, complete)):
        plain = plain_result(Raw(whole), from_modern)
        if plain is not None:
            assert plain == result
        joined = b"".join(result_parts(memoryview(whole), from_modern, False))
        assert joined == result if not from_modern else json.loads(joined) == json.loads(result)


TEXT_RESULT = b'{"content":[{"type":"text","text":"x"}]}'


@pytest.mark.parametrize(
    "result",
    [
        TEXT_RESULT,
        b'{"content":[]}',
        b'{"content":[{"type":"text","text":""},{"text":"x","type":"text"}],"isError":false}',
        b'{"isError":false,"content":[{"type":"text","text":"isError: true, {}"}]}',
        b'{"content":[{"type":"text","text":"{\\"uri\\":1,\\"isError\\":true}\\n\\u00e9\\ud83d\\ude00"}]}',
        b'{ "content" : [ ] , "isError" : false }',
        b'{"content":[{"type":"text","text":"%b"}]}' % (b"x" * 4000),
    ],
)
def test_results_of_texts_alone(result: bytes) -> None:
    """They are taken, and go to a legacy agent byte by byte."""
    assert takes(result) and plain_result(Raw(result), False) == result
    as_it_is(result)


@pytest.mark.parametrize(
    "result",
    [
        b'{"content":[{"type":"text","text":"uri"}]}',
        b'{"content":[{"type":"text","text":"_meta"}]}',
        b'{"content":[{"type":"text","text":"resultType"}]}',
        b'{"content":[{"type":"text","text":"\\u0041"}]}',
        b'{"content":[{"\\u0074ype":"t\\u0065xt","text":"x"}],"\\u0069sError":false}',
        b'{"content":[{"type":"text","text":"%b"}]}' % (b"x" * 5000),
    ],
)
def test_texts_that_need_a_closer_look(result: bytes) -> None:
    """Text that is a name that counts elsewhere, or that is written with escapes, is text all the same."""
    assert takes(result) and plain_result(Raw(result), False) is None
    as_it_is(result)


@pytest.mark.parametrize(
    "result",
    [
        b'{"content":[],"isError":true}',
        b'{"isError":true,"content":[]}',
        b'{"content":[],"is\\u0045rror":true}',
        b'{"\\u0069sError":true,"content":[]}',
        b'{"content":[],"isError":true,"isError":false}',
        b'{"content":[],"isError":false,"isError":true}',
        b'{"content":[],"isError":false,"is\\u0045rror":true}',
        b'{"content":[],"isError":null}',
        b'{"content":[],"isError":0}',
        b'{"content":[],"isError":1}',
        b'{"content":[],"isError":"false"}',
        b'{"content":[],"isError":"true"}',
        b'{"content":[],"iserror":false}',
        b'{"content":[],"_meta":{}}',
        b'{"content":[],"_meta":{"dev.mcphub/error":{}}}',
        b'{"content":[],"\\u005fmeta":null}',
        b'{"content":[],"structuredContent":{}}',
        b'{"content":[],"structured\\u0043ontent":{}}',
        b'{"content":[],"resultType":"complete"}',
        b'{"content":[],"resultType":"input_required"}',
        b'{"content":[],"task":{"taskId":"x"}}',
        b'{"content":[],"ttlMs":1}',
        b'{"content":[],"uri":"file:///x"}',
        b'{"content":[],"":1}',
        b'{"content":[{"type":"resource_link","uri":"file:///x","name":"x"}]}',
        b'{"content":[{"type":"resource","resource":{"uri":"file:///x","text":"x"}}]}',
        b'{"content":[{"type":"text","text":"x","uri":"file:///x"}]}',
        b'{"content":[{"type":"image","data":"","mimeType":"image/png"}]}',
        b'{"content":[{"type":"audio","data":"","mimeType":"audio/wav"}]}',
        b'{"content":[{"type":"text","text":"x","annotations":{"audience":["user"]}}]}',
        b'{"content":[{"type":"text","text":"x","_meta":{}}]}',
        b'{"content":[{"type":"text","text":"x"},{"type":"image","data":"","mimeType":"image/png"}]}',
        b'{"content":[{"type":"image","type":"text","text":"x"}]}',
        b'{"content":[{"type":"text","type":"image","text":"x"}]}',
        b'{"content":[{"type":"text","text":5}]}',
        b'{"content":[{"type":"text","text":null}]}',
        b'{"content":[{"type":"text"}]}',
        b'{"content":[{"text":"x"}]}',
        b'{"content":[null]}',
        b'{"content":["x"]}',
        b'{"content":{}}',
        b'{"content":null}',
        b'{"content":1,"content":[]}',
        b'{"content":[],"content":1}',
        b'{"isError":false}',
        b"{}",
        b"",
        b"null",
        b"7",
        b'"x"',
        b"[]",
        b"[%b]" % TEXT_RESULT,
        TEXT_RESULT[:-1],
        TEXT_RESULT + b"}",
        TEXT_RESULT.replace(b'"x"', b'"\\ud800"'),
        TEXT_RESULT.replace(b'"x"', b'"\\ude00\\ud83d"'),
        TEXT_RESULT.replace(b'"x"', b'"\x01"'),
        b'{"content":' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_what_is_more_than_texts(result: bytes) -> None:
    """What says an error, or may, and what has anything but texts is left to be looked at with care."""
    assert not takes(result)


RESULT_TEXTS = st.text(max_size=9) | st.sampled_from(["uri", "_meta", "resultType", "audio", '"_meta":', "isError"])
BLOCK = st.fixed_dictionaries({"type": st.just("text"), "text": RESULT_TEXTS})
BLOCKS = BLOCK | st.fixed_dictionaries(
    {"type": st.just("text"), "text": RESULT_TEXTS}, optional={"uri": st.just("x:1"), "_meta": st.just({})}
) | st.fixed_dictionaries({"type": st.sampled_from(["text", "image"])})


@given(
    st.fixed_dictionaries(
        {"content": st.lists(BLOCK | BLOCKS, max_size=3)},
        optional={"isError": st.booleans(), "_meta": st.just({"dev.mcphub/x": 1}), "ttlMs": st.just(1)},
    ),
    st.booleans(),
    st.booleans(),
)
def test_texts_of_any_kind(result: dict[str, Any], blanks: bool, hidden: bool) -> None:
    """What is taken is texts alone and no error, and reaches a legacy agent as it was written."""
    data = json.dumps(result, separators=(", ", ": ") if blanks else (",", ":"))
    if hidden:
        data = data.replace('"isError"', '"is\\u0045rror"').replace('"type"', '"\\u0074ype"')
    texts = all(block.keys() == {"type", "text"} and block["type"] == "text" for block in result["content"])
    assert takes(data.encode()) == (texts and result.keys() <= {"content", "isError"} and not result.get("isError"))
    as_it_is(data.encode())


@given(written())
def test_results_that_are_taken_are_as_they_are(case: tuple[dict[str, Any], bytes]) -> None:
    """The same however a result is written."""
    as_it_is(case[1].strip())
