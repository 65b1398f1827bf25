"""Owns which agent is told what: the listen requests of modern agents, the era's form of list_changed.

It must not decide whether a list has changed. Source: MCP spec 2026-07-28, basic/patterns/subscriptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from mcphub.protocol import jsonrpc, serving

#: What changes can be told of, and the flag of a listen request that asks for it.
KINDS = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}
#: The frame that tells a legacy agent.
LIST_CHANGED = {kind: jsonrpc.notification_frame(f"notifications/{kind}/list_changed") for kind in KINDS}


class Listens:
    """The open listen requests of one agent: in `held`, id as JSON to the kinds of change it wants."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: dict[bytes, frozenset[str]] = {}

    def __contains__(self, mid: bytes) -> bool:
        return mid in self.held

    def __len__(self) -> int:
        return len(self.held)

    def open(
        self, mid: bytes, notifications: Any, watched: Sequence[str] = (), tasks: Sequence[str] = ()
    ) -> bytes:
        """Open one; returns the acknowledgement, which names only what was asked for and is offered, the exposed URIs
        that are watched (gateway.watching) and the tasks that are told of (gateway.task_news) among it."""
        asked = notifications if isinstance(notifications, dict) else {}
        wanted = frozenset(kind for kind, flag in KINDS.items() if asked.get(flag) is True)
        self.held[mid] = wanted
        granted: dict[str, Any] = {flag: True for kind, flag in KINDS.items() if kind in wanted}
        if watched:
            granted["resourceSubscriptions"] = list(watched)
        if tasks:
            granted["taskIds"] = list(tasks)
        return serving.listen_acknowledged(mid, msgspec.json.encode(granted))

    def cancel(self, mid: bytes) -> bool:
        return self.held.pop(mid, None) is not None

    def changed(self, kind: str) -> bytes:
        """The frames that tell this agent of a change of this kind, in no listen it did not ask in."""
        method = f"notifications/{kind}/list_changed"
        return b"".join(
            [
                jsonrpc.notification_frame(method, b"{%b}" % serving.subscription_meta(mid))
                for mid, wanted in self.held.items()
                if kind in wanted
            ]
        )

    def end(self) -> bytes:
        """The frames that end all of them from our side."""
        frames = b"".join([serving.listen_ended(mid) for mid in self.held])
        self.held.clear()
        return frames
