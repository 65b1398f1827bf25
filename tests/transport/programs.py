"""Starting real programs in tests, and finding what is left of them."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from mcphub.transport.child import Child
from mcphub.transport.process import Launcher
from mcphub.transport.spawn_request import SpawnRequest

FAKES = Path(__file__).parent.parent / "fakes"
PYTHON = [sys.executable, "-I", "-S"]
STUBBORN = [*PYTHON, str(FAKES / "stubborn.py")]


def token() -> str:
    return f"token-{secrets.token_hex(8)}"


def find(word: str) -> list[int]:
    """The processes that have `word` as an argument; a zombie has none."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                arguments = Path("/proc", name, "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if word.encode() in arguments:
                found.append(int(name))
    return found


async def until_gone(word: str, patience: float) -> float:
    """Wait until no process has `word` as an argument; returns the seconds it took."""
    start = anyio.current_time()
    with anyio.fail_after(patience):
        while find(word):  # noqa: ASYNC110  (orphans of another process: there is no event to wait for)
            await anyio.sleep(0.005)
    return anyio.current_time() - start


class Program:
    """A started program with its stdin and stdout."""

    def __init__(self, child: Child, stdin: int, stdout: int) -> None:
        self.child = child
        self._stdin = stdin
        self.stdout = stdout

    async def read(self, count: int) -> bytes:
        """At least `count` bytes of stdout, fewer at its end."""
        data = b""
        while len(data) < count:
            await anyio.wait_readable(self.stdout)
            piece = os.read(self.stdout, 65536)
            if not piece:
                break
            data += piece
        return data

    def close_stdin(self) -> None:
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1


@asynccontextmanager
async def running(
    launcher: Launcher, argv: Sequence[str], env: Mapping[str, str] | None = None, stderr: int = 2, cwd: str = "/"
) -> AsyncIterator[Program]:
    """Start it; at the end close its stdin and end its tree."""
    their_in, our_in = os.pipe()
    our_out, their_out = os.pipe()
    try:
        try:
            child = await launcher.spawn(SpawnRequest(argv, env or {}, cwd, (their_in, their_out, stderr)))
        finally:
            os.close(their_in)
            os.close(their_out)
        program = Program(child, our_in, our_out)
        our_in = -1
        try:
            yield program
        finally:
            program.close_stdin()
            await child.end(0.1)
    finally:
        os.close(our_out)
        if our_in >= 0:
            os.close(our_in)
