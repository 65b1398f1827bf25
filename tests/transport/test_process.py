"""Real processes, under both ways of starting them; what only the launcher process can do is at the end."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import psutil
import pytest

from mcphub.errors import TransportError
from mcphub.transport import launcher_link, process_groups
from mcphub.transport.child import Child
from mcphub.transport.launcher.proc import look, look_at
from mcphub.transport.process import Launcher
from mcphub.transport.spawn_request import SpawnRequest
from mcphub.transport.stderr import StderrReader, StderrRing
from tests.transport.programs import FAKES, PYTHON, STUBBORN, find, running, token, until_gone

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[Launcher, process_groups.Launcher], ids=["launcher", "groups"])
async def launcher(request: pytest.FixtureRequest) -> AsyncIterator[Launcher]:
    """Both ways: this system's own, and the one by groups alone."""
    async with request.param() as launcher:
        yield launcher


@pytest.fixture
async def real_launcher() -> AsyncIterator[Launcher]:
    async with Launcher() as launcher:
        yield launcher


WAIT_FOR_EOF = "import sys; sys.stdin.read()"
EXITS_LATER_ON_EOF = "import sys, time; print('r', flush=True); sys.stdin.read(); time.sleep(0.1)"
EXITS_ON_TERM = "import os, signal; os.write(1, b'r'); signal.pause()"


# --- starting ---


async def test_a_program_gets_exactly_what_it_was_given(launcher: Launcher) -> None:
    """Arguments, environment, directory and three descriptors arrive as they are; signals and sessions are fresh."""
    code = "import os, sys, signal; sys.stdout.write(repr((sys.argv[1:], os.environ.get('A'), os.getcwd(), " + (
        "os.getsid(0) == os.getpid(), sorted(map(int, os.listdir('/proc/self/fd')))[:-1], "
        "signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.getsignal(signal.SIGTERM), 'HOME' in os.environ)))"
    )
    odd = ["", "two words", "$HOME;`x`&", "\u4e16\udc80", "%PATH%"]
    with anyio.fail_after(5):
        async with running(launcher, [*PYTHON, "-c", code, *odd], {"A": "b=\u4e16\n"}, cwd="/usr") as program:
            text = (await program.read(1 << 20)).decode()
    expected: tuple[object, ...] = (odd, "b=\u4e16\n", "/usr", True, [0, 1, 2], set())
    assert text.startswith(repr(expected)[:-1])
    assert text.endswith(", <Handlers.SIG_DFL: 0>, False)")


async def test_last_words_of_a_missing_interpreter(launcher: Launcher, tmp_path: Path) -> None:
    """C027: where `env` cannot find the interpreter, the program's own stderr line and its code tell so."""
    script = tmp_path / "npx"
    script.write_text("#!/usr/bin/env no-such-interpreter\n")
    script.chmod(0o755)
    ring = StderrRing()
    ours, theirs = os.pipe()
    reader = StderrReader(ours, ring)
    with anyio.fail_after(5):
        async with running(launcher, [str(script)], {"PATH": "/usr/bin:/bin"}, stderr=theirs) as program:
            await program.child.exited.wait()
            reader.drain()
            assert program.child.returncode == 127
            assert "no-such-interpreter" in ring.tail(1)[0]
    os.close(theirs)
    reader.close()


async def test_refusals_say_what_is_wrong(launcher: Launcher, tmp_path: Path) -> None:
    """C027: a missing interpreter, a missing directory, text in place of a program: in words, nothing left open."""
    script, text = tmp_path / "script", tmp_path / "text"
    script.write_text("#!/no/such/interpreter -x\n")
    text.write_text("no program")
    for file in (script, text):
        file.chmod(0o755)
    open_before = len(os.listdir("/proc/self/fd"))
    for argv, cwd, words in [
        ([str(script)], "/", "'/no/such/interpreter', which does not exist"),
        ([str(text)], "/", "begins with #!"),
        ([str(tmp_path / "none")], "/", "No such file"),
        ([str(tmp_path)], "/", "Permission denied"),
        (["/bin/sh"], str(tmp_path / "nowhere"), "cannot enter working directory"),
        (["/bin/sh", "a\0b"], "/", "NUL"),
    ]:
        with anyio.fail_after(5), pytest.raises(TransportError) as caught:
            async with running(launcher, argv, cwd=cwd):
                pass
        assert words in str(caught.value)
        assert caught.value.kind == "spawn"
    assert len(os.listdir("/proc/self/fd")) == open_before


