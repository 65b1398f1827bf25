"""Owns the life of one started target: its processes, its attached clients, and the end of all of them.

It must not measure; it says when things were ready and which processes they are.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO
from urllib.parse import urlsplit

from . import accounting
from .http_wire import HttpClient, SseClient
from .targets import Target
from .wire import BenchError, Client, StreamClient, connect_unix

START_SECONDS = 30.0
STOP_SECONDS = 5.0


class Running:
    """A started target with one attached client (`client`) and as many more as `attach` is called.

    `ready_s`: from the start of the daemon until a client could attach; `first_list_s`: until `want` tools were listed.
    Raises BenchError when the target does not come up; its last words are in the message. Ends everything on exit.
    """

    def __init__(self, target: Target, want: int = 3, start_seconds: float = START_SECONDS) -> None:
        self.target = target
        self.processes: list[subprocess.Popen[bytes]] = []
        self.clients: list[Client] = []
        self.bridges: list[subprocess.Popen[bytes]] = []
        self.log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the target)
        self.daemon: subprocess.Popen[bytes] | None = None
        begun = time.perf_counter()
        try:
            if target.daemon:
                self.daemon = self._start(target.daemon, subprocess.DEVNULL, subprocess.DEVNULL)
                self._wait_ready(self.daemon, start_seconds)
            self.ready_s = time.perf_counter() - begun
            self.client = self.attach()
            self.client.wait_for_tools(want, start_seconds)
            self.first_list_s = time.perf_counter() - begun
            self.tools = [str(tool["name"]) for tool in self.client.list_tools()]
        except (BenchError, OSError) as error:
            words = self.last_words()
            self.close()
            raise BenchError(f"{target.name}: {error}{words}") from error
        except BaseException:
            self.close()
            raise

    def _start(self, argv: Sequence[str], stdin: int, stdout: int) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=self.log,
            env=dict(self.target.environment),
            cwd=self.target.folder,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def _wait_ready(self, daemon: subprocess.Popen[bytes], seconds: float) -> None:
        ready, url = self.target.ready, self.target.url
        end = time.monotonic() + seconds
        if url:
            self._wait_port(daemon, url, end)
        while ready is not None and not ready.exists():  # not by connecting: the relay serves one client only
            if daemon.poll() is not None:
                raise BenchError(f"the daemon exited with {daemon.returncode} before it listened")
            if time.monotonic() > end:
                raise BenchError(f"no socket {ready.name} after {seconds:.0f} s")
            time.sleep(0.002)

    def _wait_port(self, daemon: subprocess.Popen[bytes], url: str, end: float) -> None:
        port = urlsplit(url).port
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if daemon.poll() is not None:
                    raise BenchError(f"the daemon exited with {daemon.returncode} before it listened") from None
                if time.monotonic() > end:
                    raise BenchError(f"nothing listens on port {port}") from None
                time.sleep(0.01)

    def attach(self, over: Target | None = None, name: str = "") -> Client:
        """One more client, its handshake done; as OVER says, which is this target attached to in another way. NAME is
        what it calls itself, if not what all do."""
        target = over or self.target
        client: Client
        if target.url:
            client = self._http(target)
        elif target.client:
            process = self._start(target.client, subprocess.PIPE, subprocess.PIPE)
            self.bridges.append(process)
            assert process.stdin is not None and process.stdout is not None
            client = StreamClient(os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno()), target.era)
            process.stdout.close()
            process.stdin.close()
        else:
            assert target.ready is not None
            client = self._connect(target.ready, target.era)
        self.clients.append(client)
        client.name = name or client.name
        client.handshake()
        return client

    def detach(self, client: Client) -> None:
        """One that `attach` gave goes."""
        self.clients.remove(client)
        client.close()

    def _http(self, target: Target) -> Client:
        end = time.monotonic() + START_SECONDS
        while target.sse:  # a port that answers is not yet a stream that is served
            try:
                return SseClient(target.url, target.token)
            except BenchError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)
        return HttpClient(target.url, target.token, target.era)

    def _connect(self, path: Path, era: str) -> StreamClient:
        end = time.monotonic() + START_SECONDS
        while True:  # the file exists from bind() on, it takes connections from listen() on
            try:
                return connect_unix(path, era)
            except BenchError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.002)

    def reattach(self) -> None:
        """A new first client, after one whose stream is in an unknown state."""
        self.clients.remove(self.client)
        self.client.close()
        self.client = self.attach()

    def tool(self, base: str, server: str | None = None) -> str:
        """The exposed name of tool BASE of SERVER; without one, of the first server by name (`s0`)."""
        for name in sorted(self.tools):
            if name == base or (name.endswith("_" + base) and (server is None or f"__{server}__" in name)):
                return name
        raise BenchError(f"{self.target.name} lists no tool {base}, but {self.tools[:6]}")

    def tree(self) -> accounting.Tree:
        """All processes of this target; where it is the echo server itself, the gateway part is empty."""
        return accounting.tree([process.pid for process in self.processes])

    def daemon_tree(self) -> tuple[accounting.Process, tuple[accounting.Process, ...]]:
        """The daemon process, and what it runs beside it (launchers; not the servers)."""
        assert self.daemon is not None
        found = accounting.tree([self.daemon.pid]).gateway
        own = next((process for process in found if process.pid == self.daemon.pid), None)
        if own is None:
            raise BenchError(f"{self.target.name}: the daemon has ended")
        return own, tuple(process for process in found if process is not own)

    def bridge_tree(self) -> tuple[accounting.Process, ...]:
        """The first client's bridge process."""
        return accounting.tree([self.bridges[0].pid]).gateway

    def last_words(self) -> str:
        """The end of what the target wrote to standard error, as one line; empty when it said nothing."""
        size = self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, size - 600))
        text = " ".join(self.log.read().decode(errors="replace").split())
        return f"; it said: {text}" if text else ""

    def close(self) -> None:
        """Detach, ask every process to end, and end what did not, by pid, wherever it hangs."""
        for client in self.clients:
            client.close()
        self.clients.clear()
        seen = accounting.tree([process.pid for process in self.processes])
        for process in reversed(self.processes):
            process.terminate()
        end = time.monotonic() + STOP_SECONDS
        for process in self.processes:
            try:
                process.wait(max(0.05, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass
        mine = accounting.marked("XDG_RUNTIME_DIR", self.target.environment["XDG_RUNTIME_DIR"])
        accounting.kill(seen.gateway + seen.servers + mine)
        for process in self.processes:
            process.wait()
        self.log.close()

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def say(text: str) -> None:
    """Progress, on standard error: standard output is the report's."""
    print(text, file=sys.stderr, flush=True)
