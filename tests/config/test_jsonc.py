"""Tables for the reader of configuration JSON."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcphub.config.jsonc import JsoncError, kind_of, parse
from mcphub.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            '{ // team\n "mcpServers": { "a": {"command":"a-srv","args":["http://x//y","/*no*/"],}, }, }',
            {"mcpServers": {"a": {"command": "a-srv", "args": ["http://x//y", "/*no*/"]}}},
        ),
        ("/* head */{/**/}/* tail */ // end", {}),
        ('{"a"/*1*/:/*2*/1/*3*/,/*4*/}', {"a": 1}),
        ("[1,2,]", [1, 2]),
        ("/* ** / * */[]", []),
        ('["\\"// not a comment", "\\\\"]//x', ['"// not a comment', "\\"]),
        ("[]//\r", []),
    ],
)
def test_comments_and_trailing_commas(text: str, value: Any) -> None:
    """C001: comments and trailing commas are accepted, and what looks like one inside a string stays as it is."""
    assert parse(text.encode()).value == value


@pytest.mark.parametrize(
    "data",
    [b'\xef\xbb\xbf{"mcpServers":{}}', b'{\r\n"mcpServers":\r\n{}}\r\n', b'\xef\xbb\xbf{\r\n"mcpServers": {},\r\n}'],
)
def test_bom_and_crlf_are_accepted(data: bytes) -> None:
    """C002: a byte order mark and Windows line ends are no reason to lose a file."""
    assert parse(data).value == {"mcpServers": {}}


@pytest.mark.parametrize(
    ("data", "at"),
    [
        ('{"mcpServers":{}}'.encode("utf-16"), 0),
        (b"\xfe\xff\x00{\x00}", 0),
        (b'{"a":"x\xffy"}', 7),
        (b'{"a":"\xed\xa0\x80"}', 6),
        (b'{"a":"\xc3', 6),
    ],
)
def test_other_encodings_are_refused(data: bytes, at: int) -> None:
    """C002: bytes that are not UTF-8 are refused with their offset, never replaced."""
    with pytest.raises(JsoncError, match=f"not UTF-8 at byte {at}"):
        parse(data)


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        (
            '{"mcpServers":{"db":{"command":"good"},\n"db":{"command":"evil"}}}',
            "'db', first on line 1, again on line 2",
            2,
        ),
        ('{"db":{"command":"good","command":"evil"}}', "'command', first on line 1, again on line 1", 1),
        ('{"a":1,\n\n"\\u0061":2}', "'a', first on line 1, again on line 3", 3),
        ('{"":1,"":2}', "'', first on line 1", 1),
    ],
)
def test_duplicate_keys_are_refused(text: str, message: str, line: int) -> None:
    """C003: a key that stands twice is an error that names it and both lines, however it is spelled."""
    with pytest.raises(JsoncError) as caught:
        parse(text.encode())
    assert message in str(caught.value)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("", "expected a value, found the end of the file", 1, 1),
        ("// only\n", "expected a value", 2, 1),
        ("{", 'expected a key in double quotes or "}"', 1, 2),
        ('{"a" 1}', 'expected ":"', 1, 6),
        ('{"a":1 "b":2}', 'expected "," or "}"', 1, 8),
        ("[1 2]", 'expected "," or "]"', 1, 4),
        ("[,]", "expected a value", 1, 2),
        ("[1,,2]", "expected a value", 1, 4),
        ("{,}", "expected a key", 1, 2),
        ("{'a':1}", "expected a key", 1, 2),
        ("{a:1}", "expected a key", 1, 2),
        ("[NaN]", "expected a value, found 'NaN'", 1, 2),
        ("[Infinity]", "expected a value", 1, 2),
        ("[-Infinity]", "expected a value", 1, 2),
        ("[1e999]", "number too large", 1, 2),
        ("[" + "9" * 5000 + "]", "too many digits", 1, 2),
        ("[01]", "expected a value", 1, 2),
        ("[.5]", "expected a value", 1, 2),
        ("[+1]", "expected a value", 1, 2),
        ("[0x10]", "expected a value", 1, 2),
        ("[True]", "expected a value, found 'True'", 1, 2),
        ("[1]\r\n\r\nx", "text after the end", 3, 1),
        ("[1] [2]", "text after the end", 1, 5),
        ("[1 /* x", "comment without end", 1, 4),
        ("/", "expected a value", 1, 1),
        ('["a\nb"]', "string without end", 1, 2),
        ('["a', "string without end", 1, 2),
        ('["a\tb"]', "control character U+0009", 1, 4),
        ('["\\x"]', "unknown escape", 1, 3),
        ('["\\u12"]', "four hex digits", 1, 3),
        ('["\\ud800"]', "half of a surrogate pair", 1, 3),
        ('["\\ude00\\ud83d"]', "half of a surrogate pair", 1, 3),
        ('["\\ud83d\\u0041"]', "half of a surrogate pair", 1, 3),
        ('{"é": x}', "expected a value, found 'x'", 1, 7),
    ],
)
def test_errors_say_where(text: str, message: str, line: int, column: int) -> None:
    """Anything else that is not JSON is refused with line and column, in characters."""
    with pytest.raises(JsoncError) as caught:
        parse(text.encode())
    assert message in caught.value.message
    assert (caught.value.line, caught.value.column) == (line, column)
    assert isinstance(caught.value, ConfigError)


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, "[" * 101 + "]" * 101])
def test_deep_nesting_is_an_error(text: str) -> None:
    """A file nested without end is refused like any other, not with a RecursionError."""
    with pytest.raises(JsoncError, match="nested deeper than 100 levels"):
        parse(text.encode())


def test_a_hundred_levels_are_read() -> None:
    """The limit itself is legal."""
    assert parse(b"[" * 100 + b"]" * 100).value is not None


def test_lines_of_keys() -> None:
    """The line of every key and element can be asked, and a path that leads nowhere gives the nearest known line."""
    document = parse(b'// head\n{\n "a": {\r\n  "b": [1,\n   {"c": 2}],\r  "d": 3\n }\n}')
    table: dict[tuple[str | int, ...], int] = {
        (): 2,
        ("a",): 3,
        ("a", "b"): 4,
        ("a", "b", 0): 4,
        ("a", "b", 1): 5,
        ("a", "b", 1, "c"): 5,
        ("a", "d"): 6,
        ("a", "missing"): 3,
        ("a", "b", 7, "x"): 4,
        ("nothing",): 2,
    }
    assert {path: document.line(path) for path in table} == table
    assert document.lines.below(("a",)).line(("d",)) == 6


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(deadline=None, max_examples=60)
@given(value=_JSON, indent=st.sampled_from([None, 1]), ascii_only=st.booleans())
def test_every_json_text_reads_as_json_says(value: Any, indent: int | None, ascii_only: bool) -> None:
    """The grammar is a superset: plain JSON means what it always means."""
    assert parse(json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()).value == value


@settings(deadline=None, max_examples=200)
@given(data=st.binary(max_size=40) | st.text('{}[]",:/*\\u0d8e1 \n', max_size=40).map(str.encode))
def test_no_input_crashes(data: bytes) -> None:
    """Any bytes at all give a value or a JsoncError."""
    try:
        parse(data)
    except JsoncError as error:
        assert error.message


@pytest.mark.parametrize("unit", [b"/**/", b"//\n", b" ", b'"a",', b"[],", b'"\\n",', b"/"])
def test_large_files_take_linear_time(unit: bytes) -> None:
    """A megabyte of anything is read or refused in seconds, whatever it repeats."""
    started = time.monotonic()
    try:
        parse(b"[" + unit * (1_000_000 // len(unit)) + b"]")
    except JsoncError:
        pass
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    ("text", "kind"),
    [("true", "true or false"), ("1", "a number"), ("1.5", "a number"), ('"1"', "a string"), ("[]", "a list"),
     ("{}", "an object"), ("null", "null")],
)  # fmt: skip
def test_kinds_of_values(text: str, kind: str) -> None:
    """Each kind has the name that JSON's readers know it by; true is no number."""
    assert kind_of(parse(text.encode()).value) == kind
