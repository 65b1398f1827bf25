"""Owns what the grid consists of: its servers, clients and features, what each exchange must give at both ends.

It must not start or ask anything: it is told what clients and servers have seen, and judges. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Era = Literal["legacy", "modern"]
MODERN = "2026-07-28"
VERSIONS: Mapping[str, str] = {"legacy": "2025-11-25", "modern": MODERN}


@dataclass(frozen=True, slots=True)
class Peer:
    """A server or a client of the grid; `key` is its name on the wire, `program` the process that it is in, `era` ""
    where it speaks both: then it is spoken to in its client's."""

    key: str
    title: str
    era: Era | Literal[""]
    program: str


SERVERS = (
    Peer("py-legacy", "Python, legacy", "legacy", "python_servers.py"),
    Peer("py-modern", "Python, modern", "modern", "python_servers.py"),
    Peer("py-both", "Python, both", "", "python_servers.py"),
    Peer("ts-legacy", "TypeScript 1, legacy", "legacy", "typescript_servers.mjs"),
    Peer("ts-modern", "TypeScript 2, modern", "modern", "typescript_servers.mjs"),
    Peer("ts-both", "TypeScript 1 and 2, both", "", "typescript_servers.mjs"),
)
CLIENTS = (
    Peer("python-legacy", "Python, legacy", "legacy", "python_client.py"),
    Peer("python-modern", "Python, modern", "modern", "python_client.py"),
    Peer("typescript2-legacy", "TypeScript 2, legacy", "legacy", "client2.mjs"),
    Peer("typescript2-modern", "TypeScript 2, modern", "modern", "client2.mjs"),
    Peer("typescript1-legacy", "TypeScript 1, legacy", "legacy", "sdk1.mjs"),
)
FEATURES = (
    "connect",
    "tools/list",
    "tools/call",
    "resources",
    "prompts",
    "completion",
    "elicitation",
    "sampling",
    "progress",
    "cancel",
    "subscribe",
)
#: What a server asks of its caller: by a request in the older era, by a round of its own in the modern one.
QUESTIONS = ("elicitation", "sampling")
TOOLS = ("ask", "echo", "hang", "sample", "steps", "touch")
#: Features of which a server learns nothing at that moment: the hub has the lists already.
UNSEEN = ("connect", "tools/list")
#: (client, server, feature)
Place = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Cell:
    """One exchange, judged."""

    client: Peer
    server: Peer
    feature: str
    verdict: Literal["pass", "fail"]
    #: what was wrong
    note: str = ""

    @property
    def crossed(self) -> bool:
        return crossed(self.client, self.server, self.feature)

    @property
    def title(self) -> str:
        return f"{self.client.title} client, {self.server.title} server, {self.feature}"


def pairs(*, direct: bool = False) -> list[tuple[Peer, Peer]]:
    """Each client with each server, in the order in which they are shown; without a hub only those that have an era in
    common."""
    found = [(client, server) for client in CLIENTS for server in SERVERS]
    return [(client, server) for client, server in found if not direct or server.era in ("", client.era)]


def expected(client: Peer, server: Peer, feature: str, *, direct: bool = False) -> Any:
    """What the client must have seen. Through the hub a question says which server asks."""
    me, it = client.key, server.key
    asks = "" if direct else f"[{it}] "
    return {
        "connect": {"version": VERSIONS[client.era]},
        "tools/list": {"tools": list(TOOLS)},
        "tools/call": {"text": f"{it} heard {me} in the {server.era or client.era} era"},
        "resources": {"listed": True, "same uri": True, "text": f"note 0 of {me}"},
        "prompts": {"listed": True, "text": f"Hello {me}, from {it}"},
        "completion": {"values": [f"{me}-1", f"{me}-2"]},
        "elicitation": {"asked": f"{asks}Which colour, {me}?", "text": f"{me} said blue of {me}"},
        "sampling": {"asked": f"A word for {me}", "text": f"the model of {me} said word of {me}"},
        "progress": {"progress": [[1, 3], [2, 3], [3, 3]], "text": "three steps"},
        "cancel": {"cancelled": True},
        "subscribe": {"updated": True, "text": f"note 1 of {me}"},
    }[feature]


def crossed(client: Peer, server: Peer, feature: str) -> bool:
    """Whether a question has to be carried from one era to the other."""
    return feature in QUESTIONS and server.era not in ("", client.era)


def awaited(*, direct: bool = False) -> set[Place]:
    """What servers must see; some of it, such as a cancellation, after the client is done."""
    return {
        (client.key, server.key, feature)
        for client, server in pairs(direct=direct)
        for feature in FEATURES
        if feature not in UNSEEN
    }


def judge(seen: Mapping[Place, Any], heard: set[Place], *, direct: bool = False) -> list[Cell]:
    """Each cell. `seen` is what the clients saw, `{"error": {code, message}}` where it failed; `heard` what the servers
    told that a client did there."""
    cells = []
    for client, server in pairs(direct=direct):
        for feature in FEATURES:
            place = (client.key, server.key, feature)
            wanted = expected(client, server, feature, direct=direct)
            cells.append(_judge(client, server, feature, wanted, seen.get(place), place in heard))
    return cells


def _judge(client: Peer, server: Peer, feature: str, wanted: Any, got: Any, heard: bool) -> Cell:
    if got is None:
        return Cell(client, server, feature, "fail", "the client did not tell")
    if got != wanted:
        return Cell(client, server, feature, "fail", f"the client saw {got}, not {wanted}")
    if feature not in UNSEEN and not heard:
        return Cell(client, server, feature, "fail", "the server did not see it")
    return Cell(client, server, feature, "pass")


def counts(cells: Sequence[Cell]) -> str:
    """How many of each verdict, in one sentence."""
    passed = [cell for cell in cells if cell.verdict == "pass"]
    carried = sum(cell.crossed for cell in passed)
    failed = len(cells) - len(passed)
    return f"Of {len(cells)} cells: {len(passed)} passed, {carried} of them between eras, {failed} failed."
