"""Owns which agent is told what: the listen requests of modern agents, the era's form of list_changed.

It must not decide whether a list has changed. Source: MCP spec 2026-07-28, basic/patterns/subscriptions.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mcphub.protocol import jsonrpc, serving

LIST_CHANGED = "notifications/tools/list_changed"
LEGACY_LIST_CHANGED = jsonrpc.notification_frame(LIST_CHANGED)


class Listens:
    """The open listen requests of one agent: id as JSON to whether it wants tools."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[bytes, bool] = {}

    def __contains__(self, mid: bytes) -> bool:
        return mid in self._open

    def __len__(self) -> int:
        return len(self._open)

    def open(self, mid: bytes, notifications: Any) -> bytes:
        """Open one; returns the acknowledgement, which names only what was asked for and is offered."""
        asked = notifications if isinstance(notifications, dict) else {}
        tools = asked.get("toolsListChanged") is True
        self._open[mid] = tools
        return serving.listen_acknowledged(mid, msgspec.json.encode({"toolsListChanged": True} if tools else {}))

    def cancel(self, mid: bytes) -> bool:
        return self._open.pop(mid, None) is not None

    def tools_changed(self) -> bytes:
        """The frames that tell this agent, in no listen it did not ask in."""
        return b"".join(
            [
                jsonrpc.notification_frame(LIST_CHANGED, b"{%b}" % serving.subscription_meta(mid))
                for mid, tools in self._open.items()
                if tools
            ]
        )

    def end(self) -> bytes:
        """The frames that end all of them from our side."""
        frames = b"".join([serving.listen_ended(mid) for mid in self._open])
        self._open.clear()
        return frames
