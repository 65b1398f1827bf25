"""`mcphub connect`, the program that hosts start: whatever stdin and stdout are, and whether or not a daemon runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import psutil
import pytest

from tests.fakes.agent import text
from tests.fakes.bridge import bridge
from tests.fakes.hub import MCPHUB, Fake, Hub, Place, eventually, running, start

pytestmark = pytest.mark.anyio

SERVERS = {"old": Fake(), "new": Fake({"era": "modern"})}


@pytest.mark.parametrize("ends", ["pipes", "socketpairs", "socket"])
async def test_every_kind_of_ends(hub: Hub, ends: str) -> None:
    """A host may give pipes, two sockets or one; both eras work, large answers arrive whole, and nothing is left."""
    async with bridge(hub.place, ends=ends) as agent:
        await agent.initialize()
        assert {t["name"] for t in await agent.tools()} >= {"mcp__old__echo", "mcp__new__echo"}
        assert text(await agent.call("mcp__old__echo", {"text": "x" * 300_000})) == "x" * 300_000
        assert text(await agent.call("mcp__new__echo", {"text": "漢"}, era="modern")) == "漢"
        answer = await agent.call("mcp__old__do", {"actions": [{"big": 5_000_000}]})
        assert len(text(answer)) == 5_000_000
        assert len((await hub.status())["sessions"]) == 1
    await hub.until(lambda report: report["sessions"] == [])


async def test_nothing_but_messages(hub: Hub) -> None:
    """H11: whatever a server writes beside its messages, and whatever goes wrong, each line on stdout is a message;
    what people are to read is on stderr."""
    noise = [{"write": "a log line\n"}, {"stderr": "another\n"}, {"write": "\n"}, {"text": "ok"}]
    async with bridge(hub.place) as agent:
        agent.keep_lines = True
        await agent.initialize()
        for era in ("legacy", "modern"):
            for server in SERVERS:
                assert text(await agent.call(f"mcp__{server}__do", {"actions": noise}, era=era)) == "ok"
            assert "error" in await agent.call("mcp__old__none", era=era)
        await agent.send_line(b"{what is this")
        assert (await agent.request("ping"))["result"] == {}
        assert len(agent.lines) > 6 and all(json.loads(line)["jsonrpc"] == "2.0" for line in agent.lines)
    with anyio.fail_after(10):
        odd = [str(MCPHUB), "connect", "--no-such-option"]
        done = await anyio.run_process(odd, env=hub.place.environment(), check=False, input=b"")
    assert done.returncode != 0 and done.stdout == b"" and done.stderr.count(b"\n") >= 1


async def test_a_file_as_stdin(hub: Hub, tmp_path: Path) -> None:
    """A regular file cannot be waited on; its requests are answered all the same, and its end ends the program."""
    info = {"clientInfo": {"name": "f", "version": "1"}, "capabilities": {}}
    lines: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", **info}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
        {"id": 3, "method": "ping"},
    ]
    source = tmp_path / "requests"
    source.write_text("".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines), "utf-8")
    with source.open("rb") as stdin, anyio.fail_after(10):
        done = await anyio.run_process(
            [str(MCPHUB), "connect"], stdin=stdin, env=hub.place.environment(), check=True, stderr=subprocess.PIPE
        )
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines()) if "id" in answer}
    assert answers[1]["result"]["protocolVersion"] == "2025-11-25"
    assert answers[2]["result"]["tools"]
    assert answers[3]["result"] == {}


async def test_the_directory_is_the_workspace(hub: Hub) -> None:
    """The session is that of the directory that the host started the program in."""
    workspace = hub.place.root / "project"
    workspace.mkdir()
    async with bridge(hub.place, cwd=workspace) as agent:
        await agent.initialize()
        [session] = (await hub.status())["sessions"]
        assert session["workspace"] == str(workspace.resolve())


async def test_the_end_of_the_bridge_is_the_end_of_the_session(hub: Hub) -> None:
    """A host that kills the program without closing anything leaves no session behind."""
    async with bridge(hub.place) as agent:
        await agent.initialize()
        [session] = (await hub.status())["sessions"]
        os.kill(agent.pid, signal.SIGKILL)
        await hub.until(lambda report: all(s["id"] != session["id"] for s in report["sessions"]), timeout=10)


async def test_many_agents_are_few_reports(hub: Hub) -> None:
    """Whoever watches the status is told of a hundred agents that come at once, and go, ten times a second at most."""
    reports = 0

    def counts(sessions: int) -> Callable[[dict[str, Any]], bool]:
        def reached(report: dict[str, Any]) -> bool:
            nonlocal reports
            reports += 1
            return len(report["sessions"]) == sessions and all(one["client"] for one in report["sessions"])

        return reached

    began = anyio.current_time()
    async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
        agents = [await stack.enter_async_context(await hub.agent()) for _ in range(100)]
        for agent in agents:
            tasks.start_soon(agent.initialize)
        await hub.until(counts(100))
    await hub.until(counts(0))
    assert reports <= 4 + 10 * (anyio.current_time() - began)


async def test_the_first_one_starts_the_daemon(place: Place) -> None:
    """Where no daemon runs, one is started; it outlives the program that started it."""
    place.configure(SERVERS)
    hub = Hub(place, None)
    async with bridge(place) as agent:
        await agent.initialize()
        await hub.until_state(*SERVERS)
        assert text(await agent.call("mcp__old__echo", {"text": "x"})) == "x"
    assert (await hub.status())["daemon"]["pid"] > 0
    await hub.end_daemon()


async def test_starting_the_daemon_leaves_no_weight(place: Place) -> None:
    """The bridge that started the daemon is as small as any: it lives as long as its agent."""
    place.configure(SERVERS)
    hub = Hub(place, None)
    async with bridge(place) as first:
        await first.initialize()
        async with bridge(place) as second:
            await second.initialize()
            assert first.pid is not None and second.pid is not None
            sizes = [psutil.Process(pid).memory_info().rss for pid in (first.pid, second.pid)]
            assert sizes[0] < sizes[1] * 1.2
    await hub.end_daemon()


async def test_twenty_at_once_start_one_daemon(place: Place) -> None:
    """Programs that start at the same moment share one daemon, and none of them fails."""
    place.configure(SERVERS)
    hub = Hub(place, None)
    ready, leave = anyio.Event(), anyio.Event()
    attached = 0

    async def attach() -> None:
        nonlocal attached
        async with bridge(place) as agent:
            await agent.initialize()
            attached += 1
            if attached == 20:
                ready.set()
            await leave.wait()

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(attach)
        with anyio.fail_after(30):
            await ready.wait()
        assert len((await hub.status())["sessions"]) == 20
        await hub.until_state(*SERVERS)
        assert {name: len(place.starts(name)) for name in SERVERS} == dict.fromkeys(SERVERS, 1)
        leave.set()
    await hub.until(lambda report: report["sessions"] == [])
    await hub.end_daemon()


class Late:
    """Bridges whose daemon starts only when it is let go: each time one is about to start, `begun` returns."""

    def __init__(self, place: Place) -> None:
        self.begins, self.goes = place.root / "begins", place.root / "goes"
        interpreter = place.root / "late-python"
        interpreter.write_text(
            f"#!/bin/sh\necho x >{self.begins}\nread x <{self.goes}\nexec {sys.executable} \"$@\"\n", "utf-8"
        )
        interpreter.chmod(0o700)
        for fifo in (self.begins, self.goes):
            os.mkfifo(fifo)
        code = f"import sys; sys.executable = {str(interpreter)!r}; from mcphub.cli.main import main; sys.exit(main())"
        self.command = [sys.executable, "-c", code, "connect"]

    async def begun(self) -> None:
        with anyio.fail_after(10):
            await anyio.to_thread.run_sync(self.begins.read_bytes, abandon_on_cancel=True)

    async def go(self) -> None:
        with anyio.fail_after(10):
            await anyio.to_thread.run_sync(self.goes.write_bytes, b"x\n", abandon_on_cancel=True)


async def test_another_daemon_that_is_started_at_the_same_moment(place: Place) -> None:
    """Whoever is about to start one while somebody else's comes first has what it wanted: a new agent, and one whose
    daemon was killed."""
    place.configure(SERVERS)
    late = Late(place)
    async with AsyncExitStack() as stack:
        agent = await stack.enter_async_context(bridge(place, command=late.command))
        for first in (True, False):
            async with anyio.create_task_group() as tasks:
                if first:
                    tasks.start_soon(agent.initialize)
                await late.begun()
                process = await start(place, {})
                stack.push_async_callback(process.aclose)
                await late.go()
            hub = Hub(place, process)
            await hub.until_state(*SERVERS)
            assert text(await agent.call("mcp__old__echo", {"text": "x"})) == "x"
            assert (await hub.status())["daemon"]["pid"] == process.pid
            await hub.kill()
        await late.begun()  # nobody else this time
        await late.go()
        with anyio.fail_after(15):
            while "result" not in await agent.call("mcp__old__echo", {"text": "x"}):  # noqa: ASYNC110
                await anyio.sleep(0.05)
    await hub.end_daemon()


async def test_a_stale_socket_is_no_daemon(place: Place) -> None:
    """C164: what kill -9 left behind does not stop the next one."""
    async with running(SERVERS, place=place) as killed:
        await killed.kill()
    await place.empty(timeout=2)
    async with bridge(place) as agent:
        await agent.initialize()
    await Hub(place, None).end_daemon()


@pytest.mark.parametrize("fault", ["long-path", "not-a-directory"])
async def test_a_daemon_that_cannot_be_started(place: Place, fault: str) -> None:
    """The host sees a non-zero exit and one line on stderr that says what is wrong; stdout stays clean."""
    runtime = place.root / ("x" * 120 if fault == "long-path" else "file")
    runtime.mkdir(mode=0o700) if fault == "long-path" else runtime.touch()
    with anyio.fail_after(15):
        done = await anyio.run_process(
            [str(MCPHUB), "connect"],
            env=place.environment(XDG_RUNTIME_DIR=str(runtime)),
            stdin=subprocess.DEVNULL,
            check=False,
        )
    assert done.returncode != 0
    assert done.stdout == b""
    said = done.stderr.decode()
    assert "cannot" in said and "Traceback" not in said
    await eventually(lambda: not place.processes(), timeout=5)


async def test_a_log_that_cannot_be_written(place: Place) -> None:
    """The daemon serves all the same; one line says why it has no log, and what to do."""
    place.configure({})
    with anyio.fail_after(30):
        done = await anyio.run_process(
            [str(MCPHUB), "connect"],
            env=place.environment(XDG_STATE_HOME="/proc/nowhere"),
            stdin=subprocess.DEVNULL,
            check=False,
        )
    [line] = done.stderr.decode().splitlines()
    assert "has no log: cannot write /proc/nowhere/mcphub/daemon.log: " in line and "XDG_STATE_HOME" in line
    assert (done.returncode, done.stdout) == (0, b"")
    await Hub(place, None).end_daemon()


@pytest.mark.parametrize("closed", ["0<&-", "0<&- 1>&-", "0<&- 1>&- 2>&-"])
@pytest.mark.parametrize("runs", [True, False])
async def test_streams_that_are_closed(place: Place, closed: str, runs: bool) -> None:
    """A closed stdin is the end of the input, whatever else is closed, and no socket takes its place."""
    servers = {"old": Fake()}
    if runs:
        async with running(servers, place=place):
            await closed_connect(place, closed)
    else:
        place.configure(servers)
        await closed_connect(place, closed)
        await Hub(place, None).end_daemon()


async def closed_connect(place: Place, closed: str) -> None:
    with anyio.fail_after(30):
        done = await anyio.run_process(
            ["sh", "-c", f'exec "$0" connect {closed}', str(MCPHUB)], env=place.environment(), check=False
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
