"""A daemon that only owns processes: `daemon_stand_in.py SERVERS KIND...` starts so many stubborn servers, and waits.

The token comes in the variable TOKEN, so that it is not in this process's own argv. It prints a line with the
launcher's pid once every stubborn process is ready. On a line in its stdin it waits for its servers to be gone, starts
another program, and prints one line of words: exit codes of the servers, exit code of the new program, zombies it has.
With the variable FORK a forked copy of it holds all its descriptors until its stdin ends.
"""

from __future__ import annotations

import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import anyio

from mcphub.transport.launcher.proc import look
from mcphub.transport.process import Launcher, become_subreaper
from mcphub.transport.spawn_request import SpawnRequest

STUBBORN = Path(__file__).parent.parent / "fakes" / "stubborn.py"


async def main(servers: int, kinds: list[str]) -> None:
    become_subreaper()
    token = os.environ["TOKEN"]
    stdin, keep = os.pipe()  # the servers' input ends with this process
    ready, theirs = os.pipe()
    async with AsyncExitStack() as stack:
        launcher = await stack.enter_async_context(Launcher())
        argv = [sys.executable, "-I", "-S", str(STUBBORN), token, *kinds]
        stubborn = SpawnRequest(argv, dict(os.environ), "/", (stdin, theirs, 2))
        children = [await launcher.spawn(stubborn) for _ in range(servers)]
        got = 0
        while got < servers * len(kinds):
            await anyio.wait_readable(ready)
            got += len(os.read(ready, 4096))
        if "FORK" in os.environ and os.fork() == 0:
            os.read(0, 1)
            os._exit(0)
        print(launcher.pid, flush=True)
        await anyio.wait_readable(0)
        sys.stdin.readline()
        for child in children:
            await child.gone.wait()
        argv = [sys.executable, "-I", "-S", "-c", "raise SystemExit(7)"]
        again = await launcher.spawn(SpawnRequest(argv, {}, "/", (stdin, theirs, 2)))
        await again.gone.wait()
        mine = look().get(os.getpid(), [])
        zombies = sum(process.state == b"Z" for process in mine)
        print(*sorted({str(child.returncode) for child in children}), again.returncode, zombies, flush=True)
    for fd in (stdin, keep, ready, theirs):
        os.close(fd)


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]), sys.argv[2:])
