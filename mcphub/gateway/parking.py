"""Owns the calls of modern agents that wait at a legacy server which asks: the agent gets its question as a round.

It must not decide whose a question is. The call goes on upstream while its agent has nothing in flight; a retry, over
whatever connection of the same agent, brings the answers and waits for what comes next. A call that nobody comes back
for is cancelled (bridging, parking; MCP spec 2026-07-28, basic/patterns/mrtr).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, Protocol

import msgspec

from mcphub.channel import Data
from mcphub.connection.client import Client
from mcphub.gateway.call import AgentCall, Caller, Older, Questions, Seat, check_at
from mcphub.gateway.roots_allowed import RootsAllowed
from mcphub.protocol import jsonrpc, mrtr
from mcphub.protocol.envelope import RESULT_META, RequestMeta, error_data, traced
from mcphub.protocol.jsonrpc import EMPTY, Raw
from mcphub.spec import InstanceKey

#: Further questions of the same moment go into the same round, seconds.
WINDOW = 0.03
#: How long an outcome is kept for its agent to ask, seconds. A call waits for it as long as its server's entry says.
LIFETIME = mrtr.LIFETIME
#: Seconds by which the connection waits longer: that the time is up is told here.
GRACE = 60.0
#: Seconds for an agent that is gone to come back, once another's call waits for what it was asked.
ABSENT = 30.0
#: Calls that may wait, for one agent and at one server; ends that are kept for an agent that asks twice.
MOST_OF_AGENT = 20
MOST_OF_SERVER = 100
MOST_KEPT = 200
#: Calls that are gone of which it is remembered why.
MOST_GONE = 1000
#: The largest end that is kept once somebody has got it, bytes.
MAX_KEPT = 1 << 20

#: The id of the parked request, as JSON: what is sent under it is for whoever waits then.
_MARK = b'"parked"'
_HEAD = b'{"jsonrpc":"2.0","id":"parked",'
_CANCEL = b'{"action":"cancel"}'
#: What a server is told of a question that nobody answered, by its method (bridging, parking).
_NO_ANSWER = {
    "sampling/createMessage": (-1, "nobody answered"),
    "roots/list": (jsonrpc.INTERNAL_ERROR, "nobody answered"),
}

#: Why a call is gone; by the `kind` of gateway.call.Accounts.ended, where mcphub itself ended it.
TIME_OVER = "the time for the answer was over"
_WHY = {"cancelled": "its request was cancelled", "timeout": TIME_OVER}
_ENDED = "it has ended, and what it came to is no longer kept"
_ANY = f"mcphub was restarted, {TIME_OVER}, or {_WHY['cancelled']}"

_members = msgspec.json.Decoder(dict[str, Raw]).decode


class _Asked(msgspec.Struct):
    """A question without an answer."""

    client: Client
    mid: bytes
    method: str
    params: bytes
    #: The agent has been given it.
    given: bool = False


class Attached(AgentCall, gc=False, eq=False):
    """A request of the agent's that waits for what becomes of a parked call; nothing of it was sent anywhere."""

    seat: Any = None

    @property
    def key(self) -> InstanceKey:
        return self.of.key

    @property
    def of(self) -> AgentCall:
        call: AgentCall = self.seat.call
        return call

    @property
    def tool(self) -> str:
        return self.of.tool

    @property
    def asked_for(self) -> str:
        return self.of.asked_for

    @property
    def read_only(self) -> bool:
        return self.of.read_only

    def recorded(self, kind: str) -> str:
        return self.of.recorded(kind)

    def operation_id(self) -> str:
        return self.of.operation_id()

    def withdraw(self, reason: str, kind: str = "cancelled") -> None:
        self.caller.calls.pop(self.mid, None)
        self.seat.left(self, reason)


