"""Tables for the names of servers."""

from __future__ import annotations

import pytest

from mcphub.config.names import RESERVED_NAMES, case_twins, lookup_fault, name_fault, shown_name, unknown_server


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


def test_a_name_that_is_looked_for() -> None:
    """C006: who asks for what no server can be called is told why, in plain text; a plugin's name has three parts."""
    assert [lookup_fault(name) for name in ("a", "plugin:x:a")] == ["", ""]
    assert all(lookup_fault(name) for name in ("", "a:b", "plugin:x:a\n", "a b", "prototype", "plugin::a"))
    assert unknown_server("a") == "no server is named a; `mcphub status` lists them"
    fault = name_fault("\n")
    assert unknown_server("a\n\x1b[2J") == rf'no server is named "a\n\u001b[2J", and none can be: {fault}'
    assert unknown_server("\n", so="so here") == f"no server is named so here, and none can be: {fault}"


def test_case_twins() -> None:
    """C006: each later twin is named with the first of its kind; names that are refused anyway have none."""
    assert case_twins(["ab", "AB", "c", "Ab", "d e", "D E"]) == {"AB": "ab", "Ab": "ab"}
