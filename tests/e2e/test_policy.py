"""A person's own rules on a running daemon: servers and tools that are forbidden, for agents and in the status."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from tests.fakes.agent import Agent
from tests.fakes.hub import Fake, Hub, row

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

SERVERS = {
    "good": Fake({"tools": ["echo", "write_file", "old"]}, {"disabledTools": ["old"]}),
    "also": Fake({"tools": ["echo", "do"]}),
}
SETTINGS = """
[policy]
deniedMcpServers = [{ serverName = "Bad" }]
deniedTools = ["good/write_*"]
oddKey = 1
"""


async def test_forbidden_tools(hub: Hub, agent: Agent) -> None:
    """K2.5: they are not listed; who calls one is told by which rule, and the server never hears of it."""
    reply = await agent.request("tools/list")
    listed = [tool["name"] for tool in reply["result"]["tools"]]
    assert listed == ["mcp__also__do", "mcp__also__echo", "mcp__good__echo"]
    path = hub.place.config / "settings.toml"
    for call in (agent.request, agent.modern):
        for name, words in (
            ("write_file", f"denied by the rule 'good/write_*' of {path}:4 policy.deniedTools[0]"),
            ("old", f"{hub.place.config}/mcp.json"),
        ):
            answer = await call("tools/call", {"name": f"mcp__good__{name}", "arguments": {}})
            assert answer["result"]["isError"] is True
            text = answer["result"]["content"][0]["text"]
            assert f"The tool {name} of the server good cannot be used: " in text
            assert words in text
    assert not [m for m in hub.received("good") if isinstance(m, dict) and m.get("method") == "tools/call"]


async def test_a_forbidden_server(hub: Hub) -> None:
    """C125: it never starts, and its row names the rule; an unknown key is a warning."""
    hub.place.configure({**SERVERS, "bad": Fake({"tools": ["echo"]})})
    async with await hub.agent() as agent:  # files are looked at again when somebody comes
        await agent.initialize()
        report = await hub.until(lambda report: any(server["name"] == "bad" for server in report["servers"]))
        found = row(report, "bad")
        assert (found["state"], found["state_text"]) == ("disabled", "disabled (policy)")
        place = f"{hub.place.config}/settings.toml:3 policy.deniedMcpServers[0]"
        assert found["reason"] == f'denied by policy: {{"serverName": "Bad"}} in {place}; this is your own rule'
        assert any("policy.oddKey: unknown key, not used" in warning for warning in report["warnings"])
        answer = await agent.request("tools/call", {"name": "mcp__bad__echo", "arguments": {}})
        assert answer["result"]["isError"] is True
        assert "disabled (policy)" in answer["result"]["content"][0]["text"]
    assert hub.place.starts("bad") == []


async def test_a_server_that_becomes_forbidden_in_a_call(hub: Hub) -> None:
    """C125: it is stopped, and the call that ends with it says by which rule; so does the next one."""
    settings = hub.place.config / "settings.toml"
    before = settings.read_text()
    async with await hub.agent() as agent:
        await agent.initialize()
        await hub.until_state("also")
        actions = [{"wait": str(hub.place.config / "never")}]
        slow = await agent.start("tools/call", {"name": "mcp__also__do", "arguments": {"actions": actions}})
        with anyio.fail_after(20):
            while not row(await hub.status(), "also")["calls_in_flight"]:
                await anyio.lowlevel.checkpoint()
        settings.write_text(before.replace('"Bad" }', '"Bad" }, { serverName = "also" }'))
        try:
            await hub.until_state("also", state="disabled")
            error = (await agent.response(slow))["error"]
            assert 'disabled now (policy): denied by policy: {"serverName": "also"}' in error["message"]
            assert str(settings) in error["message"]
        finally:
            settings.write_text(before)
            await hub.until_state("also")


async def test_rules_that_leave_no_tool(hub: Hub) -> None:
    """The server runs, and status and why say which file and key take all of its tools away."""
    settings = hub.place.config / "settings.toml"
    before = settings.read_text()
    settings.write_text(before + 'allowedTools = ["good/echo"]\n')
    try:
        said = f"not allowed by policy: no rule of {settings}:6 policy.allowedTools is about also"
        report = await hub.until(lambda report: bool(row(report, "also").get("nothing_left")))
        found = row(report, "also")
        assert (found["state"], found["tools"]) == ("connected", 0)
        assert found["warnings"][0] == found["nothing_left"] == f"agents see none of its 2 tools: {said}"
        assert "nothing_left" not in row(report, "good")
        code, why = await hub.control("GET", "/v1/why/also")
        assert (code, why["answer"]) == (200, f"also runs, but agents see none of its tools: {said}")
        assert why["next"] == [f"edit {settings}:6 policy.allowedTools"]
        code, inventory = await hub.control("GET", "/v1/config")
        entries = {entry["name"]: entry for layer in inventory["layers"] for entry in layer["entries"]}
        assert (entries["also"]["state"], entries["also"]["live_state"]) == ("would run", "connected")
    finally:
        settings.write_text(before)
    await hub.until(lambda report: row(report, "also")["tools"] == 2)


async def test_a_misspelt_table_closes(hub: Hub) -> None:
    """C131: `[polcy]` may forbid something, so nothing of one's own runs, and status says which key is meant."""
    settings = hub.place.config / "settings.toml"
    before = settings.read_text()
    settings.write_text(before.replace("[policy]", "[polcy]"))
    try:
        report = await hub.until_state("also", state="disabled")
        said = f"cannot use {settings}:2 polcy: unknown key, probably meant as policy"
        assert any(problem.startswith(said) for problem in report["problems"])
        assert said in row(report, "good")["reason"]
    finally:
        settings.write_text(before)
    await hub.until_state("also", "good")
