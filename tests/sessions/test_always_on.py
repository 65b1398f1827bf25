"""Servers that run though no agent works in their workspace: only what a person approved, or has of his own."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphub.config.places import Places
from mcphub.policy import approval
from mcphub.sessions import always_on
from mcphub.sessions import workspaces as module
from mcphub.spec import Secret, StdioSpec
from mcphub.store.approvals import Approved, Decision
from tests.connection.workers import fake
from tests.sessions.house import House, house
from tests.transport.peers import clean

pytestmark = pytest.mark.anyio


@pytest.fixture
async def home(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.setattr(module, "LINGER", 0.05)
    async with clean():
        with anyio.fail_after(20):
            async with house() as home:
                yield home


def entry(**more: Any) -> dict[str, Any]:
    transport = fake({}).transport
    assert isinstance(transport, StdioSpec)
    return {"command": transport.command, "args": list(map(Secret, transport.args)), **more}


def write(path: Path | str, servers: dict[str, Any], **more: Any) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Path(path).write_text(json.dumps({**more, "mcpServers": servers}), "utf-8")


def approve(home: House, workspace: Path, *names: str) -> None:
    loaded = home.workspaces.peek(str(workspace))[str(workspace)]
    for name in names:
        asked = approval.subject(loaded.resolved.servers[name])
        assert asked is not None
        home.workspaces.store.approve(asked.directory, name, asked.content())


async def test_a_project(home: House) -> None:
    """What was approved so starts without an agent and stays with the same process when the last one leaves; nothing
    else of its project does. It ends with the approval."""
    project = home.project()
    servers = {"kept": entry(alwaysOn=True), "usual": entry(), "unasked": entry(alwaysOn=True)}
    write(project / ".mcp.json", servers)
    await home.workspaces.tick()
    assert set(home.workspaces.loaded) == {""}
    approve(home, project, "kept", "usual")
    await home.workspaces.tick()
    await home.up("kept")
    assert home.state("usual") == home.state("unasked") == ""
    [worker] = [w for w in home.supervisor.workers.values() if w.name == "kept"]
    async with home.workspaces.using(str(project / "")):
        await home.up("kept", "usual")
        assert home.state("unasked") == ""
    await home.until(lambda: home.state("usual") == "")
    assert [w for w in home.supervisor.workers.values() if w.name == "kept"] == [worker]
    home.workspaces.store.reject(str(project), "kept")
    await home.workspaces.tick(again=True)
    await home.until(lambda: home.state("kept") == "")
    await home.workspaces.tick()
    assert set(home.workspaces.loaded) == {""}


async def test_what_was_approved_is_another_one_now(home: House) -> None:
    """Case C133: an entry that was changed waits for approval, whatever it says of itself."""
    project = home.project()
    write(project / ".mcp.json", {"kept": entry(alwaysOn=True)})
    approve(home, project, "kept")
    await home.workspaces.tick()
    await home.up("kept")
    write(project / ".mcp.json", {"kept": entry(alwaysOn=True, env={"A": "b"})})
    await home.workspaces.tick()
    await home.until(lambda: home.state("kept") == "")


async def test_a_server_of_my_own_for_a_project(home: House) -> None:
    """It needs no approval: it stays from its first agent on, until its entry says otherwise."""
    project = home.project()
    path = home.places.local(str(project))
    write(path, {"mine": entry(alwaysOn=True), "other": entry()}, version=1, project=str(project))
    async with home.workspaces.using(str(project)):
        await home.up("mine", "other")
    await home.until(lambda: home.state("other") == "")
    assert home.state("mine") == "Connected"
    write(path, {"mine": entry()}, version=1, project=str(project))
    await home.workspaces.tick()
    await home.workspaces.tick()
    await home.until(lambda: home.state("mine") == "")


def test_where_my_own_are(tmp_path: Path) -> None:
    """At the start the files say so themselves; what cannot be read, or says it in a text, starts nothing."""
    places = Places(str(tmp_path), str(tmp_path / "c"), str(tmp_path / "s"))
    assert always_on.own(places) == set()
    for project, servers in (("/a", {"x": {"alwaysOn": True}}), ("/b", {"x": {"command": "y"}})):
        write(places.local(project), servers, version=1, project=project)
    write(tmp_path / "s" / "local" / "broken", {"x": {"alwaysOn": True}}, project=5)
    (tmp_path / "s" / "local" / "worse").write_bytes(b'{"alwaysOn"')
    (tmp_path / "s" / "local" / "folder").mkdir()
    assert always_on.own(places) == {"/a"}


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (Decision((Approved("d", entry='{\n  "alwaysOn": true,\n  "command": "x"\n}'),)), {"/p"}),
        (Decision((Approved("d", entry='{\n  "alwaysOn": true\n}'),)), {"/p"}),
        (Decision((Approved("d", entry='{\n  "alwaysOn": false\n}'),)), set()),
        (Decision((Approved("d", entry='{\n  "args": [\n    "\\n  \\"alwaysOn\\": true"\n  ]\n}'),)), set()),
        (Decision((Approved("d"),)), set()),
        (Decision((Approved("d", entry='{\n  "alwaysOn": true\n}'),), rejected=True), set()),
    ],
)
def test_what_was_approved(decision: Decision, expected: set[str]) -> None:
    """Only an entry that says it, and is not rejected."""
    assert always_on.approved({("/p", "x"): decision}) == expected
