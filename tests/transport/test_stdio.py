"""One server program on its streams: how it starts, what passes, and every way in which it ends."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from mcphub.errors import TransportError
from mcphub.spec import Origin, Scope, Secret, ServerSpec, StdioSpec
from mcphub.transport.link import Surroundings
from mcphub.transport.process import Launcher
from mcphub.transport.stderr import StderrRing
from mcphub.transport.stdio import StdioLink, open_stdio
from mcphub.transport.wire import Batch
from tests.transport.peers import Recorder, clean, descriptors, only
from tests.transport.programs import STUBBORN, find, token, until_gone

pytestmark = pytest.mark.anyio

both = pytest.mark.parametrize("stdio", ["socketpair", "pipe"])
ECHO = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.buffer.flush()"


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    async with clean():
        with anyio.fail_after(20):
            yield


@pytest.fixture
async def around(nothing_is_left: None) -> AsyncIterator[Surroundings]:
    async with Launcher() as launcher:
        yield Surroundings(launcher, Batch(), lambda: {"PATH": os.environ["PATH"], "HOME": "/usr"}, grace=0.1)


def spec(argv: Sequence[str], **more: Any) -> ServerSpec:
    transport = StdioSpec(argv[0], tuple(map(Secret, argv[1:])), **more)
    return ServerSpec("s", Origin(Scope.USER, "/mcp.json", "s"), transport)


def python(code: str, *args: str, **more: Any) -> ServerSpec:
    return spec([sys.executable, "-I", "-S", "-c", code, *args], **more)


@both
async def test_lines_there_and_back(around: Surroundings, stdio: str) -> None:
    """A program on sockets and one on pipes: large and small lines come back, and the end of input ends it."""
    recorder = Recorder()
    async with open_stdio(python(ECHO, stdio=stdio), around, recorder, StderrRing()) as link:
        assert isinstance(link, StdioLink)
        for line in (b"one", b"x" * 3_000_000, b"three"):
            link.channel.send(line, b"\n")
        await recorder.until(3)
        assert recorder.lines == [b"one", b"x" * 3_000_000, b"three"]
        assert link.pid == link.child.pid
        assert await link.exit_code(0.01) is None
    assert link.child.returncode == 0
    assert recorder.reasons == [""]


@both
async def test_what_the_program_finds(around: Surroundings, stdio: str, tmp_path: Path) -> None:
    """Exactly the environment that is meant for it, its directory, and three descriptors."""
    code = "import json, os; print(json.dumps([dict(os.environ), os.getcwd(), sorted(os.listdir('/proc/self/fd'))]))"
    for cwd, found in ((str(tmp_path), str(tmp_path)), ("", "/usr")):
        recorder = Recorder()
        one = python(code, stdio=stdio, cwd=cwd, env={"SECRET": Secret("x=y")})
        async with open_stdio(one, around, recorder, StderrRing()):
            await recorder.until(1)
        env, directory, fds = json.loads(recorder.lines[0])
        assert directory == found
        assert env["SECRET"] == "x=y" and env["PATH"] == os.environ["PATH"] and "PYTEST_CURRENT_TEST" not in env
        assert len(fds) == 4  # and the one that lists them


async def test_a_program_that_opens_dev_stdout(around: Surroundings) -> None:
    """`stdio: "pipe"` is for programs that open /dev/stdout anew, which a socket does not allow."""
    recorder = Recorder()
    one = python("open('/dev/stdout', 'w').write('hello\\n')", stdio="pipe")
    async with open_stdio(one, around, recorder, StderrRing()):
        await recorder.until(1)
    assert recorder.lines == [b"hello"]


@both
async def test_stderr_is_kept_to_the_last_word(around: Surroundings, stdio: str) -> None:
    """C033: what it said before it died is there when its end is known."""
    ring, recorder = StderrRing(), Recorder()
    one = python("import os; os.write(2, b'API_KEY missing\\n'); os._exit(1)", stdio=stdio)
    async with open_stdio(one, around, recorder, ring) as link:
        await recorder.until_lost()
        assert await link.exit_code(5) == 1
    assert ring.tail(5) == ["API_KEY missing"]


@pytest.mark.parametrize(
    ("argv", "more", "kind", "said"),
    [
        (["no-such-program"], {}, "not_found", "no-such-program"),
        (["/bin/sh"], {"cwd": "/no/such/directory"}, "spawn", "/no/such/directory"),
        (["/etc/passwd"], {}, "not_found", "/etc/passwd"),
    ],
)
@both
async def test_what_cannot_be_started(
    around: Surroundings, argv: list[str], more: dict[str, Any], kind: str, said: str, stdio: str
) -> None:
    """C027: the error names what is missing, and nothing is left open."""
    with pytest.raises(TransportError) as error:
        async with open_stdio(spec(argv, stdio=stdio, **more), around, Recorder(), StderrRing()):
            pass
    assert error.value.kind == kind
    assert said in str(error.value)


@both
async def test_the_end_of_the_process_is_the_end(around: Surroundings, stdio: str) -> None:
    """C028: a child of it may hold its stdout for ever; its last words are read, and the group is ended."""
    word = token()
    code = (
        "import os, subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-I', '-S', '-c', 'import time; time.sleep(600)', '{word}'])\n"
        "os.write(1, b'last words\\n'); os._exit(3)"
    )
    recorder = Recorder()
    async with open_stdio(python(code, stdio=stdio), around, recorder, StderrRing()) as link:
        assert await recorder.until_lost() == "the process exited with code 3"
        assert recorder.lines == [b"last words"]
        assert await link.exit_code(0) == 3
    await until_gone(word, 2)


@both
async def test_an_end_of_stdout_is_a_loss(around: Surroundings, stdio: str) -> None:
    """C033: it lives on without a stdout: told as an end, no exit code is invented, and leaving ends the process."""
    recorder = Recorder()
    one = python("import os, time; os.close(1); time.sleep(600)", stdio=stdio)
    async with open_stdio(one, around, recorder, StderrRing()) as link:
        assert await recorder.until_lost() == ""
        assert await link.exit_code(0.01) is None
    assert link.child.returncode == -15


@both
async def test_a_program_that_does_not_read(around: Surroundings, stdio: str) -> None:
    """Requests wait up to the bound; then it is `full`, and its end does not wait for them."""
    recorder = Recorder()
    one = python("import os, time; os.write(1, b'up\\n'); time.sleep(600)", stdio=stdio)
    async with open_stdio(one, around, recorder, StderrRing()) as link:
        await recorder.until(1)
        while not link.channel.full:
            link.channel.send(b"x" * (8 << 20))
            await anyio.lowlevel.checkpoint()
    assert link.child.gone.is_set()


async def test_a_stubborn_tree_takes_bounded_time(around: Surroundings) -> None:
    """C029: neither end of input nor SIGTERM ends it: it is gone all the same after two times the grace."""
    word, recorder = token(), Recorder(keep=False)
    began = anyio.current_time()
    with anyio.move_on_after(0.3):
        async with open_stdio(spec([*STUBBORN, word, "self", "child", "setsid"]), around, recorder, StderrRing()):
            await anyio.sleep_forever()
    assert anyio.current_time() - began < 0.3 + 2 * around.grace + 1
    assert find(word) == []


@both
async def test_cancelled_at_every_point(around: Surroundings, stdio: str) -> None:
    """C041: whoever opens may change his mind in any turn of the loop; nothing of the attempt stays."""
    word = token()
    before = descriptors()
    for turns in [*range(20), 30, 50, 100]:
        recorder = Recorder()
        async with anyio.create_task_group() as tasks:

            async def attempt(recorder: Recorder) -> None:
                async with open_stdio(python(ECHO, word, stdio=stdio), around, recorder, StderrRing()) as link:
                    link.channel.send(b"x\n")
                    await recorder.until(1)

            tasks.start_soon(attempt, recorder)
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    await until_gone(word, 2)
    gc.collect()
    assert descriptors() == before


async def test_a_prefix_that_cannot_be_started(around: Surroundings) -> None:
    """The variable is named and its own program, whether there is none or it is no program; the entry is not blamed."""
    for prefix, kind in (("no-such-wrapper x", "not_found"), ("/etc/passwd", "not_found"), ("  ", "")):
        environment = {"PATH": os.environ["PATH"], "MCPHUB_SHELL_PREFIX": prefix}
        surroundings = replace(around, environment=lambda environment=environment: environment)
        if not kind:
            async with open_stdio(python(ECHO), surroundings, Recorder(), StderrRing()):
                continue
        with pytest.raises(TransportError) as raised:
            async with open_stdio(python(ECHO), surroundings, Recorder(), StderrRing()):
                raise AssertionError
        assert raised.value.kind == kind
        text = str(raised.value)
        assert text.startswith(f"cannot use MCPHUB_SHELL_PREFIX: its program {prefix.split()[0]!r} cannot be started: ")
        assert "entry" not in text and "as the command" not in text and text.endswith("env set MCPHUB_SHELL_PREFIX)")


@both
async def test_no_descriptor_left(around: Surroundings, stdio: str) -> None:
    """Where the system gives no more of them the error says so, and those that were made are closed."""
    kinds: list[str] = []
    for free in range(14):
        before = descriptors()
        with only(free):
            try:
                async with open_stdio(python(ECHO, stdio=stdio), around, Recorder(), StderrRing()):
                    kinds.append("ok")
            except TransportError as e:
                kinds.append(e.kind)
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        assert descriptors() == before
    assert set(kinds) == {"spawn", "ok"}
