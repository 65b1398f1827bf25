"""What of a tool's schema is used for checking."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given

from mcphub.gateway.tool_schema import DIALECTS, ENDLESS, MAX_DEPTH, MAX_NODES, MAX_SCHEMA, Schema, read_schema
from tests.gateway.schemas import ARGUMENTS, schemas, valid

INTEGER = {"type": "integer"}


def read(schema: Any, *without: str) -> Schema:
    found = read_schema(json.dumps(schema).encode(), without)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("written", "used"),
    [
        ({"title": 5, "description": [], "format": "no-such", "x-own": 1, "$comment": {}, "examples": 5}, {}),
        ({"type": "text", "minimum": "5", "required": True, "enum": [], "pattern": 5, "multipleOf": 0}, {}),
        ({"type": ["string", "string"], "properties": [], "anyOf": [], "items": 5, "maxLength": -1}, {}),
        ({"type": ["string", "null"], "minLength": 1}, {"type": ["string", "null"], "minLength": 1}),
        ({"exclusiveMinimum": True, "minimum": 1}, {"minimum": 1}),
        ({"items": [INTEGER], "additionalItems": False}, {}),
        ({"oneOf": [INTEGER, {}]}, {"anyOf": [INTEGER, {}]}),
        ({"oneOf": [INTEGER], "anyOf": [{}]}, {"anyOf": [{}], "allOf": [{"anyOf": [INTEGER]}]}),
        (
            {"required": ["a", "b", "b"], "properties": {"a": {"default": 1}, "b": {}}},
            {"required": ["b"], "properties": {"a": {}, "b": {}}},
        ),
        ({"not": {}, "allOf": [{"nullable": True}]}, {"not": {}, "allOf": [{"anyOf": [{}, {"type": "null"}]}]}),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:1/x", **INTEGER}}}, {"properties": {"a": {}}}),
        ({"properties": {"a": {"$ref": "file:///x"}, "b": {"$ref": "x"}}}, {"properties": {"a": {}, "b": {}}}),
        ({"properties": {"a": {"$ref": "#/nowhere"}, "b": {"$dynamicRef": "#x"}}}, {"properties": {"a": {}, "b": {}}}),
        ({"properties": {"a": {"$id": "x", **INTEGER}}}, {"properties": {"a": {}}}),
        (
            {"definitions": {"n/m": INTEGER}, "properties": {"a": {"$ref": "#/definitions/n~1m"}}},
            {"definitions": {"n/m": INTEGER}, "properties": {"a": {"$ref": "#/definitions/n~1m"}}},
        ),
        ({"not": {"required": ["a"]}}, {"not": {"required": ["a"]}}),
        ({"not": {"$ref": "#/x"}, "if": {"pattern": "x"}, "then": False}, {}),
        ({"if": {}, "then": {"oneOf": [{}]}}, {"if": {}, "then": {"anyOf": [{}]}}),
        ({"contains": INTEGER, "maxContains": 1}, {"contains": INTEGER, "maxContains": 1}),
        ({"contains": {"$ref": "#"}, "maxContains": 1}, {}),
        ({"unevaluatedProperties": False}, {"unevaluatedProperties": False}),
        ({"unevaluatedProperties": False, "allOf": [{"$ref": "x"}]}, {"allOf": [{}]}),
    ],
)
def test_what_is_used(written: dict[str, Any], used: dict[str, Any]) -> None:
    """C151: known assertions of a sound type, weakened where servers are known to be lenient; nothing else, and never
    more than is written. A remote reference allows everything."""
    assert read(written).root == used


@pytest.mark.parametrize(
    ("written", "used"),
    [
        (
            {"properties": {"a": INTEGER, "b": INTEGER, "c": False, "d": {}}, "required": ["b"]},
            {
                "properties": {"a": {"type": ["integer", "null"]}, "b": INTEGER, "c": False, "d": {}},
                "required": ["b"],
            },
        ),
        (
            {"properties": {"a": {"type": ["null", "string"], "enum": ["x", None]}, "b": {"enum": [1]}}},
            {"properties": {"a": {"type": ["null", "string"], "enum": ["x", None]}, "b": {"enum": [1, None]}}},
        ),
        (
            {"properties": {"a": {"oneOf": [INTEGER]}, "b": {"const": 1}, "c": {"minLength": 1}}},
            {
                "properties": {
                    "a": {"anyOf": [INTEGER, {"type": "null"}]},
                    "b": {"anyOf": [{"const": 1}, {"type": "null"}]},
                    "c": {"minLength": 1},
                }
            },
        ),
        (
            {
                "properties": {"a": {"allOf": [INTEGER], "$defs": {"n": INTEGER}}},
                "items": {"properties": {"b": INTEGER}},
            },
            {
                "properties": {"a": {"$defs": {"n": INTEGER}, "anyOf": [{"allOf": [INTEGER]}, {"type": "null"}]}},
                "items": {"properties": {"b": {"type": ["integer", "null"]}}},
            },
        ),
        (
            {"additionalProperties": INTEGER, "required": ["a"]},
            {
                "additionalProperties": {"type": ["integer", "null"]},
                "required": ["a"],
                "properties": {"a": INTEGER},
            },
        ),
        (
            {"patternProperties": {"^a": INTEGER}, "properties": {"b": {"properties": {"c": INTEGER}}}},
            {
                "patternProperties": {"^a": {"type": ["integer", "null"]}},
                "properties": {"b": {"properties": {"c": {"type": ["integer", "null"]}}}},
            },
        ),
        (
            {"properties": {"a": {"properties": {"x": INTEGER}}, "b": {"$ref": "#/properties/a/properties/x"}}},
            {
                "properties": {
                    "a": {"properties": {"x": {"type": ["integer", "null"]}}},
                    "b": {"anyOf": [{"$ref": "#/properties/a/properties/x"}, {"type": "null"}]},
                }
            },
        ),
        ({"not": {"properties": {"a": INTEGER}}}, {"not": {"properties": {"a": INTEGER}}}),
    ],
)
def test_null_where_a_member_may_be_missing(written: dict[str, Any], used: dict[str, Any]) -> None:
    """SEP-2243: in arguments, at every depth, whatever the schema of the member; a required one keeps its types, and
    what a condition looks at stays as it is."""
    found = read_schema(json.dumps(written).encode(), of_arguments=True)
    assert found is not None
    assert found.root == used
    assert read(written).root == read(written).root != used or "not" in written


def test_patterns_can_be_left_out() -> None:
    """C151: one that no engine takes, without the others; what depends on it goes with it."""
    schema = {
        "properties": {"a": {"pattern": "(?<=x)y", "minLength": 1}, "b": {"pattern": "^b$"}},
        "patternProperties": {"(?=z)": INTEGER},
        "additionalProperties": False,
    }
    assert read(schema).patterns == {"(?<=x)y", "^b$", "(?=z)"}
    found = read(schema, "(?<=x)y", "(?=z)")
    assert found.patterns == {"^b$"}
    assert found.root == {"properties": {"a": {"minLength": 1}, "b": {"pattern": "^b$"}}}


@pytest.mark.parametrize("named", [name for name in DIALECTS if name])
def test_dialects(named: str) -> None:
    """C151: an official dialect is used, with or without `#`, by http or https; draft 4 has its own boolean bounds."""
    for uri in (f"http://{named}#", f"https://{named}"):
        found = read({"$schema": uri, "minimum": 1, "exclusiveMinimum": True, "const": 1, "items": [INTEGER]})
        assert found.dialect == DIALECTS[named]
        assert ("exclusiveMinimum" in found.root) == (found.dialect == "4") == ("const" not in found.root)
        assert ("items" in found.root) == (found.dialect != "2020-12")
    assert read({"$schema": f"http://{named}", "additionalProperties": False}).root["additionalProperties"] in (
        False,
        {"not": {}},
    )


def nested(depth: int) -> Any:
    found: Any = {}
    for _ in range(depth):
        found = {"not": found}
    return found


@pytest.mark.parametrize(
    "schema",
    [
        b"",
        b"{",
        b"5",
        b"true",
        b"null",
        b'{"$schema":"https://example.org/own"}',
        b'{"$schema":5}',
        b'{"a":"\\ud800"}',
        b'{"not":' * 5000 + b"{}" + b"}" * 5000,
        b'{"a":"' + b"x" * MAX_SCHEMA + b'"}',
        b'{"enum":[' + b"1," * MAX_NODES + b"1]}",
        json.dumps(nested(MAX_DEPTH + 1)).encode(),
    ],
)
def test_what_is_not_used(schema: bytes) -> None:
    """C151: what is too large, too deep, of another dialect or no object at all, in next to no time."""
    start = time.perf_counter()
    assert read_schema(schema) is None
    assert time.perf_counter() - start < 10


def doubling(levels: int) -> dict[str, Any]:
    twice = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**twice, f"d{levels}": {"pattern": "x"}}}


def test_what_a_check_may_cost() -> None:
    """C151: references that double, or that lead in a circle, are counted without being followed for ever."""
    start = time.perf_counter()
    assert read({"properties": {"a": {"enum": [1, 2]}, "b": {}}}).cost(1) == (4, 0)
    assert read({"properties": {"a": {"enum": [1, 2]}}}).cost(0) == (2, 0)
    visits, patterns = read(doubling(30)).cost(1)
    assert visits > patterns == 2**30
    assert read({"$ref": "#"}).cost(5) == (ENDLESS, ENDLESS)
    circle = {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"not": {}, "anyOf": [{"$ref": "#"}]}}}
    assert read(circle).cost(1) == (ENDLESS, ENDLESS)
    tree = {"properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
    assert read(tree).cost(3)[0] < 100 < 2**40 < read(tree).cost(64)[0]
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5000)}
    assert read({"$ref": "#/$defs/d0", "$defs": {**chain, "d5000": {}}}).cost(1)[0] == ENDLESS
    assert time.perf_counter() - start < 10


@given(schemas(), ARGUMENTS)
def test_it_is_only_weakened(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    """C151: whatever a whole implementation of JSON Schema takes by the schema as it is written, it takes by this."""
    if not valid(schema, arguments):
        return
    for of_arguments in (False, True):
        found = read_schema(json.dumps(schema).encode(), of_arguments=of_arguments)
        assert found is not None
        assert valid(found.root, arguments) is not False