async def test_large_requests_work_or_fail_in_words(launcher: Launcher) -> None:
    """A megabyte of arguments and environment is handed over; what the kernel refuses is told as E2BIG."""
    pieces = ["x" * 100_000] * 5
    env = {f"V{number}": "y" * 100_000 for number in range(5)}
    code = "import os, sys; print(sum(map(len, sys.argv[1:])) + sum(map(len, os.environ.values())) >= 1_000_000)"
    with anyio.fail_after(10):
        async with running(launcher, [*PYTHON, "-c", code, *pieces], env) as program:
            assert await program.read(5) == b"True\n"
        for argument in ("z" * 1_000_000, "z" * 20_000_000):
            with pytest.raises(TransportError, match="E2BIG.*0 bytes|E2BIG.* bytes") as caught:
                async with running(launcher, [*PYTHON, argument]):
                    pass
            assert len(str(caught.value)) < 500
        async with running(launcher, [*PYTHON, "-c", "print(1)"]) as program:
            assert await program.read(2) == b"1\n"


async def test_two_hundred_spawns_leave_nothing(launcher: Launcher) -> None:
    """After 200 programs there is no zombie and no descriptor more than before, here or in the launcher."""
    owners = [os.getpid()] + ([launcher.pid] if launcher.pid else [])
    took = []

    def zombies() -> set[int]:
        children = look()
        return {child.pid for pid in owners for child in children.get(pid, ()) if child.state == b"Z"}

    others = zombies()  # this process runs other tests too, and adopts what their programs leave

    def held() -> list[int]:
        return [len(os.listdir(f"/proc/{pid}/fd")) for pid in owners]

    async def one() -> None:
        start = time.perf_counter()
        async with running(launcher, ["/bin/true"]) as program:
            took.append(time.perf_counter() - start)
            await program.child.gone.wait()
            assert program.child.returncode == 0

    with anyio.fail_after(50):
        await one()
        before = held()
        for _ in range(20):
            async with anyio.create_task_group() as tasks:
                for _ in range(10):
                    tasks.start_soon(one)
        assert held() == before
    assert zombies() <= others
    took.sort()
    took_alone = []
    with anyio.fail_after(20):
        for _ in range(50):
            start = time.perf_counter()
            async with running(launcher, ["/bin/true"]) as program:
                took_alone.append(time.perf_counter() - start)
                await program.child.gone.wait()
    print(f"spawn, one at a time: median {statistics.median(took_alone) * 1000:.1f} ms")
    print(f"spawn, 10 at once: median {statistics.median(took) * 1000:.1f} ms, p99 {took[-3] * 1000:.1f} ms")


async def test_a_cancelled_spawn_leaves_nothing(launcher: Launcher) -> None:
    """A caller that is cancelled while its program starts leaves no program behind."""
    mark = token()
    for _ in range(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_run_until_cancelled, launcher, mark)
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    with anyio.fail_after(5):
        async with running(launcher, ["/bin/true"]) as program:  # requests are answered in order
            await program.child.gone.wait()
    await until_gone(mark, 5)


async def _run_until_cancelled(launcher: Launcher, mark: str) -> None:
    async with running(launcher, [*STUBBORN, mark, "self"]):
        await anyio.sleep_forever()


# --- exits ---


@pytest.mark.parametrize(
    ("code", "returncode"),
    [
        ("raise SystemExit(1)", 1),
        ("import os; os.kill(os.getpid(), 11)", -11),
        ("import sys; sys.stdin.readline(); raise SystemExit(3)", 3),
    ],
)
async def test_an_exit_is_known_at_once(launcher: Launcher, code: str, returncode: int) -> None:
    """C033: the end of a process is reported by itself, with its code or signal."""
    with anyio.fail_after(5):
        async with running(launcher, [*PYTHON, "-c", code]) as program:
            program.close_stdin()
            assert await program.read(1) == b""  # the end of its stdout is its own end
            await program.child.exited.wait()
            assert program.child.returncode == returncode
            assert await program.child.end(60) == [f"{program.child.outcome()} before the end was asked for"]


# --- ending ---


async def test_the_ladder(launcher: Launcher) -> None:
    """C029: three servers, ended at once, take as long as the slowest; each as far down the ladder as it needs."""
    grace = 0.4
    steps: dict[str, list[str]] = {}

    async def end(name: str, child: Child) -> None:
        steps[name] = await child.end(grace)

    with anyio.fail_after(10):
        async with (
            running(launcher, [*PYTHON, "-c", EXITS_LATER_ON_EOF]) as eof,
            running(launcher, [*PYTHON, "-c", EXITS_ON_TERM]) as term,
            running(launcher, [*STUBBORN, token(), "self"]) as kill,
        ):
            for program in (eof, term, kill):
                await program.read(1)
                program.close_stdin()
            start = anyio.current_time()
            async with anyio.create_task_group() as tasks:
                for name, program in (("eof", eof), ("term", term), ("kill", kill)):
                    tasks.start_soon(end, name, program.child)
            took = anyio.current_time() - start
    assert steps == {
        "eof": ["exited with code 0 by itself"],
        "term": ["waited 0.4 s after end of input", "SIGTERM to 1", "killed by SIGTERM"],
        "kill": ["waited 0.4 s after end of input", "SIGTERM to 1", "SIGKILL to 1", "killed by SIGKILL"],
    }
    assert 2 * grace <= took < 2 * grace + 0.5


