"""A program that is run for its output: what comes of it, how long it may take, and that nothing of it stays."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator

import anyio
import pytest

from mcphub.errors import TransportError
from mcphub.transport.process import Launcher
from mcphub.transport.program_output import output_of
from mcphub.transport.stderr import StderrRing
from tests.transport.peers import clean
from tests.transport.programs import find, token, until_gone

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def launcher() -> AsyncIterator[Launcher]:
    async with clean():
        with anyio.fail_after(20):
            async with Launcher() as launcher:
                yield launcher


async def run(launcher: Launcher, code: str, *args: str, within: float = 5, most: int = 100) -> tuple[bytes, list[str]]:
    stderr = StderrRing()
    argv = [sys.executable, "-I", "-S", "-c", code, *args]
    env = {"PATH": os.environ["PATH"], "A": "b"}
    return await output_of(launcher, argv, env, "/", stderr, within=within, most=most), stderr.tail(5)


async def test_what_it_prints(launcher: Launcher) -> None:
    """stdout is the output, stderr is kept beside; stdin is empty, the words arrive unsplit."""
    code = "import os, sys; print(sys.argv[1], os.environ['A'], repr(sys.stdin.read())); print('oh', file=sys.stderr)"
    assert await run(launcher, code, "a b; c") == (b"a b; c b ''\n", ["oh"])


async def test_more_than_is_wanted(launcher: Launcher) -> None:
    """A flood is read and thrown away beyond the limit, so that its writer does not wait."""
    output, _ = await run(launcher, "print('x' * 1_000_000)", most=100)
    assert output == b"x" * 101


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        ("import sys; print('tok-1'); sys.exit(3)", "spawn", "exited with code 3"),
        ("import os; os.kill(os.getpid(), 9)", "spawn", "killed by SIGKILL"),
        ("import time; print('tok-1', flush=True); time.sleep(60)", "no_response", "did not end within 0.3 s"),
    ],
)
async def test_failures(launcher: Launcher, code: str, kind: str, said: str) -> None:
    """How it ended is said, and nothing of what it printed."""
    with pytest.raises(TransportError) as caught:
        await run(launcher, code, within=0.3 if kind == "no_response" else 5)
    assert (caught.value.kind, str(caught.value)) == (kind, said)


async def test_no_such_program(launcher: Launcher) -> None:
    """The PATH that was searched is named."""
    with pytest.raises(TransportError, match="not found in the server's PATH") as caught:
        await output_of(launcher, ["no-such-helper"], {"PATH": "/bin"}, "/", StderrRing(), within=5, most=1)
    assert caught.value.kind == "not_found"


async def test_nothing_stays(launcher: Launcher) -> None:
    """Its end is not held up by what it leaves running with its streams open, and that is ended too; so is all of it
    when its time is over."""
    mark = token()
    child = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', '{mark}'])"
    output, _ = await run(launcher, child + "; print('done')")
    assert output == b"done\n"
    await until_gone(mark, 5)
    with pytest.raises(TransportError, match="did not end"):
        await run(launcher, child + "; import time; time.sleep(60)", within=0.5)
    await until_gone(mark, 5)
    assert not find(mark)
