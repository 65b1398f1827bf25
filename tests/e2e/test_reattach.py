"""`mcphub connect` outlives the daemon: its agent goes on in the next one, and is told of what was in flight."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from mcp import Client, MCPError, StdioServerParameters

from mcphub.sessions.bridge import AGAIN_WITHIN, MOST_AGAIN
from tests.fakes.agent import Agent, Message, is_json, text
from tests.fakes.bridge import bridge
from tests.fakes.hub import MCPHUB, Fake, Hub, Place, alive, describe, eventually

pytestmark = pytest.mark.anyio

SERVERS = {"old": Fake(), "new": Fake({"era": "modern"})}
#: How often the daemon is killed at a random moment, and by which chance; `MCPHUB_KILLS=50` is the long run.
ROUNDS = int(os.environ.get("MCPHUB_KILLS", "10"))
SEED = int(os.environ.get("MCPHUB_SEED", "5"))
#: One ignores everything, and its children hold its pipes open; the other's are forked twice, in sessions of their own,
#: one of them without any environment.
STUBBORN = Fake({"eof": "ignore", "term": "ignore", "grandchildren": {"count": 2}})
FORKS = '"$0" "$1" "$2" child setsid double cleared >&2 & shift 2; exec "$0" -I "$@"'


@pytest.fixture
def place() -> Iterator[Place]:
    place = Place()
    place.configure(SERVERS)
    yield place
    place.remove()


async def daemon_of(hub: Hub) -> int:
    return int((await hub.status())["daemon"]["pid"])


async def kill(hub: Hub, pid: int) -> int:
    """kill -9; returns the pid of the one that comes after it."""
    os.kill(pid, signal.SIGKILL)
    return await after(hub, pid)


async def after(hub: Hub, pid: int) -> int:
    found = pid
    with anyio.fail_after(10):
        while found == pid:
            try:
                found = await daemon_of(hub)
            except (OSError, anyio.BrokenResourceError, anyio.EndOfStream, ValueError, IndexError):
                await anyio.sleep(0.02)  # between the two
    return found


def kind(answer: Message) -> str:
    """How a call ended: `result`, or what an error is called."""
    if "result" in answer:
        return "tool error" if answer["result"].get("isError") else "result"
    data = answer["error"].get("data", {})
    return str(data.get("dev.mcphub/error", {}).get("kind", answer["error"]["message"]))


async def works(agent: Agent, tool: str, era: str = "legacy") -> None:
    """A call to it is answered, soon."""
    with anyio.fail_after(15):
        while kind(answer := await agent.call(tool, {"text": "x"}, era=era)) != "result":  # noqa: ASYNC110
            await anyio.sleep(0.05)
    assert text(answer) == "x"


async def test_three_agents_and_kill_9(place: Place) -> None:
    """C164: each goes on without a second handshake, is told to list again, and each request is answered once."""
    hub = Hub(place, None)
    async with AsyncExitStack() as stack:
        legacy, modern, busy = [
            await stack.enter_async_context(bridge(place, ends=ends)) for ends in ("pipes", "socketpairs", "socket")
        ]
        await legacy.initialize()
        await busy.initialize()
        await hub.until_state(*SERVERS)
        await works(legacy, "mcp__old__echo")
        assert (await legacy.request("logging/setLevel", {"level": "debug"}))["result"] == {}
        wanted = {"notifications": {"toolsListChanged": True}}
        await modern.start_modern("subscriptions/listen", wanted, id="sub")
        await modern.notification("notifications/subscriptions/acknowledged")
        forever = {"actions": [{"wait": str(place.root / "never")}]}
        calls = [await busy.start("tools/call", {"name": f"mcp__{s}__do", "arguments": forever}) for s in SERVERS]
        calls.append(await busy.start("tools/call", {"name": "mcp__old__do", "arguments": forever}, id='odd "id"'))
        await busy.request("ping")
        await kill(hub, await daemon_of(hub))
        for call in calls:
            answer = await busy.response(call)
            assert kind(answer) == "outcome_unknown"
            assert "check before calling it again" in answer["error"]["message"]
        for agent in (legacy, busy):
            await agent.notification("notifications/tools/list_changed")
            assert {t["name"] for t in await agent.tools()} >= {"mcp__old__echo", "mcp__new__echo"}
        changed = await modern.notification("notifications/tools/list_changed")
        assert changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "sub"
        await works(legacy, "mcp__new__echo")
        await works(busy, "mcp__old__echo")
        await works(modern, "mcp__old__echo", "modern")
        sessions = (await hub.status())["sessions"]
        assert sorted(s["era"] for s in sessions) == ["legacy", "legacy", "modern"]
        for agent in (legacy, modern, busy):
            assert agent.responses == {}
    await hub.until(lambda report: report["sessions"] == [])
    await hub.end_daemon()


def arrivals(agent: Agent) -> list[tuple[Any, str]]:
    """(id, how it ended) of each answer that the agent gets from now on, in their order."""
    found: list[tuple[Any, str]] = []
    take = agent._take

    async def taken(line: bytes) -> None:
        await take(line)
        if is_json(line) and "method" not in (message := json.loads(line)):
            found.append((message["id"], kind(message)))

    agent._take = taken  # type: ignore[method-assign]
    return found


def behind(answers: list[tuple[Any, str]]) -> list[list[int]]:
    """For each batch of errors that came behind the real answers of the same requests, where those answers stand, as
    places before the batch: 1 is the last one."""
    first = {mid: at for at, (mid, _) in reversed(list(enumerate(answers)))}
    found: list[list[int]] = []
    begins = 0
    for at, (mid, how) in enumerate(answers):
        if how not in ("outcome_unknown", "lost"):
            begins = at + 1
            continue
        if at == begins:
            found.append([])
        if first[mid] != at:
            found[-1].append(begins - first[mid])
    return [sorted(places) for places in found if places]


async def gone(processes: list[psutil.Process]) -> None:
    """Two seconds are enough for all of them."""
    try:
        await eventually(lambda: not any(one.is_running() and alive(one.pid) for one in processes), timeout=2)
    except TimeoutError:
        left = [describe(one) for one in processes if one.is_running() and alive(one.pid)]
        assert not left, f"still running: {left}"


@pytest.mark.timeout(60 + 8 * ROUNDS)
async def test_at_random_moments(place: Place) -> None:
    """Ten times, under load: every request is answered, by a result or an error with a name; of the daemon's children,
    stubborn ones among them, none is left two seconds later, the next daemon has no problem, and the agents go on."""
    forks = Path(__file__).parents[1] / "fakes" / "stubborn.py"
    double = place.entry("double", Fake())
    double = {"command": "sh", "args": ["-c", FORKS, sys.executable, str(forks), str(place.root), *double["args"][1:]]}
    place.configure({**SERVERS, "stubborn": STUBBORN, "double": double})
    hub = Hub(place, None)
    chance = random.Random(SEED)
    stopping = anyio.Event()
    ended: dict[str, int] = {}
    kills: list[float] = []

    async def load(agent: Agent, era: str) -> None:
        while not stopping.is_set():
            size = chance.choice([10, 10, 10, 2000, 100_000])
            said = {"text": "x" * size}
            # One only reads, and is lost where its end is not known; of the other nobody can tell what it did.
            tool, arguments = chance.choice([("echo", said), ("do", {"actions": [said]})])
            params: dict[str, Any] = {"name": f"mcp__{chance.choice(['old', 'new'])}__{tool}", "arguments": arguments}
            start = agent.start if era == "legacy" else agent.start_modern
            ids = [await start("tools/call", params) for _ in range(chance.randint(1, 8))]
            ids.append(await start("tools/list"))
            for one in ids:
                found = await agent.response(one, timeout=30)
                how = kind(found) if one != ids[-1] else "list"
                ended[how] = ended.get(how, 0) + 1

    async with AsyncExitStack() as stack:
        agents = [await stack.enter_async_context(bridge(place, ends=e)) for e in ("pipes", "socketpairs", "socket")]
        for agent in agents:
            agent.torn = []
        await agents[0].initialize()
        await agents[2].initialize()
        await hub.until_state(*SERVERS, "stubborn", "double")
        answers = [arrivals(agent) for agent in agents]
        bridges = {agent.pid for agent in agents}
        async with anyio.create_task_group() as tasks:
            for agent, era in zip(agents, ("legacy", "modern", "legacy"), strict=True):
                tasks.start_soon(load, agent, era)
            pid = await daemon_of(hub)
            for _ in range(ROUNDS):
                await anyio.sleep(chance.random())
                if len(kills) >= MOST_AGAIN:  # more often nobody's agent comes back: that daemon would be broken
                    await anyio.sleep_until(kills[-MOST_AGAIN] + AGAIN_WITHIN + 1)
                # In a thread: the agents would stop asking meanwhile, and nothing would be in flight at the kill.
                running = await anyio.to_thread.run_sync(place.processes)
                children = [process for process in running if process.pid not in bridges]
                kills.append(anyio.current_time())
                os.kill(pid, signal.SIGKILL)
                await gone(children)
                pid = await after(hub, pid)
                assert (await hub.status())["problems"] == []
            await eventually(lambda: ended.get("result", 0) > 100, timeout=20)  # a slow machine got fewer in between
            stopping.set()
        for agent, era in zip(agents, ("legacy", "modern", "legacy"), strict=True):
            await agent.request("ping")
            await works(agent, "mcp__stubborn__echo", era)
            await works(agent, "mcp__double__echo", era)
        # Between a write and the word of it, an instant, nobody can tell: then there is an error behind each answer
        # that this write held. Never a second result, and never two errors.
        for found in (found for agent in agents for found in agent.responses.values()):
            assert [kind(answer) in ("outcome_unknown", "lost") for answer in found] in ([], [True])
        # One write and no more: they are the last answers before the errors, with none between them.
        for places in (places for one in answers for places in behind(one)):
            assert places == list(range(1, len(places) + 1))
    assert set(ended) <= {"result", "tool error", "outcome_unknown", "lost", "list"}
    assert ended.get("outcome_unknown", 0) > 0 and ended["result"] > 100, ended
    await hub.until(lambda report: report["sessions"] == [])
    await hub.end_daemon()


async def test_daemon_and_launcher_killed_at_once(place: Place) -> None:
    """C030: what is left of servers then, in sessions of their own and ignoring everything, the next daemon ends."""
    forks = Path(__file__).parents[1] / "fakes" / "stubborn.py"
    double = place.entry("double", Fake())
    double = {"command": "sh", "args": ["-c", FORKS, sys.executable, str(forks), str(place.root), *double["args"][1:]]}
    place.configure({"double": double})
    hub = Hub(place, None)
    async with bridge(place) as agent:
        await agent.initialize()
        await hub.until_state("double")
        pid = await daemon_of(hub)
        children = [one for one in place.processes() if one.pid not in (pid, agent.pid)]
        [launcher] = [one for one in psutil.Process(pid).children() if one.name() == "mcphub-launcher"]
        os.kill(pid, signal.SIGSTOP)  # it does not see the launcher's end
        launcher.kill()
        left = [one for one in children if one.pid != launcher.pid]
        await eventually(lambda: not all(one.is_running() and alive(one.pid) for one in left), timeout=5)
        orphans = [one for one in left if one.is_running() and alive(one.pid)]
        assert orphans, "they outlive both"
        await kill(hub, pid)
        await gone(orphans)
        await hub.until_state("double")
        assert "processes that servers of an earlier daemon had left running" in (
            place.root / "state" / "mcphub" / "daemon.log"
        ).read_text("utf-8")
        await works(agent, "mcp__double__echo")
    await hub.end_daemon()
    assert not (place.runtime / "mcphub" / "launcher.marks").exists()


async def test_a_restart_in_order(place: Place, tmp_path: Path) -> None:
    """An upgrade is no end: subscriptions stay, large answers that nobody has read yet come whole or not at all."""
    hub = Hub(place, None)
    async with bridge(place) as legacy, bridge(place, ends="socketpairs") as modern:
        await legacy.initialize()
        await hub.until_state(*SERVERS)
        await modern.start_modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="sub")
        await modern.notification("notifications/subscriptions/acknowledged")
        before = await daemon_of(hub)
        code, report = await hub.control("POST", "/v1/stop", body={"restart": True})
        assert (code, report["pid"]) == (200, before)
        await modern.notification("notifications/tools/list_changed")
        assert modern.responses == {}
        await works(legacy, "mcp__old__echo")
        await after(hub, before)
    await hub.end_daemon()


async def test_a_person_who_stops_it(place: Place) -> None:
    """Who stops the daemon wants it stopped: no agent starts it again."""
    hub = Hub(place, None)
    async with bridge(place) as agent:
        await agent.initialize()
        await hub.end_daemon()
        await agent.end()
    assert place.processes() == []


async def test_large_messages(place: Place) -> None:
    """A request that is half read, and an answer that is half written, when the daemon is killed: each ends once,
    and the messages behind them are whole."""
    hub = Hub(place, None)
    async with bridge(place, ends="socketpairs") as agent:
        agent.torn = []
        await agent.initialize()
        await hub.until_state(*SERVERS)
        big = {"name": "mcp__old__do", "arguments": {"actions": [{"big": 4_000_000}]}}
        answer = await agent.start("tools/call", big)
        while b"xxxx" not in await agent.peek(1 << 12):
            pass  # some of it has come, and no more is taken for now
        params = {"name": "mcp__old__echo", "arguments": {"text": "y" * 5_000_000}}
        head, tail = json.dumps({"jsonrpc": "2.0", "id": "half", "method": "tools/call", "params": params}), "\n"
        await agent.stream.send(head[: 1 << 20].encode())
        await kill(hub, await daemon_of(hub))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.stream.send, (head[1 << 20 :] + tail).encode())
            assert kind(await agent.response(answer)) in ("outcome_unknown", "lost")
            assert kind(await agent.response("half")) in ("outcome_unknown", "lost")
        await works(agent, "mcp__old__echo")
        assert agent.responses == {}
        assert len(agent.torn) == 1 and agent.torn[0].startswith(b'{"jsonrpc"')
    await hub.end_daemon()


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_official_client(place: Place, mode: str) -> None:
    """It notices nothing but that a call which was in flight has failed."""
    hub = Hub(place, None)
    server = StdioServerParameters(command=str(MCPHUB), args=["connect"], env=place.environment(), cwd=place.root)
    forever = {"actions": [{"wait": str(place.root / "never")}]}
    failed: list[str] = []
    with anyio.fail_after(40):
        async with Client(server, mode=mode) as client:
            await client.list_tools()  # a modern one says nothing before
            await hub.until_state(*SERVERS)

            async def call() -> None:
                try:
                    await client.call_tool("mcp__old__do", forever)
                except MCPError as e:
                    failed.append(e.message)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await eventually(lambda: any(_calls(line) for line in hub.received("old")), timeout=10)
                await kill(hub, await daemon_of(hub))
            assert "whether it had effects is unknown" in failed[0]
            await hub.until_state(*SERVERS)
            assert "mcp__new__echo" in {tool.name for tool in (await client.list_tools()).tools}
            result = await client.call_tool("mcp__new__echo", {"text": "still here"})
            assert "still here" in str(result.content)
    await hub.end_daemon()


def _calls(line: Any) -> bool:
    return isinstance(line, dict) and line.get("method") == "tools/call"


async def test_the_first_call_to_a_server_that_takes_its_time(place: Place) -> None:
    """C164: after kill -9, after `stop --restart` and after `reconnect`, an agent's first call gets its result, though
    its server needs a second to start; the one that was in flight is told with the server's name."""
    place.configure({"old": Fake({"before": [{"pause": 1.0}]})})
    forever = {"actions": [{"wait": str(place.root / "never")}]}
    async with bridge(place) as agent:
        await agent.initialize()
        assert text(await agent.call("mcp__old__echo", {"text": "new"})) == "new"
        hub = Hub(place, None)
        call = await agent.start("tools/call", {"name": "mcp__old__do", "arguments": forever})
        await eventually(lambda: "'do'" in str(place.received("old")), timeout=5)
        await kill(hub, await daemon_of(hub))
        assert (await agent.response(call))["error"]["data"]["dev.mcphub/error"]["server"] == "old"
        echo = {"name": "mcp__old__echo", "arguments": {"text": "x"}}
        calls = [await agent.start("tools/call", echo), await agent.start_modern("tools/call", echo)]
        assert [text(await agent.response(one)) for one in calls] == ["x", "x"]
        before = await daemon_of(hub)
        assert (await hub.control("POST", "/v1/stop", body={"restart": True}))[0] == 200
        await after(hub, before)
        assert text(await agent.call("mcp__old__echo", {"text": "restarted"})) == "restarted"
        await hub.control("POST", "/v1/reconnect", body={"name": "old"})
        assert text(await agent.call("mcp__old__echo", {"text": "anew"})) == "anew"
        assert len(place.starts("old")) == 4
    await hub.until(lambda report: report["sessions"] == [])
    await hub.end_daemon()
