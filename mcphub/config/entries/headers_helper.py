"""Owns what an entry says of the program that gives its headers: its words, where it runs, what is kept from it.

It must not run it, nor know which headers it gives. The words are split as a shell splits them and nothing more: what
needs a shell names one.
"""

from __future__ import annotations

import shlex

from mcphub.spec import HelperSpec, Scope, Secret

from .fields import Fault, hidden, string
from .reading import Expansion, Reading

KEY = "headersHelper"


def read_helper(reading: Reading, expansion: Expansion) -> HelperSpec | None:
    """The program at `headersHelper`, None where none is named; its variables are expanded by `expansion`, word by
    word, so that a value is never split. Raises `Fault`."""
    if KEY not in reading.raw:
        return None
    text = string(reading.raw, KEY)
    if not text.strip():
        raise Fault("is empty; give the program that prints the headers", KEY)
    if hidden(text):
        reading.note("holds an invisible character", KEY)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise Fault(f"cannot be split into words: {str(error).lower()}", KEY) from None
    if not words or not words[0]:
        raise Fault("names no program", KEY)
    if reading.entry.origin.scope is Scope.WEBAPP:
        raise Fault("a catalogue cannot name a program that runs here", KEY)
    if reading.project and reading.enabled and "$" in text:
        reading.told[KEY] = shlex.join(expansion.told(word) for word in words)
    return HelperSpec(
        words=tuple(Secret(expansion.expand(word, KEY)) for word in words),
        shown=text,
        cwd=reading.workspace or reading.directory,
        foreign=reading.foreign,
        env={name: Secret(value) for name, value in reading.entry.variables.items()},
    )