class Parked(Seat):
    """One call. Implements gateway.call.Caller for it."""

    def __init__(self, of: Parking, call: AgentCall, round: mrtr.Round) -> None:
        self.id = secrets.token_hex(8)
        self.call = call
        self.round = round
        self.agent = call.caller
        #: What is asked, by the agent's keys, which are never used twice.
        self.asked: dict[str, _Asked] = {}
        self.keys = 0
        #: The number of the last round that was given; whether its retry has come; what was given.
        self.number = 0
        self.taken = True
        self.given = b""
        #: The requests that it was given to.
        self.gave: list[tuple[Caller, bytes]] = []
        self.attached: list[Attached] = []
        #: How it ended, behind the id; b"" = it has not.
        self.end = b""
        #: Since when its agent is gone, and since when others wait for its answer, monotonic seconds, 0 = it is not.
        self.gone = self.wanted = 0.0
        self.window: asyncio.TimerHandle | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.calls: dict[bytes, AgentCall] = {_MARK: call}
        self._of = of
        self.sit(call.caller)

    @property
    def waits(self) -> bool:
        return not self.taken

    @property
    def asks(self) -> bool:
        return bool(self.asked)

    def sit(self, agent: Caller) -> None:
        """This agent is who was asked."""
        self.agent = agent
        self.library = agent.library
        self.capabilities = agent.capabilities
        self.version = agent.version
        self.declares = agent.declares
        self.offers = agent.offers
        self.workspace = agent.workspace
        self.passing = agent.passing
        self.older: Older | None = None  # it is a modern agent's
        self.tasks = agent.tasks
        self.client = agent.client
        self.said = agent.said

    def attach(self, agent: Caller, mid: bytes, meta: RequestMeta) -> None:
        """This request gets what comes next, whatever it is."""
        call = self.call
        one = Attached(agent, call.client, mid, None, meta, call.began, call.deadline, call.idle, seat=self)
        agent.calls[mid] = one
        self.attached.append(one)
        self.gone = self.wanted = 0.0
        call.meta = meta  # progress goes to the newest, under its token
        self.sit(agent)

    def left(self, one: Attached, reason: str) -> None:
        """Its agent does not want this request any more."""
        if one in self.attached:
            self.attached.remove(one)
            if not self.attached and self.taken and not self.end:
                self._of.abandon(self, reason)

    def send(self, *parts: Data) -> None:
        frame = b"".join(parts)
        if frame.startswith(_HEAD):
            self._of.ended_so(self, frame[len(_HEAD) :])
        elif self.attached:
            self.attached[-1].caller.send(frame)

    def give(self, rest: bytes) -> None:
        """Answer all that wait with this, which comes behind the id."""
        waiting, self.attached = self.attached, []
        self.gave = [(one.caller, one.mid) for one in waiting]
        for one in waiting:
            one.caller.calls.pop(one.mid, None)
        for one in waiting:
            one.caller.send(b'{"jsonrpc":"2.0","id":%b,' % one.mid + rest)


class TooMany(ValueError):
    """No more calls may wait."""


class Principal(Protocol):
    """Who somebody is over all its connections."""

    def __call__(self, caller: Caller) -> str: ...


