"""Owns the calls that are sent again after their answer was lost: kept meanwhile, sent on the connection there is then.

It must not decide which (gateway/retry.py), nor open a connection. Such a call stays its agent's one call: it holds its
place, its deadline and its id there; a timer of the loop stands for it, and no task.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

from mcphub.catalog.cache import Catalog
from mcphub.channel import NOT_ACTED_ON, Data
from mcphub.connection import capability_sets
from mcphub.connection.client import Client
from mcphub.connection.machine import Connected, Pending
from mcphub.connection.worker import Worker
from mcphub.gateway import retry
from mcphub.gateway.call import AgentCall, Trouble
from mcphub.gateway.call_lines import of_trace
from mcphub.gateway.circuits import Circuits
from mcphub.gateway.retry import Purpose
from mcphub.gateway.rounds import Rounds, principal_of
from mcphub.gateway.turns import Turns
from mcphub.protocol import mrtr
from mcphub.spec import InstanceKey

#: Arguments, or params, above this size are not kept, and such a call is sent once. Bytes.
MAX_KEPT = 1 << 20
#: Calls that may wait at once to be sent again.
MAX_WAITING = 10_000
#: Seconds, beyond its delay, that a call waits for its server to be connected again: whoever waits for an answer
#: should hear within moments that the server is down.
CONNECTION_WAIT = 10.0
#: Why a call is not sent again whose tool may do something else now.
_CHANGED = "the tool is another one since it was connected again"
#: Seconds between two lines in the log about one server.
LOG_EVERY = 1.0


class Again:
    """The calls of one hub. `workers` is the supervisor's table."""

    def __init__(
        self,
        workers: Mapping[InstanceKey, Worker],
        catalog: Catalog,
        circuits: Circuits,
        rounds: Rounds,
        turns: Turns,
    ) -> None:
        #: Those that wait, in the order in which they failed.
        self.waiting: dict[AgentCall, None] = {}
        self._workers = workers
        self._catalog = catalog
        self._circuits = circuits
        self._rounds = rounds
        self._turns = turns
        self._loop = asyncio.get_running_loop()
        self._random = random.Random()
        self._stopped = False
        self._logged: dict[InstanceKey, float] = {}

    def keep(self, call: AgentCall, arguments: Data) -> None:
        """Keep what is sent of a call that may be sent again."""
        if len(arguments) > MAX_KEPT:
            return
        call.keeps = True
        if call.round is not None:
            call.arguments = call.round.arguments
        elif not call.arguments:
            # Of a view, a third of what bytes() takes.
            call.arguments = arguments.tobytes() if type(arguments) is memoryview else bytes(arguments)

    # --- after a failure ---------------------------------------------------------------------------------------------

    def goes_on(self, call: AgentCall, kind: str, message: str) -> bool:
        """Whether this call, whose answer will not come, is sent again later."""
        if not call.keeps or self._stopped or len(self.waiting) >= MAX_WAITING:
            return False
        if call.questions is not None or call.task is not None:
            return False  # somebody was asked, or its server has begun to tell of it
        trouble = call.trouble
        now = self._loop.time()
        attempt = trouble.failures + 1 if trouble is not None else 1
        sent = trouble.sent if trouble is not None else call.began
        verdict = retry.decide(
            kind,
            purpose_of(call),
            attempt=attempt,
            now=now,
            deadline=call.deadline,
            estimate=now - sent,
            chance=self._random.random(),
            retry_after=getattr(call.client.channel, "retry_after", 0.0),
        )
        if not verdict.again:
            return False
        if trouble is None:
            trouble = call.trouble = Trouble()
        trouble.failures, trouble.kind, trouble.message = attempt, kind, message
        if kind not in NOT_ACTED_ON:
            trouble.doubt = kind
        trouble.estimate = now - sent
        trouble.until = min(now + verdict.delay + CONNECTION_WAIT, call.deadline)
        trouble.due = False
        trouble.timer = self._loop.call_later(verdict.delay, self._due, call)
        self.waiting[call] = None
        if call.turns is not None:
            call.turns.ended(call)  # it holds nobody up meanwhile
        self._log(call, verdict)
        return True

    def _log(self, call: AgentCall, verdict: retry.Verdict) -> None:
        worker, now = self._workers.get(call.key), self._loop.time()
        if worker is None or now - self._logged.get(call.key, float("-inf")) < LOG_EVERY:
            return
        if len(self._logged) > len(self._workers):
            self._logged.clear()  # servers come and go
        self._logged[call.key] = now
        assert call.trouble is not None
        worker.noted(
            f"{call.tool} is sent again in {verdict.delay:.1f} s, attempt {call.trouble.failures + 1} of "
            f"{retry.ATTEMPTS}, since {verdict.reason}: {call.trouble.message}{of_trace(call)}"
        )

    def _due(self, call: AgentCall) -> None:
        """Its delay is over."""
        trouble = call.trouble
        assert trouble is not None
        trouble.due = True
        trouble.timer = self._loop.call_at(trouble.until, self._give_up, call, "it was not connected again in time")
        self._look(call)

    def renew(self) -> None:
        """Servers may have been connected again, or given up."""
        for call in list(self.waiting):
            if call in self.waiting:
                self._look(call)

    def _look(self, call: AgentCall) -> None:
        """Send it, wait on, or give it up, as its server stands now."""
        worker, trouble = self._workers.get(call.key), call.trouble
        assert trouble is not None
        if worker is None:
            self._give_up(call, "the server was removed, or its entry changed", changed=True)
            return
        client, state = worker.client, worker.state
        if client is not None and not client.over:
            if trouble.due:
                self._send(call, worker, client)
            return
        if isinstance(state, Pending) and state.idle:
            worker.wake_idle()
        elif isinstance(state, Pending) and (state.offline or state.retry_at > trouble.until):
            self._give_up(call, "it is not connected again soon")
        elif not isinstance(state, Pending | Connected):
            self._give_up(call, "it could not be connected again")

    def _send(self, call: AgentCall, worker: Worker, client: Client) -> None:
        trouble = call.trouble
        assert trouble is not None
        if worker.sessions is not None:
            declared = capability_sets.declared_by(call.meta.capabilities) if call.meta.modern else call.caller.declares
            client = worker.sessions.client_for(client, call.meta.modern, declared)
        why = ""
        if self._loop.time() + trouble.estimate >= call.deadline:
            why = "there was no time for another attempt"
        elif client.channel is None or client.channel.full:
            why = "it does not read its requests"
        elif not self._is_as_it_was(call, worker):
            why = _CHANGED
        elif self._circuits.known and self._circuits.stops(call) is not None:
            why = "too many calls before this one got no answer"
        if why:
            self._give_up(call, why, changed=why is _CHANGED)
            return
        self._take(call)
        self._fit(call, client)
        call.client = client
        if call.key not in self._turns.asked or self._turns.take(call, lambda: self._start(call)):
            self._start(call)

    def _start(self, call: AgentCall) -> None:
        trouble = call.trouble
        assert trouble is not None
        trouble.sent = self._loop.time()
        call.client.counters["retried"] += 1
        call.again(call.client, b"")

    def _is_as_it_was(self, call: AgentCall, worker: Worker) -> bool:
        """A server that is connected again may have other tools: what is not the same any more was not called."""
        if call.route is None:
            return True
        tools, _ = self._catalog.definitions(worker.view())
        return call.route.definition in tools

    def _fit(self, call: AgentCall, client: Client) -> None:
        """Let a modern agent's call have rounds, where the server speaks the modern era only now."""
        if call.meta.modern and client.era == "modern" and call.round is None and call.asked_for in mrtr.METHODS:
            call.rounds = self._rounds
            call.round = mrtr.Round(
                principal_of(call.caller), call.server, call.asked_for, call.target, call.arguments
            )

    # --- ends --------------------------------------------------------------------------------------------------------

    def _take(self, call: AgentCall) -> None:
        self.waiting.pop(call, None)
        if call.trouble is not None and call.trouble.timer is not None:
            call.trouble.timer.cancel()
            call.trouble.timer = None

    def _give_up(self, call: AgentCall, why: str, changed: bool = False) -> None:
        """It is not sent any more: its last failure is its end. `changed` as in call.Trouble."""
        self._take(call)
        assert call.trouble is not None
        call.trouble.changed = changed
        call.gives_up(why)

    def ended(self, call: AgentCall) -> None:
        """Its agent does not want it any more."""
        self._take(call)

    def stop(self) -> None:
        """mcphub is going down: nothing is sent again."""
        self._stopped = True
        for call in list(self.waiting):
            self._give_up(call, "mcphub is stopping")


def purpose_of(call: AgentCall) -> Purpose:
    """What sending it twice would mean, as far as it is known and believed."""
    if call.route is None:
        return Purpose.READ
    tool = call.route.definition
    if not tool.repeatable or call.keyless:
        return Purpose.WRITE
    return Purpose.READ if tool.reads else Purpose.IDEMPOTENT


