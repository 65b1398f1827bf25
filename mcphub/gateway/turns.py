"""Owns who may call a server whose questions do not say whose they are: one agent at a time, in order.

It must not know what is called. A call of another agent waits until those in flight are over; while it waits, nothing
of it has reached the server (architecture, who answers a server's question).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec

from mcphub.connection.client import Client
from mcphub.gateway.call import AgentCall, whose
from mcphub.spec import InstanceKey

#: Calls that may wait for one server.
MAX_WAITING = 1000


class _Waiting(msgspec.Struct):
    call: AgentCall
    #: Sends it; the payload is a copy of its own.
    start: Callable[[], None]
    timer: asyncio.TimerHandle


class Turns:
    """The servers that have asked, and what waits for each. Implements gateway.call.Turns."""

    def __init__(self) -> None:
        self.asked: set[InstanceKey] = set()
        self._waiting: dict[InstanceKey, deque[_Waiting]] = {}
        self._loop = asyncio.get_running_loop()

    def has_asked(self, key: InstanceKey, client: Client) -> None:
        """From now on its calls take turns; those in flight count."""
        self.asked.add(key)
        for waiter in client.waiting().values():
            if isinstance(waiter, AgentCall):
                waiter.turns = self

    def take(self, call: AgentCall, start: Callable[[], None]) -> bool:
        """Whether the call may be sent now; else `start` is called when it may, unless it has ended before."""
        call.turns = self
        if self._may(call):
            return True
        if len(self._waiting.get(call.key, ())) >= MAX_WAITING:
            call.not_sent("busy", "too many calls wait there for other agents'")
            return False
        timer = self._loop.call_later(call.idle, self._too_long, call)
        self._waiting.setdefault(call.key, deque()).append(_Waiting(call, start, timer))
        return False

    def _may(self, call: AgentCall) -> bool:
        others = [w for w in call.client.waiting().values() if isinstance(w, AgentCall)]
        if any(whose(other) != whose(call) for other in others):
            return False
        # Who was asked may need another call for the answer: behind those who wait, none of them would ever go on.
        return call.key not in self._waiting or any(other.questions is not None for other in others)

    def ended(self, call: AgentCall) -> None:
        """A call is over, whatever way, or waits no more: the next agent's may go."""
        queue = self._waiting.get(call.key)
        if queue is None:
            return
        for waiting in [w for w in queue if w.call is call]:
            waiting.timer.cancel()
            queue.remove(waiting)
        self._loop.call_soon(self._next, call.key)

    def _next(self, key: InstanceKey) -> None:
        """Start the first that waits, and those right behind it of the same agent."""
        queue = self._waiting.get(key)
        while queue:
            first = queue[0]
            if first.call.client.over:
                queue.popleft()
                first.timer.cancel()
                first.call.not_sent("lost", "the connection was lost while it waited for other agents' calls")
                continue
            waiting = first.call.client.waiting().values()
            if any(isinstance(w, AgentCall) and whose(w) != whose(first.call) for w in waiting):
                return
            queue.popleft()
            first.timer.cancel()
            first.start()
        if queue is not None:
            self._waiting.pop(key, None)

    def _too_long(self, call: AgentCall) -> None:
        call.not_sent("busy", f"other agents' calls were in the way for {call.idle:g} s")
