"""Owns the table of workers: makes it what is wanted, and publishes a snapshot whenever one of them changes.

It must not know the protocol or the toolset, nor why an instance is wanted.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable

import anyio
import anyio.abc
import msgspec

from mcphub.connection.backoff import Backoff
from mcphub.connection.machine import Asked, Connected, Disabled, Failed, Pending, TurnedOff
from mcphub.connection.pulse import USUAL, Health
from mcphub.connection.rest import Known
from mcphub.connection.view import View
from mcphub.connection.worker import Sink, Worker
from mcphub.spec import Desired, InstanceKey, Off, ServerSpec, Want
from mcphub.supervisor.catalogue_marks import is_kept
from mcphub.supervisor.catalogues import Catalogues
from mcphub.supervisor.reconcile import reconcile
from mcphub.supervisor.startup import Limiters
from mcphub.supervisor.watch import Watch
from mcphub.transport.link import Surroundings

#: Seconds that the calls in flight of an instance get which another takes the place of, since its entry was changed;
#: then it ends. How often it is looked whether all are answered.
DRAIN = 30.0
DRAIN_STEP = 0.05
#: Lazy servers that do not run of which it is known what they said.
MAX_KNOWN = 200


class Snapshot(msgspec.Struct, frozen=True):
    """All wanted instances at one moment, with what is wanted but does not run."""

    views: dict[InstanceKey, View] = msgspec.field(default_factory=dict)
    desired: Desired = msgspec.field(default_factory=dict)


def _kind_of(spec: ServerSpec) -> InstanceKey:
    """What it is, whichever agent has it."""
    return msgspec.structs.replace(spec, agent="").key() if spec.agent else spec.key()


def _switched_off(desired: Desired) -> dict[tuple[str, str], str]:
    """Of each server that is off, by name and workspace, why an instance of it that ran ends now. One that is not here
    is gone, or another takes its place."""
    found: dict[tuple[str, str], str] = {}
    for key, wish in desired.items():
        if isinstance(wish, Off):
            found.setdefault(_server(key), f"it is disabled now ({wish.because}): {wish.detail}")
    return found


def _server(key: InstanceKey) -> tuple[str, str]:
    """What two instances of one server have in common."""
    return key.name, key.workspace


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
        health: Health = USUAL,
        catalogues: Catalogues | None = None,
    ) -> None:
        """`catalogues`: what servers offer, over restarts; None = it is not known, and lazy ones are started for it."""
        self.snapshot: Watch[Snapshot] = Watch(Snapshot())
        self.workers: dict[InstanceKey, Worker] = {}
        #: The same, by server.
        self._instances: dict[tuple[str, str], dict[InstanceKey, Worker]] = {}
        #: Those whose view is another one than was published; a dict keeps them in order.
        self._stale: dict[InstanceKey, None] = {}
        #: Told of every new one, before its task begins.
        self.joined: Callable[[Worker], None] = lambda worker: None
        self._leaving: dict[Worker, anyio.Event] = {}
        #: Those of them that still answer what was asked of them.
        self._draining: set[Worker] = set()
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
        self._health = health
        self._catalogues = catalogues
        #: Those whose catalogue is being looked for.
        self._looking: set[InstanceKey] = set()
        if catalogues is not None:
            catalogues.outdated = self._learn_again
            catalogues.confirm = self._confirm
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
        # By server, once: a thousand entries may change in one moment.
        off = _switched_off(desired)
        wanted = {_server(key) for key, wish in desired.items() if isinstance(wish, Want)} if self._draining else set()
        for worker in list(self._draining):
            # What a person or policy switched off meanwhile, or took away, ends at once.
            if _server(worker.key) not in wanted:
                worker.post(TurnedOff("stopping", off.get(_server(worker.key), "")))
        started = {_server(key) for key in plan.start}
        for key in plan.stop:
            worker = self.workers.pop(key)
            self._left(worker)
            self._remember(worker)
            self._leaving[worker] = anyio.Event()
            if worker.calls and _server(key) in started:
                self._draining.add(worker)
                self._tasks.start_soon(self._drain, worker, name=f"end of {worker.name}")
            else:
                worker.post(TurnedOff("stopping", off.get(_server(key), "")))
        # What it replaces has ended before it starts: two of one server may want the same port, file or profile.
        # What still has calls is not waited for, since new ones would have to wait as long.
        ending: dict[tuple[str, str], list[anyio.Event]] = {}
        for leaver, ended in self._leaving.items():
            if leaver not in self._draining:
                ending.setdefault(_server(leaver.key), []).append(ended)
        for key in plan.start:
            wish = desired[key]
            assert isinstance(wish, Want)
            limiter = self._limiters.for_spec(wish.spec)
            worker = Worker(
                wish.spec,
                self._surroundings,
                limiter,
                self._backoff,
                functools.partial(self._changed, key),
                self._sink,
                self._log,
                self._stderr_bytes,
                known=self._recall(wish.spec),
                health=self._health,
            )
            self.workers[key] = worker
            self._instances.setdefault(_server(key), {})[key] = worker
            self._stale[key] = None
            self.joined(worker)
            before = ending.get(_server(key), [])
            self._tasks.start_soon(self._run_worker, worker, before, name=f"worker {wish.spec.name}")
        self._publish()

    def _left(self, worker: Worker) -> None:
        """It is not in the table any more."""
        self._stale[worker.key] = None
        others = self._instances[_server(worker.key)]
        del others[worker.key]
        if not others:
            del self._instances[_server(worker.key)]

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
        others = self._instances.get(_server(key), {}).values()
        alike = (worker.known for worker in others if _kind_of(worker.spec) == key)
        known = next((known for known in alike if known is not None), None) or self._known.get(key)
        if known is None and self._catalogues is not None:
            known = self._catalogues.recall(key, spec)
        return known

    def look_up(self, keys: Iterable[InstanceKey]) -> bool:
        """Somebody asks for the lists of these: those that have said nothing yet get what they offered when another
        daemon ran, once that is found. Whether it is being looked for, for any of them."""
        if self._catalogues is None or self._tasks is None:
            return False
        found, new = False, []
        for key in keys:
            worker = self.workers.get(key)
            if worker is not None and not worker.listed and is_kept(worker.spec):
                if not worker.looked_up:
                    worker.looked_up = True
                    new.append(worker)
                    self._looking.add(key)
                found = found or key in self._looking
        if new:
            self._tasks.start_soon(self._look_up, self._catalogues, new, name="saved catalogues")
        return found

    async def _look_up(self, catalogues: Catalogues, workers: list[Worker]) -> None:
        try:
            kinds = {_kind_of(worker.spec): worker.spec for worker in workers}
            known = await catalogues.look_up(kinds)
        except Exception as e:  # a fault of ours must cost what was saved, not the daemon
            self._log("error", f"internal error while saved catalogues were read: {type(e).__name__}: {e}")
            if self._surroundings.report is not None:
                self._surroundings.report(e)
            known = {}
        finally:
            self._looking.difference_update(worker.key for worker in workers)
        for worker in workers:
            if (one := known.get(_kind_of(worker.spec))) is not None:
                worker.remember(one)
        self._publish()  # whoever waits for it need not wait any more, also where there was nothing

    def _confirm(self) -> None:
        """What is connected is seen today, too."""
        for worker in self.workers.values():
            if self._catalogues is not None and isinstance(worker.state, Connected) and worker.lists.whole:
                self._catalogues.note(_kind_of(worker.spec), worker.spec, worker.known)

    def _learn_again(self, kind: InstanceKey) -> None:
        """What is known of servers of this kind may not be so any more."""
        for worker in self._instances.get(_server(kind), {}).values():
            if _kind_of(worker.spec) == kind:
                worker.learn()

    def _note(self, worker: Worker, before: View, now: View) -> None:
        """Keep what a server offers over the end of the daemon, where it is something else than before."""
        if self._catalogues is None or now.facts is None or not now.listed or not isinstance(now.state, Connected):
            return
        same = now.facts is before.facts and (now.listed, now.shelved) == (before.listed, before.shelved)
        if not same:
            known = worker.known if worker.lists.whole else None
            self._catalogues.note(_kind_of(worker.spec), worker.spec, known)

    def look_for_programs(self) -> None:
        """Programs are looked for elsewhere now: let the servers whose program was not found try again."""
        for worker in self.workers.values():
            worker.wake_not_found()

    async def _drain(self, worker: Worker) -> None:
        """Let an instance that was replaced answer what is in flight, for so long."""
        event = TurnedOff("stopping")
        self._log("info", f"{worker.name}: its entry was changed; {worker.calls} calls in flight are waited for")
        worker.part(event)
        for _ in range(round(DRAIN / DRAIN_STEP)):
            if not (worker.calls and isinstance(worker.state, Connected)):
                break
            await anyio.sleep(DRAIN_STEP)  # a call pays nothing for being counted
        if not isinstance(worker.state, Disabled):
            worker.post(event)

    def _drained(self, worker: Worker) -> None:
        """It has ended: what took its place may have wanted something that it had."""
        self._draining.discard(worker)
        for other in self._instances.get(_server(worker.key), {}).values():
            if isinstance(other.state, Failed) or (isinstance(other.state, Pending) and other.state.fault is not None):
                other.post(Asked())

    async def _run_worker(self, worker: Worker, before: list[anyio.Event]) -> None:
        try:
            for ended in before:
                await ended.wait()
            await worker.run()
        finally:
            if worker in self._leaving:
                self._leaving.pop(worker).set()
            if worker in self._draining:
                self._drained(worker)
            self._changed(worker.key)

    def _changed(self, key: InstanceKey) -> None:
        """A worker has another view: publish once a turn of the loop, however many changed."""
        self._stale[key] = None
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self.catch_up)

    def catch_up(self) -> None:
        """Publish at once what else would be published later in this turn of the loop."""
        if self._scheduled:
            self._publish()

    def _publish(self) -> None:
        self._scheduled = False
        views = self.snapshot.value.views.copy()
        stale, self._stale = self._stale, {}
        for key in stale:
            worker = self.workers.get(key)
            if worker is not None:
                now = worker.view()
                if (before := views.get(key)) is not None:
                    self._note(worker, before, now)
                views[key] = now
            else:
                views.pop(key, None)
        self.snapshot.publish(Snapshot(views, self._desired))
