"""Owns what of a server's own descriptions nobody is shown: characters that are taken out, and what is too long.

It must not know tools, prompts or resources. Taken out are ESC, C0 (but tab and newline), DEL, C1 and the Unicode tag
characters (case C175): no person or model needs them, and text hides behind them. A text beyond a limit is cut, with a
mark (case C177): one server must not fill the context of a model that may never call it. All of it is counted, and
results keep their bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

#: Characters of one title or description that agents are shown.
DEFAULT_LENGTH = 2048
#: What a text ends with of which something is missing.
CUT = " [cut]"

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
    return _changed(raw, clean_counted) if suspicious(raw) else (raw, 0)


def shorten(text: str, limit: int) -> str:
    """A text of at most so many characters; what was cut ends with CUT."""
    return text if len(text) <= limit else text[: limit - len(CUT)].rstrip() + CUT


def shorten_schema(raw: bytes, limit: int) -> tuple[bytes, int]:
    """A JSON Schema, or a list of things with titles and descriptions, in which each of these has at most so many
    characters, and how many were cut; the same bytes where none was."""
    if len(raw) <= limit:
        return raw, 0
    return _changed(raw, lambda text: (shorten(text, limit), int(len(text) > limit)))


def mentions(text: str, own: str) -> tuple[str, ...]:
    """The names under which agents know the tools of other servers, as far as the text has any: what is told of another
    server's tools before they are called may be meant to lead a model astray. `own`: what its own names begin with."""
    if "mcp__" not in text:
        return ()
    found = (one for one in _EXPOSED.findall(text) if not one.startswith(own))
    return tuple(dict.fromkeys(found))


_EXPOSED = re.compile(r"mcp__[A-Za-z0-9_-]{1,64}?__[A-Za-z0-9_-]{1,64}")


def _changed(raw: bytes, change: Callable[[str], tuple[str, int]]) -> tuple[bytes, int]:
    """The JSON with its titles and descriptions changed, and the sum of what is counted of them."""
    try:
        schema = msgspec.json.decode(raw)
        count = _change(schema, change, named=False)
        return (msgspec.json.encode(schema), count) if count else (raw, 0)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return raw, 0


def _change(schema: Any, change: Callable[[str], tuple[str, int]], *, named: bool) -> int:
    """Change in place. `named`: the keys are names, and not keywords."""
    if isinstance(schema, list):
        return sum(_change(one, change, named=False) for one in schema)
    if not isinstance(schema, dict):
        return 0
    counted = 0
    for key, value in schema.items():
        if isinstance(value, str):
            if not named and key in _TEXTS:
                schema[key], count = change(value)
                counted += count
        elif named or key not in _VALUES:
            counted += _change(value, change, named=not named and key in _NAMED)
    return counted
