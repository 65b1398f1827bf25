"""Holds the statements of docs/acceptance.md to their tests: each one is found by its number."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Statements whose tests do not say so yet.
UNNAMED: frozenset[str] = frozenset()

_LISTED = re.compile(r"^\| (H\d+|K\d\.\d) \|", re.M).findall
_MARKS = re.compile(r'"""((?:[A-Z]\d+(?:\.\d)?(?:, | and )?)+):').findall
_MARK = re.compile(r"\b(?:H\d+|K\d\.\d)\b").findall


def test_each_statement_has_its_tests() -> None:
    """A docstring that begins with `K3.1:`, or names several before its colon, holds these statements."""
    listed = _LISTED((ROOT / "docs" / "acceptance.md").read_text("utf-8"))
    assert [one for one in listed if one.startswith("H")] == [f"H{number}" for number in range(1, 15)]
    assert {one[:2] for one in listed if one.startswith("K")} == {f"K{number}" for number in range(1, 7)}
    named: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for marks in _MARKS(path.read_text("utf-8")):
            named |= set(_MARK(marks))
    assert named <= set(listed)
    assert set(listed) - named == UNNAMED
