"""What a daemon and its launcher leave when both are killed at once, and the next daemon."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mcphub.transport import launcher
from mcphub.transport.launcher.marks import highest_mark, read_mark
from mcphub.transport.leftovers import MOST_PROGRAMS, Leftovers

FOLDER = os.path.dirname(os.path.dirname(launcher.__file__))
MARKED = (
    "import sys; sys.path.append(sys.argv[1]); from launcher.marks import take_mark; take_mark(int(sys.argv[2])); "
    "print('ready', flush=True); sys.stdin.read()"
)
TAKING = (
    "import sys; from mcphub.transport.launcher.marks import take_mark; take_mark(int(sys.argv[2])); "
    "from mcphub.transport.leftovers import Leftovers; print(Leftovers(sys.argv[1]).take_over())"
)


def marked(mark: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", "-c", MARKED, FOLDER, str(mark)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def test_what_carries_a_mark_of_the_record_is_killed(tmp_path: Path) -> None:
    """C030: whatever a launcher of the earlier daemon had started; nothing of another launcher, nor of another boot.
    The record is the next daemon's then, and goes with it."""
    path = str(tmp_path / "marks")
    first, second, foreign = highest_mark(), highest_mark(), highest_mark()
    before = Leftovers(path)
    before.started(first)
    assert not os.path.exists(path), "not its own yet"
    assert before.take_over() == 0
    before.started(second)
    with open(path, "a", encoding="ascii") as file:
        file.write(f"another-boot {foreign}\nrubbish\n\n")
    marks = [first - 1, second - MOST_PROGRAMS, second - MOST_PROGRAMS - 1, foreign - 1]
    processes = [marked(mark) for mark in marks]
    try:
        after = Leftovers(path)
        after.started(foreign)
        assert after.take_over() == 2
        assert [process.wait(5) for process in processes[:2]] == [-9, -9]
        assert [process.poll() for process in processes[2:]] == [None, None]
        before.close()
        assert os.path.exists(path), "it is another's"
        after.close()
        assert os.listdir(tmp_path) == []
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_a_daemon_that_is_a_leftover_itself(tmp_path: Path) -> None:
    """It was started by an agent that is one: neither is ended."""
    path, mark = str(tmp_path / "marks"), highest_mark()
    before = Leftovers(path)
    before.started(mark)
    before.take_over()
    process = marked(mark - 1)
    try:
        done = subprocess.run(
            [sys.executable, "-c", TAKING, path, str(mark - 2)], capture_output=True, text=True, check=True, timeout=20
        )
        assert (done.stdout, process.poll()) == ("0\n", None)
        assert read_mark(process.pid) == mark - 1
    finally:
        process.kill()
        process.communicate()


def test_a_record_that_cannot_be_kept(tmp_path: Path) -> None:
    """It changes nothing else."""
    leftovers = Leftovers(str(tmp_path / "none" / "marks"))
    leftovers.started(0)
    leftovers.started(highest_mark())
    assert leftovers.take_over() == 0
    leftovers.close()
