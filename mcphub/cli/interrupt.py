"""Owns that Ctrl-C ends a command line whatever it waits for: one that Python has missed is sent again.

It must not know verbs, nor import anything that the interpreter has not loaded by itself. Python looks for signals
between its own steps: one that comes after the last look and before the system call that waits, or to another thread,
is not seen until that call returns, which may be never. And a KeyboardInterrupt that is raised where nothing can be
raised, as in the callback of a weak reference after an import, is printed and forgotten.
"""

from __future__ import annotations

import _thread
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import NoReturn
else:
    import _signal  # `signal` around it makes enums

#: How long a signal that came may take to be seen, seconds.
SEEN_WITHIN = 0.05
_AGAIN = 0


class _Watch:
    """One for each process. Once it was seen nothing is sent any more: what cleans up is not to be disturbed."""

    def __init__(self) -> None:
        self.seen = False
        self._main = _thread.get_ident()
        self._came, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        _thread.start_new_thread(self._run, ())
        _signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)

    def raise_it(self, number: int, frame: object) -> NoReturn:
        self.seen = True
        raise KeyboardInterrupt

    def lost(self, unraisable: sys.UnraisableHookArgs) -> None:
        """What could not be raised; an interrupt comes once more."""
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(unraisable)
            return
        self.seen = False
        os.write(self._wake, bytes([_AGAIN]))

    def _run(self) -> None:
        while came := os.read(self._came, 64):  # a signal that Python handles writes its number, whoever is to look
            if _signal.SIGINT not in came and _AGAIN not in came:
                continue
            time.sleep(SEEN_WITHIN)
            while not self.seen:
                _signal.pthread_kill(self._main, _signal.SIGINT)
                time.sleep(SEEN_WITHIN)


def watch() -> None:
    """From here on each SIGINT raises KeyboardInterrupt in this thread, the main one, within a moment; for the rest of
    the process. Whoever started this may have it ignored, as shells do for what runs in the background: it stays so."""
    if _signal.getsignal(_signal.SIGINT) is not _signal.default_int_handler:
        return
    try:
        one = _Watch()
    except (OSError, RuntimeError):  # no descriptor, or no thread, is to be had
        return
    sys.unraisablehook = one.lost
    _signal.signal(_signal.SIGINT, one.raise_it)


def over() -> None:
    """Nothing is left to clean up: another SIGINT ends the process at once, without a word."""
    try:
        if _signal.getsignal(_signal.SIGINT) is not _signal.SIG_IGN:
            _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    except KeyboardInterrupt:
        pass  # it has just come: this is the end anyway