@pytest.mark.parametrize("rest", ["wait", "exit 0", "kill -9 $$"])
async def test_a_wrapper_leaves_no_grandchildren(launcher: Launcher, rest: str) -> None:
    """C028: what a wrapper started is ended with it, also when the wrapper itself is gone already."""
    mark = token()
    command = ["/bin/sh", "-c", f'"$@" & {rest}', "sh", *STUBBORN, mark, "self"]
    with anyio.fail_after(10):
        async with running(launcher, command) as program:
            await program.read(1)
            if rest != "wait":
                await program.child.exited.wait()
            assert len(find(mark)) >= 1
            assert not program.child.gone.is_set()
            program.close_stdin()
            start = anyio.current_time()
            steps = await program.child.end(0.2)
            assert anyio.current_time() - start < 10
    assert find(mark) == []
    assert steps[-2].startswith("SIGKILL to ")


async def test_leaving_ends_everything(launcher: Launcher) -> None:
    """A program that nobody ended is gone when the launcher's context is left, and its end is known."""
    mark = token()
    stdin, keep = os.pipe()
    ready, theirs = os.pipe()
    with anyio.fail_after(10):
        async with type(launcher)() as inner:
            request = SpawnRequest([*STUBBORN, mark, "self", "child"], {}, "/", (stdin, theirs, 2))
            child = await inner.spawn(request)
            for fd in (stdin, theirs):
                os.close(fd)
            got = b""
            while len(got) < 2:
                await anyio.wait_readable(ready)
                got += os.read(ready, 10)
    assert find(mark) == []
    assert child.returncode == -signal.SIGKILL
    for fd in (keep, ready):
        os.close(fd)


# --- what the launcher process adds ---

ESCAPES = ["self", "child", "setsid", "double", "cleared"]


async def test_twelve_servers_end_in_parallel(real_launcher: Launcher) -> None:
    """C029: twelve servers, eight of which ignore everything, are gone after little more than twice the grace."""
    grace, mark = 0.3, token()
    with anyio.fail_after(20):
        async with AsyncExitStack() as stack:
            programs = []
            for number in range(12):
                argv = [*STUBBORN, mark, *ESCAPES] if number < 8 else [*PYTHON, "-c", EXITS_LATER_ON_EOF]
                programs.append(await stack.enter_async_context(running(real_launcher, argv)))
            for number, program in enumerate(programs):
                await program.read(len(ESCAPES) if number < 8 else 1)
            assert len(find(mark)) == 8 * len(ESCAPES)
            start = anyio.current_time()
            async with anyio.create_task_group() as tasks:
                for program in programs:
                    program.close_stdin()
                    tasks.start_soon(program.child.end, grace)
            took = anyio.current_time() - start
            assert find(mark) == []
    print(f"12 servers, 8 of them stubborn, 44 processes, grace {grace} s: {took:.2f} s")
    assert took < 2 * grace + 0.6


async def test_ending_one_server_touches_no_other(real_launcher: Launcher) -> None:
    """C028: orphans that left session, parent and environment are still told apart: only the ended server's go."""
    one, other = token(), token()
    with anyio.fail_after(20):
        async with (
            running(real_launcher, [*STUBBORN, other, *ESCAPES]) as neighbour,
            running(real_launcher, [*STUBBORN, one, "double", "cleared", "setsid"]) as program,  # no direct child stays
        ):
            await neighbour.read(len(ESCAPES))
            await program.read(3)
            await program.child.exited.wait()
            assert len(find(one)) == 3
            before = sorted(find(other))
            assert len(before) == len(ESCAPES)
            await program.child.end(0.1)
            assert find(one) == []
            assert sorted(find(other)) == before
            assert not neighbour.child.exited.is_set()
        assert find(other) == []


async def test_gone_is_said_when_the_last_orphan_ends(real_launcher: Launcher) -> None:
    """C028: a tree whose direct child exited is gone when its last process is, without anybody asking."""
    code = "import os, sys\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0: sys.stdin.read()\n os._exit(0)"
    with anyio.fail_after(5):
        async with running(real_launcher, [*PYTHON, "-c", code]) as program:
            await program.child.exited.wait()
            assert not program.child.gone.is_set()
            program.close_stdin()
            await program.child.gone.wait()


