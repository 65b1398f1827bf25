"""Owns how JSON that another server answered is read: as an object, of bounded depth, its fields by type.

It must not know what any field means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

#: Levels of arrays and objects in an answer (S10).
DEEPEST = 64

Document = Mapping[str, Any]


def read(body: bytes) -> Document | None:
    """The object that stands there, None where there is none or it is nested too deeply."""
    if _depth(body) > DEEPEST:
        return None
    try:
        found = msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def text(document: Document, field: str) -> str:
    """Its value where it is a string, "" where it is none, null or not there."""
    value = document.get(field)
    return value if isinstance(value, str) else ""


def texts(document: Document, field: str) -> tuple[str, ...] | None:
    """Its strings where it is an array, in their order; None where it is none."""
    value = document.get(field)
    if not isinstance(value, list):
        return None
    return tuple(one for one in value if isinstance(one, str) and one)


#: A string, or a bracket outside of any. A string that is not closed goes to the end, so that nothing is read twice.
_SIGNS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[{\]}]', re.DOTALL)


def _depth(body: bytes) -> int:
    """How deep it is nested at most; brackets inside of strings open and close nothing."""
    depth = deepest = 0
    for found in _SIGNS.finditer(body):
        sign = found[0]
        if sign in (b"[", b"{"):
            depth += 1
            deepest = max(deepest, depth)
        elif sign in (b"]", b"}"):
            depth -= 1
    return deepest
