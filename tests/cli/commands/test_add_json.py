"""The verb add-json."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Place


def test_a_whole_entry(home: Place) -> None:
    """From the command line or from stdin, with comments as in a file; it is written as data, not as text."""
    assert home.run("add-json", "a", '{"command": "x", "timeout": 5000,} // mine')[1:] == ("", 0)
    assert home.run("add-json", "b", "-", stdin=b'{"type":"http","url":"https://h.example"}')[1:] == ("", 0)
    path = Path(home.root, "config", "mcphub", "mcp.json")
    assert json.loads(path.read_bytes())["mcpServers"] == {
        "a": {"command": "x", "timeout": 5000},
        "b": {"type": "http", "url": "https://h.example"},
    }


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{", "cannot add server a: the entry: line 1, column 2: "),
        ("[]", "cannot add server a: expected an object, found a list"),
        ('{"command": "x", "command": "y"}', "duplicate key"),
        ("\udcff", "cannot add server a: the entry: not UTF-8 at byte 0"),
    ],
)
def test_what_is_no_entry(home: Place, entry: str, message: str) -> None:
    """It is wrong usage, with the place of what is wrong."""
    out, err, status = home.run("add-json", "a", entry)
    assert (out, status) == ("", 2)
    assert message in err
    assert home.run("add-json", "a", '{"command": 1}')[2] == 1
