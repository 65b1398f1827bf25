"""What people are told and what they can do, asked of a running daemon over its control socket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.fakes.hub import Fake, Hub, Report, eventually, row, running

pytestmark = pytest.mark.anyio

SERVERS = {
    "good": Fake({"after": [{"stderr": "one\ntwo\n"}]}),
    "sick": Fake({"before": [{"stderr": "API_KEY missing\n"}, {"exit": 1}]}),
    "broken": {"command": 5},
    "off": {"command": "true", "enabled": False},
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop for all tests here, so that they can share a daemon."""
    return "asyncio"


@pytest.fixture(scope="module")
async def hub() -> AsyncIterator[Hub]:
    async with running(SERVERS, settings="[connect]\nattempts = 1\n") as hub:
        await hub.until_state("good")
        await hub.until_state("sick", state="failed")
        yield hub


def project(hub: Hub, name: str, **servers: Fake) -> Path:
    """A project with these servers in its own file."""
    directory = hub.place.root / name
    directory.mkdir(exist_ok=True)
    entries = {key: hub.place.entry(key, server) for key, server in servers.items()}
    (directory / ".mcp.json").write_text(json.dumps({"mcpServers": entries}), "utf-8")
    return directory


async def refused(hub: Hub, method: str, path: str, **more: Any) -> tuple[int, str]:
    status, report = await hub.control(method, path, **more)
    return status, report["error"]["message"] if isinstance(report["error"], dict) else str(report)


async def approvals(hub: Hub, workspace: Path) -> dict[str, Report]:
    status, report = await hub.control("GET", "/v1/approvals", query={"workspace": str(workspace)})
    assert status == 200
    return {item["name"]: item for item in report["items"]}


async def decide(hub: Hub, verb: str, workspace: Path, name: str, **body: str) -> tuple[int, Any]:
    return await hub.control("POST", f"/v1/{verb}", body={"name": name, "workspace": str(workspace), **body})


async def state(hub: Hub, workspace: Path, name: str) -> str:
    found: str = row(await hub.status(workspace=workspace), name)["state_text"]
    return found


# --- status -----------------------------------------------------------------------------------------------------------


async def test_every_kind_of_row(hub: Hub) -> None:
    """Connected, failed with the cause and the next step, configured wrongly, switched off: each says why."""
    report = await hub.status()
    rows = {one["name"]: one for one in report["servers"]}
    assert list(rows) == sorted(rows)
    assert (rows["good"]["state"], rows["good"]["tools"], rows["good"]["last_error"]) == ("connected", 3, None)
    assert rows["good"]["pid"] in hub.place.starts("good") and rows["good"]["rss"] > 0
    assert rows["sick"]["state"] == "failed" and "API_KEY missing" in rows["sick"]["reason"]
    assert rows["sick"]["last_error"]["exit_code"] == 1 and rows["sick"]["last_error"]["remedy"]
    assert rows["broken"]["state"] == "failed" and rows["broken"]["last_error"]["phase"] == "config"
    assert rows["broken"]["origin"]["path"] == str(hub.place.config / "mcp.json")
    assert rows["off"]["state"] == "disabled"
    assert report["daemon"]["pid"] == (hub.process.pid if hub.process else 0)
    assert report["daemon"]["descriptors"] > 5


async def test_a_workspace_that_nobody_uses(hub: Hub) -> None:
    """It is looked at, and nothing is started for it."""
    directory = project(hub, "unused", mine=Fake())
    assert await state(hub, directory, "mine") == "disabled (approval)"
    item = (await approvals(hub, directory))["mine"]
    assert (await decide(hub, "approve", directory, "mine", digest=item["digest"]))[0] == 200
    one = row(await hub.status(workspace=directory), "mine")
    assert one["state_text"] == "pending (idle)" and "no agent" in one["reason"]
    assert "mine" not in [r["name"] for r in (await hub.status())["servers"]]
    assert hub.place.starts("mine") == []


@pytest.mark.parametrize("path", ["/v1/status", "/v1/tools", "/v1/approvals"])
async def test_a_workspace_that_is_none(hub: Hub, path: str) -> None:
    """Where the daemon was started is nobody's workspace."""
    status, said = await refused(hub, "GET", path, query={"workspace": "relative/path"})
    assert status == 400 and "not an absolute path" in said


