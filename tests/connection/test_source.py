"""What a server says it is, whatever it says."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.connection.source import release_of


@pytest.mark.parametrize(
    ("info", "release"),
    [
        ({"name": "x", "version": "1"}, "x\0001"),
        ({"name": "x", "version": "1", "title": "other"}, "x\0001"),
        ({"name": "x"}, "x"),
        ({}, ""),
        (None, ""),
        ("x", ""),
        ({"name": {"odd": 1}, "version": 2}, "{'odd': 1}\0002"),
        ({"name": "x" * 1000}, "x" * 200),
    ],
)
def test_releases(info: Any, release: str) -> None:
    """Name and version, bounded; nothing where it says nothing that can be used."""
    assert release_of(info) == release
