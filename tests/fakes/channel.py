"""Owns the far end of a channel that keeps what is sent, and a listener that keeps what it hears.

It must not answer anything: tests say what comes back, and when.
"""

from __future__ import annotations

import json
from typing import Any

from mcphub.channel import Data
from mcphub.protocol.jsonrpc import Raw


class KeptChannel:
    """Implements channel.Channel. `parts` counts the parts of each frame."""

    def __init__(self) -> None:
        self.full = False
        self.current: int | None = None
        self.aborted = False
        self.frames: list[bytes] = []
        self.parts: list[int] = []

    def send(self, *parts: Data) -> None:
        self.parts.append(len(parts))
        self.frames.append(b"".join(parts))

    def abort(self) -> None:
        self.aborted = True

    @property
    def sent(self) -> list[Any]:
        """All messages so far; each frame was one line of strict JSON."""
        assert all(f.endswith(b"}\n") and f.count(b"\n") == 1 for f in self.frames)
        return [json.loads(f, parse_constant=_refuse) for f in self.frames]


class Heard:
    """What a connection told its owner. Implements connection.client.Listener."""

    def __init__(self) -> None:
        self.news: list[tuple[str, bytes]] = []
        self.ends: list[str] = []
        self.notes: list[str] = []

    def notified(self, method: str, params: Raw) -> None:
        self.news.append((method, bytes(params)))

    def ended(self, reason: str) -> None:
        self.ends.append(reason)

    def asked(self, mid: bytes, method: str, params: Raw, current: int | None) -> bool:
        return False

    def noted(self, text: str) -> None:
        self.notes.append(text)


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")
