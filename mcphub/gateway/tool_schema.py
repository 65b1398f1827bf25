"""Owns the reading of a tool's JSON Schema as far as it is used for checking: bounded, weakened to what is certain.

It must not know tools, arguments or engines. What comes out refuses nothing that the schema allows, and less than it
forbids: only known assertions are in it, each of a sound type, so that any implementation can compile it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import msgspec

#: Bytes, depth and values of a schema that is used.
MAX_SCHEMA = 256 << 10
MAX_DEPTH = 64
MAX_NODES = 20_000
#: Steps that the cost of one call may take to be computed.
MAX_STEPS = 50_000
#: A cost that is never allowed.
ENDLESS = math.inf

#: `$schema` without scheme and `#` to the dialect; a schema that names another one is not used.
DIALECTS = {
    "": "2020-12",
    "json-schema.org/schema": "2020-12",
    "json-schema.org/draft-04/schema": "4",
    "json-schema.org/draft-06/schema": "6",
    "json-schema.org/draft-07/schema": "7",
    "json-schema.org/draft/2019-09/schema": "2019-09",
    "json-schema.org/draft/2020-12/schema": "2020-12",
}
TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})

_decode = msgspec.json.Decoder().decode
_Object = dict[str, Any]

# Keywords whose value is a schema, a list of schemas, or an object of schemas.
_ONE = (
    "additionalProperties",
    "additionalItems",
    "items",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions")
#: What applies to the same place of the arguments.
_SAME_LISTS = ("allOf", "anyOf", "oneOf")
_SAME_ONE = ("not", "if", "then", "else")
_SAME_MAPS = ("dependentSchemas", "dependencies")
_UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")
_DEFINED: tuple[str, ...] = ("$defs", "definitions")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_bound(value: Any) -> bool:
    return _is_number(value) or isinstance(value, bool)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_values(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


#: Keywords that hold no schema, with what a sound value is.
_SOUND: dict[str, Callable[[Any], bool]] = {
    "const": lambda value: True,
    "enum": _is_values,
    "required": _is_names,
    "minimum": _is_number,
    "maximum": _is_number,
    "exclusiveMinimum": _is_bound,
    "exclusiveMaximum": _is_bound,
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "minLength": _is_count,
    "maxLength": _is_count,
    "minItems": _is_count,
    "maxItems": _is_count,
    "minProperties": _is_count,
    "maxProperties": _is_count,
    "uniqueItems": lambda value: isinstance(value, bool),
    "pattern": lambda value: isinstance(value, str),
    "dependentRequired": lambda value: isinstance(value, dict) and all(_is_names(one) for one in value.values()),
}


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema that can be used. `dialect`: 4, 6, 7, 2019-09, 2020-12."""

    dialect: str
    root: _Object
    #: All patterns in it, once each.
    patterns: frozenset[str]
    _costs: dict[int, tuple[float, float]] = field(default_factory=dict, compare=False, repr=False)

    def cost(self, depth: int) -> tuple[float, float]:
        """How many subschemas, and how many patterns, look at one place of a value that is so deep, at most; ENDLESS
        where that cannot be said in a bounded time."""
        found = self._costs.get(depth)
        if found is None:
            found = self._costs[depth] = _Cost(self.root).of(depth)
        return found


def read_schema(raw: bytes, without: Collection[str] = (), *, of_arguments: bool = False) -> Schema | None:
    """The schema, `without` these patterns; None where it cannot be used: too large, of an unknown dialect, or not
    JSON.

    Weaker than what is written: a required member with a default may be missing, which many servers fill in; `oneOf` is
    `anyOf`; `nullable` is understood; references that leave the document, and what hangs on them, allow everything.
    `of_arguments`: a member that may be missing may be null as well, which many agents write for it.
    """
    if len(raw) > MAX_SCHEMA:
        return None
    try:
        found = _decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(found, dict) or not _is_small(found):
        return None
    named = found.get("$schema", "")
    dialect = DIALECTS.get(named.rstrip("#").partition("://")[2]) if isinstance(named, str) else None
    if dialect is None:
        return None
    reading = _Reading(dialect, frozenset(without), of_arguments=of_arguments)
    # Once more where something had to be left out: what is "unevaluated" depends on it.
    for _ in range(4):
        root = reading.read(found, root=True)
        assert isinstance(root, dict)
        lost = {ref for ref in reading.references if _target(root, ref) is None}
        if not lost and (not reading.dropped or reading.open):
            return Schema(dialect, root, frozenset(reading.patterns))
        reading = _Reading(dialect, reading.without, reading.lost | lost, open=True, of_arguments=of_arguments)
    return None


