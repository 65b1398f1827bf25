"""Owns how loud servers are: the level that each agent hears, the one each server is set to, whom a log line reaches.

It must not read or write a log message: gateway.messages does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from mcphub.connection.client import Client
from mcphub.connection.worker import Worker
from mcphub.gateway import messages
from mcphub.gateway.agent import Agent
from mcphub.gateway.call import AgentCall
from mcphub.gateway.refusals import BAD_PARAMS
from mcphub.gateway.sight import Sight
from mcphub.protocol import jsonrpc
from mcphub.protocol.envelope import RequestMeta, traced
from mcphub.protocol.jsonrpc import Raw
from mcphub.spec import InstanceKey

_object = msgspec.json.Decoder(dict[str, Any]).decode


class Loudness:
    """For all these agents and workers."""

    def __init__(
        self,
        agents: Collection[Agent],
        workers: Mapping[InstanceKey, Worker],
        sight: Sight,
        counters: Counter[str],
    ) -> None:
        self._agents = agents
        self._workers = workers
        self._sight = sight
        self._counters = counters

    def ask(self, agent: Agent, mid: bytes, raw: Raw, trace: str = "") -> None:
        """Answer `logging/setLevel`; `trace` is the id of its trace. Raises msgspec.DecodeError."""
        level = _object(raw).get("level") if raw else None
        if not isinstance(level, str) or not messages.is_level(level):
            text = "logging/setLevel: no such level"
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, text, traced(BAD_PARAMS, trace)))
            return
        self.set_level(agent, level)
        agent.send(jsonrpc.result_frame(mid, b"{}"))

    def set_level(self, agent: Agent, level: str) -> None:
        """From now on it hears this."""
        agent.log_level = level
        agent.plain_meta = RequestMeta(log_level=level)
        self.set_levels()

    def renew(self) -> None:
        """A server that is new here has not been told."""
        if any(agent.log_level for agent in self._agents):
            self.set_levels()

    def set_levels(self) -> None:
        """Set each server that somebody set a level for to the most verbose one that an agent which sees it hears."""
        asked: set[InstanceKey] = set()
        heard: dict[InstanceKey, list[str]] = {}
        for agent in self._agents:
            level = agent.log_level or (messages.DEFAULT_LEVEL if agent.version else "")
            if level:
                for key in self._sight.seen(agent.workspace, agent.view).values():
                    heard.setdefault(key, []).append(level)
                    if agent.log_level:
                        asked.add(key)
            for call in agent.calls.values():
                if call.meta.modern and call.meta.log_level:
                    heard.setdefault(call.key, []).append(call.meta.log_level)
                    asked.add(call.key)
        for key, worker in self._workers.items():
            worker.want_log_level(messages.most_verbose(heard[key]) if key in asked else "")

    def said(self, worker: Worker, client: Client, params: Raw) -> None:
        """A log message of a server, on this connection of it."""
        found = messages.named(worker.name, params)
        if found is None:
            self._counters["bad_log_messages"] += 1
            return
        level, frame = found
        opted: list[Agent] = []
        in_flight = 0
        for agent in self._agents:
            if worker.key not in self._sight.seen(agent.workspace, agent.view).values():
                continue
            calls = [call for call in agent.calls.values() if call.client is client]
            in_flight += len(calls)
            if agent.version:
                # A legacy server logs for the session, a modern one for those who have a call there.
                heard = calls or (client.era == "legacy" and worker.is_for(client, agent.declares))
                if heard and messages.passes(level, agent.log_level or messages.DEFAULT_LEVEL):
                    agent.send(frame)
            elif any(c.meta.log_level and messages.passes(level, c.meta.log_level) for c in calls):
                opted.append(agent)
        # One that waits for an answer is no agent's now, and may be what the server speaks of.
        in_flight = max(in_flight, sum(isinstance(one, AgentCall) for one in client.waiting().values()))
        if len(opted) == 1 and in_flight == 1:
            opted[0].send(frame)
