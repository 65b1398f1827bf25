"""Words and options in any order."""

from __future__ import annotations

import pytest

from mcphub.cli.subverb import words_first


@pytest.mark.parametrize(
    ("given", "ordered"),
    [
        ([], []),
        (["list", "--json"], ["list", "--json"]),
        (["--json", "test", "f"], ["test", "f", "--json"]),
        (["--workspace", "/w", "test", "f"], ["test", "f", "--workspace", "/w"]),
        (["test", "--workspace=/w", "f"], ["test", "f", "--workspace=/w"]),
        (["explain", "--", "npx", "-y", "--json"], ["explain", "--word=npx", "--word=-y", "--word=--json"]),
        (["explain", "-"], ["explain", "-"]),
        (["test", "--workspace"], ["test", "--workspace"]),
    ],
)
def test_the_order(given: list[str], ordered: list[str]) -> None:
    """Options behind words, with their values; what stands behind -- is given word by word."""
    assert words_first(given, ("--workspace",), "--word") == ordered


def test_without_an_option_for_the_rest() -> None:
    """-- stays what it is."""
    assert words_first(["validate", "--", "-x"], ()) == ["validate", "--", "-x"]
