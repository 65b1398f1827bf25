"""A person changes what there is while agents are attached: add, disable, enable, env, remove."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from tests.fakes.agent import Agent
from tests.fakes.hub import MCPHUB, Fake, Hub, Place, eventually, row, running

pytestmark = pytest.mark.anyio

STAYS: dict[str, Any] = {"stays": Fake({"tools": [{"name": "here"}]})}


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    async with running(STAYS) as hub:
        await hub.until_state("stays")
        yield hub


async def mcphub(place: Place, *arguments: str, stdin: bytes = b"", workspace: str = "") -> str:
    """What one command line printed; it must succeed."""
    done = await anyio.run_process(
        [str(MCPHUB), *arguments],
        input=stdin,
        env=place.environment(),
        cwd=workspace or place.root,
        check=False,
        stderr=subprocess.PIPE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


async def names(agent: Agent) -> list[str]:
    return sorted(tool["name"] for tool in await agent.tools())


async def test_a_server_comes_and_goes(hub: Hub) -> None:
    """Each change takes effect at once and reaches attached agents; a server that it is not about keeps its process."""
    place = hub.place
    async with await hub.agent() as agent:
        await agent.initialize()
        await comes_and_goes(hub, place, agent)
    assert len(place.starts("stays")) == 1
    assert "tok-1" not in hub.stderr()


async def comes_and_goes(hub: Hub, place: Place, agent: Agent) -> None:
    assert await names(agent) == ["mcp__stays__here"]
    entry = json.dumps(place.entry("new", Fake({"tools": [{"name": "tool"}]}, {"env": {"T": "${T}"}})))

    await mcphub(place, "add-json", "new", "-", stdin=entry.encode())
    report = await hub.until_state("new", state="failed")
    assert "missing variable T" in row(report, "new")["reason"]
    await mcphub(place, "env", "set", "T", stdin=b"tok-1")
    await hub.until_state("new")
    assert await names(agent) == ["mcp__new__tool", "mcp__stays__here"]

    await mcphub(place, "disable", "new")
    report = await hub.until_state("new", state="disabled")
    assert "switched off by you" in row(report, "new")["reason"]
    await eventually(lambda: "#eof" in place.received("new"), timeout=10)
    assert await names(agent) == ["mcp__stays__here"]
    await mcphub(place, "enable", "new")
    await hub.until_state("new")
    assert await names(agent) == ["mcp__new__tool", "mcp__stays__here"]

    assert "removed new from scope user" in await mcphub(place, "remove", "new")
    await hub.until(lambda report: [one["name"] for one in report["servers"]] == ["stays"])
    assert await names(agent) == ["mcp__stays__here"]


async def test_off_in_one_directory_only(hub: Hub) -> None:
    """Agents below it do not see the server; others go on using the same process."""
    inside, outside = hub.place.root / "w", hub.place.root / "v"
    (inside / "sub").mkdir(parents=True)
    outside.mkdir()
    async with await hub.agent(workspace=inside / "sub") as one, await hub.agent(workspace=outside) as other:
        await off_and_on(hub, [one, other], str(inside), str(outside))
    assert len(hub.place.starts("stays")) == 1


async def off_and_on(hub: Hub, agents: list[Agent], inside: str, outside: str) -> None:
    for agent in agents:
        await agent.initialize()
        assert await names(agent) == ["mcp__stays__here"]
    await mcphub(hub.place, "disable", "stays", "--here", workspace=inside)
    report = await hub.status(workspace=f"{inside}/sub")
    reasons = {one["workspace"]: one["reason"] for one in report["servers"] if one["state"] == "disabled"}
    assert list(reasons) == [f"{inside}/sub"]
    assert reasons[f"{inside}/sub"].startswith(f"switched off by you for {inside}; ")
    assert {one["workspace"] for one in report["servers"] if one["state"] == "connected"} == {""}
    assert [await names(agent) for agent in agents] == [[], ["mcp__stays__here"]]
    await mcphub(hub.place, "enable", "stays", workspace=inside)
    assert [await names(agent) for agent in agents] == [["mcp__stays__here"]] * 2


async def test_a_damaged_file_of_toggles(hub: Hub) -> None:
    """What was off stays off while the file cannot be read, with the reason in the status; so nothing starts by
    accident. A newer one is left alone, and the daemon goes on."""
    await mcphub(hub.place, "disable", "stays")
    await hub.until_state("stays", state="disabled")
    path = hub.place.root / "state" / "mcphub" / "toggles.json"
    for content, said in ((b"{", "it is damaged"), (b'{"version": 7}', "it has version 7")):
        path.write_bytes(content)
        code, _ = await hub.control("POST", "/v1/reload", body={})
        assert code == 200
        report = await hub.status()
        assert any("toggles.json" in problem and said in problem for problem in report["problems"])
        assert row(report, "stays")["state"] == "disabled"
        assert path.read_bytes() == content


async def test_files_that_are_damaged_close(hub: Hub) -> None:
    """C131: a rule of the person's own holds though settings.toml breaks, be it that its text speaks of rules no more;
    and what was switched off does not run because mcphub is started with a damaged file."""
    settings = hub.place.config / "settings.toml"
    settings.write_text('[policy]\ndeniedMcpServers = [{ serverName = "stays" }]\n')
    await hub.until_state("stays", state="disabled")
    for text in ("[names]\nmaxLength=\n", "x = [", "[policy]\nde"):
        settings.write_text(text)
        code, _ = await hub.control("POST", "/v1/reload", body={})
        report = await hub.status()
        assert (code, row(report, "stays")["state_text"]) == (200, "disabled (policy)")
        code, policy = await hub.control("GET", "/v1/policy")
        assert [rule["rule"] for rule in policy["rules"]] == ['{"serverName": "stays"}']
        assert "its rules stay as they were" in policy["warnings"][0]
    settings.write_text('[vault]\nkey = "passphrase"\n')
    await hub.until_state("stays")
    assert "vault.key has changed, which counts when" in (await hub.control("GET", "/v1/vault"))[1]["warning"]
    settings.unlink()
    await mcphub(hub.place, "disable", "stays")
    await hub.until_state("stays", state="disabled")
    assert await hub.stop() == 0
    toggles = hub.place.root / "state" / "mcphub" / "toggles.json"
    kept = toggles.read_bytes()
    toggles.write_bytes(kept[:20])
    async with running(STAYS, place=hub.place) as later:
        report = await later.status()
        assert row(report, "stays")["state_text"] == "disabled (person)"
        assert "no server starts until it is mended; without the file all are on" in " ".join(report["problems"])
        toggles.unlink()
        await later.until_state("stays")
