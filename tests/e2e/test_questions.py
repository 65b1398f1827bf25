"""What people ask a daemon about configuration: each cause gives its answer, with the file and key that decided.

The organisation's part takes Linux and root: tests/fakes/organisation.py says so where a machine lacks them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from anyio import to_thread

from tests.fakes.hub import Fake, Report, row
from tests.fakes.organisation import Governed, Organisation, governed

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

GONE = "/nowhere/to/be/found"
MCP, SETTINGS = "/etc/mcphub/managed-mcp.json", "/etc/mcphub/managed-settings.json"


@pytest.fixture(scope="module")
async def hub() -> AsyncIterator[Governed]:
    """A user with a server of each kind, a project, and a plugin."""
    organisation = Organisation()
    organisation.write("managed-settings.json", {})
    place = organisation.place
    project = place.root / "project"
    project.mkdir()
    entries = {"p": place.entry("p", Fake()), "u": place.entry("pu", Fake())}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))
    plugin = place.root / "data" / "mcphub" / "plugins" / "x"
    plugin.mkdir(parents=True)
    servers: dict[str, Any] = {
        "u": Fake(),
        "off": Fake(),
        "bad": {"command": 1},
        "var": {"command": "x", "args": ["${NOPE}"]},
        "gone": {"command": GONE},
        "far": {"type": "http", "url": "http://127.0.0.1:9/mcp"},
        "same": place.entry("same", Fake()),
    }
    (plugin / ".mcp.json").write_text(json.dumps({"mcpServers": {"s": servers["same"]}}))
    async with governed(organisation, servers) as hub:
        await hub.until_state("u", "off", "same")
        await hub.until_state("gone", state="failed")
        yield hub


@pytest.fixture(autouse=True)
async def unruled(hub: Governed) -> AsyncIterator[None]:
    yield
    hub.organisation.write("managed-settings.json", {})
    (hub.organisation.system / "managed-mcp.json").unlink(missing_ok=True)
    await hub.until(lambda report: (server := row(report, "u"))["scope"] == "user" and server["state"] == "connected")


async def ask(hub: Governed, *words: str) -> tuple[str, int]:
    """A verb's stdout and exit status; it complains about nothing."""
    done = await to_thread.run_sync(lambda: hub.run(*words))
    assert done.stderr == ""
    return done.stdout, done.returncode


async def why(hub: Governed, name: str, *words: str) -> Report:
    out, status = await ask(hub, "why", name, "--json", *words)
    report: Report = json.loads(out)
    assert status == (0 if report["configured"] else 1)
    assert report["live"]
    return report


async def ruled(hub: Governed, rules: Any, name: str, state: str = "disabled (policy)") -> Report:
    """The answer about `name` once these rules are in force."""
    hub.organisation.write("managed-settings.json", rules)
    await hub.until(lambda report: any(r["name"] == name and r["state_text"] == state for r in report["servers"]))
    return await why(hub, name)


async def test_a_denied_server_names_file_key_and_rule(hub: Governed) -> None:
    """By name, as a person reads it; and who could change it."""
    await ruled(hub, {"deniedMcpServers": [{"serverName": "u"}]}, "u")
    out, _ = await ask(hub, "why", "u")
    place = f"{SETTINGS}:3 deniedMcpServers[0]"
    assert out.startswith(f'u does not run: denied by policy: {{"serverName": "u"}} in {place}; ask who manages')
    assert f"  configured  ok   {hub.place.config}/mcp.json:3 mcpServers.u says what it is (user)" in out
    assert f"  - ask who manages this computer to change {place}\n" in out
    out, _ = await ask(hub, "policy", "list")
    assert place in out


@pytest.mark.parametrize(
    ("rules", "name", "key", "words"),
    [
        ({"deniedMcpServers": [{"serverUrl": "127.0.0.1"}]}, "far", "deniedMcpServers[0]", '"127.0.0.1"}'),
        ({"deniedMcpServers": [{"serverCommand": [GONE]}]}, "gone", "deniedMcpServers[0]", GONE),
        ({"allowedMcpServers": [{"serverName": "x"}]}, "u", "allowedMcpServers", "not allowed by policy"),
        ({"allowedMcpServers": []}, "u", "allowedMcpServers", "is empty, so nothing is"),
    ],
    ids=["denied by URL", "denied by command", "not in the list", "nothing allowed"],
)
async def test_each_rule(hub: Governed, rules: Any, name: str, key: str, words: str) -> None:
    """The step is policy, and what decided is the rule's place."""
    report = await ruled(hub, rules, name)
    step = next(step for step in report["steps"] if step["verdict"] == "no")
    assert (step["step"], step["origin"]["path"], step["origin"]["key"]) == ("policy", SETTINGS, key)
    assert words in report["answer"]


async def test_a_list_of_the_persons_own_does_not_count(hub: Governed) -> None:
    """Beside the lock, which is named."""
    own = hub.place.config / "settings.toml"
    own.write_text('[policy]\nallowedMcpServers = [{serverName = "u"}]\n')
    try:
        rules = {"allowedMcpServers": [{"serverName": "x"}], "allowManagedMcpServersOnly": True}
        report = await ruled(hub, rules, "u")
        assert f"{own}:2 policy.allowedMcpServers does not count, by {SETTINGS}:7 allowManagedMcpServersOnly" in (
            report["answer"]
        )
    finally:
        own.unlink()


