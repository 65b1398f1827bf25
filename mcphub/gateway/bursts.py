"""Owns bursts: the plain calls of one tool that an agent sends in one read, and their results that come in one read.

It must not decide anything of its own: it does for all of them at once what Gateway._call and AgentCall do for each
where nothing special is going on, and says False, having done nothing, wherever anything is.

Most of it is `map` over what one call has, since a step of the interpreter for each call is what a call costs. A path
holds its agent in a way that no collector sees, and the agent its paths: whoever lets an agent go clears them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, repeat, starmap
from operator import add, itemgetter
from time import monotonic
from typing import Any

import msgspec

from mcphub.catalog.toolset import Route
from mcphub.channel import Data
from mcphub.connection.client import Client
from mcphub.connection.worker import Worker
from mcphub.gateway.accounts import Accounts, may_go_again, named
from mcphub.gateway.agent import Agent
from mcphub.gateway.call import AgentCall
from mcphub.gateway.lane import ALONE
from mcphub.gateway.lanes import Lanes
from mcphub.gateway.recorder import Recorder
from mcphub.gateway.repeats import Repeats
from mcphub.gateway.turns import Turns
from mcphub.gateway.validate import Checks
from mcphub.protocol import tool_call
from mcphub.protocol.envelope import (
    COMPLETE_TAIL,
    HUB_META_MEMBER,
    NO_META,
    WINDOW,
    hub_meta_member,
    is_text_result,
)
from mcphub.protocol.jsonrpc import Raw
from mcphub.spec import InstanceKey

#: Bytes of arguments up to which a call can be part of one: its digest is then of all of them.
MOST = 4096

_before_tail = itemgetter(slice(None, -len(COMPLETE_TAIL)))


class Bursts:
    """Those of one hub. `workers` is the supervisor's table; `waiting` and `held` have the requests that wait for lists
    and for servers to come, as Lists.waiting and Awakening.held."""

    def __init__(
        self,
        workers: Mapping[InstanceKey, Worker],
        checks: Checks,
        accounts: Accounts,
        repeats: Repeats,
        lanes: Lanes,
        turns: Turns,
        waiting: Mapping[Any, Any],
        held: Mapping[Any, Any],
    ) -> None:
        #: Nothing is sent any more: mcphub is going down.
        self.closed = False
        self._workers = workers
        self._checks = checks
        self._accounts = accounts
        self._repeats = repeats
        self._lanes = lanes
        self._asked = turns.asked
        self._waiting = waiting
        self._held = held

    def take(self, agent: Agent, lines: Sequence[bytes]) -> bool:
        """Whether these messages of an agent are such calls, and were sent."""
        paths = agent.paths
        if (
            paths is None
            or self.closed
            or not agent.version
            or agent.plain_meta is not NO_META
            or self._lanes.only is not agent
            or self._waiting
            or self._held
            or agent.listens.held
        ):
            return False
        found = tool_call.several(lines)
        if found is None:
            return False
        name, mids, arguments = found
        path = paths.get(name)
        if path is None or not path.is_of(agent):
            path = self._path(agent, name)
            if path is None:
                return False
            paths[name] = path
        key = path.key
        if (
            key in self._asked
            or key in self._accounts.circuits.known
            or (agent in self._repeats.failing and self._repeats.watches(agent, path.tool))
            or self._workers.get(key) is not path.worker
        ):
            return False
        return path.sends(mids, arguments)

    def _path(self, agent: Agent, name: str) -> Path | None:
        """That of this tool, None where its calls, or its server, want more than to be sent."""
        route = agent.toolset.routes.get(name)
        worker = self._workers.get(route.key) if route is not None else None
        client = worker.client if worker is not None else None
        if route is None or not route.plain or worker is None or client is None or not client.stream:
            return None
        if worker.spec.allowance is not None or (fits := self._checks.accept(route.definition)) is None:
            return None
        recorder = self._accounts.outcomes.recorder(route, agent, client.era == "modern") if route.recorded else None
        if route.recorded and recorder is None:
            return None
        return Path(agent, route, worker, client, fits, self._accounts, recorder)


class Path:
    """The way of one agent's calls to one tool; `ends` is who takes their results."""

    def __init__(
        self,
        agent: Agent,
        route: Route,
        worker: Worker,
        client: Client,
        fits: Callable[[Data], object],
        accounts: Accounts,
        recorder: Recorder | None,
    ) -> None:
        self.key = route.key
        self.tool = named(route)
        self.worker = worker
        self._toolset, self._name, self._offers = agent.toolset, agent.client, agent.offers
        self._agent = agent
        self._client = client
        self._quoted = route.quoted
        self._fits = fits
        self._recorder = recorder
        modern = client.era == "modern"
        self.ends = Ends(agent, modern, recorder)
        self._timeout = worker.spec.call_timeout
        self._tail = b"" if not modern else hub_meta_member(agent.offers) if agent.offers else HUB_META_MEMBER
        keeps = may_go_again(route, client)
        self._copies = keeps or modern
        self._call = AgentCall(agent, client, b"", route, NO_META, 0.0, 0.0, self._timeout)
        self._call.accounts, self._call.attempts, self._call.keeps = accounts, 1, keeps
        self._call.accounted, self._call.crowd = recorder is not None, self.ends

    def is_of(self, agent: Agent) -> bool:
        """Whether all that it was made for is as it was, but for what changes with each call."""
        return (
            agent.toolset is self._toolset
            and self.worker.client is self._client
            and agent.client is self._name
            and agent.offers is self._offers
        )

    def sends(self, mids: Sequence[bytes], arguments: Sequence[Raw]) -> bool:
        """Whether calls under these ids, as JSON, with these arguments were sent."""
        client, calls, count = self._client, self._agent.calls, len(mids)
        channel = client.channel
        if (
            client.over
            or channel is None
            or channel.full
            or len(calls) + count > ALONE
            or not calls.keys().isdisjoint(mids)
            or len(set(mids)) < count
            or max(map(len, arguments)) > MOST
        ):
            return False
        try:
            deque(map(self._fits, arguments), 0)
        except (msgspec.DecodeError, RecursionError):
            return False  # some does not: each gets its own answer
        call, recorder = self._call, self._recorder
        call.began = now = monotonic()
        call.deadline = now + self._timeout
        made: list[AgentCall] = list(starmap(call.__copy__, repeat((), count)))  # type: ignore[attr-defined]
        operations: Sequence[int] = ()
        if recorder is not None:
            operations = recorder.begin(mids, arguments)
            if not operations:
                return False
        calls.update(zip(mids, made, strict=True))
        numbers = client.call_tools(made, self._quoted, arguments, self._tail)
        given = map(bytes, arguments) if self._copies else repeat(b"", count)
        rows = zip(made, mids, numbers, operations or repeat(0, count), given, strict=True)
        for one, mid, number, operation, kept in rows:
            one.mid = mid
            one.up_id = number
            one.operation = operation
            one.arguments = kept
        return True


