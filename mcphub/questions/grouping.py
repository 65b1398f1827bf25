"""Owns how many lines of what is wrong a person is shown: of many that say the same the first few, and how many more.

It must not know what the lines are about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: So many lines are shown whatever they say.
PLAIN = 10
#: Lines of one kind that are shown where there are more than FEW of it.
FIRST, FEW = 3, 5
#: Kinds that are shown.
KINDS = 40

# What differs between lines that say the same: names in quotes, places, references, numbers.
_SAME = (
    (re.compile(r"'[^']*'|\"[^\"]*\""), "''"),
    (re.compile(r"\$\{[^}]*\}"), "$"),
    (re.compile(r":\d+(?::\d+)?(?: [^\s:]+)?"), ":#"),
    (re.compile(r"\bserver \S+"), "server"),
    (re.compile(r"\b[A-Z][A-Z0-9_]{2,}\b"), "NAME"),
    (re.compile(r"\d+"), "#"),
)


def grouped(texts: Iterable[str]) -> list[str]:
    """Each text once, in the order in which its kind came; of many of a kind the first, then a line with the number of
    the others. At most about KINDS * (FIRST + 1) lines come back, however many there were."""
    lines = list(dict.fromkeys(texts))
    if len(lines) <= PLAIN:
        return lines
    kinds: dict[str, list[str]] = {}
    for line in lines:
        kinds.setdefault(_kind(line), []).append(line)
    shown: list[str] = []
    for alike in list(kinds.values())[:KINDS]:
        if len(alike) <= FEW:
            shown += alike
        else:
            shown += [*alike[:FIRST], f"and {len(alike) - FIRST} more like the last {FIRST}"]
    rest = sum(map(len, list(kinds.values())[KINDS:]))
    return [*shown, f"and {rest} more of other kinds"] if rest else shown


def _kind(line: str) -> str:
    line = line[:1000]
    for pattern, same in _SAME:
        line = pattern.sub(same, line)
    return line
