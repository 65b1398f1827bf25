"""Owns the quick half of checking by a schema: a decoder that takes only what is certainly valid.

It must not know what is wrong with what it does not take, which may be nothing at all. The decoder is msgspec's, of a
type that is made from the schema: what has no exact counterpart there is left out, which makes it take less, never
more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec

from mcphub.channel import Data
from mcphub.gateway.tool_schema import Schema, target
from mcphub.protocol.jsonrpc import Raw

#: Takes JSON; raises DecodeError (of which ValidationError is one) or RecursionError where it may not fit.
Accept = Callable[[Data], object]

#: Types made for one schema, members of an object and values of an enumeration that are worth a decoder.
MAX_TYPES = 500
MAX_MEMBERS = 200
MAX_VALUES = 500
MAX_DEPTH = 16
_INT64 = 1 << 63

#: What a keyword says about values of one type. Any other known assertion has no counterpart.
_OBJECT = frozenset({"properties", "required", "additionalProperties"})
_ARRAY = frozenset({"items", "minItems", "maxItems"})
_STRING = frozenset({"minLength", "maxLength"})
_NUMBER = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_OF_KIND = {"object": _OBJECT, "array": _ARRAY, "string": _STRING, "number": _NUMBER}
_DEFINED = frozenset({"$defs", "definitions"})
_KINDS = ("null", "boolean", "integer", "number", "string", "array", "object")

#: A type for each kind of value that is taken; None = every value.
_Kinds = dict[str, Any]


class _NoCounterpart(Exception):
    """Nothing can be made of this subschema that is certain."""


class _Never:
    """The type of a member that is only certain to be right where it is missing."""


def _never(kind: type, value: Any) -> Any:
    raise ValueError("not certain")


def fast_check(schema: Schema) -> Accept | None:
    """The decoder for values of this schema, None = there is none."""
    try:
        kinds = _Making(schema).kinds(schema.root, 0)
        if kinds is None:
            return msgspec.json.Decoder(Raw).decode
        return msgspec.json.Decoder(_union(kinds), dec_hook=_never).decode
    except (_NoCounterpart, TypeError, ValueError, RecursionError, OverflowError):
        return None


def says_nothing(schema: Schema, of_objects: bool) -> bool:
    """Whether there is nothing to be checked; `of_objects`: in what is an object in any case."""
    said = {key for key, value in schema.root.items() if key not in _DEFINED and not _is_idle(key, value)}
    if of_objects and "type" in said:
        kind = schema.root["type"]
        if kind == "object" or "object" in kind:
            said.discard("type")
    if said == {"properties"}:
        return all(one is True or one == {} for one in schema.root["properties"].values())
    return not said


class _Making:
    def __init__(self, schema: Schema) -> None:
        self._root = schema.root
        self._made = 0

    def kinds(self, schema: Any, depth: int) -> _Kinds | None:
        self._made += 1
        if self._made > MAX_TYPES or depth > MAX_DEPTH or schema is False:
            raise _NoCounterpart
        if schema is True:
            return None
        said = {key for key, value in schema.items() if key not in _DEFINED and not _is_idle(key, value)}
        if not said:
            return None
        named = _named(schema) if "type" in said else None
        said.discard("type")
        if said == {"$ref"} or said == {"anyOf"} or (said == {"allOf"} and len(schema["allOf"]) == 1):
            found = self._led(schema, depth)
            if named is None or found is None:
                return {kind: _PLAIN[kind] for kind in named} if named is not None else found
            return _some({kind: found[kind] for kind in named if kind in found})
        if "enum" in said or "const" in said:
            if len(said) > 1:
                raise _NoCounterpart
            return _values([schema["const"]] if "const" in said else schema["enum"], named)
        return self._constrained(schema, said, named, depth)

    def _led(self, schema: dict[str, Any], depth: int) -> _Kinds | None:
        if "$ref" in schema:
            return self.kinds(target(self._root, schema["$ref"]), depth + 1)
        if "allOf" in schema:
            return self.kinds(schema["allOf"][0], depth + 1)
        out: _Kinds = {}
        for one in schema["anyOf"]:
            try:
                found = self.kinds(one, depth + 1)
            except _NoCounterpart:
                continue  # fewer values are taken
            if found is None:
                return None
            for kind, made in found.items():
                out[kind] = _wider(out[kind], made) if kind in out else made
        return _some(out)

    def _constrained(self, schema: dict[str, Any], said: set[str], named: set[str] | None, depth: int) -> _Kinds:
        """What is said of one type does not touch the others: without `type`, only that one is taken."""
        about = {kind for kind, keywords in _OF_KIND.items() if said & keywords}
        if not said <= set().union(*(_OF_KIND[kind] for kind in about)):
            raise _NoCounterpart
        if named is None:
            named = {*about, "integer"} if "number" in about else about
        out: _Kinds = {}
        for kind in _KINDS:
            if kind not in named:
                continue
            try:
                if kind == "object" and "object" in about:
                    out[kind] = self._object(schema, depth)
                elif kind == "array" and "array" in about:
                    out[kind] = self._array(schema, depth)
                elif kind == "string" and "string" in about:
                    out[kind] = _sized(str, schema.get("minLength"), schema.get("maxLength"))
                elif kind in ("integer", "number") and "number" in about:
                    out[kind] = _whole(schema) if kind == "integer" else _fraction(schema)
                else:
                    out[kind] = _PLAIN[kind]
            except _NoCounterpart:
                continue
        return _some(out)

    def _array(self, schema: dict[str, Any], depth: int) -> Any:
        items = schema.get("items", True)
        if isinstance(items, list):
            raise _NoCounterpart
        kinds = self.kinds(items, depth + 1)
        found = list[Raw] if kinds is None else list[_union(kinds)]  # type: ignore[misc]
        return _sized(found, schema.get("minItems"), schema.get("maxItems"))

    def _object(self, schema: dict[str, Any], depth: int) -> Any:
        properties = schema.get("properties", {})
        required = schema.get("required", ())
        more = schema.get("additionalProperties", True)
        closed = not _is_idle("additionalProperties", more)
        if not properties and closed and more is not False and not required:
            kinds = self.kinds(more, depth + 1)
            if kinds is not None:
                return dict[str, _union(kinds)]  # type: ignore[misc]
            closed = False
        if len(properties) + len(required) > MAX_MEMBERS:
            raise _NoCounterpart
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        optional: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        names: dict[str, str] = {}
        for name in dict.fromkeys([*properties, *required]):
            if name not in properties and closed:
                raise _NoCounterpart  # by the schema of all others, or by none
            field = f"f{len(names)}"
            kind: Any = _Never
            try:
                kinds = self.kinds(properties.get(name, True), depth + 1)
                kind = Raw if kinds is None else _union(kinds)
            except _NoCounterpart:
                if name in required:
                    raise
            if kind is Raw and not closed and name not in required:
                continue
            names[field] = name
            if name in required:
                fields.append((field, kind))
            else:
                optional.append((field, kind, None))
        return msgspec.defstruct(
            "Object", fields + optional, rename=names, forbid_unknown_fields=closed, gc=False, eq=False
        )


def _is_idle(key: str, value: Any) -> bool:
    """Whether a keyword says nothing."""
    if key in ("items", "additionalProperties"):
        return value is True or value == {}
    if key in ("properties", "patternProperties", "dependentSchemas", "dependencies", "dependentRequired"):
        return bool(value == {})
    return (key == "required" and not value) or (key == "uniqueItems" and value is False)


def _named(schema: dict[str, Any]) -> set[str]:
    kind = schema["type"]
    kinds = {kind} if isinstance(kind, str) else set(kind)
    return {*kinds, "integer"} if "number" in kinds else kinds


def _some(kinds: _Kinds) -> _Kinds:
    if not kinds:
        raise _NoCounterpart
    return kinds


#: Where nothing more is said of them. An object without any field passes over all its members.
_PLAIN: _Kinds = {
    "null": None,
    "boolean": bool,
    "integer": int,
    "number": float,
    "string": str,
    "array": list[Raw],
    "object": msgspec.defstruct("AnyObject", (), gc=False),
}


def _union(kinds: _Kinds) -> Any:
    """One type; a float of its own takes integers as well, so it comes with them."""
    if "number" in kinds and "integer" not in kinds:
        kinds = {kind: made for kind, made in kinds.items() if kind != "number"}
    found: Any = None
    first = True
    for made in _some(kinds).values():
        found, first = made if first else found | made, False
    return found


def _wider(one: Any, other: Any) -> Any:
    """Of two types for the same kind of value one that takes no more than both."""
    plain = next((made for made in (one, other) if made in (bool, int, float, str)), None)
    if plain is not None:
        return plain
    if _is_literal(one) and _is_literal(other):
        return Literal[(*one.__args__, *other.__args__)]
    return one


def _is_literal(made: Any) -> bool:
    return getattr(made, "__origin__", None) is Literal


def _values(values: list[Any], named: set[str] | None) -> _Kinds:
    if len(values) > MAX_VALUES:
        raise _NoCounterpart
    strings = tuple(one for one in values if isinstance(one, str))
    integers = tuple(
        one for one in values if isinstance(one, int) and not isinstance(one, bool) and -_INT64 <= one < _INT64
    )
    out: _Kinds = {}
    if None in values:
        out["null"] = None
    if any(one is True for one in values) and any(one is False for one in values):
        out["boolean"] = bool
    if integers:
        out["integer"] = Literal[integers]
    if strings:
        out["string"] = Literal[strings]
    return _some({kind: made for kind, made in out.items() if named is None or kind in named})


def _sized(made: Any, least: int | None, most: int | None) -> Any:
    if any(bound is not None and bound >= _INT64 for bound in (least, most)):
        raise _NoCounterpart
    if not least and most is None:
        return made
    return Annotated[made, msgspec.Meta(min_length=least or None, max_length=most)]


def _whole(schema: dict[str, Any]) -> Any:
    """An integer within bounds that are written in any way but draft 4's, where one keyword is a flag of another."""
    if any(isinstance(schema.get(key), bool) for key in ("exclusiveMinimum", "exclusiveMaximum")):
        raise _NoCounterpart
    least = [math.ceil(schema["minimum"])] if "minimum" in schema else []
    most = [math.floor(schema["maximum"])] if "maximum" in schema else []
    if "exclusiveMinimum" in schema:
        least.append(math.floor(schema["exclusiveMinimum"]) + 1)
    if "exclusiveMaximum" in schema:
        most.append(math.ceil(schema["exclusiveMaximum"]) - 1)
    step = schema.get("multipleOf")
    if isinstance(step, float):
        if not step.is_integer():
            raise _NoCounterpart
        step = int(step)
    # Bounds are not compared with integers beyond 64 bits of the other sign, so they are always given as a pair.
    low, high = max([-_INT64, *least]), min([_INT64 - 1, *most])
    if low > high or (step is not None and step >= _INT64):
        raise _NoCounterpart
    return Annotated[int, msgspec.Meta(ge=low, le=high, multiple_of=step)]


def _fraction(schema: dict[str, Any]) -> Any:
    if "multipleOf" in schema or any(isinstance(schema.get(k), bool) for k in ("exclusiveMinimum", "exclusiveMaximum")):
        raise _NoCounterpart
    keywords = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
    bounds: dict[str, Any] = {short: float(schema[key]) for short, key in keywords.items() if key in schema}
    if any(not math.isfinite(bound) or abs(bound) > 2**53 for bound in bounds.values()):
        raise _NoCounterpart
    if len({"ge", "gt"} & bounds.keys()) > 1 or len({"le", "lt"} & bounds.keys()) > 1:
        raise _NoCounterpart
    return Annotated[float, msgspec.Meta(**bounds)]
