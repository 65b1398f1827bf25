"""Owns who holds a server up: the agents that have been asked because of a call there, and have not answered.

It must not know what was asked. What it says is for people, and for agents whose calls wait meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mcphub.catalog.hygiene import clean
from mcphub.connection.client import Client
from mcphub.gateway.call import AgentCall, whose

#: Characters of an agent's name, and agents, that a text has.
MAX_NAME = 80
MAX_NAMED = 3


class Holder(msgspec.Struct, frozen=True):
    """An agent with an open question, since when (monotonic seconds)."""

    client: str
    workspace: str
    since: float


def holders(client: Client, but: object = None) -> list[Holder]:
    """Those of one connection, who was asked first before the others; `but` is who does not count, as `call.whose`."""
    found: dict[object, Holder] = {}
    for call in client.waiting().values():
        if isinstance(call, AgentCall) and call.still and (agent := whose(call)) != but:
            before = found.get(agent)
            if before is None or call.still < before.since:
                caller = call.caller
                found[agent] = Holder(clean(caller.client)[:MAX_NAME], caller.workspace.partition("\0")[0], call.still)
    return sorted(found.values(), key=lambda one: one.since)


def named(found: Sequence[Holder], now: float) -> str:
    """A sentence without its end, "" = there are none."""
    texts = []
    for one in found[:MAX_NAMED]:
        who = f"the agent {one.client}" if one.client else "an agent without a name"
        texts.append(f"{who} has not answered a question of it for {now - one.since:.0f} s")
    more = len(found) - MAX_NAMED
    return "; ".join(texts) + (f"; and {more} more" if more > 0 else "")
