"""What a kill -9 costs: of a server nothing but its own calls, of the daemon nothing that outlives it."""

from __future__ import annotations

import os
import resource
import signal
from typing import Any

import anyio
import psutil
import pytest

from tests.fakes.agent import Agent, text
from tests.fakes.bridge import bridge, finish
from tests.fakes.hub import Fake, Hub, Place, row, running, start

pytestmark = pytest.mark.anyio

CHANGED = "notifications/tools/list_changed"
STUBBORN = {"eof": "ignore", "term": "ignore", "grandchildren": {"count": 2}}


async def call_until(agent: Agent, stop: anyio.Event, failures: list[Any]) -> None:
    while not stop.is_set():
        response = await agent.call("mcp__steady__echo", {"text": "x"})
        if "result" not in response or response["result"].get("isError"):
            failures.append(response)


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("changes", [False, True], ids=["same-list", "other-list"])
async def test_a_killed_server(place: Place, era: str, changes: bool) -> None:
    """C090, K1.3, K5.1: it is connected again within 3 s; no call on another server fails; agents are told only if its
    list is another one, and can use it again without doing anything."""
    second = {"tools": ["echo", "added"]} if changes else {}
    victim = Fake({"era": era, "tools": ["echo"], "starts": [{}, second]})
    servers = {"victim": victim, "steady": Fake()}
    async with running(servers, place=place) as hub, await hub.agent() as agent, await hub.agent() as caller:
        await hub.until_state(*servers)
        await agent.initialize()
        await caller.initialize()
        before = await agent.tools()
        stop, failures = anyio.Event(), list[Any]()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call_until, caller, stop, failures)
            begun = anyio.current_time()
            os.kill(place.starts("victim")[0], signal.SIGKILL)
            await hub.until_restarted("victim", 2)
            assert anyio.current_time() - begun < 3
            stop.set()
        assert failures == []
        if changes:
            await agent.notification(CHANGED)
            assert len(await agent.tools()) == len(before) + 1
        else:
            assert await agent.tools() == before
            assert agent.notifications == []
        assert text(await agent.call("mcp__victim__echo", {"text": "back"})) == "back"


async def test_calls_while_a_server_is_away(place: Place) -> None:
    """C091: while a server is down its tools stay listed, and a call says where things stand; it does not wait long."""
    victim = Fake({"starts": [{}, {"before": [{"exit": 1}]}]})
    settings = "[connect]\nattempts = 2\n"
    async with running({"victim": victim}, place=place, settings=settings) as hub, await hub.agent() as agent:
        await hub.until_state("victim")
        await agent.initialize()
        before = await agent.tools()
        os.kill(place.starts("victim")[0], signal.SIGKILL)
        await hub.until_state("victim", state="failed")
        assert await agent.tools() == before
        with anyio.fail_after(5):
            answer = await agent.call("mcp__victim__echo", {"text": "x"})
        assert answer["result"]["isError"] is True
        assert "victim" in text(answer)


async def test_a_killed_daemon_and_the_stubborn(place: Place) -> None:
    """C030, K1.3: of servers that ignore end of input and SIGTERM and start children in sessions of their own, none is
    left two seconds after kill -9 of the daemon; the next `mcphub connect` works, old sockets or not."""
    servers = {f"s{n}": Fake(STUBBORN) for n in range(4)}
    async with running(servers, place=place) as hub:
        await hub.until_state(*servers)
        assert len(place.processes()) >= 1 + 4 * 3
        await hub.kill()
        await place.empty(timeout=2)
    async with bridge(place) as agent:
        await agent.initialize()
        hub = Hub(place, None)
        await hub.until_state(*servers)
        assert text(await agent.call("mcp__s0__echo", {"text": "again"})) == "again"
    await hub.end_daemon()


async def test_a_server_that_shakes_hands_and_exits_for_ever(place: Place) -> None:
    """C085: it ends in `failed` after its attempts, and the status shows what it wrote to stderr."""
    said = {"stderr": "no licence for today\n"}
    leaves = {"on": {"tools/list": [{"default": 1}, said, {"pause": 0.05}, {"exit": 3}]}}
    async with running({"brief": Fake(leaves)}, place=place, settings="[connect]\nattempts = 1\n") as hub:
        found = row(await hub.until_state("brief", state="failed"), "brief")
        assert (len(place.starts("brief")), found["attempt"], found["attempts"]) == (2, 1, 1)
        assert found["last_error"]["stderr_tail"] == ["no licence for today"] * 2
        assert found["last_error"]["exit_code"] == 3
        assert "no licence for today" in found["reason"]


async def test_descriptors_for_many_servers(place: Place) -> None:
    """The usual limit of open files is for other programs: the daemon takes what the system allows it, its servers keep
    what was set for all."""
    place.configure({"one": Fake()})
    process = await start(place, {}, under=["sh", "-c", 'ulimit -Sn 400; exec "$@"', "sh"])
    hub = Hub(place, process)
    try:
        await hub.until_state("one")
        report = await hub.status()
        limits = [soft_limit(pid) for pid in (process.pid, report["daemon"]["launcher_pid"], place.starts("one")[0])]
        assert limits[0] == min(65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        assert limits[1:] == [400, 400]
        await hub.stop()
    finally:
        await finish(process)


def soft_limit(pid: int) -> int:
    """Of open files."""
    return psutil.Process(pid).rlimit(psutil.RLIMIT_NOFILE)[0]
