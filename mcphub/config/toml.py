"""Owns bytes of TOML to a table, and where the text is wrong: line and column, counted from 1.

It must not know what the keys mean.
"""

from __future__ import annotations

import re
from typing import Any

_AT = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")


class TomlError(ValueError):
    """`str` of it is "FILE:LINE:COLUMN: cause", without the numbers where they are not known."""


def parse_toml(data: bytes, path: str) -> dict[str, Any]:
    """The table that the file at `path` is. Raises TomlError."""
    import tomllib  # most people have no such file

    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise TomlError(f"{_place(path, data[: error.start])}: not UTF-8 at byte {error.start}") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _AT.search(str(error))
        if found is None:
            raise TomlError(f"{path}: {error}") from None
        cause = str(error)[: found.start()]
        place = f"{path}:{found[1]}:{found[2]}" if found[1] else _place(path, text.rstrip("\r\n").encode())
        raise TomlError(f"{place}: {cause}{'' if found[1] else ', and the file ends here'}") from None
    except (RecursionError, ValueError) as error:
        raise TomlError(f"{path}: {type(error).__name__} while reading it") from None


def _place(path: str, before: bytes) -> str:
    """The place behind these bytes."""
    last = before.rpartition(b"\n")[2].decode("utf-8", "replace")
    line = before.count(b"\n") + 1
    return f"{path}:{line}:{len(last) + 1}"
