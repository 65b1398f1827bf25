"""Tables for the names of servers."""

from __future__ import annotations

import pytest

from mcphub.config.names import RESERVED_NAMES, case_twins, name_fault, near_miss, shown_name


@pytest.mark.parametrize("name", ["a", "A-1_b", "n" * 64])
def test_good_names(name: str) -> None:
    """A name inside the grammar is printed as it is."""
    assert name_fault(name) == ""
    assert shown_name(name) == name


@pytest.mark.parametrize("name", ["", "n" * 65, "a b", "a.b", "a\n", "\u00e9", "\u001b[2J"])
def test_bad_names(name: str) -> None:
    """C006: a name outside the grammar is refused, and what is printed of it is short, plain and quoted."""
    assert name_fault(name).startswith("a name has 1 to 64")
    shown = shown_name(name)
    assert shown.isascii() and shown.isprintable() and shown.startswith('"') and len(shown) < 64


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_reserved_names(name: str) -> None:
    """C006: what other programs use for themselves is refused as such."""
    assert "reserved" in name_fault(name)


def test_case_twins() -> None:
    """C006: each later twin is named with the first of its kind; names that are refused anyway have none."""
    assert case_twins(["ab", "AB", "c", "Ab", "d e", "D E"]) == {"AB": "ab", "Ab": "ab"}


@pytest.mark.parametrize(
    "name, meant",
    [
        ("managed-settings.json", ""),
        ("managed-setting.json", "managed-settings.json"),
        ("managed_settings.json", "managed-settings.json"),
        ("Managed-Settings.JSON", "managed-settings.json"),
        ("managed-settings.jsonc", "managed-settings.json"),
        ("manged-mcp.json", "managed-mcp.json"),
        ("settings.json", ""),
        ("mcp.json", ""),
        ("", ""),
        ("x" * 100_000, ""),
    ],
)
def test_near_misses(name: str, meant: str) -> None:
    """A slip of the pen is told what it was meant to be, another name is left alone; length costs nothing."""
    assert near_miss(name, ("managed-settings.json", "managed-mcp.json")) == meant
