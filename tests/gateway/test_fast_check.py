"""What is seen to be right at once."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.gateway.careful_check import CarefulCheck
from mcphub.gateway.fast_check import fast_check, says_nothing
from mcphub.gateway.tool_schema import read_schema
from tests.gateway.schemas import ARGUMENTS, Call, calls, schemas, valid


def taken(schema: dict[str, Any], value: Any, *, of_arguments: bool = False) -> bool | None:
    """None = there is no quick check."""
    found = read_schema(json.dumps(schema).encode(), of_arguments=of_arguments)
    assert found is not None
    accept = fast_check(found)
    if accept is None:
        return None
    try:
        accept(value if isinstance(value, bytes) else json.dumps(value).encode())
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def of(schema: Any, *required: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, "required": list(required), **more}


@pytest.mark.parametrize(
    ("schema", "right", "not_certain"),
    [
        (of({"type": "string"}, "a"), [{"a": "x"}, {"a": "", "b": 1}], [{}, {"a": 1}, {"a": None}, [], {"b": "x"}]),
        (of({"type": "integer"}), [{}, {"a": 5}, {"a": 10**30}], [{"a": "5"}, {"a": True}, {"a": 5.5}, {"a": None}]),
        (of({"type": "number"}), [{"a": 5}, {"a": 5.5}], [{"a": "5"}, {"a": False}]),
        (of({"type": ["boolean", "null"]}), [{"a": True}, {"a": None}], [{"a": 0}, {"a": "true"}]),
        (of({}, additionalProperties=False), [{"a": [5]}, {}], [{"b": 1}]),
        (of({}, "a"), [{"a": None}], [{}]),
        (of({"enum": ["x", 1, None, True, False, [1]]}), [{"a": "x"}, {"a": 1}, {"a": False}], [{"a": "y"}, {"a": 2}]),
        (of({"const": "x"}), [{"a": "x"}], [{"a": "y"}]),
        (of({"type": "array", "items": {"type": "null"}, "maxItems": 1}), [{"a": [None]}], [{"a": [1]}]),
        (of({"type": "string", "minLength": 2}), [{"a": "😀😀"}], [{"a": "😀"}]),
        (of({"type": "integer", "minimum": 0.5, "exclusiveMaximum": 3}), [{"a": 1}, {"a": 2}], [{"a": 0}, {"a": 3}]),
        (of({"type": "number", "minimum": 0.5}), [{"a": 0.5}, {"a": 1}], [{"a": 0.4}, {"a": 0}]),
        (of({"anyOf": [{"type": "integer"}, {"type": "null"}]}), [{"a": None}, {"a": 1}], [{"a": "x"}]),
        (of({"type": "object", "additionalProperties": {"type": "integer"}}), [{"a": {"x": 1}}], [{"a": {"x": "1"}}]),
        (of(of({"type": "boolean"}, "a")), [{"a": {"a": True}}], [{"a": {}}, {"a": {"a": 1}}]),
        (of({"type": "string", "pattern": "x"}), [{}, {"b": 1}], [{"a": "x"}]),
        (of({"$ref": "#/$defs/n"}, **{"$defs": {"n": {"type": "integer"}}}), [{"a": 1}], [{"a": "1"}]),
        (of({"type": "integer", "default": 1}, "a"), [{}, {"a": 2}], [{"a": "2"}]),
        ({"properties": {"": {"type": "integer"}, "é x": {"type": "null"}}}, [{"": 1, "é x": None}], [{"": ""}]),
    ],
)
def test_tables(schema: dict[str, Any], right: list[Any], not_certain: list[Any]) -> None:
    """C151: the keywords that nearly all tools consist of have an exact counterpart; nothing is turned into another
    type."""
    assert [taken(schema, value) for value in right] == [True] * len(right)
    assert [taken(schema, value) for value in not_certain] == [False] * len(not_certain)


@pytest.mark.parametrize(
    "schema",
    [
        of({"type": "string", "pattern": "x"}, "a"),
        of({"$ref": "#"}, "a"),
        {"type": "object", "minProperties": 1},
        {"type": "object", "patternProperties": {"a": {}}},
        {"type": "object", "not": {}},
        {"type": "object", "required": ["b"], "additionalProperties": False},
        {"type": "object", "properties": {f"p{n}": {} for n in range(500)}},
        {"type": "object", "required": ['a"b']},
        of({"enum": [[1]]}, "a"),
        of({"minimum": 2**70, "type": "integer"}, "a"),
        of(False, "a"),
    ],
)
def test_what_has_no_counterpart(schema: dict[str, Any]) -> None:
    """C151: the quick check leaves it to the thorough one."""
    assert taken(schema, {"a": "x"}) is None


def test_written_in_other_ways() -> None:
    """C151: blanks, escapes, members that come twice and what is no JSON: what is taken is right in any reading."""
    schema = of({"type": "integer"}, "a", additionalProperties=False)
    assert taken(schema, b' {\n "\\u0061" : 5 } ') is True
    for odd in (b'{"a":5,"a":"x"}', b'{"a":"x","a":5}', b'{"a":5', b'{"a":1e999}', b'{"a":' + b"[" * 5000, b""):
        assert taken(schema, odd) is False


@pytest.mark.parametrize(
    ("schema", "nothing"),
    [
        ({"type": "object"}, True),
        ({}, True),
        ({"type": ["object", "null"], "properties": {"a": {}, "b": True}, "required": []}, True),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, False),
        ({"type": "object", "minProperties": 1}, False),
        ({"type": "object", "required": ["a"]}, False),
        ({"type": "array"}, False),
    ],
)
def test_a_schema_that_says_nothing(schema: dict[str, Any], nothing: bool) -> None:
    """Arguments are an object already, so that most schemas of tools without parameters need no check."""
    found = read_schema(json.dumps(schema).encode())
    assert found is not None
    assert says_nothing(found, of_objects=True) is nothing


@given(schemas(), ARGUMENTS, st.booleans())
def test_it_takes_only_what_is_valid(schema: dict[str, Any], arguments: dict[str, Any], of_arguments: bool) -> None:
    """C151: what the quick check takes, jsonschema-rs and jsonschema take as well."""
    raw, data = json.dumps(schema).encode(), json.dumps(arguments).encode()
    if not taken(schema, arguments, of_arguments=of_arguments):
        return
    assert CarefulCheck(raw, "the arguments", of_arguments=of_arguments).wrong_with(data) == ()
    found = read_schema(raw, of_arguments=of_arguments)
    assert found is not None
    assert valid(found.root, arguments) is not False


@given(calls())
def test_null_for_what_may_be_missing(call: Call) -> None:
    """SEP-2243: at every depth null is taken where a member may be missing, and not where it is required."""
    assert taken(call.schema, call.arguments, of_arguments=True)
    for broken in call.broken:
        assert not taken(call.schema, broken, of_arguments=True)
