"""When two names are the same to a reader."""

from __future__ import annotations

import pytest

from mcphub.policy.folding import folded, folded_names


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Git-Hub", "git-hub"), (" x ", "x"), ("cafe\u0301", "CAFÉ"), ("\ufb01le", "file"), ("a\u200db", "ab"),
        ("\u03a3\u03a3", "\u03c3\u03c2"),
    ],
)  # fmt: skip
def test_the_same(one: str, other: str) -> None:
    """C120: case, blanks around, ways of composing and invisible letters are no difference."""
    assert folded(one) == folded(other)


@pytest.mark.parametrize(("one", "other"), [("a-b", "a_b"), ("a", "b"), ("ab", "a b"), ("a", "\u0430")])
def test_not_the_same(one: str, other: str) -> None:
    """What can be told apart is told apart."""
    assert folded(one) != folded(other)


def test_a_plugins_server_has_two_names() -> None:
    """What a plugin calls `github` is denied with `github`."""
    assert folded_names("plugin:Tools:GitHub") == {"plugin:tools:github", "github"}
    assert folded_names("GitHub") == {"github"}
