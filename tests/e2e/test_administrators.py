"""What administrators write, on a real system directory: root owns the files, the daemon's user is somebody else.

It takes Linux and root: tests/fakes/organisation.py says so where a machine lacks them.
"""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import psutil
import pytest

from tests.fakes.agent import Agent
from tests.fakes.certificates import Authority
from tests.fakes.hub import Fake, Report, alive, row
from tests.fakes.organisation import UID, Governed, Organisation, governed
from tests.fakes.rude_http import RudeHttp, body

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

MCP, SETTINGS = "managed-mcp.json", "managed-settings.json"
#: Seconds for which what administrators wrote before holds, while a file is broken or gone.
SETTLE = 2.0


@pytest.fixture(scope="module")
async def hub() -> AsyncIterator[Governed]:
    """Two servers of the user's; root's settings say nothing yet, and each test takes away what it wrote."""
    organisation = Organisation()
    organisation.write(SETTINGS, {})
    async with governed(organisation, {"u": Fake(), "v": Fake()}) as hub:
        await hub.until_state("u", "v")
        yield hub


@pytest.fixture(autouse=True)
async def unchanged(hub: Governed) -> AsyncIterator[None]:
    yield
    hub.organisation.write(SETTINGS, {})  # what is gone would hold for a moment, what is good counts at once
    for path in hub.organisation.system.iterdir():
        if path.name != SETTINGS:
            path.unlink()
    await hub.until(lambda report: states(report) == {"u": "connected", "v": "connected"})


def states(report: Report) -> dict[str, str]:
    return {server["name"]: server["state_text"] for server in report["servers"]}


def entry(hub: Governed, name: str) -> dict[str, object]:
    """A server that root's files can name."""
    found = hub.place.entry(name, Fake())
    hub.organisation.give()
    return found


def seen_here(hub: Governed) -> bool:
    """The daemon's system directory is this process's, too."""
    return os.path.exists("/etc/mcphub") and os.path.samefile("/etc/mcphub", hub.organisation.system)


async def tools(agent: Agent) -> set[str]:
    """The servers whose tools an agent sees."""
    reply = await agent.request("tools/list")
    return {tool["name"].split("__")[1] for tool in reply["result"]["tools"]}


async def test_the_user_is_somebody_else(hub: Governed) -> None:
    """The daemon may not change what governs it: otherwise nothing below would say anything."""
    assert hub.process is not None
    uids = psutil.Process(hub.process.pid).uids()
    assert (uids.real, uids.effective, uids.saved) == (UID, UID, UID)
    status = await anyio.Path(f"/proc/{hub.process.pid}/root/etc/mcphub").stat()
    assert (status.st_uid, status.st_mode & 0o777) == (0, 0o755)
    assert not seen_here(hub)
    assert hub.run("status").returncode == 0


async def test_an_enterprises_file_appears_and_disappears(hub: Governed) -> None:
    """C124: while agents are attached, its servers are the only ones as soon as it is there, and the user's own are
    back when it is gone."""
    async with await hub.agent() as agent:
        await agent.initialize()
        assert await tools(agent) == {"u", "v"}
        before = [row(await hub.status(), name)["pid"] for name in "uv"]
        hub.organisation.write(MCP, {"mcpServers": {"e": entry(hub, "e"), "v": entry(hub, "ev")}})
        ignored = "disabled (enterprise)"
        report = await hub.until(lambda r: states(r) == {"e": "connected", "u": ignored, "v": "connected"})
        assert row(report, "e")["scope"] == row(report, "v")["scope"] == "enterprise"
        assert row(report, "u")["reason"] == f"ignored: /etc/mcphub/{MCP} has exclusive control over MCP servers"
        assert [one["scope"] for one in row(report, "v")["shadows"]] == ["user"]
        await agent.notification("notifications/tools/list_changed")
        with anyio.fail_after(10):
            while await tools(agent) != {"e", "v"}:
                await agent.notification("notifications/tools/list_changed")
        assert not any(alive(pid) for pid in before)
        shown = hub.run("status")
        assert f"enterprise /etc/mcphub/{MCP}:3" in shown.stdout

        hub.organisation.write(MCP, {"mcpServers": {}})
        await hub.until(lambda r: states(r) == {"u": ignored, "v": ignored})
        assert await tools(agent) == set()

        (hub.organisation.system / MCP).unlink()
        await hub.until(lambda r: states(r) == {"u": "connected", "v": "connected"})
        with anyio.fail_after(10):
            while await tools(agent) != {"u", "v"}:
                await agent.notification("notifications/tools/list_changed")


