"""Owns the table of workers: makes it what is wanted, and publishes a snapshot whenever one of them changes.

It must not know the protocol or the toolset, nor why an instance is wanted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio
import anyio.abc
import msgspec

from mcphub.connection.backoff import Backoff
from mcphub.connection.machine import TurnedOff
from mcphub.connection.rest import Known
from mcphub.connection.view import View
from mcphub.connection.worker import Sink, Worker
from mcphub.spec import Desired, InstanceKey, Off, ServerSpec, Want
from mcphub.supervisor.reconcile import reconcile
from mcphub.supervisor.startup import Limiters
from mcphub.supervisor.watch import Watch
from mcphub.transport.link import Surroundings

#: Lazy servers that do not run of which it is known what they said.
MAX_KNOWN = 200


class Snapshot(msgspec.Struct, frozen=True):
    """All wanted instances at one moment, with what is wanted but does not run."""

    views: dict[InstanceKey, View] = msgspec.field(default_factory=dict)
    desired: Desired = msgspec.field(default_factory=dict)


def _kind_of(spec: ServerSpec) -> InstanceKey:
    """What it is, whichever agent has it."""
    return msgspec.structs.replace(spec, agent="").key() if spec.agent else spec.key()


def _why(desired: Desired, key: InstanceKey) -> str:
    """Why an instance ends that ran: what is said of its server now, "" = it is gone, or another takes its place."""
    for other, wish in desired.items():
        if _same_server(other, key) and isinstance(wish, Off):
            return f"it is disabled now ({wish.because}): {wish.detail}"
    return ""


def _same_server(one: InstanceKey, other: InstanceKey) -> bool:
    return (one.name, one.workspace) == (other.name, other.workspace)


class Supervisor:
    """The workers of one daemon. `run` owns their tasks; `want` may be called at any time while it runs."""

    def __init__(
        self,
        surroundings: Surroundings,
        limiters: Limiters,
        backoff: Backoff,
        sink: Sink,
        log: Callable[[str, str], None],
        stderr_bytes: int = 1 << 20,
    ) -> None:
        self.snapshot: Watch[Snapshot] = Watch(Snapshot())
        self.workers: dict[InstanceKey, Worker] = {}
        self._leaving: dict[Worker, anyio.Event] = {}
        self._stopping = False
        self._desired: Desired = {}
        #: What lazy servers said that do not run any more, by what they would run as; the oldest go first.
        self._known: dict[InstanceKey, Known] = {}
        self._surroundings = surroundings
        self._limiters = limiters
        self._backoff = backoff
        self._sink = sink
        self._log = log
        self._stderr_bytes = stderr_bytes
        self._tasks: anyio.abc.TaskGroup | None = None
        self._scheduled = False

    async def run(self, started: anyio.Event) -> None:
        """Own the workers' tasks until cancelled; then every connection is closed in parallel before it returns."""
        try:
            async with anyio.create_task_group() as self._tasks:
                started.set()
                await anyio.sleep_forever()
        finally:
            self._tasks = None

    async def stop(self) -> None:
        """Turn every worker off, for good, and wait until all have closed their connections."""
        self.want({})
        self._stopping = True
        while self._leaving:
            await self.snapshot.newer_than(self.snapshot.revision)

    def want(self, desired: Desired) -> None:
        """Make the running instances these. Unchanged ones are not touched."""
        assert self._tasks is not None
        if self._stopping:
            return
        self._desired = desired
        plan = reconcile(desired, self.workers)
        for key in plan.stop:
            worker = self.workers.pop(key)
            self._remember(worker)
            self._leaving[worker] = anyio.Event()
            worker.post(TurnedOff("stopping", _why(desired, key)))
        for key in plan.start:
            wish = desired[key]
            assert isinstance(wish, Want)
            limiter = self._limiters.for_spec(wish.spec)
            worker = Worker(
                wish.spec,
                self._surroundings,
                limiter,
                self._backoff,
                self._changed,
                self._sink,
                self._log,
                self._stderr_bytes,
                known=self._recall(wish.spec),
            )
            self.workers[key] = worker
            # What it replaces has ended before it starts: two of one server may want the same port, file or profile.
            before = [ended for other, ended in self._leaving.items() if _same_server(other.key, key)]
            self._tasks.start_soon(self._run_worker, worker, before, name=f"worker {wish.spec.name}")
        self._publish()

    def _remember(self, worker: Worker) -> None:
        if worker.spec.lazy and (known := worker.known) is not None:
            self._known.pop(key := _kind_of(worker.spec), None)
            self._known[key] = known
            while len(self._known) > MAX_KNOWN:
                del self._known[next(iter(self._known))]

    def _recall(self, spec: ServerSpec) -> Known | None:
        """What a lazy server said, here or to another agent that has one like it."""
        if not spec.lazy:
            return None
        key = _kind_of(spec)
        alike = (worker.known for worker in self.workers.values() if _kind_of(worker.spec) == key)
        return next((known for known in alike if known is not None), None) or self._known.get(key)

    def look_for_programs(self) -> None:
        """Programs are looked for elsewhere now: let the servers whose program was not found try again."""
        for worker in self.workers.values():
            worker.wake_not_found()

    async def _run_worker(self, worker: Worker, before: list[anyio.Event]) -> None:
        try:
            for ended in before:
                await ended.wait()
            await worker.run()
        finally:
            if worker in self._leaving:
                self._leaving.pop(worker).set()
            self._changed()

    def _changed(self) -> None:
        """A worker has another view: publish once a turn of the loop, however many changed."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._publish)

    def _publish(self) -> None:
        self._scheduled = False
        views = {key: worker.view() for key, worker in self.workers.items()}
        self.snapshot.publish(Snapshot(views, self._desired))
