"""Ctrl-C that Python misses, at the real command; a signal to another thread is one that the main one never sees."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from anyio.from_thread import BlockingPortal

from tests.cli.conftest import Place
from tests.fakes.canned_hub import CannedHub

#: Once the main thread is in a function that waits, a signal comes which does not wake it; then the command as always.
MISSED = """
import signal, sys, threading, time
from mcphub.cli.main import main
waits, main_thread = sys.argv.pop(1), threading.get_ident()
def miss():
    found = 0
    while found < 5:  # there for a while: it is in the system call by now
        found = found + 1 if sys._current_frames()[main_thread].f_code.co_name == waits else 0
        time.sleep(0.005)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
threading.Thread(target=miss, daemon=True).start()
sys.exit(main())
"""
WATCH = "import signal, sys, threading, time, weakref\nfrom mcphub.cli import interrupt\ninterrupt.watch()\n"


@contextmanager
def started(place: Place, code: str, *words: str, ignored: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    how = signal.signal(signal.SIGINT, signal.SIG_IGN) if ignored else None
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *words], env=place.environment, cwd=place.workspace,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
    finally:
        if ignored:
            signal.signal(signal.SIGINT, how)
    with process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("waits", "words"),
    [
        ("_some", ["status", "--watch"]),
        ("_some", ["logs", "-f", "time"]),
        ("_some", ["call", "hang"]),
        ("_some", ["login", "a", "--no-browser"]),
        ("from_stdin", ["secret", "set", "a", "--stdin"]),
    ],
)
def test_an_interrupt_that_is_missed_comes_again(
    place: Place, hub: CannedHub, portal: BlockingPortal, waits: str, words: list[str]
) -> None:
    """Every verb that waits ends with 130, whatever it waits in, and without a traceback."""
    hub.logins = {"a": None}
    with started(place, MISSED, waits, *words) as process:
        assert process.wait(10) == 130
        assert process.stderr is not None
        err = process.stderr.read()
        assert err in (b"", b"mcphub: cancelled the sign-in to a; nothing has changed\n")


def test_one_that_nothing_can_raise_comes_again(place: Place) -> None:
    """The callback of a weak reference loses what it raises, as after an import; nothing is printed of that."""
    code = WATCH + (
        "class Kept: pass\n"
        "kept = Kept()\n"
        "known = weakref.ref(kept, lambda _: signal.raise_signal(signal.SIGINT))\n"
        "try:\n"
        "    del kept\n"
        "    time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    print('seen')\n"
    )
    with started(place, code) as process:
        assert process.communicate(timeout=10) == (b"seen\n", b"")


def test_other_losses_are_still_printed(place: Place) -> None:
    """Only an interrupt is taken out of what Python complains of."""
    code = WATCH + "class Bad:\n    def __del__(self): raise ValueError('odd')\nBad()\n"
    with started(place, code) as process:
        assert b"ValueError: odd" in process.communicate(timeout=10)[1]


def test_what_cleans_up_is_not_disturbed(place: Place) -> None:
    """An interrupt that was seen is not sent again."""
    code = WATCH + (
        "try:\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "except KeyboardInterrupt:\n"
        "    time.sleep(5 * interrupt.SEEN_WITHIN)\n"
        "    print('clean')\n"
        "interrupt.over()\n"
        "assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL\n"
    )
    with started(place, code) as process:
        assert process.communicate(timeout=10) == (b"clean\n", b"")


def test_what_is_ignored_stays_so(place: Place) -> None:
    """A program whose parent has SIGINT ignored goes on ignoring it."""
    code = WATCH + (
        "signal.raise_signal(signal.SIGINT)\n"
        "interrupt.over()\n"
        "print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN, threading.active_count())\n"
    )
    with started(place, code, ignored=True) as process:
        assert process.communicate(timeout=10) == (b"True 1\n", b"")
