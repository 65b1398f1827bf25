"""Owns a real mcphub daemon for one test: an isolated home, the process, its status, proof that nothing is left of it.

It must not know what is tested. Isolation is HOME and the XDG variables alone, as for any user.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio
import psutil
from anyio.abc import ByteStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.fakes.agent import Agent

STDIO_SERVER = Path(__file__).with_name("stdio_server.py")
MCPHUB = Path(sys.executable).with_name("mcphub")
Report = dict[str, Any]


@dataclass(frozen=True)
class Fake:
    """A scripted server for the configuration; `entry` adds to its entry in mcp.json, `args` behind the fake's own."""

    script: Mapping[str, Any] = field(default_factory=dict)
    entry: Mapping[str, Any] = field(default_factory=dict)


#: By name, a Fake or an entry as mcp.json has it.
Servers = Mapping[str, Any]


class Place:
    """A home of its own, short enough for socket paths. Everything that runs in it carries its path in argv or HOME."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="mcphub-", dir="/tmp"))
        self.config = self.root / "config" / "mcphub"
        self.runtime = self.root / "run"
        for directory in (self.config, self.runtime, self.root / "log", self.root / "script"):
            directory.mkdir(parents=True, mode=0o700)
        self.agent_socket = self.runtime / "mcphub" / "agent" / "agent.sock"
        self.control_socket = self.runtime / "mcphub" / "control" / "control.sock"
        self.stderr = self.root / "stderr"

    def environment(self, **more: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            # An account that cannot log in: no daemon of a test asks a shell for its PATH, but those that are about it.
            "SHELL": "/usr/sbin/nologin",
            "HOME": str(self.root),
            "XDG_CONFIG_HOME": str(self.root / "config"),
            "XDG_STATE_HOME": str(self.root / "state"),
            "XDG_DATA_HOME": str(self.root / "data"),
            "XDG_CACHE_HOME": str(self.root / "cache"),
            "XDG_RUNTIME_DIR": str(self.runtime),
            **more,
        }

    def entry(self, name: str, server: Fake | Mapping[str, Any]) -> dict[str, Any]:
        """What mcp.json says about a server; a fake's script and log get files named after it."""
        if not isinstance(server, Fake):
            return dict(server)
        script = {"log": str(self.log(name)), "counter": str(self.root / "log" / f"{name}.starts"), **server.script}
        path = self.root / "script" / f"{name}.json"
        path.write_text(json.dumps(script), "utf-8")
        more = {key: value for key, value in server.entry.items() if key != "args"}
        args = ["-I", str(STDIO_SERVER), str(path), *server.entry.get("args", [])]
        return {"command": sys.executable, "args": args, **more}

    def configure(self, servers: Servers) -> None:
        """Replaces mcp.json at once, as an editor that renames does."""
        entries = {name: self.entry(name, server) for name, server in servers.items()}
        draft = self.config / "mcp.json.new"
        draft.write_text(json.dumps({"mcpServers": entries}, indent=2), "utf-8")
        draft.replace(self.config / "mcp.json")

    def log(self, name: str) -> Path:
        return self.root / "log" / name

    def received(self, name: str) -> list[Any]:
        """What the fake got, in order: messages, and `#start PID`, `#eof`, `#term`, `#child PID` as text."""
        if not self.log(name).exists():
            return []
        lines = self.log(name).read_bytes().splitlines()
        return [line.decode() if line.startswith(b"#") else json.loads(line) for line in lines]

    def starts(self, name: str) -> list[int]:
        """The pids of the fake's processes so far."""
        return [int(line.split()[1]) for line in self.received(name) if isinstance(line, str) and "#start" in line]

    def processes(self) -> list[psutil.Process]:
        """What runs on behalf of this place: its path is in the argv or in the environment."""
        token, found = str(self.root), []
        for process in psutil.process_iter():
            try:
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                here = any(token in part for part in process.cmdline()) or token in process.environ().get("HOME", "")
            except psutil.Error:
                continue
            if here and process.pid != os.getpid():
                found.append(process)
        return found

    async def empty(self, *, timeout: float) -> None:
        """Waits until nothing of this place runs."""
        try:
            await eventually(lambda: not self.processes(), timeout=timeout)
        except TimeoutError:
            left = [describe(process) for process in self.processes()]
            assert not left, f"still running: {left}"

    def remove(self) -> None:
        for process in self.processes():
            try:
                process.kill()
            except psutil.Error:
                pass
        shutil.rmtree(self.root, ignore_errors=True)


