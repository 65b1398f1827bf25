"""Owns the requests for a connection that is being opened: kept in order until it is open, or will not be.

It must not open anything, nor know who waits. Nothing may overtake the handshake (MCP spec 2025-11-25,
basic/lifecycle), which goes through to the channel behind it.
"""

from __future__ import annotations

import msgspec

from mcphub.channel import Channel, Data
from mcphub.protocol import jsonrpc
from mcphub.protocol.jsonrpc import NotAMessage, Raw

#: Requests from which on the server counts as overloaded.
FULL_AT = 1000

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_number = msgspec.json.Decoder(int).decode


class Held:
    """Stands before a channel while it is opened; `behind` is that channel once there is one. Implements
    channel.Channel."""

    def __init__(self) -> None:
        self.full = False
        self.current: int | None = None
        self.behind: Channel | None = None
        self._frames: dict[int, bytes] = {}

    def send(self, *parts: Data) -> None:
        frame = b"".join(parts)
        try:
            env = jsonrpc.decode(frame.rstrip(b"\n"))
        except NotAMessage:  # what we write ourselves is always one
            return
        if isinstance(env.id, int) and env.method is not None and env.method != "initialize":
            self._frames[env.id] = frame
        elif env.method == "notifications/cancelled":
            self._frames.pop(_cancelled(env.params), None)
        elif self.behind is not None:
            self.behind.send(frame)
        self.full = len(self._frames) >= FULL_AT

    def abort(self) -> None:
        if self.behind is not None:
            self.behind.abort()

    def untouched(self, mid: int) -> bool:
        """As channel.Channel has it."""
        return mid in self._frames

    def release(self) -> dict[int, bytes]:
        """The frames by id, in order; nothing is held any more."""
        frames, self._frames = self._frames, {}
        self.full = False
        return frames


def _cancelled(params: Raw) -> int:
    """The id that a cancellation of ours speaks of, -1 = none."""
    try:
        return _number(_members(params)["requestId"])
    except (msgspec.DecodeError, KeyError):
        return -1
