"""Tables for the readers of single fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mcphub.config.entries.fields import Fault, boolean, hidden, mapping, one_of, seconds, string, strings


def either(raw: Mapping[str, Any], key: str) -> str:
    return one_of(raw, key, ("a", "b"), "")


@pytest.mark.parametrize(
    ("read", "absent", "good", "value"),
    [
        (string, "", "x", "x"),
        (strings, (), ["x", ""], ("x", "")),
        (mapping, {}, {"a": 1}, {"a": 1}),
        (boolean, False, True, True),
        (seconds, None, 1500, 1.5),
        (either, "", "b", "b"),
    ],
)
def test_what_is_given_and_what_is_not(
    read: Callable[[Mapping[str, Any], str], Any], absent: object, good: object, value: object
) -> None:
    """A field of the right kind is its value, one that is not there its default; null is not "not there"."""
    assert read({}, "k") == absent
    assert read({"k": good}, "k") == value
    with pytest.raises(Fault) as raised:
        read({"k": None}, "k")
    assert raised.value.path == ("k",)
    assert raised.value.cause.startswith("expected ")


def test_a_fault_inside_a_list_has_its_index() -> None:
    """The path leads to the item, not to the list."""
    with pytest.raises(Fault, match="found a number; put it in quotes") as raised:
        strings({"k": ["a", 1]}, "k")
    assert raised.value.path == ("k", 1)


@pytest.mark.parametrize(
    ("text", "found"), [("plain \t\n", False), ("\u200b", True), ("a\u00a0", True), ("\x07", True), ("\u00e9", False)]
)
def test_hidden(text: str, found: bool) -> None:
    """What an editor shows as nothing, or as a plain space, is found."""
    assert hidden(text) is found
