"""Owns exposed names: `mcp__<server>__<tool>`, safe for model APIs, the same on every run whatever connects first.

It must not know connections. Names are looked up in a table, never split: both parts may contain `__`.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice, takewhile

DEFAULT_MAX_LENGTH = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
#: Hex digits at the end of a name that must be told apart, and of one for which those were not enough.
_DIGITS = (0, 6, 12, 20)


def _name(server: str, tool: str, plain: str, most: int, level: int) -> str:
    if not level:
        return plain
    digits = _DIGITS[level]
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:digits]
    return f"{plain[: most - digits - 1]}_{digest}"


def exposed_names(
    server: str, tools: Sequence[str], servers: Sequence[str], most: int = DEFAULT_MAX_LENGTH
) -> list[str]:
    """The exposed name of each tool of one server. `servers` are all configured names, connected or not.

    Longer names than `most`, two tools of the server that fall on one name, names of which nothing but `_` is left, and
    names that read as another configured server's (tool `b__c` of `a` where a server `a__b` exists) end in `_` and six
    hex digits of a hash of both; more where those meet. The order of `tools` does not matter. `most` is at least 24.
    """
    if not tools:
        return []
    own = prefix(server)
    prefixes, names_of = _prefixes(tuple(servers))
    first = bisect_left(prefixes, own)
    readings = tuple(takewhile(lambda p: p.startswith(own), islice(prefixes, first, None)))
    if names_of.get(own, frozenset()) <= {server}:
        readings = tuple(p for p in readings if p != own)
    plain = [own + _UNSAFE.sub("_", tool) for tool in tools]
    levels = [int(len(p) > most or p.startswith(readings) or not p[len(own) :].strip("_")) for p in plain]
    while True:
        names = [_name(server, tool, p, most, level) for tool, p, level in zip(tools, plain, levels, strict=True)]
        count = Counter(names)
        clashing = [i for i, name in enumerate(names) if count[name] > 1 and levels[i] < len(_DIGITS) - 1]
        if not clashing:
            return names
        for i in clashing:
            levels[i] += 1


def may_be_exposed_as(server: str, tool: str, exposed: str, most: int = DEFAULT_MAX_LENGTH) -> bool:
    """False where the tool certainly has another exposed name; quick, for a search through many."""
    plain = prefix(server) + _UNSAFE.sub("_", tool)
    return exposed.startswith(plain[: most - _DIGITS[-1] - 1])


@lru_cache(maxsize=16)
def _prefixes(servers: tuple[str, ...]) -> tuple[list[str], dict[str, frozenset[str]]]:
    """The beginnings of all servers' names, sorted, and the servers that have each: each server in turn asks."""
    found: dict[str, set[str]] = {}
    for server in servers:
        found.setdefault(prefix(server), set()).add(server)
    return sorted(found), {prefix: frozenset(names) for prefix, names in found.items()}


def prefix(server: str) -> str:
    """What the exposed names of a server's tools begin with."""
    return f"mcp__{_UNSAFE.sub('_', server)}__"
