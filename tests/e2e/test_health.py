"""What the daemon finds out about servers that say nothing, and what people and other servers see of it."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator

import anyio
import pytest

from tests.e2e.test_trust import approve, project
from tests.fakes.agent import text
from tests.fakes.hub import Fake, Hub, Place, eventually, row, running

pytestmark = pytest.mark.anyio

SETTINGS = "[health]\nidle = 0.3\ntimeout = 1.0\n"
LATE = [{"pause": 0.8}, {"default": 1}]
SERVERS = {
    "steady": Fake(),
    "stopped": Fake(),
    "late": Fake({"on": {"ping": [LATE] * 3 + [[{"default": 1}]]}}),
    "blunt": Fake({"on": {"ping": [{"error": {"code": -32601, "message": "no such method"}}]}}),
    "left-alone": Fake({"on": {"ping": []}}, {"healthCheck": False}),
    "lazy": Fake({}, {"lazy": True}),
    "brief": Fake({}, {"idleTimeout": 1000}),
}


@pytest.fixture(scope="module")
async def hub() -> AsyncIterator[Hub]:
    async with running(SERVERS, settings=SETTINGS) as hub:
        yield hub


async def test_all_at_once(hub: Hub) -> None:
    """A program that is stopped is found and another takes its place; one that is late is slow for a while and stays
    what it is; whoever does not know the question, is not asked or sleeps is left in peace; no call of others fails."""
    place = hub.place
    slow = await hub.until(lambda report: row(report, "late")["slow"])
    late = row(slow, "late")
    assert (late["state"], late["state_text"]) == ("connected", "connected (slow)")
    assert late["reason"].startswith("slow: it ")
    _, why = await hub.control("GET", "/v1/why/late")
    assert why["answer"].startswith("late runs; slow: it ")
    await hub.until_state("stopped")
    [pid] = place.starts("stopped")
    failures: list[object] = []
    stop = anyio.Event()
    async with await hub.agent() as agent:
        await agent.initialize()

        async def call() -> None:
            while not stop.is_set():
                answer = await agent.call("mcp__steady__echo", {"text": "x"})
                if "result" not in answer or answer["result"].get("isError"):
                    failures.append(answer)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            os.kill(pid, signal.SIGSTOP)
            report = await hub.until(lambda report: row(report, "stopped")["state"] == "pending", timeout=15)
            assert row(report, "stopped")["last_error"]["kind"] == "unresponsive"
            await hub.until_restarted("stopped", 2)
            stop.set()
        assert failures == []
        report = await hub.until(lambda report: row(report, "late")["state_text"] == "connected", timeout=60)
        for name in ("steady", "late", "blunt", "left-alone"):
            assert (row(report, name)["state"], row(report, name)["last_error"]) == ("connected", None), name
            assert len(place.starts(name)) == 1, name
        for name in ("lazy", "brief"):
            assert row(report, name)["state_text"] == "pending (idle)", name
            before = place.received(name)
            assert len(place.starts(name)) == 1, name
            assert place.received(name) == before
        asked = [m.get("method") for m in place.received("left-alone") if isinstance(m, dict)]
        assert "ping" not in asked
        assert text(await agent.call("mcp__stopped__echo", {"text": "back"})) == "back"


async def test_a_project_that_is_always_on(place: Place) -> None:
    """It starts with the daemon, before any agent comes, once a person has approved it; nothing else of its project
    does."""
    workspace = project(place, "p", {"kept": Fake({}, {"alwaysOn": True}), "usual": Fake()})
    async with running({}, place=place) as hub:
        for name in ("kept", "usual"):
            await approve(hub, workspace, name)
        await eventually(lambda: place.starts("kept"), timeout=15)
        report = await hub.until_state("kept", workspace=workspace)
        assert row(report, "usual")["state_text"] == "pending (idle)"
    async with running({}, place=place):
        await eventually(lambda: len(place.starts("kept")) == 2, timeout=15)
    assert place.starts("usual") == []


async def test_a_stopped_process_with_a_call_in_flight(place: Place) -> None:
    """C086: it is not plain connected: status and why say at once that the process is stopped, and nothing ends the
    call, which is answered when it goes on."""
    async with running({"a": Fake()}, place=place) as hub, await hub.agent() as agent:
        await hub.until_state("a")
        await agent.initialize()
        os.kill(place.starts("a")[0], signal.SIGSTOP)
        call = await agent.start("tools/call", {"name": "mcp__a__echo", "arguments": {"text": "late"}})
        with anyio.fail_after(10):
            while not (found := await hub.server("a"))["slow"]:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert (found["state"], found["state_text"]) == ("connected", "connected (stopped)")
        assert "its process is stopped" in found["reason"]
        _, why = await hub.control("GET", "/v1/why/a")
        assert why["answer"].startswith("a runs; its process is stopped (SIGSTOP)")
        os.kill(place.starts("a")[0], signal.SIGCONT)
        assert text(await agent.response(call)) == "late"
