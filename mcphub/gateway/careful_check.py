"""Owns the thorough half of checking by a schema: jsonschema-rs, kept within bounds that it does not have itself.

It must not know tools. Importing it costs 4 MiB and some 20 ms, so that is done where a quick check did not do. The
engine holds the interpreter while it works: what could take long is not begun, and what was not checked fits.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import jsonschema_rs
import msgspec

from mcphub.channel import Data
from mcphub.gateway.tool_schema import Schema, read_schema
from mcphub.gateway.violations import clauses

#: Depth and values of what is checked.
MAX_DEPTH = 64
MAX_NODES = 20_000
#: Visits of a subschema to a value: some 50 ms.
MAX_VISITS = 2_000_000
#: Bytes that patterns may look at, one after the other: the worst of the size below needs 40 ms for them.
MAX_SEARCHED = 16 << 10
#: Bytes of a compiled pattern and of its cache; larger ones are not checked, nor what the engine cannot do in linear
#: time, such as look-around.
PATTERN_SIZE = 32 << 10
PATTERN_CACHE = 1 << 20
#: Patterns that are tried one by one where the engine refuses some.
MAX_PATTERNS = 200
#: Bytes that violations may copy of what violates, for each of them is given its value.
MAX_COPIED = 32 << 20
#: Visits of which each may be a violation.
MAX_FOUND = 10_000

_VALIDATORS: dict[str, Any] = {
    "4": jsonschema_rs.Draft4Validator,
    "6": jsonschema_rs.Draft6Validator,
    "7": jsonschema_rs.Draft7Validator,
    "2019-09": jsonschema_rs.Draft201909Validator,
    "2020-12": jsonschema_rs.Draft202012Validator,
}
_PATTERNS = jsonschema_rs.RegexOptions(size_limit=PATTERN_SIZE, dfa_size_limit=PATTERN_CACHE)
#: A float below it that is whole is the integer.
_EXACT = 1 << 53

_decode = msgspec.json.Decoder().decode


def _no_retrieval(uri: str) -> Any:
    raise ValueError("schemas are not fetched")


class CarefulCheck:
    """One schema, compiled at most twice: with its patterns, and without for what is too large for them."""

    def __init__(self, schema: bytes, whole: str, *, of_arguments: bool = False) -> None:
        """`whole` is how the value is called, where no place within it is meant; `of_arguments` as in read_schema."""
        self._raw = schema
        self._of_arguments = of_arguments
        self._whole = whole
        self._compiled: dict[bool, tuple[Schema, Any] | None] = {}

    def wrong_with(self, data: Data) -> tuple[str, ...]:
        """What is certainly wrong with this JSON, () = nothing, or it was not checked."""
        try:
            value = _decode(data)
        except (msgspec.DecodeError, RecursionError):
            return ()
        measured = _measure(value)
        if measured is None:
            return ()
        value, depth, nodes = measured
        return self._wrong_with(value, depth, nodes, len(data))

    def _wrong_with(self, value: Any, depth: int, nodes: int, size: int) -> tuple[str, ...]:
        for patterns in (True, False):
            if patterns not in self._compiled:
                self._compiled[patterns] = self._compile(patterns)
            found = self._compiled[patterns]
            if found is None:
                return ()
            schema, validator = found
            visits, searches = schema.cost(depth)
            if visits * nodes > MAX_VISITS:
                return ()
            if searches * size <= MAX_SEARCHED:
                break
        else:
            return ()
        if _guarded(validator.is_valid, value) is not False:
            return ()
        told: Any = None
        if visits * nodes <= MAX_FOUND and visits * size <= MAX_COPIED:
            told = _guarded(lambda: clauses(validator.iter_errors(value), value, self._whole))
        return told or (f"something in {self._whole} does not fit the schema",)

    def _compile(self, patterns: bool) -> tuple[Schema, Any] | None:
        schema = self._read()
        if schema is None:
            return None
        if not patterns:
            if not schema.patterns:
                return None
            return _compiled(self._read(schema.patterns))
        found = _compiled(schema)
        if found is None and schema.patterns:
            refused = set(schema.patterns)
            if len(refused) <= MAX_PATTERNS:
                alone = {one: Schema("2020-12", {"pattern": one}, frozenset()) for one in refused}
                refused = {one for one in refused if _compiled(alone[one]) is None}
            found = _compiled(self._read(refused))
        return found

    def _read(self, without: Collection[str] = ()) -> Schema | None:
        return read_schema(self._raw, without, of_arguments=self._of_arguments)


def _compiled(schema: Schema | None) -> tuple[Schema, Any] | None:
    if schema is None:
        return None
    validator = _guarded(
        _VALIDATORS[schema.dialect],
        schema.root,
        validate_formats=False,
        retriever=_no_retrieval,
        pattern_options=_PATTERNS,
        mask="it",
    )
    return None if validator is None else (schema, validator)


def _guarded(act: Any, *args: Any, **options: Any) -> Any:
    """What the engine says, None where it cannot: a server wrote the schema, and a model the value."""
    try:
        return act(*args, **options)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic of the engine is no Exception
        return None


def _measure(value: Any) -> tuple[Any, int, int] | None:
    """The value with whole floats as integers, which they are to a schema of any dialect, its depth and its number of
    values; None where those are too large."""
    if not isinstance(value, dict | list):
        return _whole(value), 0, 1
    level: list[Any] = [value]
    nodes = 1
    for depth in range(MAX_DEPTH):
        following: list[Any] = []
        for one in level:
            for key, member in one.items() if isinstance(one, dict) else enumerate(one):
                nodes += 1
                if isinstance(member, dict | list):
                    following.append(member)
                elif isinstance(member, float):
                    one[key] = _whole(member)
        if nodes > MAX_NODES:
            return None
        if not following:
            return value, depth + 1, nodes
        level = following
    return None


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and abs(value) < _EXACT and value.is_integer() else value
