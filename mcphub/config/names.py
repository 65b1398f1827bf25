"""Owns which names a server may have, and how a name or key that a file chose is printed.

It must not know what stands under a name.
"""

from __future__ import annotations

import json
import re

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


def lookup_fault(name: str) -> str:
    """Why no server that runs has this name, "" when one may: as `name_fault`, and a plugin's is in three parts."""
    parts = name.split(":")
    return next(filter(None, map(name_fault, parts if len(parts) == 3 else [name])), "")


def unknown_server(name: str, so: str = "") -> str:
    """What is said of a name that no server has, fit to be printed, with why none can have it where that is so. `so`
    stands for the name where that was said before."""
    if fault := lookup_fault(name):
        return f"no server is named {so or shown_name(name)}, and none can be: {fault}"
    return f"no server is named {so or name}; `mcphub status` lists them"


def case_twins(names: list[str]) -> dict[str, str]:
    """Each well-formed name that differs from an earlier one in case alone, and that one: some file systems and people
    fold it."""
    seen: dict[str, str] = {}
    twins: dict[str, str] = {}
    for name in names:
        if _NAME.fullmatch(name) and (first := seen.setdefault(name.lower(), name)) != name:
            twins[name] = first
    return twins