async def test_sessions(hub: Hub) -> None:
    """Who is attached, where, and how many calls it waits for."""
    directory = project(hub, "attached")
    async with await hub.agent(client="me", workspace=directory) as agent:
        await agent.initialize()
        go = hub.place.root / "go"
        await agent.start("tools/call", {"name": "mcp__good__do", "arguments": {"actions": [{"wait": str(go)}]}})
        await hub.until(lambda report: any(s["calls_in_flight"] == 1 for s in report["sessions"]))
        [session] = (await hub.status())["sessions"]
        assert (session["client"], session["workspace"], session["era"]) == ("me", str(directory), "legacy")
        assert (await hub.server("good"))["calls_in_flight"] == 1
        go.touch()
    await hub.until(lambda report: report["sessions"] == [])

async def test_decisions_that_could_not_be_kept(hub: Hub) -> None:
    """C131: that is part of what is shown, before anybody is asked; the files stay as they are."""
    directory = project(hub, "closed", mine=Fake())
    _, tools = await hub.control("GET", "/v1/tool-changes/good")
    status, report = await hub.control("GET", "/v1/approvals", query={"workspace": str(directory)})
    assert "unwritable" not in tools and "unwritable" not in report
    state = hub.place.root / "state" / "mcphub"
    kept, newer = state / "approvals.json", b'{"version": 99}'
    before = kept.read_bytes() if kept.exists() else None
    kept.write_bytes(newer)
    pins = [path for path in (state / "pins").iterdir() if b'"good"' in path.read_bytes()]
    known = pins[0].read_bytes()
    pins[0].write_bytes(newer)
    try:
        status, report = await hub.control("GET", "/v1/approvals", query={"workspace": str(directory)})
        assert (status, len(report["items"])) == (200, 1)
        assert f"cannot use {kept}: it has version 99" in report["unwritable"]
        _, tools = await hub.control("GET", "/v1/tool-changes/good")
        assert f"cannot use {pins[0]}: it has version 99" in tools["unwritable"]
        assert (kept.read_bytes(), pins[0].read_bytes()) == (newer, newer)
    finally:
        pins[0].write_bytes(known)
        if before is None:
            kept.unlink()
        else:
            kept.write_bytes(before)


# --- tools and calls --------------------------------------------------------------------------------------------------


async def test_tools(hub: Hub) -> None:
    """Those of connected servers, narrowed by words, with their schemas if asked."""
    status, report = await hub.control("GET", "/v1/tools", query={"query": "ECHO text", "schemas": "1"})
    assert status == 200
    [tool] = report["tools"]
    assert (tool["name"], tool["server"], tool["original_name"]) == ("mcp__good__echo", "good", "echo")
    assert tool["input_schema"]["type"] == "object"
    assert (await hub.control("GET", "/v1/tools", query={"query": "nothing like it"}))[1]["tools"] == []


async def test_tools_that_are_as_they_were(hub: Hub) -> None:
    """C172: there is nothing to take then; a server whose tools nobody knows, or that is none, has nothing to show."""
    status, report = await hub.control("GET", "/v1/tool-changes/good")
    assert (status, report["tools"], report["changes"], report["gone"], report["problem"]) == (200, 3, [], [], "")
    body = {"name": "good", "digest": report["digest"]}
    assert (await hub.control("POST", "/v1/approve-tools", body=body))[0] == 200
    assert (await hub.control("GET", "/v1/tools"))[1]["withheld"] == []
    for name, code in (("sick", 409), ("off", 409), ("broken", 409), ("nobody", 404)):
        assert (await hub.control("GET", f"/v1/tool-changes/{name}"))[0] == code
        answer = await hub.control("POST", "/v1/approve-tools", body={"name": name, "digest": "x"})
        assert answer[0] == code


async def call(hub: Hub, tool: str, **body: Any) -> tuple[int, Any]:
    return await hub.control("POST", "/v1/call", body={"tool": tool, **body})


async def test_calls(hub: Hub) -> None:
    """The result as the server gave it; the server's refusal as an error; an unknown name as such."""
    status, report = await call(hub, "mcp__good__echo", arguments={"text": "漢\n"})
    assert (status, report["server"], report["result"]["content"][0]["text"]) == (200, "good", "漢\n")
    refusal = {"code": -32000, "message": "no"}
    status, report = await call(hub, "mcp__good__do", arguments={"actions": [{"error": refusal}]})
    assert (status, report["error"]["code"]) == (200, -32000)
    for name in ("nothing", "mcp__good__nothing", "mcp__other__x", ""):
        assert (await call(hub, name))[0] == 404


@pytest.mark.parametrize(("name", "said"), [("sick", "API_KEY missing"), ("off", "disabled"), ("broken", "cannot run")])
async def test_a_call_to_a_server_without_tools(hub: Hub, name: str, said: str) -> None:
    """Nobody can know its tools; the answer says what is the matter with it."""
    status, report = await call(hub, f"mcp__{name}__x")
    assert (status, report["server"], report["result"]["isError"]) == (200, name, True)
    assert said in report["result"]["content"][0]["text"]


