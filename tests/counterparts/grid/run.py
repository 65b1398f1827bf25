"""Owns one run of the grid: the servers, the hub between, the clients, all at once; what both ends told of it.

It must not judge: that is `cells`. Every process that it starts has ended when it returns.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.counterparts.grid.cells import CLIENTS, FEATURES, MODERN, SERVERS, Cell, Peer, Place, awaited, judge, pairs
from tests.fakes.hub import running

HERE = Path(__file__).parent
INSTALLED = HERE.parents[2] / ".counterparts"
#: Seconds for a server to listen, for the clients to be done, and for servers to see what came last.
START, CLIENT, SETTLE = 20.0, 45.0, 5.0
LINE = 1 << 20
Row = dict[str, Any]


def node() -> str:
    """The Node that scripts/test installed because the system's is too old, else the system's. Raises RuntimeError."""
    own = INSTALLED / "node" / "node_modules" / "node" / "bin" / "node"
    found = str(own) if own.exists() else shutil.which("node")
    if not found or not (INSTALLED / "node_modules").is_dir():
        raise RuntimeError("cannot run the grid: the counterparts are not installed; run `sh scripts/test` once")
    return found


async def run(*, direct: bool = False) -> list[Cell]:
    """All cells. `direct` leaves the hub out, which shows whether the programs themselves work.

    Raises RuntimeError where a program fails, TimeoutError where one does not end, AssertionError where the hub leaves
    something behind.
    """
    seen: dict[Place, Any] = {}
    heard: set[Place] = set()
    news = anyio.Event()

    def server_told(row: Row) -> None:
        nonlocal news
        heard.add((row["client"], row["server"], row["feature"]))
        news.set()
        news = anyio.Event()

    def client_told(row: Row) -> None:
        seen[row["client"], row["server"], row["feature"]] = row["got"]

    async with AsyncExitStack() as stack:
        urls: dict[str, str] = {}
        told = []
        for program, peers in by_program(SERVERS).items():
            served: Row = {"servers": {peer.key: peer.era for peer in peers}, "clients": [peer.key for peer in CLIENTS]}
            rows = await stack.enter_async_context(program_of(program, served))
            told.append(rows)
            with anyio.fail_after(START):
                urls |= (await anext(rows))["urls"]
        async with anyio.create_task_group() as tasks:
            for rows in told:
                tasks.start_soon(hear, rows, server_told)
            async with between(urls, direct=direct) as where:
                with anyio.fail_after(CLIENT):
                    async with anyio.create_task_group() as clients:
                        for program in by_program(CLIENTS):
                            job: Row = {"pairs": todo(program, where, direct=direct), "features": FEATURES}
                            clients.start_soon(ask, program, job, client_told)
                with anyio.move_on_after(SETTLE):
                    while not awaited(direct=direct) <= heard:
                        await news.wait()
            tasks.cancel_scope.cancel()
    return judge(seen, heard, direct=direct)


def by_program(peers: Sequence[Peer]) -> Mapping[str, list[Peer]]:
    found: dict[str, list[Peer]] = {}
    for peer in peers:
        found.setdefault(peer.program, []).append(peer)
    return found


def todo(program: str, where: Row, *, direct: bool) -> list[Row]:
    """What one client program has to do."""
    modes = {"legacy": "legacy", "modern": MODERN}
    return [
        {"me": client.key, "mode": modes[client.era], "it": server.key, **where[server.key]}
        for client, server in pairs(direct=direct)
        if client.program == program
    ]


@asynccontextmanager
async def between(urls: Mapping[str, str], *, direct: bool) -> AsyncIterator[Row]:
    """Where clients find each server, and what stands before its names: the merged view of a hub, at its URL."""
    if direct:
        yield {name: {"url": url, "prefix": ""} for name, url in urls.items()}
        return
    entries = {
        peer.key: {"type": "http", "url": urls[peer.key], "sampling": True} | ({"era": peer.era} if peer.era else {})
        for peer in SERVERS
    }
    async with running(entries, settings='[http]\nlisten = "127.0.0.1:0"\n') as hub:
        await hub.until_state(*entries, timeout=START)
        url = (await hub.control("GET", "/v1/url"))[1]["url"]
        yield {name: {"url": url, "prefix": f"mcp__{name}__"} for name in entries}
        await hub.until(lambda report: report["sessions"] == [], timeout=SETTLE)


@asynccontextmanager
async def program_of(program: str, job: Row) -> AsyncIterator[AsyncIterator[Row]]:
    """The rows that a program prints; it ends with the block."""
    start = sys.executable if program.endswith(".py") else node()
    command = [start, str(HERE / program), json.dumps(job)]
    async with await anyio.open_process(command, stdin=-3, stderr=None) as process:
        try:
            yield rows_of(program, process)
        finally:
            if process.returncode is None:
                process.kill()


async def rows_of(program: str, process: Process) -> AsyncIterator[Row]:
    assert process.stdout is not None
    lines = BufferedByteReceiveStream(process.stdout)
    while True:
        try:
            line = await lines.receive_until(b"\n", LINE)
        except (anyio.EndOfStream, anyio.IncompleteRead):
            break
        yield json.loads(line)
    if code := await process.wait():
        raise RuntimeError(f"{program} ended with the exit status {code}: see the messages above")


async def hear(rows: AsyncIterator[Row], told: Callable[[Row], None]) -> None:
    async for row in rows:
        told(row)


async def ask(program: str, job: Row, told: Callable[[Row], None]) -> None:
    """Runs one client to its end."""
    async with program_of(program, job) as rows:
        await hear(rows, told)
