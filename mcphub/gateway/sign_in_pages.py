"""Owns which legacy agents were sent to mcphub's own pages for signing in, and tells them when that is done.

It must not know the pages, nor how a sign-in goes. `notifications/elicitation/complete` goes to the one agent that was
sent there, once the server can be called again: whoever gets it makes the call again at once (MCP spec 2025-11-25,
client/elicitation).
"""

from __future__ import annotations

from collections.abc import Mapping

from mcphub.connection.machine import NeedsAuth, Pending
from mcphub.connection.worker import Worker
from mcphub.gateway.call import Caller
from mcphub.gateway.invitation import page_id
from mcphub.gateway.pages import COMPLETE
from mcphub.protocol import jsonrpc
from mcphub.spec import InstanceKey

#: Agents that are remembered.
MOST = 1000


class SignInPages:
    """`workers` is the supervisor's table. A page is known by its last path segment, its elicitationId."""

    def __init__(self, workers: Mapping[InstanceKey, Worker]) -> None:
        self._workers = workers
        #: Who was sent to which, and for which server; several agents may share a page.
        self._given: dict[tuple[str, Caller], InstanceKey] = {}
        self._done: set[str] = set()

    def give(self, agent: Caller, key: InstanceKey, page: str) -> None:
        """This agent was sent to this URL."""
        self._given[page_id(page), agent] = key
        if len(self._given) > MOST:
            del self._given[next(iter(self._given))]

    def done(self, page: str) -> None:
        """Somebody has signed in by the page with this id."""
        if any(one == page for one, _ in self._given):
            self._done.add(page)
            self.renew()

    def renew(self) -> None:
        """Servers may be there again."""
        if not self._done:
            return
        for (page, agent), key in list(self._given.items()):
            worker = self._workers.get(key)
            if page in self._done and (worker is None or not isinstance(worker.state, NeedsAuth | Pending)):
                del self._given[page, agent]
                params = b'{"elicitationId":%b}' % jsonrpc.quote(page)
                agent.send(jsonrpc.notification_frame(COMPLETE, params))
        self._done &= {page for page, _ in self._given}

    def left(self, agent: object) -> None:
        """Nothing is for it any more."""
        for one in [one for one in self._given if one[1] == agent]:
            del self._given[one]