async def test_a_result_that_looks_like_a_message(hub: Hub) -> None:
    """What a tool returns is not taken for something else."""
    answer = {"method": "notifications/x", "content": []}
    status, report = await call(hub, "mcp__good__do", arguments={"actions": [{"answer": answer}]})
    assert (status, report["result"]) == (200, answer)


async def test_a_call_that_nobody_waits_for(hub: Hub) -> None:
    """Hanging up cancels it."""
    go = hub.place.root / "never"
    with anyio.move_on_after(0.3):
        await call(hub, "mcp__good__do", arguments={"actions": [{"wait": str(go)}]})
    await eventually(lambda: "notifications/cancelled" in str(hub.received("good")[-2:]), timeout=5)
    go.touch()


async def test_a_call_to_a_server_that_is_starting(hub: Hub) -> None:
    """It waits for the server, which is started for it where its project is approved."""
    directory = project(hub, "slow", slow=Fake({"before": [{"pause": 0.3}]}))
    item = (await approvals(hub, directory))["slow"]
    await decide(hub, "approve", directory, "slow", digest=item["digest"])
    status, report = await call(hub, "mcp__slow__echo", arguments={"text": "x"}, workspace=str(directory))
    assert (status, report["result"]["content"][0]["text"]) == (200, "x")


# --- reconnecting -----------------------------------------------------------------------------------------------------


async def test_reconnect(hub: Hub) -> None:
    """A failed server is tried again; a connected one begins anew; others stay as they are."""
    before = {name: len(hub.place.starts(name)) for name in ("good", "sick")}
    for name in ("sick", "good"):
        status, report = await hub.control("POST", "/v1/reconnect", body={"name": name})
        assert (status, report["reconnected"]) == (200, [name])
        count = before[name] + 1
        await eventually(lambda name=name, count=count: len(hub.place.starts(name)) >= count, timeout=5)  # type: ignore[misc]
    await hub.until_state("good")
    await hub.until_state("sick", state="failed")


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [("broken", 409, "cannot reconnect broken: it is failed: "), ("off", 409, "disabled"), ("nobody", 404, "named")],
)
async def test_what_cannot_be_reconnected(hub: Hub, name: str, status: int, said: str) -> None:
    """The answer says what it is instead."""
    found, text = await refused(hub, "POST", "/v1/reconnect", body={"name": name})
    assert found == status and said in text


async def test_a_corrected_entry(hub: Hub) -> None:
    """`reconnect` reads the files again: what was broken and is not any more starts, with its own name only."""
    starts = len(hub.place.starts("good"))
    hub.place.configure({**SERVERS, "broken": Fake()})
    status, report = await hub.control("POST", "/v1/reconnect", body={"name": "broken"})
    assert (status, report["reconnected"]) == (200, ["broken"])
    await hub.until_state("broken")
    assert len(hub.place.starts("broken")) == 1
    hub.place.configure(SERVERS)
    status, report = await hub.control("POST", "/v1/reconnect", body={})
    assert status == 200 and "broken" not in report["reconnected"]
    await hub.until_state("broken", state="failed")
    await eventually(lambda: len(hub.place.starts("good")) == starts + 1, timeout=5)
    await hub.until_state("good")


async def test_reload(hub: Hub) -> None:
    """Files that changed are read when the answer comes, and what did not change goes on."""
    starts = len(hub.place.starts("good"))
    hub.place.configure({**SERVERS, "fresh": Fake()})
    status, report = await hub.control("POST", "/v1/reload")
    assert status == 200
    names = [one["name"] for one in (await hub.status())["servers"]]
    assert "fresh" in names
    hub.place.configure(SERVERS)
    status, after = await hub.control("POST", "/v1/reload", body={})
    assert (status, after["revision"] > report["revision"]) == (200, True)
    assert "fresh" not in [one["name"] for one in (await hub.status())["servers"]]
    assert len(hub.place.starts("good")) == starts


async def test_logs(hub: Hub) -> None:
    """The last lines of a server's stderr, also of one that has failed; none of what never ran."""
    for name, lines, found in (("good", 1, ["two"]), ("sick", 5, ["API_KEY missing"]), ("broken", 5, [])):
        with anyio.fail_after(10):
            while True:  # a server that was started anew may be connected before it has written
                status, report = await hub.control("GET", f"/v1/logs/{name}", query={"lines": str(lines)})
                assert status == 200
                if report["lines"][-len(found or [""]) :] == found:
                    break
    assert (await refused(hub, "GET", "/v1/logs/nobody"))[0] == 404