def _is_small(value: Any) -> bool:
    """Whether its depth and number of values are within the bounds."""
    level = [value]
    nodes = 0
    for _ in range(MAX_DEPTH):
        nodes += len(level)
        if nodes > MAX_NODES:
            return False
        following: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                following.extend(one.values())
            elif isinstance(one, list):
                following.extend(one)
        if not following:
            return True
        level = following
    return False


def _target(root: Any, ref: str) -> Any:
    """What a reference within the document leads to; None = nothing (RFC 6901)."""
    found = root
    for part in unquote(ref[1:]).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(name)
        elif isinstance(found, list) and name.isdecimal() and len(name) < 6 and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found if isinstance(found, dict | bool) else None


def target(root: _Object, ref: str) -> Any:
    """The subschema that a reference of a read schema leads to."""
    return _target(root, ref)


def _is_plain(schema: Any) -> bool:
    """Whether a subschema can stay as it is, where weakening it would make the whole stronger."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in _REFERENCES or key in ("pattern", "patternProperties", "nullable", "$id", "id", "$anchor"):
                return False
            if key in _SOUND and not _SOUND[key](value):
                return False
            if not _is_plain(value):
                return False
        return _kinds(schema) is not None or "type" not in schema
    if isinstance(schema, list):
        return all(_is_plain(one) for one in schema)
    return True


def _kinds(schema: _Object) -> list[str] | None:
    """The types that are named, None = none that are known."""
    kind = schema.get("type")
    kinds = [kind] if isinstance(kind, str) else kind
    if not isinstance(kinds, list) or not kinds:
        return None
    if not all(isinstance(one, str) and one in TYPES for one in kinds) or len(set(kinds)) < len(kinds):
        return None
    return kinds


class _Reading:
    """One pass over a schema. `open`: nothing is refused for not having been looked at."""

    def __init__(
        self,
        dialect: str,
        without: frozenset[str],
        lost: frozenset[str] = frozenset(),
        *,
        open: bool = False,
        of_arguments: bool = False,
    ) -> None:
        self.without = without
        self.lost = lost
        self.open = open
        self.of_arguments = of_arguments
        self.dropped = False
        self.references: set[str] = set()
        self.patterns: set[str] = set()
        self._old = dialect in ("4", "6", "7")
        self._dialect = dialect

    def read(self, schema: Any, *, root: bool = False) -> _Object | bool:
        if not isinstance(schema, dict):
            return self._truth(schema)
        if not root and any(isinstance(schema.get(key), str) for key in ("$id", "id")):
            return self._anything()
        if any(key in schema for key in _REFERENCES):
            ref = schema.get("$ref")
            if not isinstance(ref, str) or ref in self.lost or not (ref == "#" or ref.startswith("#/")):
                return self._anything()
            if any(key in schema for key in _REFERENCES[1:]):
                return self._anything()
            self.references.add(ref)
        out = self._assertions(schema)
        self._schemas(schema, out)
        self._conditions(schema, out)
        if self.of_arguments:
            _null_where_missing(out)
        if "$ref" in schema:
            out["$ref"] = schema["$ref"]
        return self._nullable(out) if schema.get("nullable") is True and not root else out

    def _truth(self, schema: Any) -> _Object | bool:
        if schema is False:
            return {"not": {}} if self._dialect == "4" else False
        if schema is not True:
            self.dropped = True
        return {}

    def _anything(self) -> _Object:
        self.dropped = True
        return {}

    def _assertions(self, schema: _Object) -> _Object:
        out: _Object = {}
        for key, sound in _SOUND.items():
            if key in schema and sound(schema[key]):
                out[key] = schema[key]
        kinds = _kinds(schema)
        if kinds is not None:
            out["type"] = kinds if len(kinds) > 1 else kinds[0]
        for key, beside in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            a_flag = self._dialect == "4"
            if key in out and (isinstance(out[key], bool) != a_flag or (a_flag and beside not in out)):
                del out[key]
        if self._dialect == "4":
            out.pop("const", None)
        if "required" in out:
            properties = schema.get("properties")
            # One that has a default is filled in by many servers, whatever the schema says.
            names = [name for name in dict.fromkeys(out.pop("required")) if not _has_default(properties, name)]
            if names:
                out["required"] = names
        if out.get("pattern") in self.without:
            del out["pattern"]
        elif "pattern" in out:
            self.patterns.add(out["pattern"])
        return out

    def _schemas(self, schema: _Object, out: _Object) -> None:
        for key in _ONE:
            value = schema.get(key)
            if key == "items" and isinstance(value, list):
                if self._dialect != "2020-12" and value:
                    out[key] = [self.read(one) for one in value]
                elif value:
                    self.dropped = True
            elif key == "additionalItems" and (self._dialect == "2020-12" or "items" not in out):
                continue
            elif key == "contains" and any(bound in schema for bound in ("minContains", "maxContains")):
                if _is_plain(value) and all(
                    _is_count(schema.get(bound, 0)) for bound in ("minContains", "maxContains")
                ):
                    out.update({k: schema[k] for k in ("contains", "minContains", "maxContains") if k in schema})
                else:
                    self.dropped = True
            elif key in _UNEVALUATED and self.open:
                continue
            elif isinstance(value, dict | bool):
                out[key] = self.read(value)
        for key in _LISTS:
            value = schema.get(key)
            if isinstance(value, list) and value:
                read = [self.read(one) for one in value]
                if key == "oneOf":
                    # Two that fit are no clear violation: many schemas say it where they mean any.
                    if "anyOf" in out:
                        out["allOf"] = [*out.get("allOf", []), {"anyOf": read}]
                    else:
                        out["anyOf"] = read
                else:
                    out[key] = read
        for key in _MAPS:
            value = schema.get(key)
            if isinstance(value, dict):
                out[key] = {
                    name: one if key == "dependencies" and isinstance(one, list) else self.read(one)
                    for name, one in value.items()
                }
        if "dependencies" in out and not (
            self._old and all(isinstance(one, dict | bool) or _is_names(one) for one in out["dependencies"].values())
        ):
            del out["dependencies"]
            self.dropped = True
        self._patterned(out)

    def _patterned(self, out: _Object) -> None:
        if "patternProperties" not in out:
            return
        if self.without.isdisjoint(out["patternProperties"]):
            self.patterns.update(out["patternProperties"])
            return
        del out["patternProperties"]
        out.pop("additionalProperties", None)
        self.dropped = True

    def _conditions(self, schema: _Object, out: _Object) -> None:
        """`not` and `if` as they are, or not at all."""
        if "not" in schema:
            if isinstance(schema["not"], dict | bool) and _is_plain(schema["not"]):
                out["not"] = schema["not"]
            else:
                self.dropped = True
        if "if" in schema:
            if isinstance(schema["if"], dict | bool) and _is_plain(schema["if"]):
                out["if"] = schema["if"]
                for key in ("then", "else"):
                    if key in schema:
                        out[key] = self.read(schema[key])
            else:
                self.dropped = True

    def _nullable(self, out: _Object) -> _Object:
        """OpenAPI's word, which many servers mean."""
        defined = {key: out.pop(key) for key in _DEFINED if key in out}
        return {**defined, "anyOf": [out, {"type": "null"}]}


