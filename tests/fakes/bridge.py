"""Owns `mcphub connect` as a host runs it: a child process whose stdin and stdout are an agent's connection.

It must not know what goes over it.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import ByteStream, Process, UNIXSocketStream
from anyio.streams.stapled import StapledByteStream

from tests.fakes.agent import Agent
from tests.fakes.hub import MCPHUB, Place


@asynccontextmanager
async def bridge(
    place: Place,
    *,
    ends: str = "pipes",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    command: Sequence[str] = (str(MCPHUB), "connect"),
) -> AsyncIterator[Agent]:
    """An agent behind `mcphub connect`. `ends`: `pipes`, `socketpairs` (as Node hosts give), `socket` (one as both).

    After it the process is gone by itself: its host closed the connection.
    """
    theirs: list[socket.socket] = []
    ours: list[UNIXSocketStream] = []
    stdin = stdout = subprocess.PIPE
    if ends != "pipes":
        pairs = [socket.socketpair() for _ in range(1 if ends == "socket" else 2)]
        ours = [await UNIXSocketStream.from_socket(pair[0]) for pair in pairs]
        theirs = [pair[1] for pair in pairs]
        stdin, stdout = theirs[0].fileno(), theirs[-1].fileno()
    process = await anyio.open_process(
        list(command),
        stdin=stdin,
        stdout=stdout,
        stderr=None,
        env={**place.environment(), **(env or {})},
        cwd=cwd or place.root,
    )
    for end in theirs:
        end.close()
    try:
        stream: ByteStream
        if ends == "pipes":
            assert process.stdin is not None and process.stdout is not None
            stream = StapledByteStream(process.stdin, process.stdout)
        else:
            stream = ours[0] if ends == "socket" else StapledByteStream(ours[0], ours[-1])
        agent = Agent(stream)
        async with agent:
            agent.pid = process.pid
            yield agent
        for stream_end in ours:
            await stream_end.aclose()
        with anyio.fail_after(5):
            await process.wait()
    finally:
        await finish(process)


async def finish(process: Process) -> None:
    if process.returncode is None:
        process.kill()
    with anyio.CancelScope(shield=True):
        await process.wait()
        await process.aclose()
