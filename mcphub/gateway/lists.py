"""Owns the answers to lists: which page an agent gets, how long it may keep it, and how long it waits for it.

It must not make a list, nor tell of changes: the pages are the catalog's. A list waits for a bounded time, and only for
servers that start, or that said that theirs has changed and are being asked for it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from mcphub.catalog.freshness import merged_freshness
from mcphub.catalog.pages import Pages
from mcphub.connection.worker import Worker
from mcphub.gateway.agent import Agent
from mcphub.gateway.refusals import BAD_PARAMS
from mcphub.gateway.sight import Sight
from mcphub.gateway.telling import TOOLS, knows
from mcphub.protocol import jsonrpc, older
from mcphub.protocol.caching import Freshness, freshness_members
from mcphub.protocol.cursor import give_cursor, take_cursor
from mcphub.protocol.envelope import traced
from mcphub.protocol.jsonrpc import Raw
from mcphub.spec import InstanceKey
from mcphub.supervisor.supervisor import Supervisor

#: Lists that may wait at once; further ones get what is there.
MAX_WAITING = 1000


class _CursorOnly(msgspec.Struct, gc=False):
    cursor: Any = None


_cursor_only = msgspec.json.Decoder(_CursorOnly).decode


class _Waiting:
    """A list that waits, for a bounded time, for servers that are starting, and for lists that have changed."""

    __slots__ = ("agent", "coming", "method", "mid", "modern", "timer")

    def __init__(self, agent: Agent, method: str, mid: bytes, modern: bool, coming: list[tuple[Worker, int]]) -> None:
        self.method = method
        self.agent = agent
        self.mid = mid
        self.modern = modern
        #: The servers whose new lists it waits for, with what each is waited for under.
        self.coming = coming
        self.timer: asyncio.TimerHandle | None = None


class Lists:
    """`wait`: how long a list waits, `ttl`: how long one may be kept at most, seconds; `seal_key` seals cursors."""

    def __init__(self, supervisor: Supervisor, sight: Sight, wait: float, ttl: float, seal_key: bytes) -> None:
        #: Those that wait, by agent and id as JSON.
        self.waiting: dict[tuple[Agent, bytes], _Waiting] = {}
        self._snapshot = supervisor.snapshot
        self._workers = supervisor.workers
        self._look_up = supervisor.look_up
        self._catch_up = supervisor.catch_up
        self._sight = sight
        self._wait = wait
        self._ttl = ttl
        self._seal_key = seal_key
        self._loop = asyncio.get_running_loop()

    def ask(self, agent: Agent, method: str, mid: bytes, modern: bool, raw: Raw, trace: str = "") -> None:
        """An agent asks for a list, or for a page of one; `trace` is its trace id. Raises msgspec.DecodeError."""
        cursor = _cursor_only(raw).cursor if raw else None
        if cursor is not None:
            self._next_page(agent, method, mid, modern, cursor, trace)
            return
        unlisted: list[InstanceKey] = []
        coming: list[tuple[Worker, int]] = []
        for key in self._sight.seen(agent.workspace, agent.view).values():
            if (worker := self._workers.get(key)) is not None:
                worker.list_wanted(method)
                if not worker.listed:
                    unlisted.append(key)
                elif number := worker.coming(method, self._wait):
                    coming.append((worker, number))
        # What a server offered when another daemon ran is looked for by whoever asks, and is there in no time.
        looking = bool(unlisted) and self._look_up(unlisted)
        quiet = not looking and not coming and self._sight.settled(agent.workspace, agent.view)
        if quiet or len(self.waiting) >= MAX_WAITING:
            # What a server has listed by now counts, though nobody was told of it yet.
            self._catch_up()
            agent.toolset, agent.library = self._sight.both(agent.workspace, agent.view)
            self._give(agent, method, mid, modern)
            return
        waiting = _Waiting(agent, method, mid, modern, coming)
        self.waiting[agent, mid] = waiting
        waiting.timer = self._loop.call_later(self._wait, self._waited_enough, waiting)

    def cancel(self, agent: Agent, mid: bytes) -> None:
        """Its agent does not want it any more, if it waits."""
        if (agent, mid) in self.waiting:
            self._forget(self.waiting[agent, mid])

    def left(self, agent: Agent) -> None:
        """Nothing waits for an agent that left."""
        for waiting in [w for w in self.waiting.values() if w.agent is agent]:
            self._forget(waiting)

    def due(self) -> bool:
        """Whether a list waits for nothing any more but for `renew`."""
        return any(self._is_due(w) for w in self.waiting.values())

    def renew(self) -> None:
        """Servers may have started, or listed again: give the lists that waited for them."""
        for waiting in [w for w in self.waiting.values() if self._is_due(w)]:
            self._waited_enough(waiting)

    def _is_due(self, waiting: _Waiting) -> bool:
        if any(worker.brings(waiting.method, number) for worker, number in waiting.coming):
            return False
        return self._sight.settled(waiting.agent.workspace, waiting.agent.view)

    def _waited_enough(self, waiting: _Waiting) -> None:
        self._forget(waiting)
        self._give(waiting.agent, waiting.method, waiting.mid, waiting.modern)

    def _forget(self, waiting: _Waiting) -> None:
        del self.waiting[waiting.agent, waiting.mid]
        if waiting.timer is not None:
            waiting.timer.cancel()

    def _pages(self, agent: Agent, method: str) -> Pages:
        return agent.toolset.pages if method == TOOLS else agent.library.pages[method]

    def _next_page(self, agent: Agent, method: str, mid: bytes, modern: bool, cursor: object, trace: str) -> None:
        pages = self._pages(agent, method)
        start = take_cursor(self._seal_key, method, pages.digest, cursor) if isinstance(cursor, str) else None
        if start is None or start not in pages.pages:
            text = f"unknown cursor: the list has changed, or it is of another one; ask {method} again without a cursor"
            agent.send(jsonrpc.error_frame(mid, jsonrpc.INVALID_PARAMS, text, traced(BAD_PARAMS, trace)))
        else:
            self._give(agent, method, mid, modern, start)

    def _give(self, agent: Agent, method: str, mid: bytes, modern: bool, start: int = 0) -> None:
        """One page. Its items are the same bytes every time; only what stands around them is not."""
        pages = self._pages(agent, method)
        knows(agent, method, pages.digest)
        page = pages.pages[start]
        tail = b"]"
        if page.next:
            tail += b',"nextCursor":"%b"' % give_cursor(self._seal_key, method, pages.digest, page.next).encode()
        if modern:
            now = self._loop.time()
            tail += b"," + freshness_members(self._freshness(agent, method, now), now)
        head = b'{"jsonrpc":"2.0","id":%b,"result":%b' % (mid, pages.head(modern))
        items = page.modern if modern else page.legacy
        if not modern and agent.version in older.VERSIONS:
            items = older.items_for(agent.version, pages.member, items)
        agent.send(head, items, tail + b"}}\n")

    def _freshness(self, agent: Agent, method: str, now: float) -> Freshness:
        views = self._snapshot.value.views
        shown = [views[key] for key in self._sight.seen(agent.workspace, agent.view).values() if key in views]
        found = merged_freshness(shown, method, now, self._ttl)
        # What a workspace sees depends on who asks, which is nothing that a cache could know.
        return msgspec.structs.replace(found, public=False) if agent.workspace else found
