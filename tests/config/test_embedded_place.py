"""How a server that is Python code is written on the command line."""

from __future__ import annotations

import pytest

from mcphub.config.embedded_place import place_of
from mcphub.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a.b", ("", "a.b", "")),
        ("a:b.c", ("", "a", "b.c")),
        ("n=a", ("n", "a", "")),
        ("n=a:b", ("n", "a", "b")),
    ],
)
def test_its_parts(text: str, parts: tuple[str, str, str]) -> None:
    """What is left out is empty."""
    assert place_of(text) == parts


@pytest.mark.parametrize("text", ["", ":x", "a:", "=a", "n=", "n=:x"])
def test_what_names_nothing(text: str) -> None:
    """The text is named, with what is expected."""
    with pytest.raises(ConfigError, match=r"cannot embed .*expected \[NAME=\]MODULE\[:OBJECT\]"):
        place_of(text)
