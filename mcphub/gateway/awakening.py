"""Owns the requests that wait for a server which is on its way: started for them, or just now for whatever reason.

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


class Awakening:
    """`workers` is the supervisor's table; `held` are those that wait, by agent and id as JSON."""

    def __init__(self, workers: Mapping[InstanceKey, Worker]) -> None:
        self.held: dict[tuple[Any, bytes], _Held] = {}
        #: When the request that is done again just now came, monotonic seconds; 0 = none is.
        self.since = 0.0
        self._workers = workers

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
            worker = self._workers.get(held.key)
            if (worker is None or not worker.waking) and self.cancel(*key):
                self.since = held.since
                try:
                    held.again()
                finally:
                    self.since = 0.0
