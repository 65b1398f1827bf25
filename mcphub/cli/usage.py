"""Owns what wrong usage is, how it is told, and the actions of a verb that has several.

It must not know verbs. Wrong usage is what can be seen by the words of a command line alone, without a look at any
file, daemon or environment; all of it ends with the same exit status.
"""

from __future__ import annotations

import sys

from mcphub.cli.output import complain
from mcphub.errors import McphubError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence


class UsageError(McphubError):
    """The words of a command line cannot be meant. The message says which, and what is expected."""


def server_name(text: str) -> str:
    """The type of an argument that names a server which may be there. Raises ArgumentTypeError for no name at all; what
    else no server can be called may stand in a file, which is then wrong, and is told by who looks."""
    if not text:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError("the name is empty")
    return text


def add_actions(parser: argparse.ArgumentParser, actions: Mapping[str, str]) -> None:
    """The first word of a verb that does several things: each action with one line on what it does."""
    parser.add_argument("action", choices=tuple(actions), help="what to do")
    parser.set_defaults(actions=dict(actions))


def lacks_action(words: Sequence[str], actions: Mapping[str, str]) -> bool:
    """Whether a command line, its options behind its words, has no word at all, and does not ask for help."""
    return bool(actions) and not {"-h", "--help"} & set(words) and (not words or words[0].startswith("-"))


def tell_actions(verb: str, actions: Mapping[str, str]) -> None:
    """Say on stderr which actions the verb has."""
    complain(f"{verb} needs to be told what to do:")
    widest = max(map(len, actions))
    if sys.stderr is not None:
        print("".join(f"  {name:<{widest}}  {text}\n" for name, text in actions.items()), end="", file=sys.stderr)
    complain(_help(verb))


def tell(verb: str, error: UsageError) -> None:
    """Say on stderr what is wrong with the command line."""
    complain(f"{error}; {_help(verb)}")


def _help(verb: str) -> str:
    return f"`mcphub {verb} --help` says more"