class Parking:
    """The parked calls of one hub; `key` seals what their agents bring back. `attached` are the agents that are there,
    as they come and go."""

    def __init__(
        self,
        key: bytes,
        principal: Principal,
        counters: Counter[str],
        allowed: RootsAllowed,
        patience: Callable[[InstanceKey], float],
        attached: Collection[Caller] = (),
    ) -> None:
        self._attached = attached
        self._key = key
        self._patience = patience
        self._principal = principal
        self._counters = counters
        self._allowed = allowed
        self._calls: dict[str, Parked] = {}
        #: Those that have ended, and were told so.
        self._told: dict[str, None] = {}
        #: Why those that are gone are, by their ids.
        self._gone: dict[str, str] = {}
        self._loop = asyncio.get_running_loop()

    # --- questions ---------------------------------------------------------------------------------------------------

    def ask(
        self, call: AgentCall, client: Client, mid: bytes, method: str, params: bytes, questions: Questions
    ) -> None:
        """Give a question of its server to the agent of this call. Raises TooMany."""
        seat = call.caller
        if not isinstance(seat, Parked):
            seat = self._park(call, questions)
        seat.keys += 1
        seat.asked[f"r{seat.keys}"] = _Asked(client, mid, method, params)
        if seat.taken and seat.window is None:
            seat.window = self._loop.call_later(WINDOW, self._give, seat)

    def count(self, client: Client) -> int:
        """Questions that wait there."""
        return sum(one.client is client for seat in self._calls.values() for one in seat.asked.values())

    def _park(self, call: AgentCall, questions: Questions) -> Parked:
        agent = call.caller
        principal = self._principal(agent)
        # Those that have ended, and nobody has asked for, are kept whole: they count.
        running = [seat for seat in self._calls.values() if seat.id not in self._told]
        if sum(seat.round.principal == principal for seat in running) >= MOST_OF_AGENT:
            raise TooMany(f"{MOST_OF_AGENT} calls of this agent wait for an answer already")
        if sum(seat.call.key == call.key for seat in running) >= MOST_OF_SERVER:
            raise TooMany(f"{MOST_OF_SERVER} calls wait there for an answer already")
        # A seal that outlives its call lets a late retry be told so.
        lifetime = max(self._patience(call.key), LIFETIME)
        round = mrtr.Round(principal, call.server, call.asked_for, call.target, call.arguments, lifetime)
        seat = Parked(self, call, round)
        self._calls[seat.id] = seat
        mid, meta = call.mid, call.meta
        call.caller, call.mid, call.questions = seat, _MARK, questions
        seat.attach(agent, mid, meta)
        return seat

    def _give(self, seat: Parked) -> None:
        """Send what is asked by now."""
        seat.window = None
        if not seat.asked or seat.end:
            return
        for asked in seat.asked.values():
            asked.given = True
        seat.number += 1
        seat.taken = False
        limit = self._patience(seat.call.key)
        seat.call.stand_still(self._loop.time(), limit + GRACE)
        seat.timer = self._loop.call_later(limit, self._expired, seat)
        sealed = mrtr.seal(
            self._key,
            seat.round,
            mrtr.State(parked=seat.id, round=seat.number, operation=seat.call.operation_id()),
            time.time_ns() / 1e9,
            secrets.token_bytes(mrtr.NONCE_BYTES),
        )
        questions = b",".join([_shown(key, asked) for key, asked in seat.asked.items()])
        seat.given = (
            b'"result":{"resultType":"input_required","_meta":{%b},"inputRequests":{%b},"requestState":%b}}\n'
            % (RESULT_META, questions, jsonrpc.quote(sealed))
        )
        seat.give(seat.given)

    # --- retries -----------------------------------------------------------------------------------------------------

    def retried(
        self, agent: Caller, mid: bytes, meta: RequestMeta, of: mrtr.Round, state: mrtr.State, responses: Raw
    ) -> None:
        """The agent comes back with this state, whose seal was whole, for this request."""
        seat = self._calls.get(state.parked)
        if seat is None:
            agent.send(lost(mid, of, state, meta.trace, self._gone.get(state.parked, _ANY)))
        elif seat.end:
            agent.send(b'{"jsonrpc":"2.0","id":%b,' % mid + seat.end)
            self._tell(seat)
        elif seat.taken or state.round == seat.number:
            first = not seat.taken
            if first:
                self._go_on(seat)
            before = seat.agent
            seat.attach(agent, mid, meta)
            if before != agent and not before.passing and before not in self._attached:
                # It is back, over another connection, with all that it had: they are one agent's.
                for other in self._calls.values():
                    if other.agent == before:
                        other.sit(agent)
            if first:
                self._take(seat, responses)
        else:
            # Of a round that was answered: it gets what that answer led to.
            agent.send(b'{"jsonrpc":"2.0","id":%b,' % mid + seat.given)

    def _go_on(self, seat: Parked) -> None:
        """Its clock runs again."""
        seat.taken = True
        _stop(seat)
        seat.call.run_on(self._loop.time())

    def _take(self, seat: Parked, responses: Raw) -> None:
        """Answer its server's questions by what was brought; what is missing is asked again."""
        try:
            found = _members(responses) if responses else {}
        except (msgspec.DecodeError, RecursionError):
            found = {}
        for key, asked in list(seat.asked.items()):
            answer = found.get(key, EMPTY)
            if not asked.given or bytes(memoryview(answer)[:1]) != b"{":
                continue
            del seat.asked[key]
            body = bytes(answer)
            if asked.method == "roots/list":
                body, refused = self._allowed.kept(body, seat.workspace)
                self._counters["refused_roots"] += refused
            if not asked.client.over:
                asked.client.send(jsonrpc.result_frame(asked.mid, body))
        if seat.asked and not seat.end and seat.window is None:
            seat.window = self._loop.call_later(WINDOW, self._give, seat)

    # --- ends --------------------------------------------------------------------------------------------------------

    def ended(self, call: AgentCall) -> None:
        """A call is over, whatever way: what its server still asks gets the answer of nobody."""
        seat = call.caller
        if isinstance(seat, Parked):
            _stop(seat)
            self._unanswered(seat)

    def ended_so(self, seat: Parked, rest: bytes) -> None:
        """It has ended, with this behind the id, which is kept for whoever comes to ask."""
        _stop(seat)
        seat.end = rest
        seat.timer = self._loop.call_later(LIFETIME, self._forget, seat)
        if seat.attached:
            seat.give(rest)
            self._tell(seat)

    def _tell(self, seat: Parked) -> None:
        """Somebody knows how it ended: for whoever asks twice not everything is kept."""
        self._told[seat.id] = None
        if len(seat.end) > MAX_KEPT:
            self._forget(seat)
        elif len(self._told) > MOST_KEPT:
            oldest = self._calls.get(next(iter(self._told)))
            if oldest is not None:
                self._forget(oldest)

    def _forget(self, seat: Parked, why: str = _ENDED) -> None:
        _stop(seat)
        self._calls.pop(seat.id, None)
        self._told.pop(seat.id, None)
        if len(self._gone) >= MOST_GONE:
            del self._gone[next(iter(self._gone))]
        self._gone[seat.id] = why
        seat.call.caller = seat.agent  # a call is not looked into for cycles: with its seat it would stay for ever

    def cancel(self, agent: Caller, mid: bytes) -> bool:
        """The agent does not want the request with this id any more; whether that was just answered by questions, which
        the agent may not have read yet: then nobody will come back with an answer."""
        for seat in self._calls.values():
            if not seat.taken and not seat.end and any(one == agent and id == mid for one, id in seat.gave):
                self.abandon(seat, "cancelled by the agent")
                return True
        return False

    def _expired(self, seat: Parked) -> None:
        self._counters["expired_calls"] += 1
        self.abandon(seat, "nobody came back with an answer", "timeout")

    def left(self, agent: Caller) -> None:
        """An agent is attached no more."""
        if self._calls:
            principal, now = self._principal(agent), self._loop.time()
            for seat in self._calls.values():
                if seat.round.principal == principal:
                    seat.gone = now

    def held_up(self, key: InstanceKey) -> None:
        """Calls wait for this server now. For an agent that is gone they do so only so long; of one that has no
        connection nobody knows whether it is."""
        now = self._loop.time()
        for seat in list(self._calls.values()):
            if seat.call.key != key or not seat.waits or seat.end or seat.passing:
                continue
            seat.wanted = seat.wanted or now
            is_there = any(self._principal(agent) == seat.round.principal for agent in self._attached)
            if not is_there and now - max(seat.gone, seat.wanted) >= ABSENT:
                self._counters["expired_calls"] += 1
                self.abandon(seat, "its agent is gone, and others wait", "timeout")

    def abandon(self, seat: Parked, reason: str, kind: str = "cancelled") -> None:
        """Nobody wants it any more: end it upstream, and forget it; `kind` as in gateway.call.Accounts.ended."""
        seat.call.withdraw(reason, kind)
        self._forget(seat, _WHY[kind])

    def _unanswered(self, seat: Parked) -> None:
        asked, seat.asked = seat.asked, {}
        for one in asked.values():
            if one.client.over:
                continue
            if one.method == "elicitation/create":
                one.client.send(jsonrpc.result_frame(one.mid, _CANCEL))
            else:
                one.client.send(jsonrpc.error_frame(one.mid, *_NO_ANSWER[one.method]))

    def withdrawn(self, client: Client, mid: bytes) -> None:
        """A server no longer wants this answer. What an agent was given cannot be taken back, only ignored."""
        for seat in self._calls.values():
            for key in [key for key, one in seat.asked.items() if one.client is client and one.mid == mid]:
                del seat.asked[key]


def lost(mid: bytes, of: mrtr.Round, state: mrtr.State, trace: str = "", why: str = _ANY) -> bytes:
    """The answer to a request that comes back for a call of which nothing is kept here any more, for this reason."""
    what = of.target if of.method == "tools/call" else of.method
    text = f"the call of {what} at the server {of.server} that waited for this answer is gone: {why}"
    more: dict[str, object] = {"tool": what}
    if of.method != "tools/call":
        text, more["retryable"] = f"{text}; it only reads, so it can be made again, without requestState", True
    else:
        text = f"{text}; whether it had effects is unknown, check before calling it again" + check_at(state.operation)
    if state.operation:
        more["operationId"] = state.operation
    data = traced(error_data("request_state_lost", of.server, **more), trace)
    return jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, text, data)


def _shown(key: str, asked: _Asked) -> bytes:
    params = b',"params":' + asked.params if asked.params else b""
    return b'%b:{"method":"%b"%b}' % (jsonrpc.quote(key), asked.method.encode(), params)


def _stop(seat: Parked) -> None:
    for timer in (seat.window, seat.timer):
        if timer is not None:
            timer.cancel()
    seat.window = seat.timer = None
