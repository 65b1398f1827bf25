"""Owns the leanest copying bridge that Python can be: standard input and output to a Unix socket, one poll loop.

It must not know MCP, nor import what `python -I -S` does not have: it is the floor below `mcphub connect`.

    python -I -S bridge_poll.py SOCKET
"""

from __future__ import annotations

import os
import select
import socket
import sys


def bridge(path: str) -> None:
    """Copy both ways until either side ends. Raises OSError where nothing listens on PATH."""
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(path)
    descriptor = peer.fileno()
    poller = select.poll()
    poller.register(0, select.POLLIN)
    poller.register(descriptor, select.POLLIN)
    while True:
        for readable, _ in poller.poll():
            data = os.read(readable, 1 << 18)
            if not data:
                return
            to = descriptor if readable == 0 else 1
            view = memoryview(data)
            while view:
                view = view[os.write(to, view) :]


if __name__ == "__main__":
    try:
        bridge(sys.argv[1])
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        pass
