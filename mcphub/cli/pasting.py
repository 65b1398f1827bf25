"""Owns reading what a person pastes while something else is waited for.

It must not know what is pasted. It reads the descriptor itself, so that its end keeps nobody waiting.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable

#: How often it is looked whether this is over, seconds.
STEP = 0.1
#: Bytes of one line.
LONGEST = 64 * 1024


class Pasting:
    """Gives each line that comes on stdin, but empty ones, to `take`, in a thread."""

    def __init__(self, take: Callable[[str], None], descriptor: int = 0) -> None:
        self._take = take
        self._descriptor = descriptor
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, name="pasted", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(5 * STEP)

    def _read(self) -> None:
        held = b""
        while not self._over.is_set():
            try:
                ready = select.select([self._descriptor], [], [], STEP)[0]
                data = os.read(self._descriptor, 4096) if ready else None
            except (OSError, ValueError):
                return  # there is no stdin
            if data is None:
                continue
            held += data
            *lines, held = held.split(b"\n")
            if not data:
                lines, held = [held], b""
            for line in lines:
                if text := line.decode("utf-8", "replace").strip():
                    self._take(text)
            if not data or len(held) > LONGEST:
                return
