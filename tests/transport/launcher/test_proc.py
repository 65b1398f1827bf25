"""Looks at /proc, for real processes and for made-up ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from mcphub.transport.launcher.proc import Process, look, look_at, send_signal, tree


@pytest.mark.parametrize("name", [b"plain", b"two words", b"(odd) 1 2 3) S", b")"])
def test_a_name_cannot_shift_the_fields_of_stat(name: bytes) -> None:
    """A program chooses its name, blanks and parentheses included, and is still read rightly."""
    fields = b" ".join([b"S", b"11", b"12", b"13", *[b"0"] * 15, b"777", b"0"])
    process = Process(10, b"10 (" + name + b") " + fields)
    assert (process.state, process.parent, process.group, process.session, process.start) == (b"S", 11, 12, 13, 777)


def _process(pid: int, parent: int, start: int) -> Process:
    return Process(pid, f"{pid} (x) S {parent} 1 1 {'0 ' * 15}{start} 0".encode())


def test_a_tree_holds_no_child_older_than_its_parent() -> None:
    """A number that was used again between two reads of /proc does not pull a stranger into a tree."""
    top, child, grandchild, stranger = _process(2, 1, 50), _process(3, 2, 50), _process(4, 3, 60), _process(9, 3, 49)
    children = {1: [top], 2: [child], 3: [grandchild, stranger]}
    assert [process.pid for process in tree(children, top)] == [2, 3, 4]


def test_a_recycled_number_is_never_signalled() -> None:
    """C030: a process is its number and its start time; another that has the number is left alone."""
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]) as process:
        now = look_at(process.pid)
        assert now is not None
        now.start -= 1
        assert not send_signal(now, signal.SIGKILL)
        assert process.poll() is None
        now.start += 1
        assert send_signal(now, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert not send_signal(now, signal.SIGKILL)
    assert look_at(process.pid) is None


def test_looking_finds_this_process() -> None:
    """A look at /proc has this process among its parent's children."""
    assert os.getpid() in [process.pid for process in look()[os.getppid()]]