def _null_where_missing(out: _Object) -> None:
    """Let the members of an object that may be missing be null."""
    required = out.get("required", ())
    others = out.get("additionalProperties")
    properties = out.get("properties", {})
    for name, one in properties.items():
        if name not in required:
            properties[name] = _or_null(one)
    if isinstance(others, dict):
        out["additionalProperties"] = _or_null(others)
        unnamed = [name for name in required if name not in properties]
        if unnamed and "patternProperties" not in out:
            out["properties"] = {**properties, **dict.fromkeys(unnamed, others)}
    if "patternProperties" in out:
        out["patternProperties"] = {name: _or_null(one) for name, one in out["patternProperties"].items()}


#: What may refuse null otherwise than by a list of types, values or alternatives.
_WRAPPED = frozenset({"$ref", "allOf", "const", "not", "if"})


def _or_null(schema: _Object | bool) -> _Object | bool:
    """The same for null too. What is in it keeps its place, as far as can be, for references that lead there."""
    if not isinstance(schema, dict):
        return schema
    if not _WRAPPED.isdisjoint(schema):
        defined = {key: value for key, value in schema.items() if key in _DEFINED}
        rest = {key: value for key, value in schema.items() if key not in _DEFINED}
        return {**defined, "anyOf": [rest, {"type": "null"}]}
    out = dict(schema)
    if "type" in out:
        kinds = [out["type"]] if isinstance(out["type"], str) else out["type"]
        out["type"] = kinds if "null" in kinds else [*kinds, "null"]
    if "enum" in out and None not in out["enum"]:
        out["enum"] = [*out["enum"], None]
    if "anyOf" in out:
        out["anyOf"] = [*out["anyOf"], {"type": "null"}]
    return out


