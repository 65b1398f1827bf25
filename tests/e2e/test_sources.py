"""Servers from every side at once: projects, the person's own for one project, plugins, what is added while it runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphub.config.places import Places
from tests.fakes.agent import Agent, text
from tests.fakes.bridge import bridge
from tests.fakes.hub import Fake, Hub, Place, Report, row, running

pytestmark = pytest.mark.anyio


def who(name: str) -> Fake:
    """A server whose tool `who` says its name."""
    return Fake({"tools": [{"name": "who", "actions": [{"text": name}]}]})


def write(path: Path, servers: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(".draft")
    draft.write_text(json.dumps({"mcpServers": servers}), "utf-8")
    draft.replace(path)


def project(place: Place, name: str, servers: Mapping[str, Fake]) -> Path:
    workspace = place.root / name
    (workspace / ".git").mkdir(parents=True)
    write(workspace / ".mcp.json", {key: place.entry(f"{name}-{key}", one) for key, one in servers.items()})
    return workspace


def local(place: Place, workspace: Path, servers: Mapping[str, Fake]) -> None:
    """The person's own for one project, as the state directory has them."""
    places = Places(str(place.root), str(place.config), str(place.root / "state" / "mcphub"))
    entries = {key: place.entry(f"local-{key}", one) for key, one in servers.items()}
    write(Path(places.local(str(workspace))), entries)


def add_worktree(workspace: Path, path: str) -> None:
    """Make the project a repository that has a linked worktree at `path`."""
    (workspace / ".git").rmdir()
    for line in ("init -q", "commit -q --allow-empty -m one", f"worktree add -q {path}"):
        me = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
        subprocess.run(["git", *me, *line.split()], cwd=workspace, check=True, capture_output=True)


async def approve(hub: Hub, workspace: Path) -> None:
    where = str(workspace)
    _, approvals = await hub.control("GET", "/v1/approvals", query={"workspace": where})
    for item in approvals["items"]:
        decided = {"workspace": where, "name": item["name"], "digest": item["digest"]}
        assert (await hub.control("POST", "/v1/approve", body=decided))[0] == 200


async def agent_in(hub: Hub, workspace: Path | str = "") -> Agent:
    agent = await hub.agent(client="agent", workspace=workspace)
    await agent.initialize()
    return agent


async def names(agent: Agent) -> list[str]:
    return [tool["name"] for tool in await agent.tools()]


async def test_two_projects_with_a_server_of_one_name(place: Place) -> None:
    """C007: each agent sees its own project's server and the person's shared one; the shared one is one process, the
    projects' are two, and an agent in no project sees neither."""
    one = project(place, "one", {"db": who("db of one")})
    two = project(place, "two", {"db": who("db of two")})
    async with running({"shared": who("shared")}, place=place) as hub:
        await approve(hub, one)
        await approve(hub, two)
        async with await agent_in(hub, one) as first, await agent_in(hub, two) as second, await agent_in(hub) as third:
            for workspace in (one, two):
                await hub.until_state("db", "shared", workspace=workspace)
            assert await names(first) == await names(second) == ["mcp__db__who", "mcp__shared__who"]
            assert await names(third) == ["mcp__shared__who"]
            said = [text(await agent.call("mcp__db__who")) for agent in (first, second)]
            assert said == ["db of one", "db of two"]
            assert [text(await agent.call("mcp__shared__who")) for agent in (first, second, third)] == ["shared"] * 3
            assert "error" in await third.call("mcp__db__who")
            assert [len(place.starts(name)) for name in ("shared", "one-db", "two-db")] == [1, 1, 1]
            found = [r for r in (await hub.status())["servers"] if r["name"] == "db"]
            assert sorted(r["workspace"] for r in found) == [str(one), str(two)]


async def test_the_persons_own_for_one_project(place: Place) -> None:
    """It runs without approval, wins over the project's of its name, and is there in the project's worktree too, as an
    instance of its own; nowhere else, and in no file of the project."""
    workspace = project(place, "one", {"db": who("the project's")})
    add_worktree(workspace, "../tree")
    local(place, workspace, {"db": who("mine")})
    async with running({}, place=place) as hub:
        async with await agent_in(hub, workspace) as first, await agent_in(hub, place.root / "tree") as second:
            await hub.until_state("db", workspace=workspace)
            await hub.until_state("db", workspace=place.root / "tree")
            assert [text(await agent.call("mcp__db__who")) for agent in (first, second)] == ["mine", "mine"]
            assert len(place.starts("local-db")) == 2
            found = await hub.server("db", workspace=workspace)
            assert (found["scope"], [one["scope"] for one in found["shadows"]]) == ("local", ["project"])
        async with await agent_in(hub, place.root) as other:
            assert [name for name in await names(other) if "db" in name] == []
    assert sorted(path.name for path in workspace.iterdir()) == [".git", ".mcp.json"]


