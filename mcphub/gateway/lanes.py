"""Owns the ways to servers where calls of several agents meet, and the calls that wait there.

It must not decide who goes next, nor how much there is room for: `lane`, `pace` and `rates` do. As long as one agent
alone has many calls in flight, but not very many, nothing is counted, and a call pays for two comparisons.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from mcphub.config.settings import LimitsSettings
from mcphub.connection.worker import Worker
from mcphub.gateway.agent import Agent
from mcphub.gateway.call import RETRY_AFTER, AgentCall, Caller, who, whose
from mcphub.gateway.kept import Kept
from mcphub.gateway.lane import ALONE, PATIENCE, Lane, Place
from mcphub.gateway.pace import Pace, Rate
from mcphub.gateway.rates import Bucket
from mcphub.spec import HTTP_CALLS, Allowance, HttpSpec, InstanceKey

#: Calls in flight of one agent up to which it is in nobody's way.
MANY = 8
#: How often it is looked for calls that have waited too long, and whether somebody still has to be held, seconds.
SWEEP = 0.5
CHECK = 0.1
#: For how long agents that want about as much are not looked at, seconds.
LEVEL = 3.0
#: So many calls of those that wait for mcphub alone, and for no server, go together, and again after so many seconds.
STROKE = 8
PAUSE = 0.001
#: Rates that are kept: beyond it those that were not used for longest are forgotten.
MAX_RATES = 1000

_NO_ALLOWANCE = Allowance()


class Way(NamedTuple):
    """A lane, and what a person must know of it: what it limits, and where its limit stands."""

    lane: Lane[Passage]
    what: str
    where: str


class Passage:
    """One call's way through the lanes. It waits until `go` is called, or `end`."""

    __slots__ = (
        "ahead", "call", "go", "line", "number", "of", "owner", "places", "queues", "rates", "since", "size", "ways"
    )

    def __init__(self, of: Lanes, call: AgentCall, owner: Hashable, ways: list[Way], since: float) -> None:
        self.of = of
        self.call = call
        self.owner = owner
        #: The lanes that it must pass, the first one last, and those that it must still pass.
        self.ways = ways
        self.ahead = list(ways)
        self.places: list[tuple[Way, Place[Passage]]] = []
        self.since = since
        self.go: Callable[[], None] | None = None
        #: What it must pay when it goes, where it waits for that, and who came first.
        self.rates: Sequence[Rate] = ()
        self.line: Hashable = None
        self.number = 0
        #: It waits for its rates.
        self.queues = False
        #: Bytes that are kept for it while it waits.
        self.size = 0

    def stay(self) -> None:
        """It does not go any more, if it has not yet. Nobody else does in its place: see `end`."""
        self.of.stays(self)

    def end(self, answered: bool = False) -> None:
        """Its call has ended, or waits no more."""
        self.of.ended(self, answered)


