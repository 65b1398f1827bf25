"""What a program said last, in one line."""

from __future__ import annotations

import pytest

from mcphub.connection.last_words import QUOTED, cut, last_words


@pytest.mark.parametrize("length", [0, 1, 99, 100, 101, 150, 5000])
def test_what_is_too_long_is_cut_in_the_middle(length: int) -> None:
    """Beginning and end stay, within the bound, and what fits stays as it is."""
    text = ("a" * length)[:-1] + "z" if length else ""
    shown = cut(text, 100)
    assert len(shown) == min(length, 100)
    assert shown == text if length <= 100 else (shown[0], shown[-1], " ... " in shown) == ("a", "z", True)


@pytest.mark.parametrize(
    ("stderr", "stdout", "said"),
    [
        ([], [], ""),
        (["one", "two"], [], "stderr: two"),
        ([], ["one", "two"], "stdout: two"),
        (["err"], ["out"], "stderr: err; stdout: out"),
    ],
)
def test_the_last_line_of_each(stderr: list[str], stdout: list[str], said: str) -> None:
    """stderr comes first, and what said nothing is not named."""
    assert last_words(stderr, stdout) == said


def test_a_long_line() -> None:
    """One line of 4 KiB does not make the sentence longer than a person reads."""
    assert len(last_words(["x" * 4096], ["y" * 4096])) == 2 * QUOTED + len("stderr: ; stdout: ")
