"""Cursors that only the hub can make."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.protocol.cursor import give_cursor, take_cursor

KEY, METHOD, DIGEST = b"k" * 32, "tools/list", "d" * 64


@pytest.mark.parametrize("position", [0, 1, 255, 10_000, 2**32 - 1])
def test_a_cursor_leads_back(position: int) -> None:
    """B60: nothing but the key and the list is needed, so it works on every connection."""
    cursor = give_cursor(KEY, METHOD, DIGEST, position)
    assert re.fullmatch(r"[A-Za-z0-9_-]{24}", cursor)
    assert take_cursor(KEY, METHOD, DIGEST, cursor) == position


def test_a_cursor_of_another_list() -> None:
    """B60: of another method, of the list before its change, or of another hub, it is nothing."""
    cursor = give_cursor(KEY, METHOD, DIGEST, 7)
    assert take_cursor(KEY, "prompts/list", DIGEST, cursor) is None
    assert take_cursor(KEY, METHOD, "e" * 64, cursor) is None
    assert take_cursor(b"other", METHOD, DIGEST, cursor) is None


@pytest.mark.parametrize("letters", ["", "x", "=", "\u6f22", "\x00", "!", "A", "A!", "AAA="])
def test_what_is_no_cursor(letters: str) -> None:
    """Whatever it is, of the right length or not, it is refused, not raised."""
    for length in (len(letters), 24, 10_000):
        assert take_cursor(KEY, METHOD, DIGEST, (letters * length)[:length]) is None


@given(st.integers(0, 23), st.sampled_from("ABab01-_"))
def test_a_changed_cursor(at: int, letter: str) -> None:
    """B60: no letter of it can be another one."""
    cursor = give_cursor(KEY, METHOD, DIGEST, 7)
    changed = cursor[:at] + letter + cursor[at + 1 :]
    assert take_cursor(KEY, METHOD, DIGEST, changed) == (7 if changed == cursor else None)