class Lanes:
    """Those of one hub. `agents` are those that are attached, `workers` the supervisor's table."""

    def __init__(
        self, limits: LimitsSettings, agents: Collection[Agent], workers: Mapping[InstanceKey, Worker], most: int
    ) -> None:
        """`most`: how many calls one agent may have in flight anyway."""
        #: The only agent that may have many calls in flight: its calls are not counted. None = all are looked at.
        self.only: Caller | None = None
        self._limits = limits
        self._agents = agents
        self._workers = workers
        self._loop = asyncio.get_running_loop()
        self._per_agent = limits.agent < most
        tight = self._per_agent or min(limits.hub, limits.server) < most
        #: Agents meet, or there is a limit that one of them alone can reach.
        self._always = tight or bool(limits.tool or limits.agent_rate)
        self._counted = self._always
        self._hub = self._hub_way()
        self._servers: dict[InstanceKey, Way] = {}
        self._of_agents: dict[Hashable, Way] = {}
        self._tools: dict[tuple[InstanceKey, str], Way] = {}
        self._rates: dict[Hashable, Rate] = {}
        self._pace: Pace[Passage] = Pace()
        self._pacing: asyncio.TimerHandle | None = None
        self._numbers = count()
        #: All that waits, wherever, and the ways where something may.
        self._held: dict[Passage, None] = {}
        self._full: dict[int, Way] = {}
        self._kept = Kept()
        self._dirty: deque[Way] = deque()
        #: What waits for mcphub alone goes in strokes, unless a limit is what it waits for; the next one is on its way.
        self._strokes = limits.hub >= most
        self._stroking = False
        self._running = False
        self._ticking = False
        self._checked = self._swept = 0.0
        #: Those that want about as much, and until when that is believed.
        self._level: frozenset[Hashable] = frozenset()
        self._level_until = 0.0

    # --- in ----------------------------------------------------------------------------------------------------------

    def hold(self, agent: Caller, call: AgentCall, worker: Worker, size: int = 0) -> bool:
        """Whether a call, which stands in `agent.calls`, must not be sent now: it waits for `later`, or was refused.
        `size`: bytes that are kept while it waits."""
        if not self._counted:
            if self.only is not agent:
                if self._meets(agent):
                    self._count()
                else:
                    self.only = agent
            if not self._counted and len(agent.calls) > ALONE:
                self._count()
        elif not self._always and (now := self._loop.time()) >= self._checked + CHECK:
            self._check(agent, now)
        allowance = worker.spec.allowance
        if not self._counted and allowance is None:
            return False
        now = self._loop.time()
        passage = Passage(self, call, who(agent), self._ways(worker, call), now)
        passage.size = size
        if allowance is not None or self._limits.agent_rate:
            self._rated(passage, worker)
            if passage.rates and not self._pace.free(passage.rates, now):
                self._queue(passage, now)
                return True
        if not self._walk(passage, now):
            return True
        for rate in passage.rates:
            rate.bucket.take(now)
        call.lanes, call.accounted = passage, True
        return False

    def later(self, call: AgentCall, go: Callable[[], None]) -> None:
        """What sends the call that is held, which must have copies of its own; nothing where it was refused."""
        if call.lanes is not None:
            call.lanes.go = go

    def leaves(self, agent: Caller) -> None:
        """An agent is going, and its calls are about to end: none that waits is sent in place of another."""
        if self._held:
            for call in agent.calls.values():
                if call.lanes is not None:
                    call.lanes.stay()

    def left(self, agent: Caller) -> None:
        """An agent is gone, and its calls have ended."""
        if self.only is not None and self.only.calls is agent.calls:
            self.only = None
        owner = who(agent)
        if agent.passing:
            if (way := self._of_agents.get(owner)) is not None and _is_empty(way):
                del self._of_agents[owner]  # another request of the same agent makes it anew
            return
        self._of_agents.pop(owner, None)
        for way in self._all():
            way.lane.forget(owner)

    def stop(self) -> None:
        """mcphub is going down: what waits is not sent any more."""
        held = list(self._held)
        for passage in held:
            passage.stay()  # the end of one must not send another
        for passage in held:
            passage.call.not_sent("stopping", "mcphub is stopping")

    def waiting(self) -> Counter[InstanceKey]:
        """How many calls wait here, by the server that they are for."""
        return Counter([passage.call.key for passage in self._held])

    # --- who counts --------------------------------------------------------------------------------------------------

    def _meets(self, agent: Caller) -> bool:
        """Whether this one meets another, and one of them has many calls in flight."""
        last = self.only
        if agent.passing and len(self._agents) > 2 * MANY:
            return True  # of an agent that comes by single requests nothing else says how many it has
        if last is None or last.calls is agent.calls or not last.calls:
            return False
        if max(len(last.calls), len(agent.calls)) <= MANY:
            return False
        level = self._level and self._loop.time() < self._level_until
        return not (level and who(agent) in self._level and who(last) in self._level)

    def _count(self) -> None:
        """Agents meet: from now on everything is counted, and so is what is in flight."""
        self._counted, self.only = True, None
        self._checked = now = self._loop.time()
        for agent in self._agents:
            for call in agent.calls.values():
                if not call.up_id or call.replied:
                    continue
                passage: Passage | None = call.lanes
                if passage is None:
                    passage = call.lanes = Passage(self, call, whose(call), [], now)
                    call.accounted = True
                elif passage in self._held:
                    continue
                for way in (self._server(call.key), self._hub):
                    if all(way is not other for other, _ in passage.places):
                        passage.places.append((way, way.lane.adopt(passage.owner, passage, now, call.began)))

    def _check(self, agent: Caller, now: float) -> None:
        """Whether this agent is alone again, or all want about as much: then nothing need be counted."""
        self._checked = now
        # What is on its way, or waits, stays in sight: lanes go when they are empty, and there is no such server.
        gone = [key for key, way in self._servers.items() if key not in self._workers and _is_empty(way)]
        for key in gone:
            del self._servers[key]
        for name in [name for name, way in self._tools.items() if name[0] not in self._workers and _is_empty(way)]:
            del self._tools[name]
        if self._held or agent.passing or not self._hub.lane.level(now):
            return
        if all(way.lane.level(now) or len(way.lane.shares) > 1 for way in self._servers.values()):
            self._counted, self.only = False, agent
            self._level, self._level_until = frozenset(self._hub.lane.shares), now + LEVEL

    # --- the way of one call -----------------------------------------------------------------------------------------

    def _own(self, key: InstanceKey) -> Allowance | None:
        worker = self._workers.get(key)
        allowances = worker.spec.allowance if worker is not None else None
        return allowances.server if allowances is not None else None

    def _hub_way(self) -> Way:
        lane = Lane[Passage](self._limits.hub, shared=True, ample=STROKE)
        return Way(lane, "calls in flight to all servers", "`[limits] hub` in settings.toml")

    def _agent(self, owner: Hashable) -> Way:
        way = self._of_agents.get(owner)
        if way is None:
            lane = Lane[Passage](self._limits.agent)
            way = Way(lane, "calls of this agent in flight", "`[limits] agent` in settings.toml")
            self._of_agents[owner] = way
        return way

    def _server(self, key: InstanceKey) -> Way:
        way = self._servers.get(key)
        own = self._own(key)
        worker = self._workers.get(key)
        http = worker is not None and worker.spec.transport.kind == HttpSpec.kind
        limit = min(self._limits.server, HTTP_CALLS) if http else self._limits.server
        if own is not None and own.calls:
            limit = own.calls
        if way is None:
            where = "`limits.calls` of its entry, or `[limits] server` in settings.toml"
            if http:
                where += f"; {HTTP_CALLS} over HTTP where its entry has none"
            lane = Lane[Passage](limit, ALONE, shared=True)
            way = self._servers[key] = Way(lane, f"calls in flight to the server {key.name}", where)
        way.lane.limit = limit  # the server may have been started anew with another
        return way

    def _tool(self, key: InstanceKey, tool: str, own: Allowance) -> Way | None:
        limit = own.calls or self._limits.tool
        if not limit:
            return None
        way = self._tools.get((key, tool))
        if way is None:
            where = f"`tools.{tool}.limits.calls` of its entry, or `[limits] tool` in settings.toml"
            what = f"calls in flight to {tool} of the server {key.name}"
            way = self._tools[key, tool] = Way(Lane(limit, shared=True), what, where)
        way.lane.limit = limit
        return way

    def _ways(self, worker: Worker, call: AgentCall) -> list[Way]:
        """What it must pass, the first one last. What waits has room already where it was before, so the lanes come
        first that are shared with the fewest others."""
        ways = []
        allowances, key = worker.spec.allowance, worker.key
        if self._counted:
            ways.append(self._hub)
        if self._counted or (allowances is not None and allowances.server.calls):
            ways.append(self._server(key))
        if call.route is not None and (allowances is not None or self._limits.tool):
            tool = call.route.definition.name
            own = allowances.tools.get(tool, _NO_ALLOWANCE) if allowances is not None else _NO_ALLOWANCE
            if (way := self._tool(key, tool, own)) is not None:
                ways.append(way)
        if self._per_agent:
            ways.append(self._agent(who(call.caller)))
        crowded = len(self._agents) > 1
        for way in ways:
            way.lane.crowded = crowded
        return ways

    def _rated(self, passage: Passage, worker: Worker) -> None:
        """Give it the rates that hold for it."""
        limits, call, allowances, rates = self._limits, passage.call, worker.spec.allowance, []
        if limits.agent_rate:
            caller = call.caller
            # Whoever comes again has used what it had used before.
            key: Hashable = ("agent", caller.workspace, caller.client) if caller.client else passage.owner
            what, where = "calls a second of this agent", "`[limits] agentRate` in settings.toml"
            rates.append(self._rate(key, limits.agent_rate, limits.agent_burst, what, where))
        tool = ""
        if allowances is not None:
            if (own := allowances.tools.get(call.tool) if call.route is not None else None) is not None and own.rate:
                tool = call.tool
                what = f"calls a second to {tool} of the server {call.server}"
                where = f"`tools.{tool}.limits.rate` of its entry"
                rates.append(self._rate((worker.key, tool), own.rate, own.burst, what, where))
            if (own := allowances.server).rate:
                what, where = f"calls a second to the server {call.server}", "`limits.rate` of its entry"
                rates.append(self._rate(worker.key, own.rate, own.burst, what, where))
        if rates:
            passage.rates, passage.number = rates, next(self._numbers)
            passage.line = (passage.owner, worker.key, tool)

    def _rate(self, key: Hashable, rate: float, burst: int, what: str, where: str) -> Rate:
        found = self._rates.pop(key, None)
        if found is None or (found.bucket.rate, found.bucket.burst) != (rate, burst):
            found = Rate(Bucket(rate, burst), what, where)
        self._rates[key] = found  # last used, last forgotten
        if len(self._rates) > MAX_RATES:
            for old in list(self._rates)[: len(self._rates) - MAX_RATES]:
                if not self._rates[old].waiting:
                    del self._rates[old]
        return found

    def _queue(self, passage: Passage, now: float) -> None:
        """It came faster than it may: it waits for its rates, or is refused."""
        wait, rate = self._pace.wait(passage.line, passage.rates, now)
        most, allowed = self._limits.waiting, f"{rate.bucket.rate:g} {rate.what} are allowed"
        if self._pace.count(passage.line) >= most:
            why = f"{most} calls of this agent wait already, where {allowed}"
            self._refuse(passage.call, why, rate.where, wait)
        elif now + wait >= passage.call.deadline:
            self._refuse(passage.call, allowed, rate.where, wait)
        elif self._waits(passage, rate.where):
            self._paces(passage, now)

    def _paces(self, passage: Passage, now: float) -> None:
        passage.queues = True
        self._pace.add(passage.line, passage.rates, passage.number, passage)
        self._wake(now)

    def _wake(self, now: float) -> None:
        """Be there when the next may go."""
        wait = self._pace.next(now)
        if wait is None:
            return
        if self._pacing is not None:
            if self._pacing.when() <= now + wait:
                return
            self._pacing.cancel()
        self._pacing = self._loop.call_at(now + wait, self._due)

    def _due(self) -> None:
        """Some rate has a token again, if nobody has left since."""
        self._pacing = None
        now = self._loop.time()
        for passage in self._pace.ready(now):
            passage.queues = False
            self._go_on(passage, now, chosen=True)
        self._run(now)
        self._wake(now)

    def _walk(self, passage: Passage, now: float) -> bool:
        """Whether it is through; else it waits, or was refused."""
        while passage.ahead:
            way = passage.ahead.pop()
            if way.lane.waiting and len(way.lane.share(passage.owner, now).queue) >= self._limits.waiting:
                passage.end()
                why = f"{self._limits.waiting} calls of this agent wait already, where there are too many {way.what}"
                self._refuse(passage.call, why, way.where)
                return False
            place = way.lane.ask(passage.owner, passage, now)
            passage.places.append((way, place))
            if not place.going:
                if self._waits(passage, way.where):
                    self._full[id(way)] = way
                return False
        return True

    def _waits(self, passage: Passage, where: str) -> bool:
        """Whether it may wait: there is room for what must be kept of it; else it was refused."""
        call = passage.call
        if passage not in self._held:
            if why := self._kept.add(passage.owner, passage.size):
                passage.end()
                self._refuse(call, why, where)
                return False
            self._held[passage] = None
        if call.lanes is None:
            call.lanes, call.accounted = passage, True
            call.client.counters["queued"] += 1
        if not self._ticking:
            self._ticking = True
            self._loop.call_later(PATIENCE, self._tick)
        return True

    def _go_on(self, passage: Passage, now: float, *, chosen: bool = False) -> None:
        """Send what waited, if nothing else is in its way now. `chosen`: it is its turn at its rates."""
        call = passage.call
        if call.lanes is not passage:
            return
        if call.deadline <= now:
            self._too_long(passage)
            return
        if not self._walk(passage, now) or not self._reaches(call):
            return
        if passage.rates:
            if not chosen and not self._pace.free(passage.rates, now):
                # What it waited for is here, but there were others meanwhile: it waits again, and before them.
                self._gives_up(passage, now, False)
                passage.ahead = list(passage.ways)
                self._paces(passage, now)
                return
            for rate in passage.rates:
                rate.bucket.take(now)
        self._lets_go(passage)
        go, passage.go = passage.go, None
        if go is not None:
            go()

    def _lets_go(self, passage: Passage) -> None:
        """It waits no more, and what was kept of it is not."""
        if passage in self._held:
            del self._held[passage]
            self._kept.drop(passage.owner, passage.size)
        if passage.queues:
            passage.queues = False
            self._pace.drop(passage.line, passage.number)

    def _gives_up(self, passage: Passage, now: float, answered: bool) -> None:
        """Others may have its places."""
        for way, place in passage.places:
            way.lane.end(place, now, answered)
            if not way.lane.waiting:
                continue
            if way is not self._hub or not self._strokes:
                self._dirty.append(way)
            elif not self._stroking:
                self._stroking = True
                self._loop.call_later(PAUSE, self._stroke)
        passage.places = []

    def _reaches(self, call: AgentCall) -> bool:
        """Whether its server is there still, or again; else the call has ended, unsent."""
        client = call.client
        if not client.over:
            return True
        worker = self._workers.get(call.key)
        new = worker.client if worker is not None and worker.sessions is None else None
        if new is not None and not new.over and new.era == client.era:
            call.client = new
            return True
        call.not_sent("lost", "the connection was lost while the call waited for others")
        return False

    # --- out ---------------------------------------------------------------------------------------------------------

    def stays(self, passage: Passage) -> None:
        """As Passage.stay."""
        for way, place in passage.places:
            if not place.going:
                way.lane.end(place, 0.0, False)
        if passage.queues:
            passage.queues = False
            self._pace.drop(passage.line, passage.number)

    def ended(self, passage: Passage, answered: bool) -> None:
        """As Passage.end."""
        now = self._loop.time()
        passage.call.lanes = None
        self._lets_go(passage)
        passage.go = None
        self._gives_up(passage, now, answered)
        passage.ahead = []
        if self._dirty:
            self._run(now)

    def _stroke(self) -> None:
        """Send what may go now of what waits for mcphub alone."""
        self._stroking = False
        self._dirty.append(self._hub)
        self._run(self._loop.time())

    def _run(self, now: float) -> None:
        """Send what may go now. What that ends in this very moment, it goes on with itself."""
        if self._running:
            return
        self._running = True
        try:
            while self._dirty:
                for place in self._dirty.popleft().lane.ready(now):
                    self._go_on(place.item, now)
        finally:
            self._running = False

    # --- time --------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        now = self._loop.time()
        if now >= self._swept + SWEEP:
            self._swept = now
            for passage in list(self._held):
                call = passage.call
                if call.lanes is not passage:
                    pass  # it has gone, or ended, since one before it did
                elif call.deadline <= now:
                    self._too_long(passage)
                else:
                    self._reaches(call)
        for number, way in list(self._full.items()):
            if way.lane.waiting:
                way.lane.silent(now)
                self._dirty.append(way)
            else:
                del self._full[number]
        self._run(now)
        self._ticking = bool(self._held)
        if self._ticking:
            self._loop.call_later(PATIENCE, self._tick)

    def _all(self) -> list[Way]:
        return [self._hub, *self._servers.values(), *self._tools.values(), *self._of_agents.values()]

    def _too_long(self, passage: Passage) -> None:
        call, waited = passage.call, self._loop.time() - passage.since
        if passage.queues:
            rate = passage.rates[-1]
            why, where = f"{rate.bucket.rate:g} {rate.what} are allowed", rate.where
        else:
            way = passage.places[-1][0] if passage.places else self._hub
            why, where = f"there were too many {way.what}", way.where
        if call.deadline >= call.until:
            text = f"{call.tool} was not sent to the server {call.server}: the deadline of its task has passed while "
            call.turned_down("task_budget", f"{text}it waited for {waited:.1f} s: {why} ({where}).")
        else:
            self._refuse(call, f"it waited for {waited:.1f} s: {why}", where)

    def _refuse(self, call: AgentCall, why: str, where: str, wait: float = 0.0) -> None:
        call.client.counters["overloaded"] += 1
        text = f"{call.tool} was not sent to the server {call.server} (overloaded): {why} ({where}). Try again later."
        call.turned_down("overloaded", text, retryAfterMs=max(1, round(wait * 1000)) if wait else RETRY_AFTER)


def _is_empty(way: Way) -> bool:
    return not way.lane.flying and not way.lane.waiting
