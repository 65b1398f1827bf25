"""Owns what a transport gives and takes: whole frames in, whole frames out, one end.

It must not know any transport, nor what a frame says. The methods are called on the event loop's thread only.
"""

from __future__ import annotations

from typing import Protocol

Data = bytes | bytearray | memoryview


class Receiver(Protocol):
    """Who is told what a channel brings. An exception here closes that channel only."""

    def frame(self, line: memoryview) -> None:
        """One message without its newline. The view is valid during the call only: copy what must live longer."""

    def lost(self, reason: str) -> None:
        """The last call: the peer is gone ("" = orderly end of stream) or broke the framing (why)."""


class Channel(Protocol):
    """One duplex stream of frames. `full` while the peer does not read what was sent."""

    full: bool

    def send(self, *parts: Data) -> None:
        """Queue one frame, newline included, in any number of parts; views must stay valid until this loop turn ends.
        Never blocks and never raises: a channel that is gone drops it."""

    def abort(self) -> None:
        """Close at once, dropping what is queued; `lost` follows."""
