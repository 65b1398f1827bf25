"""Owns the processes of sign-in tests: oidc-provider as authorization servers, and MCP servers that want their tokens.

It must not know what is tested. Each says what it did, line by line; nothing of it outlives its test.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

ROOT = Path(__file__).parents[2]
INSTALLED = ROOT / ".counterparts"
OIDC = ROOT / "tests" / "counterparts" / "oidc.mjs"
SIGNED = Path(__file__).with_name("signed_mcp.py")
Line = Mapping[str, Any]


class Authority:
    """One process that serves several: `urls` by name, and what it has told so far."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        self.urls = urls
        self.told: list[Line] = []
        self._more = anyio.Event()

    def add(self, line: Line) -> None:
        self.told.append(line)
        self._more.set()
        self._more = anyio.Event()

    def lines(self, name: str, **fields: str) -> list[Line]:
        """What was told of one, with these fields."""
        wanted = {"name": name, **fields}
        return [line for line in self.told if all(line.get(key) == value for key, value in wanted.items())]

    async def until(self, done: Callable[[], bool], *, timeout: float = 15) -> None:
        with anyio.fail_after(timeout):
            while not done():
                await self._more.wait()


def node() -> str:
    """The Node that scripts/test installed because the system's is too old, else the system's."""
    own = INSTALLED / "node" / "node_modules" / "node" / "bin" / "node"
    found = str(own) if own.exists() else shutil.which("node")
    assert found and (INSTALLED / "node_modules").is_dir(), "the counterparts are not installed: run `sh scripts/test`"
    return found


@asynccontextmanager
async def oidc(job: Mapping[str, Any], env: Mapping[str, str] | None = None) -> AsyncIterator[Authority]:
    """Authorization servers and identity providers; see counterparts/oidc.mjs for the job."""
    async with _serving([node(), str(OIDC), json.dumps(job)], env or {}) as authority:
        yield authority


@asynccontextmanager
async def signed(job: Mapping[str, Any]) -> AsyncIterator[Authority]:
    """MCP servers that want tokens; see signed_mcp.py for the job."""
    async with _serving([sys.executable, str(SIGNED), json.dumps(job)], {}) as authority:
        yield authority


@asynccontextmanager
async def _serving(command: list[str], env: Mapping[str, str]) -> AsyncIterator[Authority]:
    from tests.fakes.hub import Place

    place = Place()
    try:
        async with await anyio.open_process(
            command, env=place.environment(**env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None
        ) as process:
            try:
                async with anyio.create_task_group() as tasks:
                    yield await tasks.start(_follow, process)
                    assert process.stdin is not None
                    await process.stdin.aclose()
                    with anyio.fail_after(10):
                        await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
    finally:
        place.remove()


async def _follow(process: Process, *, task_status: anyio.abc.TaskStatus[Authority]) -> None:
    """Its lines, the first of which says where each of its servers is."""
    authority: Authority | None = None
    rest = ""
    assert process.stdout is not None
    async for text in TextReceiveStream(process.stdout):
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            found = json.loads(line)
            if authority is None:
                authority = Authority(found)
                task_status.started(authority)
            else:
                authority.add(found)