async def test_a_plugin_and_the_persons_own(place: Place) -> None:
    """A plugin's server that is the person's own is listed as off with the one that runs; once that is gone it runs
    itself, with the places of its plugin in its environment."""
    plugin = place.root / "data" / "mcphub" / "plugins" / "tools"
    same = place.entry("same", who("same"))
    ask = Fake({"tools": [{"name": "where", "actions": [{"env": ["CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA"]}]}]})
    write(plugin / ".mcp.json", {"copy": same, "own": place.entry("own", ask)})
    async with running({"mine": same}, place=place) as hub:
        await hub.until_state("mine", "plugin:tools:own")
        async with await agent_in(hub) as agent:
            assert await names(agent) == ["mcp__mine__who", "mcp__plugin_tools_own__where"]
            data = place.root / "data" / "mcphub" / "plugin-data" / "tools"
            assert json.loads(text(await agent.call("mcp__plugin_tools_own__where"))) == {
                "CLAUDE_PLUGIN_ROOT": str(plugin), "CLAUDE_PLUGIN_DATA": str(data),
            }  # fmt: skip
            assert data.is_dir()
            found = await hub.server("plugin:tools:copy")
            assert (found["state_text"], found["scope"]) == ("disabled (duplicate)", "plugin")
            assert found["reason"].startswith(f"the same server as mine (user, {place.config}/mcp.json:")
            assert len(place.starts("same")) == 1
            place.configure({"other": who("other")})
            assert (await hub.control("POST", "/v1/reconnect"))[0] == 200
            await hub.until_state("plugin:tools:copy", "other")
            await agent.notification("notifications/tools/list_changed")
            assert "mcp__plugin_tools_copy__who" in await names(agent)


async def test_whose_variables(place: Place) -> None:
    """C023: a variable of an agent's counts only where the settings list it, and the value that it has keys the
    instance: two agents with two values have two, a third with the first's value shares it, one without is told what is
    missing and where to set it."""
    tools = [{"name": "token", "actions": [{"env": ["T", "U"]}]}]
    ask = Fake({"tools": tools}, {"env": {"T": "${GH_T}", "U": "${UNLISTED:-no}"}})
    async with running({"api": ask}, place=place, settings='clientEnv = ["GH_T"]\n') as hub:
        assert "missing variable GH_T" in (await hub.server("api"))["reason"]
        one, two = {"GH_T": "abc-one", "UNLISTED": "yes"}, {"GH_T": "abc-two"}
        async with (
            bridge(place, env=one) as first,
            bridge(place, env=two) as second,
            bridge(place, env=one) as third,
            bridge(place) as fourth,
        ):
            for agent in (first, second, third, fourth):
                await agent.initialize()
            await hub.until(lambda r: [s["state"] for s in r["servers"]].count("connected") == 2)
            said = [json.loads(text(await agent.call("mcp__api__token"))) for agent in (first, second, third)]
            assert said == [{"T": value, "U": "no"} for value in ("abc-one", "abc-two", "abc-one")]
            assert len(place.starts("api")) == 2
            assert await names(fourth) == []
            report = await hub.status()
            assert [session["workspace"] for session in report["sessions"]] == [str(place.root)] * 4
            assert "abc-" not in json.dumps(report)
            status, why = await hub.control("GET", "/v1/why/api")
            assert (status, why["answer"], why["brought"]) == (200, "api runs for agents that bring GH_T", ["GH_T"])
            states = sorted((one["brings"], one["state"], len(one["agents"])) for one in why["instances"])
            assert states == [(False, "failed", 1), (True, "connected", 1), (True, "connected", 2)]
            assert "abc-" not in json.dumps(why)
            # Both instances of the one server.
            assert await hub.control("POST", "/v1/reconnect", body={"name": "api"}) == (200, {"reconnected": ["api"]})
            await hub.until(lambda r: len(place.starts("api")) == 4)


async def add(hub: Hub, name: str, entry: Any, **more: Any) -> tuple[int, Report]:
    return await hub.control("POST", "/v1/servers", body={"name": name, "entry": entry, **more})


