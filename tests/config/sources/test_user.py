"""The person's own file."""

from __future__ import annotations

from pathlib import Path

from mcphub.config.places import Places
from mcphub.config.readfile import Reader
from mcphub.config.sources import SOURCES
from mcphub.config.sources.request import Request
from mcphub.config.sources.user import UserSource
from mcphub.spec import Scope


def test_one_file_for_every_workspace(tmp_path: Path) -> None:
    """The same entries, with the configuration directory as theirs, whatever the workspace."""
    (tmp_path / "mcp.json").write_text('{"mcpServers":{"a":{"command":"x"}}}')
    for workspace in ("", "/w"):
        request = Request(workspace, Places("/h", str(tmp_path), "/s"), Reader())
        (layer,) = UserSource().load(request)
        assert [entry.origin.path for entry in layer.entries] == [str(tmp_path / "mcp.json")]
        assert layer.directory == str(tmp_path)


def test_order_of_sources() -> None:
    """The visible order is the order of precedence."""
    assert [source.scope for source in SOURCES] == [
        Scope.ENTERPRISE, Scope.MANAGED, Scope.DYNAMIC, Scope.LOCAL, Scope.PROJECT, Scope.USER, Scope.PLUGIN,
        Scope.WEBAPP, Scope.EMBEDDED,
    ]
