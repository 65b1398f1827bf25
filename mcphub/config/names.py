"""Owns which names a server may have, and how a name or key that a file chose is printed.

It must not know what stands under a name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

#: Host files use these names for servers of their own, and some JavaScript programs break on the last three.
RESERVED_NAMES = frozenset(
    ["workspace", "claude-in-chrome", "computer-use", "Claude Preview", "Claude Browser"]
    + ["__proto__", "constructor", "prototype"]
)

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def shown_name(name: str) -> str:
    """`name` as it may be printed: itself when it is a good name, else quoted, escaped to ASCII and cut short."""
    if _NAME.fullmatch(name):
        return name
    return json.dumps(name if len(name) <= 48 else name[:48] + "...")


def name_fault(name: str) -> str:
    """Why no server can have this name, "" when one can."""
    if name in RESERVED_NAMES:
        return "this name is reserved; choose another"
    if not _NAME.fullmatch(name):
        return "a name has 1 to 64 of the characters A-Z a-z 0-9 _ -"
    return ""


def case_twins(names: list[str]) -> dict[str, str]:
    """Each well-formed name that differs from an earlier one in case alone, and that one: some file systems and people
    fold it."""
    seen: dict[str, str] = {}
    twins: dict[str, str] = {}
    for name in names:
        if _NAME.fullmatch(name) and (first := seen.setdefault(name.lower(), name)) != name:
            twins[name] = first
    return twins


def near_miss(name: str, known: Iterable[str]) -> str:
    """The one of `known` that `name` was probably meant to be, "" where it is one of them, or like none."""
    names = list(known)
    if name in names:
        return ""
    import difflib  # most people have no such file

    folded = {_folded(one): one for one in names}
    found = difflib.get_close_matches(_folded(name[:200]), folded, n=1, cutoff=0.86)
    return folded[found[0]] if found else ""


def _folded(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
