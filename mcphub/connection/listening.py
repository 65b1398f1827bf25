"""Owns the subscription by which a modern server tells of changes: asked for, and again, ever later, when it ends.

It must not know what has changed, nor list anything. A legacy server tells without being asked (MCP spec 2026-07-28,
basic/patterns/subscriptions).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mcphub.connection.client import Client
from mcphub.connection.handshake import Facts, Ignored

#: Capability to the flag of a listen request.
CHANGES = {
    "tools": "toolsListChanged",
    "prompts": "promptsListChanged",
    "resources": "resourcesListChanged",
}
#: One that the server ended is asked for again after twice so long, seconds, doubling up to the second where none lasts
#: as long as that.
PAUSE = 0.05
PAUSE_MOST = 60.0
#: A moment more, up to so many seconds by chance: a thousand that end together are not asked for again together.
SPREAD = 1.0


class Listening:
    """The subscription of one instance. `ended` is called when it has ended; `at` is the moment when it is to be asked
    for again, seconds of the caller's clock."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self.at = float("inf")
        self._told = ended
        self._ended = False
        self._pause = PAUSE
        self._since = float("-inf")

    def reset(self) -> None:
        """There is a new connection, which may be asked at once."""
        self.at = float("inf")
        self._ended = False
        self._pause = PAUSE

    def ask(self, client: Client, facts: Facts, now: float) -> None:
        """Ask for what the server offers, if it is a modern one."""
        if facts.era != "modern":
            return
        wanted = {}
        for capability, flag in CHANGES.items():
            offered = facts.capabilities.get(capability)
            if isinstance(offered, dict) and offered.get("listChanged"):
                wanted[flag] = True
        if wanted:
            self._since = now
            waiter = Ignored(float("inf"), self._over)
            client.start(waiter, "subscriptions/listen", b'"notifications":' + msgspec.json.encode(wanted))

    def _over(self) -> None:
        self._ended = True
        self._told()

    def due(self, now: float, jitter: float = 0.0) -> bool:
        """Whether it is to be asked for again now; says so once. `jitter` in 0..1."""
        if self._ended:
            self._ended = False
            lasted = now - self._since
            self._pause = PAUSE if lasted > PAUSE_MOST else min(self._pause * 2, PAUSE_MOST)
            self.at = now + self._pause + SPREAD * jitter
        if self.at > now:
            return False
        self.at = float("inf")
        return True
