"""The file of an enterprise."""

from __future__ import annotations

from pathlib import Path

from mcphub.config.sources.enterprise import EnterpriseSource
from mcphub.spec import Scope

from .administrators import Administrators, names


def test_it_counts_by_being_there(tmp_path: Path) -> None:
    """C124: one layer while the file exists, of whatever workspace, an empty one included; none without the file."""
    here = Administrators(tmp_path)
    assert here.load(EnterpriseSource()) == []
    here.write("managed-mcp.json", {"mcpServers": {}})
    (empty,) = here.load(EnterpriseSource(), "/w")
    assert (empty.scope, empty.entries, empty.problems) == (Scope.ENTERPRISE, (), ())
    here.write("managed-mcp.json", {"mcpServers": {"a": {"command": "a"}}})
    (layer,) = here.load(EnterpriseSource())
    assert names(layer) == ["a"]
    assert (layer.path, layer.directory) == (str(here.system / "managed-mcp.json"), str(here.system))


def test_one_that_cannot_be_used_is_there_too(tmp_path: Path) -> None:
    """C124, C131: broken or open to others, it still is alone, and gives nothing."""
    here = Administrators(tmp_path)
    path = here.write("managed-mcp.json", '{"mcpServers": {"a"')
    (broken,) = here.load(EnterpriseSource())
    assert broken.unreadable
    here.write("managed-mcp.json", {"mcpServers": {"a": {"command": "a"}}})
    path.chmod(0o666)
    (open_to_others,) = here.load(EnterpriseSource())
    assert open_to_others.unreadable
    assert f"cannot trust {path}: others can write to it" in open_to_others.problems[0].message
    path.chmod(0o644)
    here.system.chmod(0o777)
    (below,) = here.load(EnterpriseSource())
    assert below.unreadable
