"""Owns the comparison of the outcome journal with what agents were told: the same calls are unknown in both.

It must not ask for the journal. A call that its agent has withdrawn is unknown in the journal alone, since nobody was
told anything; so many of them are allowed for an agent, server and tool as it withdrew there. One whose withdrawal
crossed a question to its agent is open: by what the agent wrote nobody can see that it will not come back with an
answer, so the call waits for that, in flight at its server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from mcphub.store.call_journal import UNKNOWN_CALLS
from tests.e2e.calls.ledger import READS, Book, Outcome

#: Of more unknown calls than the journal keeps, so many of the last ones must be there, whatever was withdrawn.
LAST = UNKNOWN_CALLS // 4
Row = Mapping[str, Any]


def differences(
    rows: Sequence[Row],
    books: Iterable[Book],
    most: int = UNKNOWN_CALLS,
    last: int = LAST,
    in_flight: Mapping[str, int] = MappingProxyType({}),
) -> list[str]:
    """What is wrong with the rows of a `CallsReport` of all calls, given what agents were told, and how many calls are
    in flight still at each server."""
    unknown = {row["operation"]: row for row in rows if row["outcome"] == "unknown"}
    told: list[tuple[float, str, str]] = []
    others: dict[str, str] = {}
    withdrawn: Counter[tuple[str, str, str]] = Counter()
    for book in books:
        for number, verdict in book.words.items():
            if book.tool(number) in READS:
                continue
            if verdict.outcome == Outcome.UNKNOWN:
                told.append((book.sent[number], verdict.operation, book.token(number)))
            elif verdict.operation:
                others[verdict.operation] = book.token(number)
        for number, outcome in enumerate(book.outcomes):
            if outcome == Outcome.CANCELLED:
                withdrawn[book.agent, book.server(number), book.tool(number)] += 1
    found = [f"{token}: its agent was told that it is unknown, and of no operation" for _, id, token in told if not id]
    told = sorted(one for one in told if one[1])
    for _, id, token in told if len(unknown) < most else told[-last:]:
        if id not in unknown:
            found.append(f"{token}: unknown to its agent, and not in the journal, where it is {id}")
    for id, token in others.items():
        if id in unknown:
            found.append(f"{token}: it was not done, as its agent was told, and is unknown in the journal as {id}")
    ids = {id for _, id, _ in told}
    left = Counter((row["agent"], row["server"], row["tool"]) for id, row in unknown.items() if id not in ids)
    for who, times in left.items():
        if times > withdrawn[who]:
            words = f"are unknown in the journal alone, and {withdrawn[who]} were withdrawn"
            found.append(f"{times} calls of {who} {words}")
    still = [row for row in rows if row["outcome"] == "open"]
    there = Counter(row["server"] for row in still)
    whose = Counter((row["agent"], row["server"], row["tool"]) for row in still)
    for row in still:
        who = row["agent"], row["server"], row["tool"]
        if there[row["server"]] > in_flight.get(row["server"], 0) or whose[who] > withdrawn[who]:
            found.append(f"{row['operation']} of {who} is open in the journal, and it is not in flight")
    return found
