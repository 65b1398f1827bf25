"""Holds the list of what the bridge between eras owes to its tests: each statement is found by its number."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Statements whose tests do not say so yet: about sign-in, tasks, and the transports' own.
UNNAMED: frozenset[int] = frozenset()


def test_each_statement_has_its_tests() -> None:
    """A docstring that begins with `B32:`, or names several, holds these statements of docs/bridging.md."""
    page = (ROOT / "docs" / "bridging.md").read_text("utf-8")
    listed = {int(number) for number in re.findall(r"^\| B(\d+) \|", page, re.M)}
    assert listed == set(range(1, 93))
    named: set[int] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for marks in re.findall(r'"""(?:C\d+, )*((?:B\d+(?:, | and )?)+)', path.read_text("utf-8")):
            named |= {int(number) for number in re.findall(r"\d+", marks)}
        named |= {int(number) for number in re.findall(r"\. B(\d+):", path.read_text("utf-8"))}
    assert named <= listed
    assert listed - named == UNNAMED
