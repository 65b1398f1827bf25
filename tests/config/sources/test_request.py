"""How a source reads one file."""

from __future__ import annotations

from pathlib import Path

from mcphub.config.places import Places
from mcphub.config.readfile import Reader
from mcphub.config.sources.request import Request
from mcphub.spec import Scope


def test_a_file_becomes_a_layer(tmp_path: Path) -> None:
    """A missing file is no layer, a good one has entries, one that cannot be read has a problem; nothing raises."""
    request = Request("", Places("/h", "/c", "/s"), Reader())
    path = tmp_path / "mcp.json"
    assert request.layer(Scope.USER, str(path), "/d") is None
    path.write_text('{"mcpServers":{"a":{"command":"x"}}}')
    good = request.layer(Scope.USER, str(path), "/d")
    assert good is not None
    assert [entry.name for entry in good.entries] == ["a"]
    assert (good.scope, good.path, good.directory) == (Scope.USER, str(path), "/d")
    bad = request.layer(Scope.USER, str(tmp_path), "/d")
    assert bad is not None
    assert [one.message for one in bad.problems] == [f"cannot read {tmp_path}: it is a directory, not a regular file"]
