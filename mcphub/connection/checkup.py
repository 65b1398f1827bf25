"""Owns finding out soon whether an open connection still leads anywhere: after sleep, and when the way to it changed.

It must not know why it is asked. One probe, with the method that `probing` uses and a short time for its answer. It is
a request like others, so it takes the way that others would take. While calls of agents are in flight silence ends
nothing: a server may be at one thing at a time, and a call has its own time.
"""

from __future__ import annotations

from collections.abc import Callable

from mcphub.connection.client import Client, Reply
from mcphub.protocol.jsonrpc import Envelope

#: Seconds for an answer; a way that was just opened may need a moment, and packets that were lost a second one.
PATIENCE = 5.0
#: Nothing came back, or nothing could be sent; whatever else there is, it came from somewhere.
_NOWHERE = frozenset(["timeout", "unreachable", "no_response"])


class Checkup(Reply):
    """One of a connection. `now`: the clock; `busy`: whether a call is in flight at its server, on whichever of its
    connections; None = this one alone is looked at."""

    __slots__ = ("_busy", "_client", "_method", "_now")

    def __init__(
        self, client: Client, method: str, now: Callable[[], float], busy: Callable[[], bool] | None = None
    ) -> None:
        super().__init__(now() + PATIENCE)
        self._client = client
        self._method = method
        self._now = now
        self._busy = busy if busy is not None else lambda: bool(client.calls)

    def begin(self) -> None:
        client = self._client
        if client.ready and not client.over and not client.gone:
            self.uncounted = self._busy()  # it must not end a call that runs
            client.start(self, self._method)

    def answered(self, env: Envelope) -> None:
        pass  # an error is an answer, too

    def unanswered(self, kind: str, message: str) -> None:
        if kind not in _NOWHERE or self._client.severed:
            return  # where there is no way again, it is looked at when there is one
        if not self._busy():
            self._client.give_up(f"it does not answer any more: {message}")
        elif kind == "timeout":
            Checkup(self._client, self._method, self._now, self._busy).begin()
