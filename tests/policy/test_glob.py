"""The one wildcard."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.policy.glob import glob


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("", "", True), ("", "a", False), ("*", "", True), ("*", "abc", True), ("a*", "a", True), ("a*", "ba", False),
        ("*a", "ba", True), ("a*a", "a", False), ("a*a", "aa", True), ("a*b*c", "axbxc", True), ("a*b*c", "acb", False),
        ("*ab*", "aab", True), ("a.c", "abc", False), ("[ab]", "a", False), ("**", "x", True), ("a**b", "ab", True),
        ("*.*", "a.b", True), ("?", "a", False),
    ],
)  # fmt: skip
def test_rows(pattern: str, text: str, expected: bool) -> None:
    """`*` stands for any characters, everything else for itself, and the whole text must be covered."""
    assert glob(pattern, text) is expected


@given(st.text("ab*", max_size=8), st.text("ab", max_size=10))
def test_as_a_regular_expression_would(pattern: str, text: str) -> None:
    """The same answer as an anchored, escaped expression gives."""
    expression = ".*".join(map(re.escape, pattern.split("*")))
    assert glob(pattern, text) is (re.fullmatch(expression, text, re.DOTALL) is not None)


def test_no_pattern_takes_long() -> None:
    """What makes some expressions run for ever takes no time here."""
    start = time.perf_counter()
    assert not glob("a*" * 200 + "b", "a" * 20_000)
    assert time.perf_counter() - start < 10
