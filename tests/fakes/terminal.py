"""Owns a terminal of its own for one command: what a person sees, and what a person types.

It must not know the command.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence

#: Takes the terminal on stdin as the controlling one, then becomes the command.
_TAKE = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


class Terminal:
    """A command in a session of its own on a pseudo-terminal; a context that leaves no process behind."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: str, columns: int = 120) -> None:
        self._main, sub = pty.openpty()
        fcntl.ioctl(sub, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.seen = b""
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _TAKE, *command],
                stdin=sub,
                stdout=sub,
                stderr=sub,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
            )
        finally:
            os.close(sub)

    def until(self, text: bytes, seconds: float = 10, times: int = 1) -> bytes:
        """Everything seen so far, once `text` has come so many times."""
        deadline = time.monotonic() + seconds
        while self.seen.count(text) < times:
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"{text!r} did not come: {self.seen!r}")
        return self.seen

    def type(self, text: bytes) -> None:
        os.write(self._main, text)

    def end(self, seconds: float = 10) -> tuple[bytes, int]:
        """Everything that was seen until the command ended, and its exit status."""
        deadline = time.monotonic() + seconds
        while self._read(deadline - time.monotonic()):
            pass
        return self.seen.replace(b"\r\n", b"\n"), self._process.wait(max(deadline - time.monotonic(), 0.1))

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._main)

    def _read(self, seconds: float) -> bool:
        """Read what there is within so many seconds; False at the end."""
        ready, _, _ = select.select([self._main], [], [], max(seconds, 0))
        if not ready:
            raise AssertionError(f"nothing more came in time: {self.seen!r}")
        try:
            data = os.read(self._main, 65536)
        except OSError:  # EIO: the last process has closed it
            return False
        self.seen += data
        return bool(data)