class Ends:
    """The ends of one agent's calls of one tool. Implements protocol.correlate.Crowd. It knows no path, so that no
    cycle goes through what its calls are copied from."""

    def __init__(self, agent: Agent, modern: bool, recorder: Recorder | None) -> None:
        self._agent = agent
        self._modern = modern
        self._recorder = recorder

    def answered(self, waiters: Sequence[Any], results: Sequence[Raw]) -> bool:
        """Whether these calls were ended by these results."""
        for call in waiters:
            if call.questions is not None or call.turns is not None or call.lanes is not None or call.attempts != 1:
                return False  # something happened to it meanwhile
        if max(map(len, results)) > WINDOW:
            return False
        bodies: Sequence[Data] = results
        if self._modern:
            whole = list(map(bytes, results))
            if not all(map(bytes.endswith, whole, repeat(COMPLETE_TAIL))):
                return False
            bodies = list(map(add, map(_before_tail, whole), repeat(b"}")))
        try:
            deque(map(is_text_result, bodies), 0)
        except (msgspec.DecodeError, RecursionError):
            return False
        if self._recorder is not None and not self._recorder.answered([call.operation for call in waiters]):
            return False
        mids = [call.mid for call in waiters]
        deque(map(self._agent.calls.pop, mids, repeat(None)), 0)
        parts = zip(repeat(b'{"jsonrpc":"2.0","id":'), mids, repeat(b',"result":'), bodies, repeat(b"}\n"))
        self._agent.send(b"".join(chain.from_iterable(parts)))
        return True
