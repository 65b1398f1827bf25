"""The daemon under a service manager: sockets that it is given, what it says, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import Process

from tests.fakes.agent import Agent, text
from tests.fakes.bridge import bridge, finish
from tests.fakes.hub import MCPHUB, Fake, Hub, Place, eventually

pytestmark = pytest.mark.anyio

SERVERS = {"a": Fake(entry={"inheritEnv": True}), "b": Fake()}
DRAIN = "[stop]\ngrace = 0.2\ndrain = {}\n"


class Manager:
    """What a service manager does: holds the sockets, starts the daemon with them, and listens to it."""

    def __init__(self, place: Place) -> None:
        self.place = place
        runtime = place.runtime / "mcphub"
        self.paths = [str(runtime / path) for path in ("control/control.sock", "agent/http.sock", "agent/agent.sock")]
        self.sockets = []
        for path in self.paths:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            sock = socket.socket(socket.AF_UNIX)
            sock.bind(path)
            sock.listen()
            self.sockets.append(sock)
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(str(place.root / "notify"))
        self.notify.setblocking(False)

    def close(self) -> None:
        for sock in (*self.sockets, self.notify):
            sock.close()

    @asynccontextmanager
    async def daemon(self, **env: str) -> AsyncIterator[Process]:
        """One daemon, started as by a unit: the descriptors are 3 and following, LISTEN_PID is its own."""
        fds = [sock.fileno() for sock in self.sockets]
        redirections = " ".join(f"{3 + n}<&{fd}" for n, fd in enumerate(fds))
        told = {"NOTIFY_SOCKET": str(self.place.root / "notify")}
        script = f'exec {redirections}; LISTEN_PID=$$ exec "$@"'
        with self.place.stderr.open("ab") as stderr:
            process = await anyio.open_process(
                ["/bin/bash", "-c", script, "sh", sys.executable, "-P", "-m", "mcphub", "serve"],
                env=self.place.environment(LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES="x:y:z", **told, **env),
                cwd=self.place.root,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                pass_fds=fds,
            )
        try:
            yield process
        finally:
            await finish(process)

    async def hears(self, wanted: str, timeout: float = 15) -> str:
        """The first message that has this in it."""
        with anyio.fail_after(timeout):
            while True:
                await anyio.wait_readable(self.notify)
                said = self.notify.recv(4096).decode()
                if re.search(wanted, said):
                    return said


@pytest.fixture
def place() -> Iterator[Place]:
    place = Place()
    place.configure(SERVERS)
    yield place
    place.remove()


@pytest.fixture
def manager(place: Place) -> Iterator[Manager]:
    manager = Manager(place)
    yield manager
    manager.close()


async def answered(agent: Agent, tool: str) -> str:
    return text(await agent.call(tool, {"text": "x"}))


async def test_a_whole_life(place: Place, manager: Manager) -> None:
    """It takes over the sockets, says READY, its servers, that it is alive, reloads, and how it ends; no server sees a
    variable of the manager's; the socket files stay, and the next daemon serves whoever came in between."""
    hub = Hub(place, None)
    async with manager.daemon(WATCHDOG_USEC="1000000") as process:
        assert await manager.hears("READY=1") == "READY=1\nSTATUS=serving"
        await manager.hears("STATUS=2 servers connected")
        await manager.hears("WATCHDOG=1")
        async with await hub.agent() as agent:
            await agent.initialize()
            names = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "HOME"]
            answer = await agent.call("mcp__a__do", {"actions": [{"env": names}]})
            assert json.loads(text(answer)) == dict.fromkeys(names) | {"HOME": str(place.root)}
            held = os.listdir(f"/proc/{place.starts('a')[0]}/fd")
            assert set(held) <= {"0", "1", "2", "3"}, held
        place.configure({**SERVERS, "c": Fake()})
        process.send_signal(signal.SIGHUP)
        assert (await manager.hears("RELOADING=1")).startswith("RELOADING=1\nMONOTONIC_USEC=")
        await manager.hears("READY=1")
        await manager.hears("STATUS=3 servers connected")
        process.send_signal(signal.SIGTERM)
        assert re.fullmatch(
            r"STOPPING=1\nEXTEND_TIMEOUT_USEC=\d+\nSTATUS=stopping", await manager.hears("STOPPING=1")
        )
        with anyio.fail_after(10):
            assert await process.wait() == 0
    await place.empty(timeout=2)
    assert all(map(os.path.exists, manager.paths))
    async with await hub.agent() as early:  # there is nobody yet
        await early.start("ping")
        async with manager.daemon() as process:
            assert (await early.response(1))["result"] == {}
            await manager.hears("STATUS=3 servers connected")
            code, _ = await hub.control("POST", "/v1/stop")
            assert code == 200
            with anyio.fail_after(10):
                assert await process.wait() == 0
    hub.check_stderr()


