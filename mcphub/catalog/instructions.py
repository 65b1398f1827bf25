"""Owns the one text that tells agents how the servers want to be used: the hub's own, then each server's, in order.

It must not know who reads it. A server's text is a stranger's: it is cut, cleaned of control characters, and cannot
pass for another server's, since no line of it can be a heading of the level that the servers' names have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mcphub.catalog.hygiene import clean, shorten

#: Characters of one server's text, and of all of them.
MAX_ONE = 2000
MAX_ALL = 20_000

_HEADING = re.compile(r"^([ \t>]*)#{1,2}(?!#)", re.MULTILINE)
#: What some readers take for the end of a line, beside the newline.
_LINE_ENDS = re.compile("\r\n?|[\u2028\u2029]")


def merge_instructions(said: Mapping[str, str]) -> str:
    """The texts by server as one, by name, each under the heading `## <server>`; "" where none says anything."""
    parts: list[str] = []
    left_out: list[str] = []
    room = MAX_ALL
    for server in sorted(said):
        text = _one(said[server])
        if not text:
            continue
        part = f"## {server}\n{text}"
        if len(part) > room or left_out:
            left_out.append(server)
        else:
            room -= len(part)
            parts.append(part)
    if left_out:
        parts.append(f"## mcphub\nThere was no room for the instructions of {len(left_out)} more servers.")
    return "\n\n".join(parts)


def _one(text: str) -> str:
    text = clean(_LINE_ENDS.sub("\n", text[: 4 * MAX_ONE])).strip()
    text = _HEADING.sub(r"\1###", text)
    return shorten(text, MAX_ONE)
