"""Owns the requests that wait for a server which is started for them: one that is lazy, or was stopped when unused.

It must not know methods, nor what a request becomes: it is done again, whole, when its server is there or is not going
to be. Only the first start is waited for; what fails is told at once, as always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mcphub.connection.worker import Worker
from mcphub.spec import InstanceKey

#: Requests that may wait at once; further ones are told that the server is starting.
MAX_HELD = 10_000


class _Held(NamedTuple):
    key: InstanceKey
    again: Callable[[], None]


class Awakening:
    """`workers` is the supervisor's table; `held` are those that wait, by agent and id as JSON."""

    def __init__(self, workers: Mapping[InstanceKey, Worker]) -> None:
        self.held: dict[tuple[Any, bytes], _Held] = {}
        self._workers = workers

    def hold(self, agent: object, mid: bytes, worker: Worker, again: Callable[[], None]) -> bool:
        """Start this server, if it is one that sleeps, and keep the request until then; False where nothing is to be
        waited for. `again` does the request anew; it must hold copies of what it needs."""
        worker.wake_idle()
        if not worker.waking or len(self.held) >= MAX_HELD:
            return False
        self.held[agent, mid] = _Held(worker.key, again)
        return True

    def cancel(self, agent: object, mid: bytes) -> bool:
        """Its agent does not want it any more; whether it waited."""
        return self.held.pop((agent, mid), None) is not None

    def left(self, agent: object) -> None:
        """Nothing waits for an agent that left."""
        for key in [key for key in self.held if key[0] == agent]:
            del self.held[key]

    def renew(self) -> None:
        """Servers may have started, or failed to."""
        for key, held in list(self.held.items()):
            worker = self._workers.get(held.key)
            if (worker is None or not worker.waking) and self.held.pop(key, None) is not None:
                held.again()