def _has_default(properties: Any, name: str) -> bool:
    one = properties.get(name) if isinstance(properties, dict) else None
    return isinstance(one, dict) and "default" in one


class _TooMuch(Exception):
    """It cannot be said in the steps there are, or never ends."""


class _Cost:
    """How much of a schema looks at one value, at most."""

    def __init__(self, root: _Object) -> None:
        self._root = root
        self._known: dict[tuple[int, int], tuple[float, float]] = {}
        self._begun: set[tuple[int, int]] = set()
        self._steps = 0

    def of(self, depth: int) -> tuple[float, float]:
        try:
            return self._of(self._root, depth)
        except (_TooMuch, RecursionError):
            return ENDLESS, ENDLESS

    def _of(self, schema: Any, depth: int) -> tuple[float, float]:
        if not isinstance(schema, dict) or depth < 0:
            return 1, 0
        at = (id(schema), depth)
        found = self._known.get(at)
        if found is not None:
            return found
        self._steps += 1
        if at in self._begun or self._steps > MAX_STEPS:
            raise _TooMuch
        self._begun.add(at)
        visits = 1 + sum(len(schema.get(key, ())) for key in ("enum", "required"))
        patterns = ("pattern" in schema) + len(schema.get("patternProperties", ()))
        same = [self._of(one, depth) for one in self._same(schema)]
        twice = 2 if any(key in schema for key in _UNEVALUATED) else 1
        below = self._below(schema, depth - 1)
        found = (
            visits + twice * sum(v for v, _ in same) + below[0],
            patterns + twice * sum(p for _, p in same) + below[1],
        )
        self._begun.discard(at)
        self._known[at] = found
        return found

    def _same(self, schema: _Object) -> Iterator[Any]:
        for key in _SAME_LISTS:
            yield from schema.get(key, ())
        for key in _SAME_ONE:
            if key in schema:
                yield schema[key]
        for key in _SAME_MAPS:
            yield from (one for one in schema.get(key, {}).values() if isinstance(one, dict))
        if "$ref" in schema:
            yield _target(self._root, schema["$ref"])

    def _below(self, schema: _Object, depth: int) -> tuple[float, float]:
        """One member is looked at by its own property, and by what looks at all; likewise one item."""
        items = schema.get("items")
        listed = [*schema.get("prefixItems", ()), *(items if isinstance(items, list) else [items])]
        listed.append(schema.get("additionalItems"))
        named = [*schema.get("properties", {}).values(), schema.get("additionalProperties")]
        every = [schema.get("contains"), schema.get("propertyNames"), *(schema.get(key) for key in _UNEVALUATED)]
        every += schema.get("patternProperties", {}).values()
        visits = patterns = 0.0
        for group in (listed, named):
            costs = [self._of(one, depth) for one in group if one is not None]
            visits = max([visits, *(v for v, _ in costs)])
            patterns = max([patterns, *(p for _, p in costs)])
        for one in every:
            if one is not None:
                more = self._of(one, depth)
                visits, patterns = visits + more[0], patterns + more[1]
        return visits, patterns