async def test_a_broken_enterprises_file_is_there_too(hub: Governed) -> None:
    """C124, C131: after a moment nobody's servers run, and status names the file and what is wrong with it."""
    path = hub.organisation.write(MCP, {"mcpServers": {"e": entry(hub, "e")}})
    await hub.until(lambda r: states(r).get("e") == "connected")
    for damage, said in (
        (lambda: path.write_text('{"mcpServers": {'), f"cannot use /etc/mcphub/{MCP}:1:17: "),
        (lambda: path.chmod(0o666), f"cannot trust /etc/mcphub/{MCP}: others can write to it (mode 0666)"),
    ):
        damage()
        report = await hub.until(lambda r: states(r) == dict.fromkeys("uv", "disabled (enterprise)"))
        assert any(problem.startswith(said) for problem in report["problems"]), report["problems"]
        assert row(report, "u")["reason"].endswith("has exclusive control over MCP servers, and cannot be used")
        path.chmod(0o644)
        hub.organisation.write(MCP, {"mcpServers": {"e": entry(hub, "e")}})
        await hub.until(lambda r: states(r).get("e") == "connected")


async def test_a_rule_stops_a_running_server_within_a_second(hub: Governed) -> None:
    """C125: the rule is there, and the process is gone; status names rule, file and key. Others do not notice."""
    async with await hub.agent() as agent:
        await agent.initialize()
        report = await hub.status()
        pid, other = row(report, "u")["pid"], row(report, "v")["pid"]
        began = time.monotonic()
        hub.organisation.write("10-deny.json", {})  # a name that is not read
        hub.organisation.write(SETTINGS, {"deniedMcpServers": [{"serverName": "u"}]})
        report = await hub.until(lambda r: states(r)["u"] == "disabled (policy)" and not alive(pid))
        took = time.monotonic() - began
        assert took < 1.0
        reason = row(report, "u")["reason"]
        assert '{"serverName": "u"}' in reason
        assert f"/etc/mcphub/{SETTINGS}:3 deniedMcpServers[0]" in reason
        assert row(report, "v")["pid"] == other
        reply = await agent.request("tools/call", {"name": "mcp__u__echo", "arguments": {}})
        assert "policy" in json.dumps(reply)
        code, _ = await hub.control("POST", "/v1/reconnect", body={"name": "u"})
        assert code == 409
        assert not alive(pid)


async def test_broken_settings_leave_the_organisations_servers(hub: Governed) -> None:
    """C131: what may have been forbidden does not run, the organisation's own go on; mended, all is as before."""
    good = {"managedMcpServers": {"m": entry(hub, "m")}, "deniedMcpServers": []}
    path = hub.organisation.write(SETTINGS, good)
    all_run = {"m": "connected", "u": "connected", "v": "connected"}
    closed = {"m": "connected", "u": "disabled (policy)", "v": "disabled (policy)"}
    report = await hub.until(lambda r: states(r) == all_run)
    pid = row(report, "m")["pid"]
    assert row(report, "m")["scope"] == "managed"
    for damage, said in (
        (lambda: path.write_text('{"deniedMcpServers": ['), f"cannot use /etc/mcphub/{SETTINGS}:1:23: "),
        (lambda: path.chmod(0o622), f"cannot trust /etc/mcphub/{SETTINGS}: others can write to it (mode 0622)"),
    ):
        began = time.monotonic()
        damage()
        report = await hub.until(lambda r: states(r) == closed)
        assert time.monotonic() - began > SETTLE - 0.1
        assert any(problem.startswith(said) for problem in report["problems"]), report["problems"]
        assert said in row(report, "u")["reason"]
        assert row(report, "m")["pid"] == pid
        path.chmod(0o644)
        hub.organisation.write(SETTINGS, good)
        report = await hub.until(lambda r: states(r) == all_run)
        assert row(report, "m")["pid"] == pid


async def test_a_file_that_is_being_written_stops_nothing(hub: Governed) -> None:
    """C014: cut short for less than the time that it is given, it changes nothing but what it says in the end."""
    path = hub.organisation.write(SETTINGS, {"deniedMcpServers": [{"serverName": "v"}]})
    report = await hub.until(lambda r: states(r)["v"] == "disabled (policy)")
    pid = row(report, "u")["pid"]
    text = path.read_text()
    for between in (text[:20], ""):
        path.write_text(between)
        await hub.until(lambda r: True)
        with anyio.move_on_after(0.6):  # long enough to be seen
            async for report in hub.watch():
                assert states(report) == {"u": "connected", "v": "disabled (policy)"}
        path.write_text(text)
        report = await hub.status()
        assert states(report) == {"u": "connected", "v": "disabled (policy)"}
        assert row(report, "u")["pid"] == pid


async def test_settings_that_are_fetched(hub: Governed, tmp_path: Path) -> None:
    """A rule comes from the URL that root's file names, and holds like one in it."""
    authority = Authority.made(tmp_path)
    tls: ssl.SSLContext = authority.server("127.0.0.1")
    rules = json.dumps({"deniedMcpServers": [{"serverName": "v"}]}).encode()
    async with RudeHttp(lambda request: body(rules), path="/settings", tls=tls) as server:
        hub.organisation.write("authority.pem", authority.path.read_text())
        remote = {"url": server.url, "failClosed": True, "caFile": "/etc/mcphub/authority.pem"}
        hub.organisation.write(SETTINGS, {"remoteSettings": remote})
        report = await hub.until(lambda r: states(r) == {"u": "connected", "v": "disabled (policy)"})
        assert f"{server.url}:1 deniedMcpServers[0]" in row(report, "v")["reason"]
