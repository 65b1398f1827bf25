"""Owns who may call a server whose questions do not say whose they are: one agent at a time, in order.

It must not know what is called. A call of another agent waits until those in flight are over; while it waits, nothing
of it has reached the server (architecture, who answers a server's question).
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable

import msgspec

from mcphub.connection.client import Client
from mcphub.gateway.call import AgentCall, whose
from mcphub.gateway.holding import holders, named
from mcphub.gateway.kept import Kept
from mcphub.protocol.jsonrpc import Envelope, Raw
from mcphub.spec import InstanceKey

#: Calls that may wait for one server.
MAX_WAITING = 1000
#: Seconds for a server to say that it has read that a call was withdrawn: until then it may ask for that call still.
SETTLES = 3.0
#: Seconds that a call waits where it is a person who holds its server up: most agents give a call up after 60.
PATIENCE = 45.0
#: How often it is looked at who holds a server up while calls wait for it, seconds.
LOOK = 5.0


class _Waiting(msgspec.Struct):
    call: AgentCall
    #: Sends it; the payload is a copy of its own.
    start: Callable[[], None]
    timer: asyncio.TimerHandle
    #: Whose it is, the bytes that are kept for it, and since when it waits.
    owner: object
    size: int
    since: float


class _Settling:
    """Waits for a ping behind the end of a call that its server has not answered; counts as that agent's call."""

    def __init__(self, agent: object, deadline: float, read: Callable[[], None], over: Callable[[], None]) -> None:
        self.agent = agent
        self.deadline = self.hard = deadline
        self.idle = 0.0
        self._read = read
        self._over = over

    def answered(self, env: Envelope) -> None:
        self._read()
        self._over()

    def unanswered(self, kind: str, message: str) -> None:
        self._over()

    def progressed(self, params: Raw) -> None:
        pass


