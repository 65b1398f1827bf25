"""Owns which characters of a server's own descriptions nobody is shown, and taking them out, counted.

It must not know tools, prompts or resources. Taken out are ESC, C0 (but tab and newline), DEL, C1 and the Unicode tag
characters (case C175): no person or model needs them, and text hides behind them. Results keep their bytes.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

_UNCLEAN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\U000e0000-\U000e007f]")
#: Whether JSON may hold one of them, as it stands or as an escape; quick, and wrong only in saying yes.
_SUSPICIOUS = re.compile(
    rb"\x7f|\xc2[\x80-\x9f]|\xf3\xa0[\x80\x81]|\\(?:[bfr]|u(?:00(?:[01]|7[fF]|[89])|[dD][bB]40))"
)
#: The keywords of a JSON Schema that are read, not checked against.
_TEXTS = frozenset({"title", "description"})
#: Keywords that hold values, and no schemas.
_VALUES = frozenset({"const", "default", "enum", "examples", "example"})
#: Keywords whose members are schemas, whatever they are called.
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})


def clean(text: str) -> str:
    """A text of a server's without what nobody should be shown."""
    return _UNCLEAN.sub("", text)


def clean_counted(text: str) -> tuple[str, int]:
    """As `clean`, and how many characters went."""
    return _UNCLEAN.subn("", text)


def suspicious(raw: bytes) -> bool:
    """Whether JSON is worth a look: False where it certainly holds none of those characters."""
    if raw.isascii() and b"\\" not in raw and b"\x7f" not in raw:
        return False
    return _SUSPICIOUS.search(raw) is not None


def clean_schema(raw: bytes) -> tuple[bytes, int]:
    """A JSON Schema whose titles and descriptions, at any depth, are clean, and how many characters went. One that has
    nothing to clean is the same bytes; values and patterns stay as they are, since arguments are checked by them."""
    if not suspicious(raw):
        return raw, 0
    try:
        schema = msgspec.json.decode(raw)
        removed = _clean(schema, named=False)
        return (msgspec.json.encode(schema), removed) if removed else (raw, 0)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return raw, 0


def _clean(schema: Any, *, named: bool) -> int:
    """Clean in place. `named`: the keys are names, and not keywords."""
    if isinstance(schema, list):
        return sum(_clean(one, named=False) for one in schema)
    if not isinstance(schema, dict):
        return 0
    removed = 0
    for key, value in schema.items():
        if isinstance(value, str):
            if not named and key in _TEXTS:
                schema[key], count = clean_counted(value)
                removed += count
        elif named or key not in _VALUES:
            removed += _clean(value, named=not named and key in _NAMED)
    return removed
