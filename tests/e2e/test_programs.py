"""How servers' programs run: by way of another program, within limits, with their stderr followed."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.fakes.agent import text
from tests.fakes.hub import MCPHUB, Fake, Hub, Place, row, running

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def mcphub(hub: Hub, *arguments: str) -> AsyncIterator[tuple[Process, BufferedByteReceiveStream]]:
    """A command that goes on, and its stdout."""
    async with await anyio.open_process(
        [str(MCPHUB), *arguments], env=hub.place.environment(), cwd=hub.place.root, stdin=-3
    ) as process:
        assert process.stdout is not None
        try:
            yield process, BufferedByteReceiveStream(process.stdout)
        finally:
            if process.returncode is None:
                process.kill()


async def line(stream: BufferedByteReceiveStream) -> str:
    with anyio.fail_after(20):
        return (await stream.receive_until(b"\n", 1 << 20)).decode()


async def test_logs_are_followed(place: Place) -> None:
    """C038: the tail, then each line as it comes, also from the process that takes the place of one that ended; the
    follower ends when the daemon does, and nothing of it is left there."""
    starts = [{"before": [{"stderr": f"start {n}\n"}]} for n in (1, 2)]
    async with running({"loud": Fake({"starts": starts}), "steady": Fake()}, place=place) as hub:
        await hub.until_state("loud")
        async with mcphub(hub, "logs", "loud", "-f") as (process, out), await hub.agent() as agent:
            assert await line(out) == "start 1"
            await agent.initialize()
            await agent.tools()
            said = {"actions": [{"stderr": "a\x1b[31m\nhalf"}, {"stderr": " whole\n"}, {"text": "x"}]}
            assert text(await agent.call("mcp__loud__do", said)) == "x"
            assert [await line(out), await line(out)] == ["a\\x1b[31m", "half whole"]
            await agent.call("mcp__loud__do", {"actions": [{"exit": 0}]})
            assert await line(out) == "start 2"
            async with mcphub(hub, "logs", "nobody", "-f") as (refused, _):
                assert await refused.wait() == 1
            assert await hub.stop() == 0
            with anyio.fail_after(10):
                assert await process.wait() == 3


async def test_a_prefix(place: Place) -> None:
    """With MCPHUB_SHELL_PREFIX every program is started by the one that it names, without a shell, and the command is
    for that one to find; a prefix that cannot be used is told, and mended without a restart."""
    wrapper = place.root / "in container"
    wrapper.write_text(f'#!/bin/sh\n[ "$1" = --in ] || exit 9\nshift 2\nexec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    fake = place.entry("inside", Fake())
    servers = {"inside": {**fake, "command": "only-in-the-container", "args": [*fake["args"], "$(touch evil); a  b"]}}
    broken = {"MCPHUB_SHELL_PREFIX": f"'{wrapper} --in"}
    async with running(servers, place=place, env=broken) as hub:
        failed = row(await hub.until_state("inside", state="failed"), "inside")
        assert "MCPHUB_SHELL_PREFIX" in failed["reason"]
        assert "closing quotation" in failed["reason"]
        (place.config / "environment").write_text(f'MCPHUB_SHELL_PREFIX="\'{wrapper}\' --in"\n')
        await hub.until_state("inside")
        argv = next(one for one in place.received("inside") if isinstance(one, str) and one.startswith("#argv"))
        assert json.loads(argv.partition(" ")[2])[-1] == "$(touch evil); a  b"
    assert not (place.root / "evil").exists()


async def test_limits(place: Place) -> None:
    """A program that allocates or computes beyond its limits is stopped by the system, and another one is not; the
    reason is shown where the system gives one."""
    code = "import sys; sys.stdin.readline(); b = bytearray(400 << 20)"
    spin = "import sys; sys.stdin.readline()\nwhile True: pass"
    servers = {
        "hungry": {"command": sys.executable, "args": ["-I", "-c", code], "limits": {"memory": 200}},
        "busy": {"command": sys.executable, "args": ["-I", "-c", spin], "limits": {"cpuTime": 1000}},
        "modest": Fake({}, {"limits": {"memory": 200, "cpuTime": 60_000, "nice": 5}}),
    }
    async with running(servers, place=place, settings="[connect]\nattempts = 1\n") as hub:
        await hub.until_state("modest")
        hungry = await hub.first_error("hungry")
        assert "MemoryError" in "".join(hungry["stderr_tail"])
        busy = await hub.first_error("busy", timeout=30)
        assert "SIGXCPU" in busy["message"]
        async with await hub.agent() as agent:
            await agent.initialize()
            await agent.tools()
            assert text(await agent.call("mcp__modest__echo", {"text": "x"})) == "x"


async def test_pipes(place: Place) -> None:
    """A program that opens /dev/stdout gets pipes where its entry says so."""
    fake = place.entry("piped", Fake())
    command = f'exec {sys.executable} "$@" > /dev/stdout'
    servers = {"piped": {"command": "/bin/sh", "args": ["-c", command, "--", *fake["args"]], "stdio": "pipe"}}
    async with running(servers, place=place) as hub:
        await hub.until_state("piped")
