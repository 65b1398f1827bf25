"""The outcome journal: each call that may change something is in it before it is sent, and closed by what came of
it."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from typing import Any

import anyio
import pytest

from tests.e2e.test_reattach import after, daemon_of, kind
from tests.fakes.agent import Agent, modern_meta
from tests.fakes.bridge import bridge
from tests.fakes.hub import MCPHUB, Fake, Hub, Place, eventually, running

pytestmark = pytest.mark.anyio

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ROUND = {"resultType": "input_required", "requestState": "s", "inputRequests": {"q": {"method": "roots/list"}}}
SERVERS = {
    "old": Fake(),
    "new": Fake({"era": "modern", "on": {"tools/call": [[{"answer": ROUND}], [{"default": 1}]] * 2}}),
}


async def calls(place: Place, *args: str, status: int = 0) -> list[dict[str, Any]]:
    """What `mcphub calls --json` prints of them, newest first."""
    done = await anyio.run_process(
        [str(MCPHUB), "calls", "--json", *args], env=place.environment(), check=False, stderr=subprocess.PIPE
    )
    assert done.returncode == status, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout).get("calls", [])
    return found


async def printed(place: Place, *args: str) -> str:
    done = await anyio.run_process([str(MCPHUB), "calls", *args], env=place.environment())
    return done.stdout.decode()


def operation(answer: dict[str, Any]) -> str:
    """The id that an error carries."""
    return str(answer["error"]["data"]["dev.mcphub/error"]["operationId"])


async def test_outcomes(hub: Hub, agent: Agent) -> None:
    """K6.3: a call is closed by what came of it, without a value of its arguments; one that only reads is not in
    there."""
    await agent.call("mcp__old__echo", {"text": "x"})
    await agent.call("mcp__old__do", {"actions": [{"text": "sesame"}]})
    await agent.call("mcp__old__do", {"actions": [{"answer": {"content": [], "isError": True}}]})
    meta = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    refused = {"actions": [{"error": {"code": -32000, "message": "no"}}]}
    await agent.request("tools/call", {"name": "mcp__old__do", "arguments": refused, "_meta": meta})
    found = await calls(hub.place)
    assert [one["outcome"] for one in found] == ["error", "tool_error", "answered"]
    assert {(one["server"], one["tool"], one["agent"]) for one in found} == {("old", "do", "fake-agent")}
    assert [one["trace"] for one in found] == [TRACE, "", ""]
    assert len({one["arguments_digest"] for one in found}) == 3
    assert {(one["agent_era"], one["server_era"], one["attempts"]) for one in found} == {("legacy", "legacy", 1)}
    file = hub.place.root / "state" / "mcphub" / "calls"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert b"sesame" not in file.read_bytes()
    assert await calls(hub.place, "--unknown") == await calls(hub.place, "--server", "new") == []
    assert len(await calls(hub.place, "--agent", "FAKE", "--limit", "2")) == 2


async def test_lost_and_cancelled(hub: Hub, agent: Agent) -> None:
    """K3.4: a write whose answer is lost, or that is cancelled, is unknown and sent once; its agent gets the id."""
    never = {"actions": [{"wait": str(hub.place.root / "never")}]}
    mid = await agent.start("tools/call", {"name": "mcp__old__do", "arguments": never})
    await eventually(lambda: "never" in str(hub.received("old")), timeout=10)
    assert (await calls(hub.place, "--limit", "1"))[0]["outcome"] == "open"
    await agent.notify("notifications/cancelled", {"requestId": mid})
    lost = await agent.call("mcp__old__do", {"actions": [{"exit": 1}]})
    assert kind(lost) == "outcome_unknown"
    assert f"mcphub calls {operation(lost)}" in lost["error"]["message"]
    first, second = await calls(hub.place, "--unknown")
    assert (first["operation"], first["reason"], first["outcome"]) == (operation(lost), "lost", "unknown")
    assert second["reason"] == "cancelled"
    said = await printed(hub.place, operation(lost))
    assert "unknown: the connection was lost before the answer came" in said and "look at old" in said
    assert operation(lost) in await printed(hub.place, "--unknown")
    await calls(hub.place, "op_00000000ff", status=1)
    await hub.until_state("old")
    assert sum('"exit"' in json.dumps(one) for one in hub.received("old")) == 1


async def test_rounds(hub: Hub) -> None:
    """A legacy agent's call over two rounds is one record; each request of a modern agent is one of its own, but where
    one call of a legacy server waits for it meanwhile."""
    async with await hub.agent() as agent:
        await agent.initialize(capabilities={"roots": {}})
        assert "result" in await agent.call("mcp__new__do", {"actions": [{"text": "x"}]})
        (one,) = await calls(hub.place, "--server", "new")
        assert (one["outcome"], one["attempts"], one["server_era"]) == ("answered", 2, "modern")
    asks = {"ask": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object"}}}
    answers = {"roots": {"roots": []}, "elicitation": {"action": "accept", "content": {}}}
    async with await hub.agent() as agent:
        meta = modern_meta(capabilities={"roots": {}, "elicitation": {"form": {}}})
        for server, actions in (("new", [{"text": "x"}]), ("old", [asks, {"text": "x"}])):
            params = {"name": f"mcp__{server}__do", "arguments": {"actions": actions}}
            asked = (await agent.modern("tools/call", params, meta=meta))["result"]
            ((key, question),) = asked["inputRequests"].items()
            if server == "old":
                (one,) = await calls(hub.place, "--server", "old", "--limit", "1")
                assert one["outcome"] == "open"
                (holder,) = (await hub.server("old"))["unanswered"]
                assert (holder["client"], holder["since"] < 20) == ("fake-agent", True)
            said = {key: answers[question["method"].partition("/")[0]]}
            more = {"requestState": asked["requestState"], "inputResponses": said}
            assert "result" in await agent.modern("tools/call", params | more, meta=meta)
    second, first, _ = await calls(hub.place, "--server", "new")
    assert [first["outcome"], second["outcome"]] == ["input_required", "answered"]
    newest, older = await calls(hub.place, "--limit", "2")
    assert (newest["server"], newest["agent_era"], newest["outcome"]) == ("old", "modern", "answered")
    assert older["server"] == "new"


async def test_kill_9() -> None:
    """H13: a write that is in flight when the daemon is killed is unknown in the next one, whose agent goes on and gets
    its id; the server got it once. Without a daemon the file says the same. A call that only reads may be made
    again."""
    place = Place()
    place.configure({"old": Fake()})
    try:
        hub = Hub(place, None)
        async with bridge(place) as agent:
            await agent.initialize()
            await hub.until_state("old")
            await agent.call("mcp__old__do", {"actions": [{"text": "x"}]})
            forever = {"actions": [{"wait": str(place.root / "never")}]}
            mid = await agent.start("tools/call", {"name": "mcp__old__do", "arguments": forever})
            await eventually(lambda: "never" in str(place.received("old")), timeout=10)
            reads = {"name": "mcp__old__look", "arguments": {"actions": [{"wait": "nothing"}]}}
            meta = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
            look = await agent.start("tools/call", {**reads, "_meta": meta})
            await eventually(lambda: "nothing" in str(place.received("old")), timeout=10)
            pid = await daemon_of(hub)
            os.kill(pid, signal.SIGKILL)
            answer, looked = await agent.response(mid), await agent.response(look)
            await after(hub, pid)
            assert kind(answer) == "outcome_unknown"
            # The journal of a daemon that recorded all has nothing of a call that only reads.
            found = looked["error"]["data"]["dev.mcphub/error"]
            assert (found["kind"], found["retryable"]) == ("lost", True)
            assert (found["server"], found["tool"], found["traceId"]) == ("old", "look", TRACE)
            (one,) = await calls(place, "--unknown")
            assert (one["operation"], one["reason"]) == (operation(answer), "killed")
            assert one["text"] == "unknown: mcphub was killed before the answer came"
            await hub.until_state("old")
            assert "result" in await agent.call("mcp__old__do", {"actions": [{"text": "x"}]})
            # In order this time: the one after it tells of a stop.
            mid = await agent.start("tools/call", {"name": "mcp__old__do", "arguments": forever})
            await eventually(lambda: str(place.received("old")).count("never") == 2, timeout=10)
            pid = await daemon_of(hub)
            assert (await hub.control("POST", "/v1/stop", body={"restart": True}))[0] == 200
            answer = await agent.response(mid, timeout=30)
            await after(hub, pid)
            assert kind(answer) == "outcome_unknown"
        assert str(place.received("old")).count("never") == 2
        await hub.end_daemon()
        found = await calls(place)
        assert [one["reason"] for one in found if one["outcome"] == "unknown"] == ["stopped", "killed"]
        assert found[0]["operation"] == operation(answer)
    finally:
        place.remove()


async def test_a_journal_that_cannot_be() -> None:
    """Calls go on without one, and the status says so; a damaged one is set aside, told once, and what can be read of
    it is kept."""
    place = Place()
    file = place.root / "state" / "mcphub" / "calls"
    try:
        async with running({"old": Fake()}, place=place) as hub, await hub.agent() as agent:
            await hub.until_state("old")
            await agent.initialize()
            await agent.call("mcp__old__do", {"actions": [{"text": "x"}]})
        file.write_bytes(file.read_bytes()[:100_000])
        async with running({"old": Fake()}, place=place) as hub:
            assert [one["outcome"] for one in await calls(place)] == ["answered"]
            await eventually(lambda: "is damaged (it was cut" in hub.stderr(), timeout=10)
            assert hub.stderr().count("is damaged (it was cut") == 1
            assert (await hub.status())["problems"] == []
        assert file.with_name("calls.damaged").stat().st_size == 100_000
        file.unlink()
        file.mkdir()
        async with running({"old": Fake()}, place=place) as hub, await hub.agent() as agent:
            await hub.until_state("old")
            assert "calls are not recorded: cannot keep" in str((await hub.status())["problems"])
            assert await calls(place) == []
            await agent.initialize()
            assert "result" in await agent.call("mcp__old__do", {"actions": [{"text": "x"}]})
    finally:
        place.remove()
