"""Files that a person named."""

from __future__ import annotations

import plistlib
from pathlib import Path

import pytest

from mcphub.cli.files import findings_of, read_whole
from mcphub.errors import ConfigError


def test_what_is_no_file(tmp_path: Path) -> None:
    """Is said by its name."""
    with pytest.raises(ConfigError, match="No such file"):
        read_whole(f"{tmp_path}/none")
    with pytest.raises(ConfigError, match="cannot read"):
        read_whole(str(tmp_path))


def test_files_that_it_names_are_read(tmp_path: Path) -> None:
    """An envFile that is not there is a problem of the entry, one that is there is none."""
    path = tmp_path / "mcp.json"
    path.write_text(f'{{"mcpServers": {{"a": {{"command": "x", "envFile": "{tmp_path}/env"}}}}}}')
    assert "No such file" in findings_of(str(path), "")["problems"][0]
    (tmp_path / "env").write_text("A=1\n")
    assert findings_of(str(path), "") == {"path": str(path), "kind": "servers", "problems": [], "warnings": []}


@pytest.mark.parametrize("file", ["plugin.json", ".claude-plugin/plugin.json"])
def test_a_manifest_of_a_plugin(tmp_path: Path, file: str) -> None:
    """It is read as the daemon reads it, with the files that it names; one that is missing is told."""
    path = tmp_path / "tools" / file
    path.parent.mkdir(parents=True)
    path.write_text('{"name": "tools", "mcpServers": ["./a.json"]}')
    report = findings_of(str(path), "")
    assert report["kind"] == "plugin"
    (problem,) = report["problems"]
    assert problem.endswith(f"it names {tmp_path}/tools/a.json, and there is no such file")
    servers = tmp_path / "tools" / "a.json"
    servers.write_text('{"mcpServers": {"s": {"command": "${CLAUDE_PLUGIN_ROOT}/x"}}}')
    assert findings_of(str(path), "") == {"path": str(path), "kind": "plugin", "problems": [], "warnings": []}
    servers.write_text('{"mcpServers": {"s": {"command": 3}}}')
    assert "plugin:tools:s" in findings_of(str(path), "")["problems"][0]


def test_a_property_list(tmp_path: Path) -> None:
    """Is read as managed settings are; one that is none is said to be none."""
    path = tmp_path / "dev.mcphub.plist"
    path.write_bytes(plistlib.dumps({"deniedMcpServer": []}))
    report = findings_of(str(path), "")
    assert report["kind"] == "managed preferences"
    assert "probably meant as deniedMcpServers" in report["problems"][0]
    path.write_bytes(b"x")
    with pytest.raises(ConfigError, match="not a property list"):
        findings_of(str(path), "")
