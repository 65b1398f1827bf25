"""The verb enable."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Place


def test_what_was_switched_off(home: Place) -> None:
    """It is on again, here and everywhere; enabling what is on says so."""
    assert home.run("add", "a", "--", "x")[2] == 0
    assert home.run("disable", "a")[2] == home.run("disable", "a", "--here")[2] == 0
    out, err, status = home.run("enable", "a", "--json")
    assert (err, status) == ("", 0)
    assert json.loads(out) == {
        "name": "a", "enabled": True, "directories": ["", home.workspace], "path": "", "notes": [],
    }  # fmt: skip
    assert home.run("enable", "a") == ("a was not switched off\n", "", 0)
    said = "mcphub: cannot enable b: no server is named so here; `mcphub status` lists them\n"
    assert home.run("enable", "b") == ("", said, 1)


def test_what_a_file_switched_off(home: Place) -> None:
    """In a file of one's own the switch is taken out, and nothing else; in a project's it is not ours to take."""
    path = Path(home.root, "config", "mcphub", "mcp.json")
    path.parent.mkdir(parents=True)
    path.write_text('{"mcpServers": {"a": {"command": "x", "enabled": false /* for now */, "disabled": true}}}')
    assert home.run("enable", "a") == ("a is switched on\n", "", 0)
    assert path.read_text() == '{"mcpServers": {"a": {"command": "x"}}}'
    project = Path(home.workspace, ".mcp.json")
    project.write_text('{"mcpServers": {"a": {"command": "x", "enabled": false}}}')
    out, err, status = home.run("enable", "a")
    assert (out, status) == ("", 1)
    assert err == (
        f"mcphub: cannot enable a: {project}:1 mcpServers.a.enabled switches it off, and that is not a file of yours "
        "alone\n"
    )


def test_a_server_that_was_added_while_off(home: Place) -> None:
    """Who adds a server that is still switched off is told how to switch it on."""
    assert home.run("add", "a", "--", "x")[2] == home.run("disable", "a")[2] == home.run("remove", "a")[2] == 0
    out, err, status = home.run("add", "a", "--", "x")
    assert status == 0
    assert err == "mcphub: a is off: switched off by you; to switch it on again: mcphub enable a\n"
    assert home.run("remove", "a")[2] == 0
    assert home.run("enable", "a") == ("a is switched on\n", "", 0)
