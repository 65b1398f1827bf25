"""Owns how a verb with several actions lets people write its words and options in any order.

It must not know verbs.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def words_first(words: Sequence[str], valued: Collection[str], rest: str = "") -> list[str]:
    """`words` with the options behind what is no option: argparse takes an optional list of words as empty where an
    option stands before it. `valued` are the options that take a value. What follows `--` is given as the option
    `rest`, once a word, where there is one."""
    plain: list[str] = []
    options: list[str] = []
    given = list(words)
    while given:
        word = given.pop(0)
        if word == "--":
            if rest:
                options += [f"{rest}={one}" for one in given]
            else:
                options += [word, *given]
            break
        if word in valued and given:
            options += [word, given.pop(0)]
        elif word.startswith("-") and word != "-":
            options.append(word)
        else:
            plain.append(word)
    return [*plain, *options]
