"""Owns one attempt to open a server: its slot, transport, handshake and lists, and the next way where one is worth it.

It must not know states, agents, nor what a connection is used for: its worker takes it over, and is told of the fault.
It all happens in the task of the worker.
"""

from __future__ import annotations

from typing import Protocol

import anyio

from mcphub.connection import handshake
from mcphub.connection.client import Client
from mcphub.connection.diagnosis import Diagnosis
from mcphub.connection.faults import BY_TRANSPORT, Fault, FaultKind
from mcphub.connection.handshake import Facts
from mcphub.connection.lists import Lists
from mcphub.connection.opening import Opening
from mcphub.connection.slot import Slot
from mcphub.connection.source import Source
from mcphub.errors import JSONRPCError, RemoteProtocolError, TransportError
from mcphub.protocol import era
from mcphub.spec import HttpSpec, ServerSpec
from mcphub.transport.kinds import TRANSPORTS
from mcphub.transport.link import Link, Surroundings
from mcphub.transport.stderr import StderrRing

#: How long `server/discover` may stay unanswered over HTTP: there is no cold start of a program to wait for, but a
#: distant server may begin by starting its own.
PROBE_LIMIT_REMOTE = 5.0


class Home(Protocol):
    """The worker, as far as its attempts need it."""

    def begin(self) -> Client:
        """A connection is begun, on this client."""

    def started(self, pid: int | None) -> None:
        """Its transport is open."""

    async def use(self, client: Client, link: Link, facts: Facts) -> None:
        """It is open and listed: use it until it is over."""

    def retire(self, client: Client) -> None:
        """No call is for it any more."""

    def failed(self, fault: Fault) -> None:
        """The attempt is over, in vain."""

    def is_first(self) -> bool:
        """Whether no other attempt has failed before."""

    def changed(self) -> None:
        """What is said of it is another thing now: it waits for its turn."""

    def began_again(self, how: str) -> None:
        """For the log."""


class Attempt:
    """The attempts of one server, one after the other."""

    def __init__(
        self,
        home: Home,
        spec: ServerSpec,
        around: Surroundings,
        stderr: StderrRing,
        limiter: anyio.CapacityLimiter,
        opening: Opening,
        lists: Lists,
        diagnosis: Diagnosis,
    ) -> None:
        self._home = home
        self._spec = spec
        self._around = around
        self._stderr = stderr
        self._limiter = limiter
        self._opening = opening
        self._lists = lists
        self._diagnosis = diagnosis
        #: What it is at: spawn, handshake, list.
        self._phase = ""
        self._slot = Slot(limiter)

    @property
    def waits(self) -> str:
        """As slot.waits."""
        return self._slot.waits

    async def run(self) -> None:
        """Make one attempt; ends when its connection is over, or there is none."""
        probe: era.Probe | None = self._opening.probe()
        slot = self._slot = Slot(self._limiter)
        if self._limiter.available_tokens < 1:
            self._home.changed()
        await slot.take()
        try:
            deadline = anyio.current_time() + self._spec.startup_timeout
            while probe is not None:
                probe = await self._open(probe, deadline, slot)
                if probe is not None:
                    self._home.began_again(self._opening.begin_again(probe))
        finally:
            slot.give_back()

    async def _open(self, probe: era.Probe, deadline: float, slot: Slot) -> era.Probe | None:
        """One transport, until it is closed; returns how to begin again at once."""
        client = self._home.begin()
        self._phase = "spawn"
        again: era.Probe | None = None
        waits_for = "connection" if isinstance(self._spec.transport, HttpSpec) else ""
        try:
            with anyio.CancelScope(deadline=deadline) as opening:
                opener = TRANSPORTS[self._opening.by]
                async with opener(self._spec, self._around, client, self._stderr) as link:
                    client.use(link.channel)
                    waits_for = ""
                    self._home.started(link.pid)
                    try:
                        step = await self._begin(client, link, probe, slot)
                        if isinstance(step, era.Restart):
                            again = era.Probe(first=step.era, restarted=True)
                        elif isinstance(step, era.Refused):
                            self._home.failed(self._diagnosis.no_common_era(self._spec.era, step.message))
                        else:
                            opening.deadline = float("inf")
                            slot.give_back()
                            await self._home.use(client, link, step)
                    except (TransportError, RemoteProtocolError, JSONRPCError) as e:
                        opening.deadline = float("inf")  # it has failed in time; naming the fault may wait
                        fault = await self._diagnosis.why(client, link, self._phase, e)
                        older = isinstance(e, TransportError) and e.kind == "older"
                        again = self._opening.after(fault, older=older, probe=probe, first=self._home.is_first())
                        if again is None:
                            self._home.failed(fault)
                    finally:
                        waits_for = link.waits_for
                        # The end of a stubborn process takes seconds: no call is for it any more, and others need not
                        # wait for it to start.
                        self._home.retire(client)
                        if again is None:
                            slot.give_back()
            if opening.cancelled_caught:
                self._home.failed(self._diagnosis.too_slow(self._phase, waits_for))
        except TransportError as e:
            kind = BY_TRANSPORT.get(e.kind, FaultKind.SPAWN)
            self._home.failed(self._diagnosis.fault(kind, "spawn", str(e), retry_after=e.retry_after))
        return again

    def _source(self, client: Client, spoken: era.Spoken) -> Source:
        """Whose lists those of this connection are."""
        credentials = self._around.credentials
        principal = credentials.principal(self._spec) if credentials is not None else ""
        release = handshake.release(spoken)
        return Source(spoken.era, spoken.version, release, principal or "", client.declares)

    async def _begin(
        self, client: Client, link: Link, probe: era.Probe, slot: Slot
    ) -> era.Restart | era.Refused | Facts:
        self._phase = "handshake"
        limit = PROBE_LIMIT_REMOTE if isinstance(self._spec.transport, HttpSpec) else handshake.PROBE_LIMIT
        step = await handshake.shake_hands(client, probe, self._spec.startup_timeout, limit)
        if not isinstance(step, era.Spoken):
            return step
        # What a start-up costs is over once the server has answered: the next one may start while this one lists.
        slot.give_back()
        self._phase = "list"
        capabilities = step.result.get("capabilities")
        self._lists.met(self._source(client, step))
        tools, warnings = await self._lists.first_tools(client, link, capabilities)
        shelf, more = await self._lists.first_shelf(client, capabilities)
        if self._opening.stands_in:
            warnings += ('it is spoken to by the older HTTP+SSE transport; with "type": "sse" it is found sooner',)
        return handshake.facts(step, tools, warnings + more, shelf)