class Hub:
    """A daemon in a place; `process` is None for one that was started by somebody else."""

    def __init__(self, place: Place, process: Process | None) -> None:
        self.place = place
        self.process = process

    async def agent(self, *, client: str = "", workspace: Path | str = "") -> Agent:
        return await Agent.open(
            self.place.agent_socket, client=client, workspace=workspace, connect=self.connect
        )

    async def connect(self, path: Path | str) -> ByteStream:
        """A connection to one of its sockets."""
        return await anyio.connect_unix(path)

    # -- control

    async def control(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Report | None = None
    ) -> tuple[int, Any]:
        """HTTP status and JSON of one request to the control socket."""
        async with await self.connect(self.place.control_socket) as stream:
            await stream.send(http(method, path, query or {}, body))
            data = bytearray()
            async for part in stream:
                data += part
        head, _, payload = bytes(data).partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(payload)

    async def status(self, *, workspace: Path | str = "") -> Report:
        code, report = await self.control("GET", "/v1/status", query={"workspace": str(workspace)})
        assert code == 200, report
        assert isinstance(report, dict)
        return report

    async def server(self, name: str, *, workspace: Path | str = "") -> Report:
        """The row of one server."""
        return row(await self.status(workspace=workspace), name)

    async def until(
        self, done: Callable[[Report], bool], *, timeout: float = 20, workspace: Path | str = ""
    ) -> Report:
        """The first report that satisfies `done`."""
        last: Report = {}
        try:
            with anyio.fail_after(timeout):
                async for last in self.watch(workspace):
                    if done(last):
                        return last
        except TimeoutError:
            raise AssertionError(f"not within {timeout} s; last status: {summary(last)}") from None
        raise AssertionError(f"the daemon ended; last status: {summary(last)}; stderr: {self.stderr()[-2000:]}")

    async def watch(self, workspace: Path | str = "") -> AsyncIterator[Report]:
        async with await self.connect(self.place.control_socket) as stream:
            await stream.send(http("GET", "/v1/status/watch", {"workspace": str(workspace)}))
            reader = BufferedByteReceiveStream(stream)
            head = await reader.receive_until(b"\r\n\r\n", 1 << 16)
            assert head.split()[1] == b"200", head
            while size := int(await reader.receive_until(b"\r\n", 32), 16):
                chunk = await reader.receive_exactly(size + 2)
                if chunk.strip():
                    report = json.loads(chunk)
                    assert "error" not in report, report
                    yield report

    async def until_state(
        self, *names: str, state: str = "connected", timeout: float = 20, workspace: Path | str = ""
    ) -> Report:
        """Waits until all the named servers are in this state."""

        def reached(report: Report) -> bool:
            states = {server["name"]: server["state"] for server in report["servers"]}
            return all(states.get(name) == state for name in names)

        return await self.until(reached, timeout=timeout, workspace=workspace)

    async def until_restarted(self, name: str, starts: int, *, timeout: float = 20) -> Report:
        """Waits until the fake runs for the `starts`th time and is connected."""
        return await self.until(
            lambda report: len(self.place.starts(name)) == starts and row(report, name)["state"] == "connected",
            timeout=timeout,
        )

    async def reconnect(self, name: str) -> None:
        code, report = await self.control("POST", "/v1/reconnect", body={"name": name})
        assert code == 200, report

    async def first_error(self, name: str, *, timeout: float = 15) -> Report:
        """The server's first fault."""
        report = await self.until(lambda r: row(r, name)["last_error"] is not None, timeout=timeout)
        error: Report = row(report, name)["last_error"]
        return error

    def received(self, name: str) -> list[Any]:
        return self.place.received(name)

    # -- life

    def stderr(self) -> str:
        return self.place.stderr.read_text("utf-8", "replace") if self.place.stderr.exists() else ""

    async def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        await self.process.wait()

    async def stop(self, *, timeout: float = 10) -> int:
        """SIGTERM; the exit code. Nothing of the place may be left, nor any trace of a crash in its own words."""
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(timeout):
            code = await self.process.wait()
        await self.place.empty(timeout=2)
        self.check_stderr()
        return code

    async def end_daemon(self) -> None:
        """The end of a daemon that `mcphub connect` started: by request, and nothing is left of it."""
        code, report = await self.control("POST", "/v1/stop")
        assert code == 200, report
        await self.place.empty(timeout=10)

    def check_stderr(self) -> None:
        said = self.stderr()
        for word in ("Traceback", "never retrieved", "never awaited", "ResourceWarning"):
            assert word not in said, said[-4000:]