# --- approval ---------------------------------------------------------------------------------------------------------


async def test_approved_changed_rejected(hub: Hub) -> None:
    """C133: what was approved runs until it is another; a change needs a new look; a rejection wins and ends it."""
    directory = project(hub, "asked", asked=Fake({"version": "1"}, {"args": ["first"]}))
    async with await hub.agent(workspace=directory) as agent:
        await agent.initialize()
        assert await state(hub, directory, "asked") == "disabled (approval)"
        item = (await approvals(hub, directory))["asked"]
        assert item["state"] == "waiting" and item["command"][-1] == "first"
        status, said = await decide(hub, "approve", directory, "asked", digest="0" * 64)
        assert status == 409, said
        assert hub.place.starts("asked") == []
        status, report = await decide(hub, "approve", directory, "asked", digest=item["digest"])
        assert (status, report["state"]) == (200, "approved")
        await hub.until_state("asked", workspace=directory)

        project(hub, "asked", asked=Fake({"version": "1"}, {"args": ["second"]}))
        changed = (await approvals(hub, directory))["asked"]
        status, said = await decide(hub, "approve", directory, "asked", digest=item["digest"])
        assert status == 409, said
        assert changed["state"] == "changed" and changed["command"][-1] == "second"
        status, report = await decide(hub, "approve", directory, "asked", digest=changed["digest"])
        assert status == 200, report
        await hub.until(
            lambda report: row(report, "asked")["state"] == "connected" and "second" in row(report, "asked")["command"],
            workspace=directory,
        )

        assert (await decide(hub, "reject", directory, "asked"))[0] == 200
        await hub.until_state("asked", state="disabled", workspace=directory)
        assert (await approvals(hub, directory))["asked"]["state"] == "rejected"
        await eventually(lambda: hub.received("asked")[-1] == "#eof", timeout=5)


async def test_what_cannot_be_approved_yet(hub: Hub) -> None:
    """An entry that cannot be used now is listed with what is missing; it is not approved before that is mended, and
    can be rejected."""
    directory = project(hub, "lacks", lacks=Fake({}, {"args": ["${NOTSET_ANYWHERE}"]}), odd=Fake({}, {"timeout": 5}))
    found = await approvals(hub, directory)
    assert {name: item["state"] for name, item in found.items()} == {"lacks": "broken", "odd": "broken"}
    assert found["lacks"]["command"][-1] == "${NOTSET_ANYWHERE}" and found["odd"]["command"] == []
    assert "missing variable NOTSET_ANYWHERE" in found["lacks"]["problem"]
    status, said = await decide(hub, "approve", directory, "lacks", digest="")
    assert status == 409 and "missing variable NOTSET_ANYWHERE" in str(said)
    for name in ("lacks", "odd"):
        assert (await decide(hub, "reject", directory, name))[0] == 200
        assert (await approvals(hub, directory))[name]["state"] == "rejected"
    project(hub, "lacks", lacks=Fake({}, {"args": ["x"]}))
    assert await state(hub, directory, "lacks") == "disabled (approval)"


async def test_nothing_to_decide(hub: Hub) -> None:
    """A person's own server needs no approval, and an unknown one has none."""
    directory = project(hub, "empty")
    for name in ("good", "nobody"):
        for verb, body in (("approve", {"digest": "x"}), ("reject", {})):
            assert (await decide(hub, verb, directory, name, **body))[0] == 404


async def test_a_decision_that_cannot_be_written(hub: Hub) -> None:
    """It is told, and nothing runs for it."""
    directory = project(hub, "unwritten", unwritten=Fake())
    item = (await approvals(hub, directory))["unwritten"]
    path = hub.place.root / "state" / "mcphub" / "approvals.json"
    kept = path.read_bytes()
    path.write_text('{"version": 99, "approvals": []}')
    try:
        status, report = await decide(hub, "approve", directory, "unwritten", digest=item["digest"])
        assert status == 500 and "cannot record the decision" in str(report)
        assert await state(hub, directory, "unwritten") == "disabled (approval)"
    finally:
        path.write_bytes(kept)


# --- watching ---------------------------------------------------------------------------------------------------------


async def test_watching_from_the_future(hub: Hub) -> None:
    """A revision of another daemon is no reason to wait for ever."""
    async with anyio.create_task_group() as tasks:
        with anyio.fail_after(5):
            async for report in hub.watch():
                assert report["revision"] > 0
                break
        tasks.cancel_scope.cancel()
