"""What is certainly wrong, found by a whole implementation of JSON Schema within bounds."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given

from mcphub.gateway.careful_check import MAX_NODES, MAX_SEARCHED, CarefulCheck
from tests.gateway.schemas import ARGUMENTS, Call, calls, schemas, valid
from tests.gateway.test_tool_schema import doubling


def wrong(schema: Any, value: Any) -> tuple[str, ...]:
    raw = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return CarefulCheck(raw, "the arguments").wrong_with(data)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"properties": {"a": {"pattern": "(?<=x)y"}}}, False),
        ({"properties": {"a": {"pattern": "(a)\\1"}}}, False),
        ({"properties": {"a": {"pattern": "["}}}, False),
        ({"properties": {"a": {"pattern": "(a{1000}){1000}"}}}, False),
        ({"properties": {"a": {"pattern": "^(a+)+$"}}}, True),
        ({"properties": {"a": {"pattern": "(?<=x)y", "type": "integer"}}}, True),
        ({"properties": {"a": {"anyOf": [{"pattern": "(?!x)"}, {"pattern": "^b"}]}}}, False),
        ({"properties": {"a": {"allOf": [{"pattern": "(?!x)"}, {"pattern": "^b"}]}}}, True),
        ({"properties": {"a": {"format": "no-such-format"}}}, False),
        ({"properties": {"a": {"format": "date-time"}}}, False),
        ({"properties": {"a": {"no-such-keyword": 1}}}, False),
        ({"definitions": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/definitions/n"}}}, True),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:1/x"}}}, False),
        ({"properties": {"a": {"$ref": "file:///etc/hostname"}}}, False),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:1/x"}}, "required": ["b"]}, True),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"type": "null"}}}, True),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "additionalProperties": False}, True),
        ({"$schema": "https://example.org/own", "properties": {"a": {"type": "null"}}}, False),
        ({"properties": {"a": {"type": "text"}}, "required": True}, False),
        ({"oneOf": [{"required": ["a"]}, {"properties": {"a": {"type": "string"}}}]}, False),
        ({"properties": {"b": {"default": 5}}, "required": ["a", "b"]}, False),
        ({"propertyNames": {"pattern": "^b"}}, True),
        ({"patternProperties": {"^a": {"type": "null"}}}, True),
        ({"patternProperties": {"^(?=a)": {"type": "null"}}, "additionalProperties": False}, False),
    ],
)
def test_what_is_checked(schema: dict[str, Any], told: bool) -> None:
    """C151: unknown formats and keywords, look-around, remote references and other dialects refuse nothing, and do not
    keep the rest from being checked."""
    assert bool(wrong(schema, {"a": "a" * 40 + "!"})) is told


def test_numbers() -> None:
    """C151: a whole float is an integer in every dialect, a string is none in any."""
    for dialect in ("draft-04/schema", "draft-07/schema", "draft/2020-12/schema"):
        schema = {"$schema": f"http://json-schema.org/{dialect}", "properties": {"a": {"items": {"type": "integer"}}}}
        assert wrong(schema, {"a": [5, 5.0, -0.0, 10**30]}) == ()
        assert wrong(schema, {"a": ["5"]}) and wrong(schema, {"a": [5.5]})


def test_what_is_too_much_is_not_checked() -> None:
    """C151: schemas and values that would take long, alone or together, are passed at once."""
    start = time.perf_counter()
    required = {"required": ["b"]}
    deep: Any = {}
    for _ in range(100):
        deep = {"a": deep}
    assert wrong({**required, **doubling(22)}, {}) == ()
    assert wrong({"$ref": "#", **required}, {}) == ()
    assert wrong(required, deep) == ()
    assert wrong(required, b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}") == ()
    assert wrong(required, {"a": [0] * MAX_NODES}) == ()
    assert wrong(required, b'{"a":"\\ud800"}') == () == wrong(required, b"{")
    tree = {"properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}, "additionalProperties": False}
    for _ in range(60):
        deep = deep.get("a", {})
    assert wrong(tree, {**deep, "x": 1}) == ()
    assert wrong(tree, {"a": {"a": {}}, "x": 1})
    assert time.perf_counter() - start < 10


def test_patterns_are_bounded() -> None:
    """C151: what takes long in an engine with backtracking takes none; a text that is too long for patterns is checked
    by all the rest."""
    start = time.perf_counter()
    schema = {"properties": {"a": {"pattern": "^(a+)+$"}, "b": {"type": "integer"}}}
    assert wrong(schema, {"a": "a" * 10_000 + "!"})
    assert wrong(schema, {"a": "a" * MAX_SEARCHED + "!"}) == ()
    assert wrong(schema, {"a": "a" * MAX_SEARCHED + "!", "b": "x"}) == ("b must be integer, not string",)
    nasty = {"allOf": [{"pattern": f"[ab]*a[ab]{{{n}}}c"} for n in range(100, 200)]}
    assert wrong({"properties": {"a": nasty}}, {"a": "ab" * 5000}) == ()
    assert time.perf_counter() - start < 10


def test_many_violations_of_a_large_value() -> None:
    """C151: they are neither copied nor counted: that there are some is enough."""
    start = time.perf_counter()
    every = {"allOf": [{"required": [f"b{n}"]} for n in range(3000)]}
    assert wrong(every, {"a": "x" * 100_000}) == ("something in the arguments does not fit the schema",)
    assert len(wrong(every, {})) == 5
    assert time.perf_counter() - start < 10


def test_an_engine_that_fails() -> None:
    """C151: what it cannot do refuses nothing."""
    check = CarefulCheck(b'{"required":["a"]}', "the arguments")
    assert check.wrong_with(b"{}")
    schema, _ = check._compiled[True] or pytest.fail("not compiled")

    class Broken:
        def is_valid(self, value: Any) -> bool:
            raise BaseException("a panic")

    check._compiled[True] = schema, Broken()
    assert check.wrong_with(b"{}") == ()


@given(schemas(), ARGUMENTS)
def test_nothing_that_is_valid_is_refused(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    """C151: whatever the schema, arguments that a whole implementation of JSON Schema takes are not refused here."""
    if wrong(schema, arguments):
        assert not valid(schema, arguments)


@given(calls())
def test_null_for_what_may_be_missing(call: Call) -> None:
    """SEP-2243: at every depth null is taken where a member may be missing, and not where it is required."""
    check = CarefulCheck(json.dumps(call.schema).encode(), "the arguments", of_arguments=True)
    assert check.wrong_with(json.dumps(call.arguments).encode()) == ()
    for broken in call.broken:
        assert check.wrong_with(json.dumps(broken).encode())
