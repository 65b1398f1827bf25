"""Owns the requests that wait for a server which is on its way: started for them, or just now for whatever reason; and
those of a name that may be in a list which is on its way, since its server said that it has changed.

It must not know methods, nor what a request becomes: it is done again, whole, when its server is there or is not going
to be. Only an attempt that nothing failed before is waited for; what fails is told at once, as always. A request has
one deadline for waiting here and for what comes after.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mcphub.connection.worker import Worker
from mcphub.protocol.envelope import NO_META, RequestMeta
from mcphub.spec import InstanceKey

#: Requests that may wait at once; further ones are told that the server is starting.
MAX_HELD = 10_000


class _Held(NamedTuple):
    key: InstanceKey
    again: Callable[[], None]
    since: float
    timer: asyncio.TimerHandle
    meta: RequestMeta
    tool: str
    #: The list that it waits for, "" = it waits for its server, and what is waited for (Worker.coming).
    method: str = ""
    number: int = 0


class Awakening:
    """`workers` is the supervisor's table; `held` are those that wait, by agent and id as JSON. `patience`: how long
    one waits for a list, seconds."""

    def __init__(self, workers: Mapping[InstanceKey, Worker], patience: float = 0.0) -> None:
        self.held: dict[tuple[Any, bytes], _Held] = {}
        #: When the request that is done again just now came, monotonic seconds; 0 = none is.
        self.since = 0.0
        self._workers = workers
        self._patience = patience
        #: The request that is done again just now has waited for a list, and waits for none any more.
        self._has_list = False

    def hold(
        self,
        agent: object,
        mid: bytes,
        worker: Worker,
        again: Callable[[], None],
        late: Callable[[], None],
        meta: RequestMeta = NO_META,
        tool: str = "",
    ) -> bool:
        """Keep the request until its server, which is started if it sleeps, is there; False where nothing is to be
        waited for. `again` does the request anew; it must hold copies of what it needs. `late` is called instead where
        a call may take no longer. `tool` is the name that a call has for its agent, "" = it is another request."""
        worker.wake_idle()
        if not worker.waking or len(self.held) >= MAX_HELD:
            return False
        loop = asyncio.get_running_loop()
        since = self.since or loop.time()
        timer = loop.call_at(since + worker.spec.call_timeout, self._late, agent, mid, late)
        self.held[agent, mid] = _Held(worker.key, again, since, timer, meta, tool)
        return True

    def list_comes(self, worker: Worker, method: str) -> int:
        """What a request of a name that is not listed may wait for, as Worker.coming; 0 where it has done so."""
        return 0 if self._has_list else worker.coming(method, self._patience)

    def hold_for_list(
        self,
        agent: object,
        mid: bytes,
        worker: Worker,
        method: str,
        again: Callable[[], None],
        meta: RequestMeta = NO_META,
        tool: str = "",
    ) -> bool:
        """Keep a request of a name that is not listed until its server's list of this method, which has changed, is
        there; False where `list_comes` is 0, or too many wait. It is done again anyway when it has waited enough."""
        number = self.list_comes(worker, method)
        if not number or len(self.held) >= MAX_HELD:
            return False
        loop = asyncio.get_running_loop()
        now = loop.time()
        since = self.since or now
        until = min(now + self._patience, since + worker.spec.call_timeout)
        timer = loop.call_at(until, self._enough, agent, mid)
        self.held[agent, mid] = _Held(worker.key, again, since, timer, meta, tool, method, number)
        return True

    def due(self) -> bool:
        """Whether a request waits for no list any more but for `renew`."""
        return any(held.number and not self._waits(held) for held in self.held.values())

    def met_failed(self, worker: Worker) -> None:
        """A request was told that its server has failed: that is worth another attempt, unless it has waited for one
        that failed just now, and so may others have, which are still to be told."""
        if not self.since:
            worker.wake_failed()

    def _late(self, agent: object, mid: bytes, late: Callable[[], None]) -> None:
        if self.cancel(agent, mid):
            late()

    def cancel(self, agent: object, mid: bytes) -> bool:
        """Its agent does not want it any more; whether it waited."""
        held = self.held.pop((agent, mid), None)
        if held is not None:
            held.timer.cancel()
        return held is not None

    def left(self, agent: object) -> None:
        """Nothing waits for an agent that left."""
        for key in [key for key in self.held if key[0] == agent]:
            self.cancel(*key)

    def renew(self) -> None:
        """Servers may have started, or failed to."""
        for key, held in list(self.held.items()):
            if not self._waits(held) and self.cancel(*key):
                self._do(held)

    def _waits(self, held: _Held) -> bool:
        worker = self._workers.get(held.key)
        if worker is None:
            return False
        return worker.brings(held.method, held.number) if held.number else worker.waking

    def _enough(self, agent: object, mid: bytes) -> None:
        held = self.held.get((agent, mid))
        if held is not None and self.cancel(agent, mid):
            self._do(held)

    def _do(self, held: _Held) -> None:
        self.since, self._has_list = held.since, bool(held.number)
        try:
            held.again()
        finally:
            self.since, self._has_list = 0.0, False
