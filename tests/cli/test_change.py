"""What every verb says after it has changed something."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal

from mcphub.cli.change import Here, report, standing
from mcphub.config.places import Places
from mcphub.policy import approval
from mcphub.store.approvals import ApprovalStore
from tests.cli.conftest import Place
from tests.fakes.canned_hub import CannedHub, origin, server


@pytest.fixture
def here(place: Place, monkeypatch: pytest.MonkeyPatch) -> Here:
    monkeypatch.setenv("XDG_RUNTIME_DIR", place.root)
    monkeypatch.setenv("SET", "1")
    (Path(place.root) / "config").mkdir()
    (Path(place.workspace) / ".git").mkdir()
    return Here(Places(place.root, f"{place.root}/config", f"{place.root}/state"), place.workspace)


def write(here: Here, **servers: object) -> str:
    Path(here.places.servers).write_text(json.dumps({"mcpServers": servers}))
    return here.places.servers


def test_without_a_daemon(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    """What files say is said; that no daemon runs is nothing to complain about."""
    path = write(here, good={"command": "x"}, missing={"command": "${UNSET}"}, off={"command": "x", "enabled": False})
    assert not here.tell()
    assert here.row("good") is None
    loaded = here.load()
    assert standing(here, "good", path, loaded) == []
    assert "missing variable UNSET" in standing(here, "missing", path, loaded)[0]
    assert standing(here, "off", path, loaded)[0].startswith("off is off: switched off by")
    assert standing(here, "nobody", path, loaded) == []
    assert capsys.readouterr().err == ""


def test_who_wins(here: Here) -> None:
    """The file that was written is told to be hidden by another, or to hide it."""
    path = write(here, a={"command": "x"})
    project = os.path.join(here.workspace, ".mcp.json")
    Path(project).write_text('{"mcpServers": {"a": {"command": "y"}}}')
    assert standing(here, "a", path, here.load()) == [f"{project}:1 mcpServers.a has this name too, and wins here"]
    said = standing(here, "a", project, here.load())
    assert said[0] == f"it is used here in place of {path}:1 mcpServers.a"
    assert said[1].startswith("a waits for your approval; ")
    loaded = here.load()
    asked = approval.subject(loaded.resolved.servers["a"])
    assert asked is not None
    ApprovalStore(here.places.approvals).approve(asked.directory, "a", asked.content())
    assert len(standing(here, "a", project, loaded)) == 1


def test_with_a_daemon(
    here: Here, hub: CannedHub, portal: BlockingPortal, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is told to look, and its word on the server counts where that does not run."""
    path = write(here, a={"command": "x"})
    failing = server("a", state="failed", state_text="failed", reason="exited with 1", origin=origin("a", 1, path=path))
    hub.servers = [server("a"), failing]
    assert here.tell()
    assert hub.asked == [("reload",)]
    assert standing(here, "a", path, here.load()) == ["a is failed: exited with 1"]
    hub.servers = [server("a", origin=origin("a", 1, path=path))]
    assert standing(here, "a", path, here.load()) == []
    assert capsys.readouterr().err == ""


def test_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    """For people a line, and notes beside it; for programs one document. What others wrote is escaped."""
    report({"name": "a"}, "added a\x1b", ["note\x1b"], as_json=False)
    assert capsys.readouterr() == ("added a\\x1b\n", "mcphub: note\\x1b\n")
    report({"name": "a"}, "added a", ["note"], as_json=True)
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == ({"name": "a", "notes": ["note"]}, "")