async def test_a_socket_of_another_place(place: Place, manager: Manager) -> None:
    """The daemon does not start, and says which path is meant, to the manager too."""
    stray = place.runtime / "stray.sock"
    manager.sockets[1].close()
    manager.sockets[1] = socket.socket(socket.AF_UNIX)
    manager.sockets[1].bind(str(stray))
    manager.sockets[1].listen()
    async with manager.daemon() as process:
        said = await manager.hears("STATUS=")
        assert str(stray) in said and "ListenStream=" in said
        with anyio.fail_after(10):
            assert await process.wait() == 1
    assert str(stray) in place.stderr.read_text()


async def test_calls_in_flight_when_it_is_stopped(place: Place, manager: Manager) -> None:
    """What is answered within [stop] drain reaches its agent, whoever it is; what is not ends by name; what comes
    meanwhile is not sent. An agent behind a bridge goes on in the next daemon, with what it asked meanwhile."""
    (place.config / "settings.toml").write_text(DRAIN.format(2))
    hub = Hub(place, None)
    soon, never = place.root / "soon", place.root / "never"
    ending = [{"wait": str(soon)}, {"env": ["XDG_RUNTIME_DIR"]}]
    async with manager.daemon() as process:
        await manager.hears("STATUS=2 servers connected")
        async with bridge(place) as bridged, await hub.agent() as direct:
            for agent in (bridged, direct):
                await agent.initialize()
            calls = []
            for agent, tool in ((bridged, "mcp__a__do"), (direct, "mcp__b__do")):
                calls.append(await agent.start("tools/call", {"name": tool, "arguments": {"actions": ending}}))
                actions = {"actions": [{"wait": str(never)}]}
                calls.append(await agent.start("tools/call", {"name": tool, "arguments": actions}))
                await agent.request("ping")  # they have come
            process.send_signal(signal.SIGTERM)
            await manager.hears("STOPPING=1")
            late = await direct.call("mcp__b__echo", {"text": "late"})
            assert late["result"]["_meta"]["dev.mcphub/error"]["kind"] == "stopping"
            meanwhile = await bridged.start("tools/call", {"name": "mcp__a__echo", "arguments": {"text": "meanwhile"}})
            soon.touch()
            assert str(place.runtime) in text(await bridged.response(calls[0]))
            assert str(place.runtime) in text(await direct.response(calls[2]))
            left = await direct.response(calls[3])
            assert left["error"]["data"]["dev.mcphub/error"]["kind"] == "outcome_unknown"
            assert "mcphub was stopped before the server b answered" in left["error"]["message"]
            await direct.end()
            with anyio.fail_after(10):
                assert await process.wait() == 0
            async with manager.daemon() as process:
                left = await bridged.response(calls[1])
                assert left["error"]["data"]["dev.mcphub/error"]["kind"] == "outcome_unknown"
                await bridged.response(meanwhile)
                await manager.hears("STATUS=2 servers connected")
                assert await answered(bridged, "mcp__a__echo") == "x"
                process.send_signal(signal.SIGTERM)
                with anyio.fail_after(10):
                    assert await process.wait() == 0
                manager.close()
                for path in manager.paths:
                    os.unlink(path)
    Hub(place, None).check_stderr()


