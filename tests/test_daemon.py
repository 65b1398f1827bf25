"""The daemon as a process: what it says when it is ready or cannot start, and every way in which it is stopped."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import Process

from mcphub import daemon
from mcphub.supervisor.supervisor import Snapshot
from mcphub.supervisor.watch import Watch
from tests.fakes.agent import modern_meta
from tests.fakes.bridge import bridge
from tests.fakes.hub import MCPHUB, Fake, Hub, Place, eventually, running, start

pytestmark = pytest.mark.anyio

STUBBORN = {"eof": "ignore", "term": "ignore"}
QUICK = "[stop]\ngrace = 0.2\ndrain = 0.3\n"


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    place = Place()
    yield place
    place.remove()


async def serve(place: Place, *args: str, fds: tuple[int, ...] = (), **env: str) -> Process:
    """`mcphub serve` without waiting for it."""
    with place.stderr.open("ab") as stderr:
        return await anyio.open_process(
            [str(MCPHUB), "serve", *args],
            env=place.environment(**env),
            cwd=place.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            pass_fds=fds,
        )


async def ended(process: Process, timeout: float = 10) -> int:
    with anyio.fail_after(timeout):
        code = await process.wait()
    assert process.stdout is not None
    with pytest.raises(anyio.EndOfStream):
        await process.stdout.receive()
    await process.aclose()
    return code


async def ready(place: Place, **env: str) -> tuple[bytes, Process]:
    """All that is written to --ready-fd, and the process."""
    read, write = os.pipe()
    try:
        process = await serve(place, "--ready-fd", str(write), fds=(write,), **env)
        os.close(write)
        write = -1
        said = b""
        with anyio.fail_after(10):
            while True:
                await anyio.wait_readable(read)
                data = os.read(read, 4096)
                if not data:
                    return said, process
                said += data
    finally:
        for fd in {read, write} - {-1}:
            os.close(fd)


# --- starting ---------------------------------------------------------------------------------------------------------


async def test_ready_means_listening(place: Place) -> None:
    """One byte, once all sockets answer; then the pipe is closed, and no child holds it."""
    place.configure({"a": Fake()})
    said, process = await ready(place)
    assert said == b"1"
    hub = Hub(place, process)
    assert (await hub.status())["daemon"]["pid"] == process.pid
    async with await hub.agent() as agent:
        await agent.initialize()
    for path in (place.agent_socket, place.control_socket):
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
    process.send_signal(signal.SIGTERM)
    assert await ended(process) == 0
    assert not place.agent_socket.exists() and not place.control_socket.exists()
    hub.check_stderr()


async def test_without_anybody_who_waits(place: Place) -> None:
    """A descriptor that nobody reads, or that is none, is no reason to fail."""
    read, write = os.pipe()
    os.close(read)
    for number, fds in ((write, (write,)), (99, ())):
        process = await serve(place, "--ready-fd", str(number), fds=fds)
        hub = Hub(place, process)
        await eventually(place.control_socket.exists, timeout=10)
        await eventually(lambda: "serving agents" in place.stderr.read_text(), timeout=10)
        process.send_signal(signal.SIGTERM)
        assert await ended(process) == 0
        hub.check_stderr()
        place.stderr.unlink()
    os.close(write)


def too_long(place: Place) -> dict[str, str]:
    return {"XDG_RUNTIME_DIR": str(place.root / ("x" * 120))}


def no_directory(place: Place) -> dict[str, str]:
    (place.root / "file").touch()
    return {"XDG_RUNTIME_DIR": str(place.root / "file")}


def something_else(place: Place) -> dict[str, str]:
    place.control_socket.parent.mkdir(parents=True, mode=0o700)
    place.control_socket.write_text("precious")
    return {}


@pytest.mark.parametrize(
    ("fault", "said"), [(too_long, "bytes"), (no_directory, "cannot"), (something_else, "is not a socket")]
)
async def test_what_keeps_it_from_starting(place: Place, fault: Any, said: str) -> None:
    """C164: status 1, one line to whoever started it and the same in the log; servers that had started are gone."""
    place.configure({"a": Fake()})
    env = fault(place)
    told, process = await ready(place, **env)
    assert await ended(process) == 1
    assert said in told.decode() and "cannot" in told.decode()
    assert "\n" not in told.decode()
    logged = place.stderr.read_text()
    assert told.decode() in json.loads(logged.splitlines()[-1])["message"]
    Hub(place, process).check_stderr()
    await place.empty(timeout=2)
    assert not place.agent_socket.exists()


async def test_a_second_one(place: Place) -> None:
    """C164: it is refused with the pid of the first, which is not disturbed."""
    async with running({"a": Fake()}, place=place) as hub:
        await hub.until_state("a")
        told, process = await ready(place)
        assert await ended(process) == 1
        assert hub.process is not None
        said = f"another mcphub daemon (pid {hub.process.pid}) answers there. Stop it with `mcphub stop`"
        assert said in told.decode()
        async with await hub.agent() as agent:
            await agent.initialize()
            assert len(await agent.tools()) == 3


async def test_files_that_are_wrong(place: Place) -> None:
    """They are reported and keep nobody from starting."""
    (place.config / "mcp.json").write_text("{ half")
    (place.config / "settings.toml").write_text("[connect\n")
    (place.config / "environment").write_bytes(b"\xff\xfe=\0")
    process = await start(place, {})
    hub = Hub(place, process)
    report = await hub.status()
    for name in ("mcp.json", "settings.toml", "environment"):
        assert any(name in problem for problem in [*report["problems"], *report["warnings"]]), name
        assert name in hub.stderr()
    assert await hub.stop() == 0
    await process.aclose()


# --- stopping ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "control"])
async def test_stopping(place: Place, how: str) -> None:
    """Each way is orderly, in bounded time, whatever servers and agents do: status 0, no process, no socket."""
    servers = {"good": Fake(), "new": Fake({"era": "modern"}), "bad": Fake(STUBBORN), "sick": {"command": "false"}}
    async with running(servers, place=place, settings=QUICK) as hub, await hub.agent() as silent:
        await hub.until_state("good", "new", "bad")
        await silent.initialize()
        process = hub.process
        assert process is not None
        async with bridge(place) as agent, await hub.agent() as listening:
            await agent.initialize()
            await listening.modern("server/discover")
            wanted = {"notifications": {"toolsListChanged": True}}
            await listening.start_modern("subscriptions/listen", wanted, id="sub")
            await listening.notification("notifications/subscriptions/acknowledged")
            await agent.start("tools/call", {"name": "mcp__bad__do", "arguments": {"actions": [{"hang": 1}]}})
            if how == "control":
                code, report = await hub.control("POST", "/v1/stop")
                assert (code, report) == (200, {"pid": process.pid})
            else:
                process.send_signal(getattr(signal, how))
            result = await listening.response("sub")
            assert result["result"]["resultType"] == "complete"
            await listening.end()
            await agent.end()
        with anyio.fail_after(10):
            assert await process.wait() == 0
        await place.empty(timeout=2)
        hub.check_stderr()
        assert not place.agent_socket.exists() and not place.control_socket.exists()
        assert hub.received("good")[-1] == "#eof" and "#term" not in hub.received("good")


async def test_the_terminal_goes(place: Place) -> None:
    """SIGHUP is no reason to end."""
    async with running({"a": Fake()}, place=place) as hub:
        assert hub.process is not None
        hub.process.send_signal(signal.SIGHUP)
        await hub.until_state("a")
        assert (await hub.status())["daemon"]["pid"] == hub.process.pid


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_impatience(place: Place, number: signal.Signals) -> None:
    """A second request while the first is carried out changes nothing: the end stays orderly and bounded."""
    async with running({"bad": Fake(STUBBORN)}, place=place, settings="[stop]\ngrace = 0.3\n") as hub:
        await hub.until_state("bad")
        process = hub.process
        assert process is not None
        process.send_signal(number)
        await eventually(lambda: hub.received("bad")[-1] == "#eof", timeout=5)
        for _ in range(3):
            process.send_signal(number)
            await anyio.sleep(0.01)
        with anyio.fail_after(5):
            assert await process.wait() == 0
        await place.empty(timeout=2)
        hub.check_stderr()


async def test_stopped_while_it_starts(place: Place) -> None:
    """At any moment: it ends by itself, without a trace, and its servers with it."""
    place.configure({"a": Fake(), "b": Fake({"before": [{"pause": 5}]})})
    (place.config / "settings.toml").write_text(QUICK)
    for delay in (0.2, 0.3, 0.4):
        process = await serve(place)
        await anyio.sleep(delay)
        process.send_signal(signal.SIGTERM)
        assert await ended(process) in (0, -signal.SIGTERM)
        await place.empty(timeout=2)
    Hub(place, None).check_stderr()


async def test_an_agent_that_talks_while_the_daemon_ends(place: Place) -> None:
    """C041: requests that keep coming do not keep it from ending."""
    async with running({"a": Fake()}, place=place, settings=QUICK) as hub:
        await hub.until_state("a")
        process = hub.process
        assert process is not None
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(place.agent_socket))
            ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode() + b"\n"
            call = {"name": "mcp__a__echo", "arguments": {"text": "x"}, "_meta": modern_meta()}
            calls = b"".join(
                json.dumps({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": call}).encode() + b"\n"
                for n in range(500)
            )
            sock.sendall(ping * 100 + calls)
            process.send_signal(signal.SIGTERM)
            try:
                while True:
                    sock.sendall(ping * 100)
                    sock.recv(1 << 20, socket.MSG_DONTWAIT)
            except BlockingIOError:
                pass
            except OSError:
                pass
            with anyio.fail_after(5):
                assert await process.wait() == 0
        hub.check_stderr()


async def test_many_changes_are_looked_at_together() -> None:
    """What a look costs says how soon the next one may follow; the last change is looked at all the same."""
    watch = Watch(Snapshot())
    seen: list[int] = []

    class Following:
        """What `_follow` is given, as far as it knows it; a look takes 5 ms of CPU."""

        snapshot = watch
        awaited = False

        def refresh(self) -> None:
            until = time.thread_time() + 0.005
            while time.thread_time() < until:
                pass
            seen.append(watch.revision)

        def __call__(self) -> None:
            """Memory is given back."""

    both: Any = Following()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(daemon._follow, both, both, both)
        for _ in range(100):
            watch.touch()
            await anyio.sleep(0.001)
        await eventually(lambda: seen[-1] == watch.revision, timeout=5)
        tasks.cancel_scope.cancel()
    assert len(seen) < 50


async def test_who_waits_for_a_look_does_not_wait_for_the_pause() -> None:
    """A list that waits for the last server only is given when that one is there, however long the last look took."""
    watch = Watch(Snapshot())
    seen: list[int] = []

    class Following:
        """As above; somebody waits for the third revision."""

        snapshot = watch

        @property
        def awaited(self) -> bool:
            return watch.revision >= 3 and seen[-1] < 3

        def refresh(self) -> None:
            until = time.thread_time() + 0.05
            while time.thread_time() < until and not seen:
                pass
            seen.append(watch.revision)

        def __call__(self) -> None:
            """Memory is given back."""

    both: Any = Following()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(daemon._follow, both, both, both)
        await eventually(lambda: bool(seen), timeout=5)
        for _ in range(2):
            watch.touch()
            await anyio.lowlevel.checkpoint()
        with anyio.fail_after(5):
            for _ in range(20):  # turns of the loop, far less than the pause
                await anyio.lowlevel.checkpoint()
        assert seen[-1] == 3
        tasks.cancel_scope.cancel()


async def test_no_descriptor_left(place: Place) -> None:
    """A daemon that has reached its limit says so and goes on; when agents leave, others are let in."""
    (place.config / "settings.toml").write_text(QUICK)
    place.configure({"a": Fake()})
    with place.stderr.open("ab") as stderr:
        process = await anyio.open_process(
            ["sh", "-c", 'ulimit -n 60; exec "$@"', "sh", str(MCPHUB), "serve"],
            env=place.environment(),
            cwd=place.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    hub = Hub(place, process)
    await eventually(lambda: "serving agents" in place.stderr.read_text(), timeout=10)
    await hub.until_state("a")
    crowd = [await hub.agent() for _ in range(60)]
    for agent in crowd:
        await agent.start("ping")
    await eventually(lambda: "cannot accept an agent" in place.stderr.read_text(), timeout=10)
    await crowd[0].initialize()
    assert len(await crowd[0].tools()) == 3
    for agent in crowd:
        async with agent:
            pass
    async with await hub.agent() as late:
        await late.initialize()
        assert len(await late.tools()) == 3
    assert await hub.stop() == 0
    await process.aclose()