class Turns:
    """The servers that have asked, and what waits for each. Implements gateway.call.Turns. `held_up` is told, now and
    then, that calls wait for a server."""

    def __init__(self, held_up: Callable[[InstanceKey], None]) -> None:
        self._held_up = held_up
        self._looks: dict[InstanceKey, asyncio.TimerHandle] = {}
        self.asked: set[InstanceKey] = set()
        self._waiting: dict[InstanceKey, deque[_Waiting]] = {}
        self._kept = Kept()
        #: Agents whose call ended there unanswered: in this turn of the loop, or a ping behind its end is on its way.
        self._ending: list[tuple[Client, object]] = []
        self._loop = asyncio.get_running_loop()

    def has_asked(self, key: InstanceKey, client: Client) -> list[AgentCall]:
        """From now on its calls take turns; those in flight count. Returned are the calls that the question may as well
        be of: they were withdrawn, and the server may not have read that."""
        unread = self.unread(client)
        if key not in self.asked:
            self.asked.add(key)
            if unread:
                self._ping(client, key, None)
        for waiter in client.waiting().values():
            if isinstance(waiter, AgentCall):
                waiter.turns = self
        return unread

    def unread(self, client: Client) -> list[AgentCall]:
        """The calls that were withdrawn and that the server may not have read of. Where it reads in no known order,
        those of the last moments."""
        return [one.waiter for one in client.unread(SETTLES) if isinstance(one.waiter, AgentCall)]

    def _ping(self, client: Client, key: InstanceKey, agent: object) -> None:
        """No other agent's call goes before the server has read what was sent until now, but for so long at most. One
        that is silent for longer is in nobody's way, and what it asks then is unclear."""
        now = self._loop.time()
        until = now + SETTLES
        client.start(
            _Settling(agent, until, lambda: client.withdrew.read_until(now), lambda: self._next(key)), "ping"
        )

    def waiting(self) -> Counter[InstanceKey]:
        """How many calls wait here, by the server that they are for."""
        return Counter({key: len(queue) for key, queue in self._waiting.items()})

    def take(self, call: AgentCall, start: Callable[[], None], size: int = 0) -> bool:
        """Whether the call may be sent now; else `start` is called when it may, unless it has ended before. `size`:
        bytes that are kept for it until then."""
        call.turns = self
        if self._may(call):
            return True
        if len(self._waiting.get(call.key, ())) >= MAX_WAITING:
            call.not_sent("busy", self._because(call, "too many calls wait there for other agents'"))
            return False
        owner = whose(call)
        if why := self._kept.add(owner, size):
            call.not_sent("busy", why)
            return False
        # One deadline for waiting and for the call itself.
        timer = self._loop.call_at(call.deadline, self._too_long, call)
        waiting = _Waiting(call, start, timer, owner, size, self._loop.time())
        self._waiting.setdefault(call.key, deque()).append(waiting)
        self._held_up(call.key)
        if call.key not in self._looks:
            self._looks[call.key] = self._loop.call_later(LOOK, self._look, call.key)
        return False

    def _look(self, key: InstanceKey) -> None:
        """Calls wait for others: where those wait for a person, they do so no longer than PATIENCE."""
        del self._looks[key]
        self._held_up(key)
        now = self._loop.time()
        for waiting in list(self._waiting.get(key, ())):
            call = waiting.call
            if now - waiting.since >= PATIENCE and holders(call.client, waiting.owner):
                self._too_long(call, now - waiting.since)
        if self._waiting.get(key) and key not in self._looks:
            self._looks[key] = self._loop.call_later(LOOK, self._look, key)

    def _because(self, call: AgentCall, why: str) -> str:
        """Why a call is not sent, with who was asked something there and has not answered."""
        who = named(holders(call.client, whose(call)), self._loop.time())
        return f"{why}: {who}" if who else why

    def _lets_go(self, waiting: _Waiting) -> None:
        """It waits no more."""
        waiting.timer.cancel()
        self._kept.drop(waiting.owner, waiting.size)

    def is_free(self, call: AgentCall) -> bool:
        """Whether its server would know that what it asks next is asked because of this one."""
        return call.key not in self.asked or not self._others(call)

    def _may(self, call: AgentCall) -> bool:
        if self._others(call):
            return False
        others = [w for w in call.client.waiting().values() if isinstance(w, AgentCall)]
        # Who is asked may need another call for the answer: behind those who wait, none of them would ever go on. Once
        # it has answered it waits for its turn as all do, or who answers at once would be before the others for ever.
        return call.key not in self._waiting or any(other.still for other in others)

    def ended(self, call: AgentCall) -> None:
        """A call is over, whatever way, or waits no more: the next agent's may go."""
        queue = self._waiting.get(call.key, ())
        waited = [w for w in queue if w.call is call]
        if not waited and not call.replied and call.client.era == "legacy":
            self._ending.append(end := (call.client, whose(call)))
            self._loop.call_soon(self._settle, call.key, end, self._loop.time())  # behind the withdrawal
        if not isinstance(queue, deque):
            return
        for waiting in waited:
            self._lets_go(waiting)
            queue.remove(waiting)
        self._loop.call_soon(self._next, call.key)

    def _settle(self, key: InstanceKey, end: tuple[Client, object], since: float) -> None:
        """What the server asks before it has read this is about that agent's call, and nobody else's."""
        client, agent = end
        behind = client.behind
        if behind is None or behind.at < since or client.over:
            self._ending.remove(end)
            if not client.over:
                self._ping(client, key, agent)
            return

        def let_go() -> None:
            if not timer.cancelled():
                timer.cancel()
                self._ending.remove(end)
                self._next(key)

        timer = self._loop.call_later(SETTLES, let_go)
        behind.then.append(let_go)

    def _next(self, key: InstanceKey) -> None:
        """Start the first that waits, and those right behind it of the same agent."""
        queue = self._waiting.get(key)
        while queue:
            first = queue[0]
            if first.call.client.over:
                queue.popleft()
                self._lets_go(first)
                first.call.not_sent("lost", "the connection was lost while it waited for other agents' calls")
                continue
            if first.call.deadline <= self._loop.time():
                self._too_long(first.call)
                continue
            if self._others(first.call):
                return
            queue.popleft()
            self._lets_go(first)
            first.start()
        if queue is not None:
            self._waiting.pop(key, None)

    def _too_long(self, call: AgentCall, waited: float = 0.0) -> None:
        """It has waited so many seconds, or all that it has."""
        if not waited and call.deadline >= call.until:
            why = "the deadline of its task has passed while other agents' calls were in the way"
            if call.trouble is not None:
                call.gives_up(why)
            else:
                text = f"{call.tool} was not sent to the server {call.server}: {why}."
                call.turned_down("task_budget", text)
            return
        text = f"other agents' calls were in the way for {waited or call.idle:.3g} s"
        call.not_sent("busy", self._because(call, text))

    def _others(self, call: AgentCall) -> bool:
        """Whether another agent has something at its server for which that may ask."""
        own = whose(call)
        for waiter in call.client.waiting().values():
            if isinstance(waiter, AgentCall) and whose(waiter) != own:
                return True
            if isinstance(waiter, _Settling) and waiter.agent != own:
                return True
        return any(client is call.client and agent != own for client, agent in self._ending)
