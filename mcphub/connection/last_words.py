"""Owns how much of what a program or a server said last stands in one line for a person.

It must not know where the lines come from; they are clean already: cut first, half a secret would not be found.
"""

from __future__ import annotations

from collections.abc import Sequence

#: Characters of a line that is quoted in a sentence; of one that stands by itself below it; of a whole message.
QUOTED = 200
LINE = 500
MESSAGE = 2000
_GAP = " ... "


def cut(text: str, most: int) -> str:
    """`text` in at most so many characters: what is left out is in the middle, since what to do often comes last."""
    if len(text) <= most:
        return text
    kept = most - len(_GAP)
    end = kept // 3
    return f"{text[: kept - end]}{_GAP}{text[len(text) - end :]}"


def last_words(stderr: Sequence[str], stdout: Sequence[str]) -> str:
    """The last line of each that has one: `stderr: no licence; stdout: see the manual`; "" = it said nothing."""
    said = (("stderr", stderr), ("stdout", stdout))
    return "; ".join(f"{stream}: {cut(lines[-1], QUOTED)}" for stream, lines in said if lines)
