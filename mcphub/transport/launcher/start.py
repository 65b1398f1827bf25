"""Owns the first step of a launcher's life, seen from the daemon: its process, and the socket to it.

It must not import what is slow to import, nor asyncio: `mcphub serve` takes this step before all others, so that the
launcher gets ready while the daemon is still being imported.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

from . import IGNORED

_PROGRAM = os.path.join(os.path.dirname(__file__), "__main__.py")


class Started:
    """A launcher that runs, or is about to. Whoever takes it over reads `sock` and waits for `process`."""

    __slots__ = ("process", "sock")

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket) -> None:
        self.process = process
        self.sock = sock

    def close(self) -> None:
        """Let it end, if nobody has done so yet."""
        self.sock.close()
        self.process.wait()


def start() -> Started:
    """Start one. Raises OSError."""
    sock, theirs = socket.socketpair()
    sock.setblocking(False)
    # The launcher ignores these; one that comes before it does so must wait, not kill it. Handed on by exec.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED)
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", _PROGRAM, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if name == "LD_LIBRARY_PATH"},
            cwd="/",
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    except OSError:
        sock.close()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()
    return Started(process, sock)
