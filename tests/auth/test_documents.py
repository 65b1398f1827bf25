"""How JSON of another server is read: objects of bounded depth, fields by type."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.auth import documents
from mcphub.auth.documents import DEEPEST


def nested(levels: int) -> bytes:
    return b'{"a":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b'\xef\xbb\xbf {"a": 1}\r\n', {"a": 1}),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b"[]", None),
        (b"null", None),
        (b'"x"', None),
        (b"", None),
        (b"{", None),
        (b"<html>", None),
        (b'{"a": "\xff"}', None),
        (b'{"a": NaN}', None),
        (nested(DEEPEST), "deep"),
        (nested(DEEPEST + 1), None),
    ],
)
def test_what_is_an_object(body: bytes, expected: object) -> None:
    """S10: one object of at most 64 levels; anything else is none."""
    found = documents.read(body)
    assert (found is None) == (expected is None)
    if expected is not None and b"[[" not in body:
        assert found == expected


@pytest.mark.parametrize("shield", ['"]]]]"', '"\\"]]]]"', '"\\\\"', '"["'])
def test_brackets_in_strings_do_not_count(shield: str) -> None:
    """S10: a text full of closing brackets does not hide a depth that would be refused, and one of opening ones is
    no depth."""
    deep = "[" + shield + "," if "]" in shield else "["
    assert documents.read(('{"a":' + deep * DEEPEST + "1" + "]" * DEEPEST + "}").encode()) is None
    assert documents.read(('{"a":[' + ",".join([shield] * 100) + "]}").encode()) is not None


@pytest.mark.parametrize("body", [b'"' + b'\\"' * 130_000, b'{"' * 100_000, b"[" * 262_144, b'"' * 262_143])
def test_it_does_not_take_long(body: bytes) -> None:
    """S10: the largest answer that is read costs a moment, whatever stands there."""
    begun = time.process_time()
    assert documents.read(body) is None
    assert time.process_time() - begun < 1.0


@given(st.binary(max_size=200))
def test_any_bytes(body: bytes) -> None:
    """It is never an error."""
    assert documents.read(body) is None or isinstance(documents.read(body), dict)


def test_fields_by_type() -> None:
    """What is not of the wanted type is not there; C102: null is absent."""
    document = {"a": "x", "b": None, "c": 5, "d": ["x", 1, "", "y"], "e": "x y", "f": []}
    assert [documents.text(document, name) for name in "abcz"] == ["x", "", "", ""]
    assert [documents.texts(document, name) for name in "bdefz"] == [None, ("x", "y"), None, (), None]
