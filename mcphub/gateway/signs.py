"""Owns the signs of life that a legacy agent gets while a person is asked because of its call.

It must not know what is asked. Agents end a call that is silent for long; over a stream a comment may do, but only
progress, where the agent gave a token for it, is a sign on every transport (bridging, legacy agent; MCP spec
2025-11-25, basic/utilities/progress). One timer does for all calls, and there is none while nobody is asked.
"""

from __future__ import annotations

import asyncio

from mcphub.gateway.call import AgentCall

#: Seconds between two signs.
EVERY = 15.0


class Signs:
    """The calls of one hub that wait for a person."""

    def __init__(self) -> None:
        self._calls: dict[AgentCall, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def begin(self, call: AgentCall) -> None:
        """A person is asked because of it; its clock stands still until its end, or an answer."""
        if call.meta.modern or not call.meta.progress_token:
            return
        self._calls[call] = None
        if self._timer is None:
            self._timer = self._loop.call_later(EVERY, self._tell)

    def _tell(self) -> None:
        self._timer = None
        for call in list(self._calls):
            if call.still and call.caller.calls.get(call.mid) is call:
                call.sign(f"waiting for an answer to a question of the server {call.server}")
            else:
                del self._calls[call]
        if self._calls:
            self._timer = self._loop.call_later(EVERY, self._tell)