async def test_added_while_it_runs(place: Place) -> None:
    """An agent that is attached sees the server come and go, in the place of the person's own of that name; what is
    kept is there after a restart, what is not is gone."""
    async with running({"db": who("the person's")}, place=place) as hub:
        await hub.until_state("db")
        async with await agent_in(hub) as agent:
            assert await names(agent) == ["mcp__db__who"]
            status, report = await add(hub, "db", place.entry("added", who("added")))
            assert (status, report["kept"], report["shadows"][0]["scope"]) == (200, False, "user")
            await hub.until(lambda report: row(report, "db")["scope"] == "dynamic")
            await hub.until_state("db")
            assert text(await agent.call("mcp__db__who")) == "added"
            assert (await add(hub, "kept", place.entry("kept", who("kept")), keep=True))[1]["kept"] is True
            await hub.until_state("kept")
            await agent.notification("notifications/tools/list_changed")
            with anyio.fail_after(10):
                while "mcp__kept__who" not in await names(agent):
                    await agent.notification("notifications/tools/list_changed")
            assert await hub.control("DELETE", "/v1/servers/db") == (200, {"name": "db", "workspace": ""})
            await hub.until(lambda report: row(report, "db")["scope"] == "user")
            await hub.until_state("db")
            assert text(await agent.call("mcp__db__who")) == "the person's"
            status, report = await hub.control("DELETE", "/v1/servers/db")
            assert status == 404 and "no server of this name was added" in report["error"]["message"]
            await add(hub, "gone", place.entry("gone", who("gone")))
            await hub.until_state("gone")
        await hub.stop()
    async with running({"db": who("the person's")}, place=place) as hub:
        await hub.until_state("db", "kept")
        assert [server["name"] for server in (await hub.status())["servers"]] == ["db", "kept"]
        assert (await hub.control("DELETE", "/v1/servers/kept"))[0] == 200
        assert [server["name"] for server in (await hub.status())["servers"]] == ["db"]


async def test_added_for_one_project(place: Place) -> None:
    """Agents in it see the server, and start it in its directory; others do not."""
    workspace = project(place, "one", {})
    cwd = Fake({"tools": [{"name": "where", "actions": [{"text": "here"}]}]})
    async with (
        running({}, place=place) as hub,
        await agent_in(hub, workspace) as agent,
        await agent_in(hub) as other,
    ):
        status, report = await add(hub, "mine", place.entry("mine", cwd), workspace=str(workspace))
        assert (status, report["workspace"]) == (200, str(workspace))
        await hub.until_state("mine", workspace=workspace)
        with anyio.fail_after(10):
            while "mcp__mine__where" not in await names(agent):
                await agent.notification("notifications/tools/list_changed")
        assert "mcp__mine__where" not in await names(other)
        query = {"workspace": str(workspace)}
        assert await hub.control("DELETE", "/v1/servers/mine", query=query) == (
            200, {"name": "mine", "workspace": str(workspace)}
        )  # fmt: skip
        assert "mine" not in [server["name"] for server in (await hub.status(workspace=workspace))["servers"]]


@pytest.mark.parametrize(
    ("name", "entry", "said"),
    [
        ("a b", {"command": "x"}, 'cannot add server "a b": a name has 1 to 64 of the characters'),
        ("x", {"command": 5}, "cannot add server x: (added) servers.x.command: expected a string, found a number"),
        ("x", {"command": "y", "env": {"T": "${UNSET_T}"}}, "missing variable UNSET_T"),
        ("x", {"type": "http", "url": ""}, "cannot add server x: its url is empty"),
        ("x", {"command": "y", "cwd": "here"}, "expected an absolute path"),
    ],
)
async def test_what_cannot_be_added(hub: Hub, name: str, entry: Any, said: str) -> None:
    """C005: it is refused with the reason, and nothing is added."""
    status, report = await add(hub, name, entry)
    assert status == 400 and said in report["error"]["message"]
    assert [server["name"] for server in (await hub.status())["servers"]] == ["ok"]


async def test_what_policy_forbids_is_not_added(hub: Hub) -> None:
    """C129: the rule of every other way counts here too, and its words are the answer; nothing is added."""
    for name, entry in (("bad", {"command": "x"}), ("other", {"command": "/usr/bin/bad-program", "args": ["a"]})):
        status, report = await add(hub, name, entry, keep=True)
        assert status == 403
        assert report["error"]["message"].startswith(f"cannot add server {name}: ")
        assert "settings.toml" in report["error"]["message"]
    assert [server["name"] for server in (await hub.status())["servers"]] == ["ok"]
    assert not (hub.place.root / "state/mcphub/dynamic.json").exists()


SERVERS = {"ok": who("ok")}
SETTINGS = """
[policy]
deniedMcpServers = [{ serverName = "bad" }, { serverCommand = ["/usr/bin/bad-program", "a"] }]
"""
