"""Owns which call comes next: the servers, how often each is called, what the call asks of it, by a seed.

It must not send anything. What the schedule of harm wants to happen to the next call of a server goes along with it.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Container

import msgspec

from tests.e2e.calls.ledger import TOOLS


class Target(msgspec.Struct, frozen=True):
    """One server. `most`: calls that one agent may have in flight there; `asks`: it has the tool that asks."""

    kind: str
    era: str
    weight: int
    most: int = 1000
    slow: float = 0.0
    asks: bool = False
    harmed: bool = True


SERVERS = {
    "stdiolegacy": Target("stdio", "legacy", 20),
    "stdiomodern": Target("stdio", "modern", 20),
    "httplegacy": Target("http", "legacy", 14, asks=True),
    "httpmodern": Target("http", "modern", 14, asks=True),
    "quiet": Target("stdio", "modern", 10, harmed=False),
    "slow": Target("stdio", "legacy", 4, 3, 40.0),
    "askerlegacy": Target("stdio", "legacy", 4, 1, asks=True),
    "askermodern": Target("stdio", "modern", 4, 1, asks=True),
}
NAMES = tuple(SERVERS)
#: What is asked of a server, and how often: at once, later, or done and answered later.
HOWS = ("", "linger", "late")
HOW_OFTEN = (3, 4, 3)
#: The same where calls go, and end, together.
HOW_SELDOM = (40, 1, 1)
#: Milliseconds that a call lingers, at most.
LINGERS = 100.0
#: Of the tools, that which asks is chosen so often at a server that has it.
ASKED = 0.1
#: So often another server is looked for than one that is away.
TRIES = 3
#: Of all calls, and of those that ask, so many are withdrawn by their agent.
WITHDRAWN = 0.03
ASKED_WITHDRAWN = 0.2


class Wanted(msgspec.Struct, frozen=True):
    """The next call: places in NAMES and TOOLS, and what it says."""

    server: int
    tool: int
    how: str
    ms: float
    withdraw: bool

    def arguments(self, token: str) -> str:
        """As JSON."""
        more = f',"how":"{self.how}","ms":{self.ms:.1f}' if self.how else ""
        return f'{{"token":"{token}"{more}}}'


class Work:
    """So many calls, which all agents share; `stretch`: so many of them, one after the other, are of one tool, where
    its server takes them."""

    def __init__(self, calls: int, stretch: int = 1) -> None:
        self.left = calls
        self._stretch = stretch
        self._same, self._name, self._tool = 0, "", 0
        #: By server: what the next call of a writing tool is to do.
        self.hurts: dict[str, deque[str]] = {name: deque() for name in NAMES}
        #: One who came when there was nothing left.
        self.over = False

    def next(self, chance: random.Random, busy: Counter[str], away: Container[str] = ()) -> Wanted | None:
        """A call for an agent that has so many in flight by server; None = there is none any more. One to a server
        that is `away` is rare."""
        if self.left <= 0:
            self.over = True
            return None
        self.left -= 1
        if self._same and busy[self._name] < SERVERS[self._name].most:
            self._same -= 1
            return self._wanted(chance, self._name, self._tool)
        tries = 0
        while True:
            [name] = chance.choices(NAMES, _WEIGHTS)
            target = SERVERS[name]
            tries += 1
            if busy[name] < target.most and (name not in away or tries > TRIES):
                break
        tool = _ASK if target.asks and chance.random() < ASKED else chance.choice(_PLAIN)
        if target.most == 1:
            tool = _ASK
        self._same, self._name, self._tool = self._stretch - 1, name, tool
        return self._wanted(chance, name, tool)

    def _wanted(self, chance: random.Random, name: str, tool: int) -> Wanted:
        [how] = chance.choices(HOWS, HOW_OFTEN if self._stretch == 1 else HOW_SELDOM)
        if tool != _ASK and self.hurts[name]:
            how = self.hurts[name].popleft()
        ms = chance.random() * LINGERS if how in ("linger", "late") else 0.0
        withdrawn = ASKED_WITHDRAWN if tool == _ASK else WITHDRAWN
        return Wanted(NAMES.index(name), tool, "" if tool == _ASK else how, ms, chance.random() < withdrawn)


_WEIGHTS = [target.weight for target in SERVERS.values()]
_ASK = TOOLS.index("ask")
_PLAIN = [at for at, tool in enumerate(TOOLS) if tool != "ask"]
