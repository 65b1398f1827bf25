"""Owns which lists each agent knows, and tells it, once things are quiet, which of them have changed.

It must not make lists, nor say what is in them: an agent that is told asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from mcphub.catalog.library import PROMPTS, RESOURCES, TEMPLATES
from mcphub.gateway.agent import Agent
from mcphub.gateway.subscriptions import LIST_CHANGED

#: A changed toolset is told after it was quiet for so long, seconds, so that ten servers that start cause one message.
DEBOUNCE = 0.2
TOOLS = "tools/list"
#: The lists whose change is told by each kind of notification, beside the tools'.
LISTS_OF = {"prompts": (PROMPTS,), "resources": (RESOURCES, TEMPLATES)}


def knows_all(agent: Agent) -> None:
    """An agent that comes is told of what changes from now on."""
    agent.told = agent.toolset.digest
    agent.told_lists = dict(agent.library.digests)


def knows(agent: Agent, method: str, digest: str) -> None:
    """An agent was given this list."""
    if method == TOOLS:
        agent.told = digest
    else:
        agent.told_lists[method] = digest


class Telling:
    """For all these agents."""

    def __init__(self, agents: Collection[Agent]) -> None:
        self._agents = agents
        self._loop = asyncio.get_running_loop()
        self._going_to = False

    def renew(self) -> None:
        """Agents may have other lists now: tell those later."""
        if not self._going_to and any(
            a.told != a.toolset.digest or a.told_lists != a.library.digests for a in self._agents
        ):
            self._going_to = True
            self._loop.call_later(DEBOUNCE, self._tell)

    def _tell(self) -> None:
        self._going_to = False
        for agent in self._agents:
            changed = []
            if agent.told != agent.toolset.digest:
                changed.append("tools")
            digests, told = agent.library.digests, agent.told_lists
            for kind, methods in LISTS_OF.items():
                if any(digests.get(method) != told.get(method) for method in methods):
                    changed.append(kind)
            knows_all(agent)
            for kind in changed:
                if agent.version:
                    agent.send(LIST_CHANGED[kind])
                if len(agent.listens) and (frames := agent.listens.changed(kind)):
                    agent.send(frames)
