"""Owns the circuit breakers of one hub: one for each server, agent and kind of call that something went wrong with.

It must not know why a connection is lost, nor open one. While nothing goes wrong there are none, and a call costs one
look at an empty dict. What keeps one agent's calls back keeps back nobody else's: the server as a whole is the
connection's matter, which ends after failures of anybody (connection/strikes.py).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

import msgspec

from mcphub.connection import strikes
from mcphub.connection.client import Client
from mcphub.connection.worker import Worker
from mcphub.gateway import breaker
from mcphub.gateway.breaker import Breaker, State
from mcphub.gateway.call import AgentCall
from mcphub.gateway.rounds import principal_of
from mcphub.spec import InstanceKey

#: Reasons of `channel.Receiver.unanswered` that count; others say nothing of the server, or that it is there.
COUNTED = strikes.COUNTED | {"timeout", "ended", "exited"}
#: Seconds after which failures that nothing followed are forgotten, and an open one that nobody asked for.
FORGET = 300.0
#: Breakers at a time; with more, the one that is longest without a failure goes.
MOST = 1000
#: Kinds of calls.
READ, WRITE = "read", "write"


class Circuit(msgspec.Struct, eq=False):
    """One breaker. `cause` is what the last failure was that counted, `at` when (monotonic seconds), and `client` the
    connection that it was on."""

    breaker: Breaker
    cause: str = ""
    at: float = 0.0
    client: Client | None = None


class Ticket(msgspec.Struct, frozen=True, eq=False):
    """How a call was let through."""

    circuit: Circuit
    generation: int


class Shown(msgspec.Struct, frozen=True):
    """A breaker that is not closed, for people. Times are monotonic seconds."""

    workspace: str
    client: str
    calls: str
    state: State
    failures: int
    since: float
    until: float
    cause: str


class Circuits:
    """`workers` is the supervisor's table."""

    def __init__(self, workers: Mapping[InstanceKey, Worker]) -> None:
        #: Those that are not as they were at first, by server, then by agent and kind of call.
        self.known: dict[InstanceKey, dict[tuple[str, str], Circuit]] = {}
        self._workers = workers
        self._loop = asyncio.get_running_loop()
        self._random = random.Random()
        self._sweeping = False

    # --- a call ------------------------------------------------------------------------------------------------------

    def stops(self, call: AgentCall) -> Circuit | None:
        """The breaker that keeps this call back, None = it may go, which must be asked right before it does."""
        circuits = self.known.get(call.key)
        circuit = circuits.get(_place(call)) if circuits else None
        if circuit is None:
            return None
        # How often a server is connected again is the connection's matter, which backs off.
        anew = circuit.client is not call.client
        circuit.breaker, may = breaker.ask(circuit.breaker, self._loop.time(), anew=anew)
        if not may:
            return circuit
        call.ticket = Ticket(circuit, circuit.breaker.generation)
        call.accounted = True
        return None

    def answered(self, call: AgentCall) -> None:
        """Its server has answered, whatever it said: a tool's isError and a JSON-RPC error are answers."""
        ticket, call.ticket = call.ticket, None
        if ticket is None:
            return
        circuit: Circuit = ticket.circuit
        before = circuit.breaker
        circuit.breaker = breaker.succeeded(before, ticket.generation, self._loop.time())
        if circuit.breaker is before:
            return
        if before.state is not State.CLOSED:
            self._tell(call, f"answers {_place(call)[1]} calls again")
        if not circuit.breaker.failures:
            self._forget(call.key, circuit)

    def failed(self, call: AgentCall, kind: str, message: str) -> None:
        """No answer will come, for this reason of `channel.Receiver.unanswered`."""
        if kind in strikes.HEARD:
            self.answered(call)
            return
        if kind not in COUNTED or call.client.severed:
            self.ended(call)
            return
        ticket, call.ticket = call.ticket, None
        circuit = self._circuit(call, ticket)
        if circuit is None:
            return
        before = circuit.breaker
        generation = before.generation
        if ticket is not None:
            generation = ticket.generation
        elif before.state is not State.CLOSED:
            return  # it was sent before that
        sent = call.trouble.sent if call.trouble is not None else call.began
        if kind != "timeout" and sent < circuit.at and before.state is State.CLOSED:
            return  # one connection that breaks, or one process that ends, fails all that is in flight
        now = self._loop.time()
        circuit.breaker = breaker.failed(before, generation, now, self._random.random())
        if circuit.breaker is before:
            return
        circuit.cause, circuit.at, circuit.client = message, now, call.client
        if circuit.breaker.state is State.OPEN:
            rest = circuit.breaker.until - now
            whose, row = call.caller.client or "an agent", circuit.breaker.failures
            what = f"{_place(call)[1]} calls of {whose} are held back for {rest:.0f} s"
            self._tell(call, f"{what} after {row} failures in a row: {message}")

    def ended(self, call: AgentCall) -> None:
        """It ended without a word about its server."""
        ticket, call.ticket = call.ticket, None
        if ticket is not None:
            circuit: Circuit = ticket.circuit
            circuit.breaker = breaker.released(circuit.breaker, ticket.generation)

    # --- for people, and for the agent -------------------------------------------------------------------------------

    def shown(self, key: InstanceKey) -> list[Shown]:
        """Those of this server that are not closed."""
        out = []
        for (principal, calls), circuit in self.known.get(key, {}).items():
            now = circuit.breaker
            if now.state is not State.CLOSED:
                workspace, _, client = principal.partition("\0")
                out.append(
                    Shown(workspace, client, calls, now.state, now.failures, now.since, now.until, circuit.cause)
                )
        return out

    def refusal(self, call: AgentCall, circuit: Circuit) -> tuple[str, int]:
        """What the agent of a call that is kept back is told, and in how many milliseconds it may be made again."""
        now = self._loop.time()
        wait = max(circuit.breaker.until - now, 0.0)
        calls = "calls that only read" if _place(call)[1] == READ else "calls that may change something"
        if circuit.breaker.state is State.HALF_OPEN:
            wait, how = 1.0, "One call is finding out now whether it answers again; try again in a moment"
        else:
            how = f"The next one is let through in {max(wait, 1.0):.0f} s"
        row = f"{circuit.breaker.failures} of your {calls} in a row"
        text = f"The server {call.server} is not asked for {call.tool}: {row} got no answer ({circuit.cause}). {how}."
        text += " Nothing was sent."
        return text, int(wait * 1000) + 1

    # -----------------------------------------------------------------------------------------------------------------

    def _circuit(self, call: AgentCall, ticket: Ticket | None) -> Circuit | None:
        """That of a call that failed, which may be new; None where it is another one by now."""
        circuits = self.known.get(call.key, {})
        place = _place(call)
        found = circuits.get(place)
        if ticket is not None and found is not None and found is not ticket.circuit:
            return None
        if found is None:
            if sum(map(len, self.known.values())) >= MOST:
                self._drop_oldest()
            found = self.known.setdefault(call.key, {})[place] = Circuit(Breaker(since=self._loop.time()))
            if ticket is not None:
                found.breaker = msgspec.structs.replace(found.breaker, generation=ticket.generation)
            if not self._sweeping:
                self._sweeping = True
                self._loop.call_later(FORGET, self._sweep)
        return found

    def _forget(self, key: InstanceKey, circuit: Circuit) -> None:
        circuits = self.known.get(key, {})
        for place in [place for place, one in circuits.items() if one is circuit]:
            del circuits[place]
        if not circuits:
            self.known.pop(key, None)

    def _drop_oldest(self) -> None:
        _, key, circuit = min(
            ((one.at, key, one) for key, circuits in self.known.items() for one in circuits.values()),
            key=lambda found: found[0],
        )
        self._forget(key, circuit)

    def _sweep(self) -> None:
        """What nothing has happened to for long is as if it had never been."""
        now = self._loop.time()
        for key, circuits in list(self.known.items()):
            for circuit in list(circuits.values()):
                if max(circuit.at, circuit.breaker.until) + FORGET <= now and not circuit.breaker.probes:
                    self._forget(key, circuit)
        self._sweeping = bool(self.known)
        if self._sweeping:
            self._loop.call_later(FORGET, self._sweep)

    def _tell(self, call: AgentCall, text: str) -> None:
        worker = self._workers.get(call.key)
        if worker is not None:
            worker.noted(text)
            worker.changed()


def _place(call: AgentCall) -> tuple[str, str]:
    """(the agent over all its connections, the kind of call)."""
    return principal_of(call.caller), READ if call.read_only else WRITE
