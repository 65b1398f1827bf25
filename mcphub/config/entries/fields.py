"""Owns the kinds of value that a field of an entry may have, and the fault that a value of another kind is.

It must not know which fields there are, nor replace variables.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from typing import Any

from mcphub.config.jsonc import kind_of

#: Milliseconds; the upper end is the longest timer that other hosts can set, so a file means the same everywhere.
MIN_MILLISECONDS = 1000
MAX_MILLISECONDS = 2**31 - 1


class Fault(Exception):
    """The entry is wrong at `path`, a key path inside it. Never leaves the reading of that entry. `missing` are the
    variables that are not set, where nothing else is wrong."""

    def __init__(self, cause: str, *path: str | int, missing: tuple[str, ...] = ()) -> None:
        super().__init__(cause)
        self.cause = cause
        self.path = path
        self.missing = missing


def string(raw: Mapping[str, Any], key: str) -> str:
    """The string at `key`, "" when it is not given. Raises `Fault`, as all below."""
    if key not in raw:
        return ""
    value = raw[key]
    if not isinstance(value, str):
        raise Fault(f"expected a string, found {kind_of(value)}", key)
    refuse_nul(value, key)
    return value


def strings(raw: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """The list of strings at `key`, empty when it is not given."""
    if key not in raw:
        return ()
    value = raw[key]
    if not isinstance(value, list):
        raise Fault(f"expected a list of strings, found {kind_of(value)}", key)
    for index, item in enumerate(value):
        if not isinstance(item, str):
            raise no_string(item, key, index)
        refuse_nul(item, key, index)
    return tuple(value)


def mapping(raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object at `key`, empty when it is not given; its values are not looked at."""
    value = raw.get(key, {})
    if not isinstance(value, dict):
        raise Fault(f"expected an object, found {kind_of(value)}", key)
    return value


def one_of(raw: Mapping[str, Any], key: str, allowed: tuple[str, ...], default: str) -> str:
    """The one of `allowed` at `key`, `default` when it is not given."""
    if key not in raw:
        return default
    value = raw[key]
    if value != default and value not in allowed:
        raise Fault(f"expected {' or '.join(map(repr, allowed))}", key)
    return str(value)


def boolean(raw: Mapping[str, Any], key: str) -> bool:
    """Whether `key` is true, False when it is not given."""
    if key not in raw:
        return False
    value = raw[key]
    if not isinstance(value, bool):
        raise Fault(f"expected true or false, found {kind_of(value)}", key)
    return value


def seconds(raw: Mapping[str, Any], key: str) -> float | None:
    """The time at `key` in seconds, None when it is not given (case C017)."""
    if key not in raw:
        return None
    value = raw[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise Fault(f"expected a number of milliseconds, found {kind_of(value)}", key)
    if value < MIN_MILLISECONDS:
        hint = f"; for {value:g} seconds write {value * 1000:g}" if 0 < value < MIN_MILLISECONDS else ""
        raise Fault(f"{value:g} is below {MIN_MILLISECONDS}, and the unit is milliseconds{hint}", key)
    if value > MAX_MILLISECONDS:
        raise Fault(f"{value:g} is above {MAX_MILLISECONDS} milliseconds", key)
    return value / 1000


def no_string(value: Any, *path: str | int) -> Fault:
    """The fault of a value inside a list or an object that is no string."""
    hint = "; put it in quotes" if isinstance(value, (int, float)) else ""
    return Fault(f"expected a string, found {kind_of(value)}{hint}", *path)


def refuse_nul(text: str, *path: str | int) -> None:
    """No argument, variable or path can carry what ends a string in C."""
    if "\0" in text:
        raise Fault("cannot hold a NUL character", *path)


def hidden(text: str) -> bool:
    """`text` holds what an editor does not show: format and control characters, blanks that are no plain space."""
    if text.isascii() and text.isprintable():
        return False
    return any(
        unicodedata.category(letter) in ("Cf", "Cc", "Zs", "Zl", "Zp") and letter not in " \n\t" for letter in text
    )