async def test_broken_policy(hub: Governed) -> None:
    """The file and place of the damage are the answer, and the next step."""
    report = await ruled(hub, '{"deniedMcpServers": [', "u")
    assert f"cannot use {SETTINGS}:1:23" in report["answer"]
    assert report["next"] == [next(one for one in report["next"] if one.startswith("ask who manages this computer: "))]


async def test_an_enterprises_file(hub: Governed) -> None:
    """It is alone."""
    hub.organisation.write("managed-mcp.json", {"mcpServers": {}})
    state = "disabled (enterprise)"
    await hub.until(lambda report: any(r["name"] == "u" and r["state_text"] == state for r in report["servers"]))
    report = await why(hub, "u")
    assert report["answer"] == f"u does not run: {MCP} has exclusive control over MCP servers"
    assert [claim["standing"] for claim in report["claims"]] == ["ignored"]
    report = await why(hub, "nobody")
    assert "no other file can add one" in report["next"][-1]


async def test_a_projects_server(hub: Governed) -> None:
    """Not approved, then approved and idle, then changed; its name shadows the user's there alone."""
    where = str(hub.place.root / "project")
    report = await why(hub, "p", "--workspace", where)
    assert report["answer"].startswith("p does not run: waits for your approval")
    assert report["next"] == ["look at what it runs and decide: mcphub approve p"]
    report = await why(hub, "u", "--workspace", where)
    assert [(claim["standing"], claim["origin"]["scope"]) for claim in report["claims"]] == [
        ("effective", "project"), ("shadowed", "user"),
    ]  # fmt: skip
    _, items = await hub.control("GET", "/v1/approvals", query={"workspace": where})
    digest = next(item["digest"] for item in items["items"] if item["name"] == "p")
    code, _ = await hub.control("POST", "/v1/approve", body={"workspace": where, "name": "p", "digest": digest})
    assert code == 200
    report = await why(hub, "p", "--workspace", where)
    assert (report["wanted"], report["state"]) == (True, "pending (idle)")
    assert report["next"] == [f"attach an agent in {where}, or one below it; it is started then"]
    async with await hub.agent(workspace=where) as agent:
        await agent.initialize()
        await hub.until_state("p", workspace=where)
        assert (await why(hub, "p", "--workspace", where))["answer"] == "p runs"
        report = await why(hub, "p")
        assert (report["configured"], report["elsewhere"]) == (False, [where])
    file = anyio.Path(where, ".mcp.json")
    text = await file.read_text()
    await file.write_text(text.replace('"args": [', '"args": ["-B", ', 1))
    try:
        with anyio.fail_after(15):
            while (report := await why(hub, "p", "--workspace", where))["wanted"]:
                await hub.control("POST", "/v1/reload", body={})
        assert "changed since you approved it" in report["answer"]
    finally:
        await file.write_text(text)


@pytest.mark.parametrize(
    ("name", "step", "words", "following"),
    [
        ("bad", "entry", "mcp.json:20 mcpServers.bad.command: expected a string", "correct "),
        ("var", "entry", "missing variable NOPE", "set the variable: mcphub env set NOPE"),
        ("gone", "connection", "failed: ", ""),
        ("plugin:x:s", "duplicate", "the same server as same (user), which runs in its place", "use same; or"),
    ],
)
async def test_what_needs_no_policy(hub: Governed, name: str, step: str, words: str, following: str) -> None:
    """A broken entry, a missing variable, a program that is not there, a duplicate."""
    report = await why(hub, name)
    assert next(one["step"] for one in report["steps"] if one["verdict"] == "no") == step
    assert words in report["answer"]
    assert any(one.startswith(following) for one in report["next"])


async def test_what_a_person_switched_off(hub: Governed) -> None:
    """And how it comes back."""
    assert (await ask(hub, "disable", "off"))[1] == 0
    report = await why(hub, "off")
    assert report["answer"].startswith("off does not run: switched off by you")
    assert report["next"] == ["switch it on: mcphub enable off"]
    assert (await ask(hub, "enable", "off"))[1] == 0


async def test_what_runs(hub: Governed) -> None:
    """The answer is short, and the winner of a duplicate says so."""
    report = await why(hub, "same")
    assert (report["answer"], report["next"]) == ("same runs", [])
    assert [place["key"] for place in report["suppresses"]] == ["mcpServers.s"]
    report = await why(hub, "sane")
    assert report["near"][0] == "same"


async def test_a_rehearsal_and_an_inventory(hub: Governed) -> None:
    """What a file would block is said before it is rolled out, of this machine and of its export."""
    export, draft = hub.place.root / "export.json", hub.place.root / "draft.json"
    export.write_text((await ask(hub, "config", "show", "--json"))[0])
    draft.write_text(json.dumps({"deniedMcpServers": [{"serverUrl": "127.0.0.1"}]}))
    for more in ([], ["--inventory", str(export)]):
        out, status = await ask(hub, "policy", "test", str(draft), "--json", *more)
        report = json.loads(out)
        assert (status, [one["name"] for one in report["blocked"]], report["unsure"]) == (0, ["far"], [])
    out, _ = await ask(hub, "policy", "explain", "https://127.0.0.1/x")
    assert out.startswith("https://127.0.0.1/x: allowed")
    out, status = await ask(hub, "config", "validate")
    assert (status, "missing variable NOPE" in out) == (1, True)
