"""The roots that the hub itself answers with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcphub.connection.roots import roots_of


@pytest.mark.parametrize(
    ("workspace", "roots"),
    [
        ("", []),
        ("/home/me/p", [{"uri": "file:///home/me/p"}]),
        ('/a b/%"\u6f22', [{"uri": "file:///a%20b/%25%22%E6%BC%A2"}]),
    ],
)
def test_roots(workspace: str, roots: list[Any]) -> None:
    """The workspace as a URI in which nothing needs to be guessed (RFC 8089); no workspace is no root."""
    assert json.loads(roots_of(workspace)) == roots
