"""Owns what a model is told of one violation of a schema: the place and what is expected there, never what was there.

It must not know the engine that found it, only the shape of its finding. Texts are cut, and free of characters that
nobody should be shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from mcphub.catalog.hygiene import clean

#: Violations that are told of, and clauses of one of them; a name in it is cut at so many characters.
MAX_TOLD = 5
MAX_NAME = 64
#: Characters of a clause; values of an enumeration that are listed.
MAX_CLAUSE = 300
MAX_LISTED = 12
#: Alternatives within alternatives that are looked into.
MAX_DEPTH = 8


class Kind(Protocol):
    @property
    def name(self) -> str: ...

    def as_dict(self) -> Mapping[str, Any]: ...


class Violation(Protocol):
    """What an engine found. `kind.name` is the keyword; `instance_path` leads from the root of the value,
    `schema_path` from that of the schema."""

    @property
    def kind(self) -> Kind: ...

    @property
    def instance_path(self) -> Sequence[str | int]: ...

    @property
    def schema_path(self) -> Sequence[str | int]: ...


#: Keyword with a limit, to the clause.
_LIMITS = {
    "minimum": ("limit", "must be at least {}"),
    "maximum": ("limit", "must be at most {}"),
    "exclusiveMinimum": ("limit", "must be more than {}"),
    "exclusiveMaximum": ("limit", "must be less than {}"),
    "multipleOf": ("multiple_of", "must be a multiple of {}"),
    "minLength": ("limit", "must have at least {} characters"),
    "maxLength": ("limit", "must have at most {} characters"),
    "minItems": ("limit", "must have at least {} items"),
    "maxItems": ("limit", "must have at most {} items"),
    "additionalItems": ("limit", "must have at most {} items"),
    "minProperties": ("limit", "must have at least {} members"),
    "maxProperties": ("limit", "must have at most {} members"),
    "pattern": ("pattern", "does not match the pattern {}"),
}
_FIXED = {
    "uniqueItems": "must not hold an item twice",
    "falseSchema": "is not allowed",
    "not": "is of a form that the schema excludes",
    "contains": "does not hold an item that the schema asks for",
    "propertyNames": "has a member whose name is not allowed",
}


def clauses(found: Iterable[Violation], value: Any, whole: str) -> tuple[str, ...]:
    """Each violation as a clause, MAX_TOLD at most. `value` is what was checked, `whole` how it is called."""
    out: dict[str, None] = {}
    for one in found:
        for clause in _clauses(one, value, whole, MAX_DEPTH):
            out.setdefault(clause if len(clause) <= MAX_CLAUSE else clause[:MAX_CLAUSE] + "…")
            if len(out) >= MAX_TOLD:
                return tuple(out)
    return tuple(out)


def _clauses(one: Violation, value: Any, whole: str, depth: int) -> list[str]:
    keyword, more = one.kind.name, one.kind.as_dict()
    path = list(one.instance_path)
    place = _place(path) or whole
    match keyword:
        case "required":
            return [f"{_place([*path, more['property']])} is missing"]
        case "additionalProperties" | "unevaluatedProperties":
            return [f"{_place([*path, name])} is not known" for name in more["unexpected"][:MAX_TOLD]]
        case "falseSchema" if list(one.schema_path)[-1:] == ["additionalProperties"] and isinstance(
            members := _at(value, path), dict
        ):
            return [f"{_place([*path, name])} is not known" for name in list(members)[:MAX_TOLD]]
        case "type":
            return [_of_types(place, more["types"], _at(value, path))]
        case "enum":
            return [f"{place} must be {_listed(more['options'])}"]
        case "const":
            return [f"{place} must be {_listed([more['expected_value']])}"]
        case "anyOf" | "oneOf" if more.get("context") and depth:
            return _alternatives(more["context"], path, value, whole, depth)
        case _ if keyword in _LIMITS:
            key, text = _LIMITS[keyword]
            return [f"{place} {text.format(_short(str(more[key])))}"]
    return [f"{place} {_FIXED.get(keyword, 'does not fit the schema')}"]


def _alternatives(
    context: Sequence[Sequence[Violation]], path: list[str | int], value: Any, whole: str, depth: int
) -> list[str]:
    """Where none has the type that was given: all types; where one alone has: what is wrong by that one."""
    types: list[str] = []
    fitting: list[Sequence[Violation]] = []
    for found in context:
        other = [one for one in found if one.kind.name == "type" and list(one.instance_path) == path]
        for one in other:
            types += one.kind.as_dict()["types"]
        if not other:
            fitting.append(found)
    place = _place(path) or whole
    if not fitting and types:
        return [_of_types(place, types, _at(value, path))]
    if len(fitting) == 1:
        return [clause for one in fitting[0] for clause in _clauses(one, value, whole, depth - 1)]
    return [f"{place} has none of the forms that the schema allows"]


def _of_types(place: str, types: Iterable[str], value: Any) -> str:
    named = sorted(set(types), key=lambda kind: (kind == "null", kind))
    return f"{place} must be {' or '.join(named)}, not {kind_of(value)}"


def kind_of(value: Any) -> str:
    """The JSON Schema type of a decoded value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _at(value: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        value = value[step]
    return value


def _place(path: Sequence[str | int]) -> str:
    out = ""
    for step in path:
        if isinstance(step, int):
            out += f"[{step}]"
        else:
            out += f".{_short(step)}" if out else _short(step)
    return out if len(out) <= 3 * MAX_NAME else "…" + out[-3 * MAX_NAME :]


def _short(text: str) -> str:
    shown = clean(text)
    return shown if len(shown) <= MAX_NAME else shown[:MAX_NAME] + "…"


def _listed(values: Sequence[Any]) -> str:
    """The schema's own values, as JSON."""
    shown = [_short(msgspec.json.encode(one).decode()) for one in values[:MAX_LISTED]]
    if len(values) > MAX_LISTED:
        shown.append(f"{len(values) - MAX_LISTED} more")
    return shown[0] if len(shown) == 1 else f"one of {', '.join(shown)}"
