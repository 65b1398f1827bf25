"""Marks of real processes."""

from __future__ import annotations

import os
import subprocess
import sys

from mcphub.transport.launcher.marks import highest_mark, read_mark

MARKED = "import sys; sys.path.append(sys.argv[1]); from launcher.marks import take_mark; take_mark(int(sys.argv[2]))"
CHILD = "import os, sys; os.setsid(); print('ready', flush=True); sys.stdin.read()"


def test_a_mark_is_handed_on() -> None:
    """C030: what a marked process starts carries its mark, in another session and without an environment."""
    mark = highest_mark() - 1
    folder = os.path.dirname(os.path.dirname(sys.modules[read_mark.__module__].__file__ or ""))
    code = f"{MARKED}; import os; os.execve(sys.executable, [sys.executable, '-I', '-S', '-c', sys.argv[3]], {{}})"
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code, folder, str(mark), CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=False,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert read_mark(process.pid) == mark
    assert read_mark(process.pid) == 0


def test_highest_marks_differ() -> None:
    """Two launchers, one inside the other, do not take each other's servers for their own."""
    assert len({highest_mark() for _ in range(10)}) == 10