@asynccontextmanager
async def running(
    servers: Servers,
    *,
    settings: str = "",
    place: Place | None = None,
    env: Mapping[str, str] | None = None,
    args: Sequence[str] = (),
) -> AsyncIterator[Hub]:
    """A daemon with these servers; its sockets listen. A place that was passed in stays, one of its own is removed."""
    home = place or Place()
    try:
        home.configure(servers)
        if settings:
            (home.config / "settings.toml").write_text(settings, "utf-8")
        process = await start(home, env or {}, args=args)
        hub = Hub(home, process)
        try:
            yield hub
            if process.returncode is None:
                await hub.stop()
        finally:
            if process.returncode is None:
                process.kill()
            with anyio.CancelScope(shield=True):
                await process.wait()
                await process.aclose()
    finally:
        if place is None:
            home.remove()


async def start(
    place: Place, env: Mapping[str, str], under: Sequence[str] = (), args: Sequence[str] = ()
) -> Process:
    """`mcphub serve` with these arguments, returned once its sockets listen. `under` is a command that runs it in its
    own process."""
    ready, written = os.pipe()
    with place.stderr.open("ab") as stderr:
        process = await anyio.open_process(
            [*under, str(MCPHUB), "serve", "--ready-fd", str(written), *args],
            env=place.environment(**env),
            cwd=place.root,
            stdin=-3,
            stdout=-3,
            stderr=stderr,
            pass_fds=(written,),
        )
    os.close(written)
    try:
        with anyio.fail_after(20):
            await anyio.wait_readable(ready)
        said = os.read(ready, 1)
    finally:
        os.close(ready)
    if said != b"1":
        await process.wait()
        await process.aclose()
        raise AssertionError(f"mcphub serve did not start: {place.stderr.read_text('utf-8', 'replace')}")
    return process


async def eventually(condition: Callable[[], Any], *, timeout: float) -> None:
    """Waits for what another process does and gives no event for. Raises TimeoutError."""
    with anyio.fail_after(timeout):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def http(method: str, path: str, query: Mapping[str, str], body: Report | None = None) -> bytes:
    payload = b"" if body is None else json.dumps(body).encode()
    target = path + (f"?{urlencode(query)}" if query else "")
    head = f"{method} {target} HTTP/1.1\r\nHost: mcphub\r\nConnection: close\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(payload)}\r\n\r\n".encode() + payload


def row(report: Report, name: str) -> Report:
    found: Report = next(server for server in report["servers"] if server["name"] == name)
    return found


def summary(report: Report) -> str:
    rows = [f"{s['name']}: {s['state_text']} {s['reason']} {s['last_error']}" for s in report.get("servers", [])]
    return "; ".join(rows)


def describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {process.cmdline()}"
    except psutil.Error:
        return str(process.pid)