HARD = ["self", "setsid", "double", "cleared"]


def _start_stand_in(mark: str, servers: int, *variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.transport.daemon_stand_in", str(servers), *HARD],
        cwd=FAKES.parent.parent,
        env={**os.environ, "TOKEN": mark, **dict.fromkeys(variables, "")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


async def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    await anyio.wait_readable(process.stdout)
    return process.stdout.readline().strip()


@pytest.mark.parametrize(
    ("killed", "variables"), [(signal.SIGKILL, []), (signal.SIGTERM, []), (signal.SIGKILL, ["FORK"])]
)
async def test_nothing_survives_the_daemon(killed: signal.Signals, variables: list[str]) -> None:
    """C030: the daemon is killed; 24 processes that ignore everything, some in own sessions, are gone within 2 s."""
    mark = token()
    with _start_stand_in(mark, 6, *variables) as daemon, anyio.fail_after(20):
        launcher_pid = int(await _line(daemon))
        assert len(find(mark)) == 24
        daemon.send_signal(killed)
        took = await until_gone(mark, 2)
        daemon.wait()
    print(f"24 stubborn processes after {killed.name} of the daemon: {took:.2f} s")
    with anyio.fail_after(2):
        while look_at(launcher_pid) is not None:  # noqa: ASYNC110  (no child of ours)
            await anyio.sleep(0.005)


async def test_nothing_survives_a_killed_launcher() -> None:
    """C030: the launcher is killed; what it had started is gone within 2 s, and the next program starts."""
    mark = token()
    with _start_stand_in(mark, 6) as daemon, anyio.fail_after(20):
        launcher_pid = int(await _line(daemon))
        assert len(find(mark)) == 24
        os.kill(launcher_pid, signal.SIGKILL)
        took = await until_gone(mark, 2)
        print(f"24 stubborn processes after SIGKILL of the launcher: {took:.2f} s")
        assert daemon.stdin is not None
        daemon.stdin.write("\n")
        daemon.stdin.flush()
        words = await _line(daemon)
        assert words == "-9 7 0"
        assert daemon.wait() == 0


async def test_a_stopped_or_terminated_launcher_goes_on(real_launcher: Launcher) -> None:
    """A service stop signals every process of the unit: the launcher leaves the end to the daemon."""
    assert real_launcher.pid is not None
    for signo in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(real_launcher.pid, signo)
    with anyio.fail_after(5):
        async with running(real_launcher, [*PYTHON, "-c", "print(1)"]) as program:
            assert await program.read(1) == b"1\n"


async def test_a_launcher_that_hangs_is_replaced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """C030: one that was stopped by a signal is noticed by what it owes, killed with all that it had started, and
    named; the next program starts. One that answers again in time is left alone."""
    monkeypatch.setattr(launcher_link, "_STEP", 0.02)
    mark = token()
    with anyio.fail_after(20):
        async with Launcher() as launcher, anyio.create_task_group() as tasks:
            first = launcher.pid
            assert first is not None
            null = os.open(os.devnull, os.O_RDWR)
            request = SpawnRequest([*PYTHON, "-c", "import signal; signal.pause()", mark], {}, "/", (null, null, null))
            child = await launcher.spawn(request)
            os.kill(first, signal.SIGSTOP)
            with anyio.move_on_after(0.06):
                await launcher.spawn(request)
            os.kill(first, signal.SIGCONT)
            other = await launcher.spawn(request)
            assert launcher.pid == first
            os.kill(first, signal.SIGSTOP)
            with pytest.raises(TransportError, match="launcher process did not answer for 0.2 s and was killed"):
                await launcher.spawn(request)
            await child.gone.wait()
            await other.gone.wait()
            again = await launcher.spawn(request)
            assert launcher.pid not in (None, first)
            tasks.start_soon(again.end, 0.0)
            await again.gone.wait()
            os.close(null)
        assert find(mark) == []
    assert "did not answer for 0.2 s and was killed, with the servers that it had started" in caplog.text


async def test_the_launcher_is_small(real_launcher: Launcher) -> None:
    """The launcher keeps no descriptor of a program, and its memory is printed for the record."""
    with anyio.fail_after(5):
        async with running(real_launcher, [*PYTHON, "-c", EXITS_ON_TERM]) as program:
            await program.read(1)
            held = os.listdir(f"/proc/{real_launcher.pid}/fd")
            assert len(held) == 6  # three, the socket, two of the wake-up pipe
            memory = psutil.Process(real_launcher.pid).memory_full_info()
    print(f"launcher: RSS {memory.rss >> 10} KiB, PSS {memory.pss >> 10} KiB, private {memory.uss >> 10} KiB")
