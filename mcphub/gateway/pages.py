"""Owns the pages that servers of 2025-11-25 want opened: who was sent to which, and who waits until one is done.

It must not know what a page is for. `notifications/elicitation/complete` goes to the one agent that was sent there; a
modern agent, which does not know it, comes back with its request, which waits for it a little (MCP spec 2025-11-25,
client/elicitation; bridging, the error -32042). The agent knows a page by an id of mcphub's: two servers may have one.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable

import msgspec

from mcphub.gateway.call import AgentCall, Caller
from mcphub.protocol import jsonrpc
from mcphub.protocol.jsonrpc import Raw
from mcphub.spec import InstanceKey

COMPLETE = "notifications/elicitation/complete"
#: How long a request waits for its pages, seconds: not every server tells, and then it is simply sent.
WAIT = 30.0
#: Pages that are remembered, of each kind.
MOST = 1000

_Page = tuple[InstanceKey, str]


class _Params(msgspec.Struct):
    elicitationId: str


class _Waiting(msgspec.Struct):
    pages: set[_Page]
    start: Callable[[], None]
    timer: asyncio.TimerHandle


_params = msgspec.json.Decoder(_Params).decode


class Pages:
    """Those of one hub. Implements gateway.call.Questions for what waits. `lasting` gives the agent as it joined: over
    HTTP the answer to one request stands in for it, and what is told later is not for that."""

    def __init__(self, lasting: Callable[[Caller], Caller]) -> None:
        self._lasting = lasting
        #: Who was sent to a page, and the id that it knows it by.
        self._given: dict[_Page, tuple[Caller, str]] = {}
        self._done: dict[_Page, None] = {}
        self._waiting: dict[AgentCall, _Waiting] = {}
        self._loop = asyncio.get_running_loop()

    def give(self, agent: Caller, key: InstanceKey, ids: Iterable[str]) -> list[str]:
        """This legacy agent is sent to these pages of a server. Returns the ids for it, the same ones again."""
        agent, own = self._lasting(agent), []
        for one in ids:
            before = self._given.get((key, one))
            own.append(before[1] if before is not None and before[0] == agent else secrets.token_urlsafe(16))
            self._given[key, one] = agent, own[-1]
            _bound(self._given)
        return own

    def wait(self, call: AgentCall, ids: Iterable[str], start: Callable[[], None]) -> bool:
        """Whether the call must wait for these pages; `start` is called when it need not any more, unless it has ended
        before."""
        pages = {(call.key, one) for one in ids if (call.key, one) not in self._done}
        if not pages:
            return False
        call.questions = self
        call.stand_still(self._loop.time(), WAIT)
        timer = self._loop.call_later(WAIT, self._go, call)
        self._waiting[call] = _Waiting(pages, start, timer)
        return True

    def completed(self, key: InstanceKey, params: Raw) -> None:
        """A server says that a page is done."""
        try:
            page = key, _params(params).elicitationId
        except (msgspec.DecodeError, RecursionError):
            return
        given = self._given.pop(page, None)
        if given is not None:
            agent, own = given
            body = b'{"elicitationId":%b}' % jsonrpc.quote(own)
            agent.send(jsonrpc.notification_frame(COMPLETE, body))
            return
        self._done[page] = None
        _bound(self._done)
        for call, waiting in list(self._waiting.items()):
            waiting.pages.discard(page)
            if not waiting.pages:
                self._go(call)

    def _go(self, call: AgentCall) -> None:
        waiting = self._waiting.pop(call)
        waiting.timer.cancel()
        call.questions = None
        waiting.start()

    def ended(self, call: AgentCall) -> None:
        """It waits no more."""
        waiting = self._waiting.pop(call, None)
        if waiting is not None:
            waiting.timer.cancel()

    def left(self, agent: object) -> None:
        """Nothing is for it any more."""
        for page in [page for page, (one, _) in self._given.items() if one == agent]:
            del self._given[page]


def _bound(pages: dict[_Page, tuple[Caller, str]] | dict[_Page, None]) -> None:
    if len(pages) > MOST:
        del pages[next(iter(pages))]
