"""Owns schemas and values by chance, for tests of what is checked by them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import jsonschema  # type: ignore[import-untyped]
from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "c", "é x", ""])
SCALARS: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([2**53, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**25])
    | st.sampled_from([0.0, -0.0, 1.0, 2.0, 0.5, -1.5, 1e300, 1e-300])
    | st.sampled_from(["", "x", "xy", "xyz", "😀", "\x00", "1"])
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(NAMES, VALUES, max_size=4)

_TYPE = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
_BOUND = st.integers(-2, 3) | st.sampled_from([0.5, -0.5, 1.0, 2**63, 2**64, 1e300])
_COUNT = st.integers(0, 3)
_ASSERTIONS = {
    "type": _TYPE | st.lists(_TYPE, min_size=1, max_size=3, unique=True),
    "minimum": _BOUND,
    "maximum": _BOUND,
    "exclusiveMinimum": _BOUND,
    "exclusiveMaximum": _BOUND,
    "multipleOf": st.sampled_from([1, 2, 2.0, 0.5]),
    "minLength": _COUNT,
    "maxLength": _COUNT,
    "minItems": _COUNT,
    "maxItems": _COUNT,
    "minProperties": _COUNT,
    "maxProperties": _COUNT,
    "uniqueItems": st.booleans(),
    "pattern": st.sampled_from(["^x", "y$"]),
    "title": st.just("title"),
    "format": st.sampled_from(["date", "no-such"]),
}


def _leaf() -> st.SearchStrategy[Any]:
    return (
        st.fixed_dictionaries({}, optional={"type": _ASSERTIONS["type"]})
        | st.fixed_dictionaries({}, optional=_ASSERTIONS)
        | st.fixed_dictionaries({"enum": st.lists(VALUES, min_size=1, max_size=4)}, optional={"type": _TYPE})
        | st.fixed_dictionaries({"const": VALUES})
        | st.just({"$ref": "#/$defs/d"})
        | st.booleans()
    )


def _branch(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=3)
    optional = {
        "type": _ASSERTIONS["type"],
        "properties": st.dictionaries(NAMES, inner, max_size=3),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": inner,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=1),
        "items": inner,
        "prefixItems": some,
        "anyOf": some,
        "oneOf": some,
        "allOf": some,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "contains": inner,
        "minContains": _COUNT,
        "propertyNames": inner,
        "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=1), max_size=1),
        "unevaluatedProperties": inner,
        "nullable": st.booleans(),
        "default": VALUES,
    }
    usual = {key: optional[key] for key in ("properties", "required", "additionalProperties")}
    return (
        st.fixed_dictionaries({"type": st.just("object")}, optional=usual)
        | st.fixed_dictionaries({"type": st.just("array"), "items": inner})
        | st.fixed_dictionaries({"anyOf": some})
        | st.fixed_dictionaries({"oneOf": some})
        | st.fixed_dictionaries({}, optional=optional)
    )


_INNER = st.recursive(_leaf(), _branch, max_leaves=8)


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """A schema of an object, sometimes with a definition that is referred to."""
    usual = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, _INNER, max_size=4)},
        optional={"required": st.lists(NAMES, max_size=2, unique=True), "additionalProperties": _INNER},
    )
    found = draw(usual | _branch(_INNER))
    defined: Any = draw(st.just({}) | _INNER)
    if "$ref" in json.dumps(defined):
        # One that leads in a circle without going deeper is more than any oracle can take.
        defined = {"properties": {"a": {"$ref": draw(st.sampled_from(["#", "#/$defs/d"]))}}}
    return {**found, "$defs": {"d": defined}}


@dataclass
class Call:
    """A schema of arguments, and such as fit it but for null in place of members that may be missing. `broken`: the
    same with null for one member that is required."""

    schema: dict[str, Any]
    arguments: dict[str, Any]
    broken: list[dict[str, Any]]


#: Schemas of a value that is never null, and such a value.
_FITTING: list[tuple[dict[str, Any], Any]] = [
    ({"type": "string", "minLength": 1}, "x"),
    ({"type": "integer", "minimum": 0}, 5),
    ({"enum": ["x", 1]}, "x"),
    ({"const": 5}, 5),
    ({"type": "string", "enum": ["x"]}, "x"),
    ({"oneOf": [{"type": "boolean"}, {"type": "integer"}]}, True),
    ({"allOf": [{"type": "number"}]}, 0.5),
    ({"$ref": "#/$defs/text"}, "x"),
    ({"type": "array", "items": {"type": "string"}}, ["x"]),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, {"k": 1, "more": None}),
]


@st.composite
def calls(draw: st.DrawFn) -> Call:
    """Objects within objects and arrays, some of whose members are null because they may be missing."""

    def within(depth: int) -> tuple[dict[str, Any], Any, list[Any]]:
        kind = draw(st.integers(0, 2)) if depth else 2
        if kind == 1:
            schema, value, broken = within(depth - 1)
            return {"type": "array", "items": schema}, [value], [[one] for one in broken]
        if kind == 2 and depth < 3:
            schema, value = draw(st.sampled_from(_FITTING))
            return schema, value, []
        properties: dict[str, Any] = {}
        required: list[str] = []
        found: dict[str, Any] = {}
        worse: list[tuple[str, Any]] = []
        for name in draw(st.lists(NAMES, max_size=4, unique=True)):
            properties[name], value, broken = within(depth - 1)
            how = draw(st.sampled_from(["required", "null", "missing", "given"]))
            if how == "required":
                required.append(name)
                worse.append((name, None))
            if how in ("required", "given"):
                found[name] = value
                worse += [(name, one) for one in broken]
            elif how == "null":
                found[name] = None
        schema = {"type": "object", "properties": properties, "required": required}
        if draw(st.booleans()):
            schema["additionalProperties"] = False
        return schema, found, [{**found, name: one} for name, one in worse]

    schema, arguments, broken = within(3)
    while "properties" not in schema:
        schema, arguments, broken = within(3)
    return Call({**schema, "$defs": {"text": {"type": "string"}}}, arguments, broken)


def valid(schema: Any, value: Any) -> bool | None:
    """What a whole implementation of JSON Schema says, which is not ours; None where it does not know."""
    try:
        return bool(jsonschema.Draft202012Validator(schema).is_valid(value))
    except (RecursionError, OverflowError):
        return None
