"""Many lines that say the same."""

from __future__ import annotations

import time

import pytest

from mcphub.questions.grouping import FIRST, KINDS, PLAIN, grouped


@pytest.mark.parametrize(
    "form",
    [
        "/u/mcp.json:{n} mcpServers.a{n}.x: unknown key, not used",
        "/u/mcp.json:{n} mcpServers.a{word}: this key is not used",
        "cannot use server a{word}: /u/mcp.json:{n} mcpServers.a{word}.command: missing variable V_{word}; set it",
        '/u/mcp.json:{n} mcpServers."{word} x": differs from \'{word}\' in case only',
        "/u/e:{n}: {upper} is set twice; this later line wins",
    ],
)
def test_thousands_of_equal_ones(form: str) -> None:
    """The first few and how many more; places, names and numbers make no difference."""
    lines = [form.format(n=n, word=f"b{n}", upper=f"NAME{n}") for n in range(5000)]
    assert grouped(lines) == [*lines[:FIRST], f"and {5000 - FIRST} more like the last {FIRST}"]


def test_other_kinds_stay() -> None:
    """One that is alone is never lost among many that are alike."""
    lines = [f"/f:{n} key: not used" for n in range(100)]
    assert grouped([*lines, "cannot use /f: broken", "cannot use /f: broken"]) == [
        *lines[:FIRST], "and 97 more like the last 3", "cannot use /f: broken",
    ]  # fmt: skip


def test_few_are_shown_whole() -> None:
    """Whatever they say, each once."""
    lines = [f"/f:{n} key: not used" for n in range(PLAIN)]
    assert grouped([*lines, *lines]) == lines


def test_it_is_bounded_and_quick() -> None:
    """However many kinds there are."""
    began = time.perf_counter()
    words = ["".join(chr(97 + (n >> shift) % 16) for shift in (0, 4, 8)) for n in range(4096)]
    lines = [f"{word} is wrong" for word in words]
    assert grouped(lines) == [*lines[:KINDS], f"and {4096 - KINDS} more of other kinds"]
    assert time.perf_counter() - began < 5
