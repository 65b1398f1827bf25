"""Owns the requests in flight on one connection: ids that never repeat, who waits for which, what a reply belongs to.

It must not send or await; a reply is handed to its waiter, and time comes in as an argument. Our ids are integers, so
"7" and 7 cannot be confused when a server answers with the wrong type (bridging rules, ids).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from mcphub.protocol.jsonrpc import MAX_ID_DIGITS, Envelope, Raw


class Waiter(Protocol):
    """Who waits for one reply. Exactly one of `answered` and `unanswered` is called, once, unless it was withdrawn."""

    #: Monotonic seconds; moved on by progress, never past `hard`.
    deadline: float
    #: Seconds without progress that are allowed; 0 = progress moves nothing.
    idle: float

    @property
    def hard(self) -> float: ...

    def answered(self, env: Envelope) -> None:
        """The reply; its payload is valid during the call only."""

    def unanswered(self, kind: str, message: str) -> None:
        """No reply will come; `kind` as in errors.TransportError, or `unreadable`: it came and cannot be read."""

    def progressed(self, params: Raw) -> None:
        """A progress notification for this request."""


class Crowd(Protocol):
    """Who takes several results at once, of waiters that name it as their `crowd`."""

    def answered(self, waiters: Sequence[Any], results: Sequence[Raw]) -> bool:
        """Whether these waiters have got these results; False = nothing was done, and each must be told by itself."""


class Pending:
    """The table of one connection."""

    __slots__ = ("last", "waiting")

    def __init__(self) -> None:
        self.last = 0
        self.waiting: dict[int, Waiter] = {}

    def add(self, waiter: Waiter) -> int:
        """A new id for this waiter. The id doubles as its progress token."""
        self.last += 1
        self.waiting[self.last] = waiter
        return self.last

    def take(self, mid: object) -> Waiter | None:
        """The waiter a reply belongs to, removed; None for an id that is unknown, late, or of a form that is no id of
        ours ("07", null). A canonical decimal string of one of our ids is accepted."""
        number = _number(mid)
        return self.waiting.pop(number, None) if number is not None else None

    def progress(self, token: object, now: float) -> Waiter | None:
        """The waiter a progress notification belongs to, by its token as `take` reads an id; its deadline moves, never
        nearer."""
        number = _number(token)
        waiter = self.waiting.get(number) if number is not None else None
        if waiter is not None and waiter.idle:
            waiter.deadline = max(waiter.deadline, min(now + waiter.idle, waiter.hard))
        return waiter

    def overdue(self, now: float) -> list[tuple[int, Waiter]]:
        """The waiters whose deadline has passed, removed."""
        late = [(mid, w) for mid, w in self.waiting.items() if w.deadline <= now]
        for mid, _ in late:
            del self.waiting[mid]
        return late

    def drain(self) -> list[Waiter]:
        """All waiters, removed: the connection is gone."""
        all_ = list(self.waiting.values())
        self.waiting.clear()
        return all_


def _number(mid: object) -> int | None:
    """The id of ours that this may be, as an integer; None for what is of no form of one."""
    if type(mid) is int:
        return mid
    if type(mid) is str and len(mid) <= MAX_ID_DIGITS and mid.isascii() and mid.isdecimal() and mid[0] != "0":
        return int(mid)
    return None