@asynccontextmanager
async def socket_activate(place: Place) -> AsyncIterator[Process]:
    """systemd's own program for trying sockets: it starts the daemon when somebody connects."""
    runtime = place.runtime / "mcphub"
    paths = [runtime / path for path in ("agent/agent.sock", "agent/http.sock", "control/control.sock")]
    for path in paths:
        path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    passed = [f"--setenv={name}={value}" for name, value in place.environment().items()]
    with place.stderr.open("ab") as stderr:
        process = await anyio.open_process(
            ["systemd-socket-activate", *(f"--listen={path}" for path in paths), *passed, str(MCPHUB), "serve"],
            env=place.environment(),
            cwd=place.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    try:
        await eventually(lambda: all(path.exists() for path in paths), timeout=10)
        yield process
    finally:
        await finish(process)


async def test_the_first_agent_starts_it(place: Place) -> None:
    """systemd-socket-activate: nothing runs until an agent connects, which is then served."""
    hub = Hub(place, None)
    async with socket_activate(place) as process:
        assert not place.starts("a")
        async with bridge(place) as agent:
            await agent.initialize()
            await hub.until_state("a", "b")
            assert await answered(agent, "mcp__a__echo") == "x"
            assert (await hub.status())["daemon"]["pid"] == process.pid
            code, _ = await hub.control("POST", "/v1/stop")
            assert code == 200
            with anyio.fail_after(10):
                assert await process.wait() == 0
    hub.check_stderr()


async def run(place: Place, *argv: str, **env: str) -> tuple[int, str, str]:
    with anyio.fail_after(30):
        done = await anyio.run_process([*argv], check=False, env=place.environment(**env), cwd=place.root)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def test_units_that_systemd_accepts(place: Place) -> None:
    """`mcphub service install` where no manager answers: the files are written, and what is left to do is said; they
    are clean to systemd-analyze, as are those that ship, and a stop has more time than it needs."""
    code, out, err = await run(place, str(MCPHUB), "service", "install")
    assert code == 1
    assert "systemctl --user daemon-reload && systemctl --user enable --now mcphub.socket" in err
    folder = place.root / "config/systemd/user"
    assert out.splitlines() == [f"written: {folder / name}" for name in ("mcphub.service", "mcphub.socket")]
    for name in ("mcphub.service", "mcphub.socket"):
        checked = await run(place, "systemd-analyze", "--user", "--man=no", "verify", str(folder / name))
        assert checked == (0, "", "")
    unit = (folder / "mcphub.service").read_text()
    for line in ("Type=notify", "KillMode=control-group", "WatchdogSec=60", "NotifyAccess=main"):
        assert line in unit.splitlines()
    assert f'Environment="XDG_STATE_HOME={place.root}/state"' in unit
    code, out, err = await run(place, str(MCPHUB), "service", "status", "--json")
    report: dict[str, Any] = json.loads(out)
    assert (code, report["installed"], report["active"], report["manager"]) == (1, True, False, "")
    assert [file["state"] for file in report["files"]] == ["current", "current"]


async def test_a_program_that_only_the_login_shell_finds(place: Place, manager: Manager, tmp_path: Path) -> None:
    """C027: in a unit's environment, a server whose interpreter lies in a version manager's tree starts, since the PATH
    was learnt when the service was installed; one that needs a variable which nobody gave says which."""
    tree = place.root / ".nvm/versions/v22/bin"
    tree.mkdir(parents=True)
    interpreter = tree / "nvmnode"
    interpreter.write_text(f'#!/bin/sh\nexec {sys.executable} -I "$@"\n')
    interpreter.chmod(0o755)
    (place.root / ".bash_profile").write_text('PATH="$HOME/.nvm/versions/v22/bin:$PATH"\n')
    fake = place.entry("only", Fake())
    place.configure(
        {
            "only": {"command": "nvmnode", "args": fake["args"][1:]},
            "unset": {"command": "nvmnode", "args": ["${NOBODY_GAVE_THIS}"]},
        }
    )
    bare = {"PATH": "/usr/bin:/bin", "SHELL": "/bin/bash"}
    await run(place, str(MCPHUB), "service", "install", **bare)
    async with manager.daemon(**bare) as process:
        hub = Hub(place, None)
        report = await hub.until_state("only")
        row = next(row for row in report["servers"] if row["name"] == "unset")
        assert row["state"] == "failed" and "NOBODY_GAVE_THIS" in row["reason"]
        process.send_signal(signal.SIGTERM)
        with anyio.fail_after(10):
            assert await process.wait() == 0
    hub.check_stderr()


async def test_a_call_over_the_control_socket_when_it_is_stopped(place: Place, manager: Manager) -> None:
    """It is told what an agent is told, in the same kinds, and does not lose its outcome to the end of the socket."""
    (place.config / "settings.toml").write_text(DRAIN.format(0.1))
    hub = Hub(place, None)
    never = {"tool": "mcp__a__do", "arguments": {"actions": [{"wait": str(place.root / "never")}]}}
    answers: list[tuple[int, Any]] = []

    async def call() -> None:
        answers.append(await hub.control("POST", "/v1/call", body=never))

    async with manager.daemon() as process:
        await manager.hears("STATUS=2 servers connected")
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(call)
            with anyio.fail_after(10):
                while (await hub.server("a"))["calls_in_flight"] < 3:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
            process.send_signal(signal.SIGTERM)
        with anyio.fail_after(10):
            assert await process.wait() == 0
    assert [status for status, _ in answers] == [200] * 3
    for _, report in answers:
        told = report["error"]["data"]["dev.mcphub/error"]
        assert (told["kind"], told["server"], told["tool"]) == ("outcome_unknown", "a", "do")
        assert "mcphub was stopped before the server a answered" in report["error"]["message"]
    hub.check_stderr()
