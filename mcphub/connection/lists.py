"""Owns the lists of one instance: the last ones, which of them count, and when they are looked at again.

It must not know states, attempts or agents: its worker says when there is a connection to list on. While there is none
the lists stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import anyio

from mcphub.connection import handshake
from mcphub.connection.client import Client
from mcphub.connection.coming import Coming
from mcphub.connection.doubts import Doubts
from mcphub.connection.handshake import Facts, Listing
from mcphub.connection.source import Source
from mcphub.errors import JSONRPCError, RemoteProtocolError, TransportError
from mcphub.protocol.caching import UNSAID, Freshness
from mcphub.transport.link import Link

TOOLS = "tools/list"
#: The lists beside the tools: a server that has none of them is as good without.
SHELF = ("prompts/list", "resources/list", "resources/templates/list")
#: The lists that each notification speaks of.
CHANGED = {
    "notifications/tools/list_changed": (TOOLS,),
    "notifications/prompts/list_changed": SHELF[:1],
    "notifications/resources/list_changed": SHELF[1:],
}
#: Several list_changed in this time cause one new list, seconds. For a server that goes on and on the time doubles up
#: to SETTLE_MOST; it is back where it was after so long without a change.
SETTLE = 0.05
SETTLE_MOST = 5.0
#: Where an agent waits for the list, it is listed no later than so many seconds after it was the last time.
HURRIED = 0.5
#: Of the time that is left to open a server, what pages of tools after the first may take, and then the other lists.
PAGES = 0.75
#: A list of a server that does not tell of changes is listed again when an agent asks for it and it is older than its
#: server said, but not more often than every so many seconds; a legacy server cannot say, and is trusted for longer.
UNTOLD_LEAST = 5.0
UNTOLD_LEGACY = 60.0
#: One that could not be listed again is listed when an agent asks for it so many seconds later.
FAILED_LEAST = 10.0

#: The items of each list, as they came, by its method.
Shelf = Mapping[str, tuple[bytes, ...]]


class Lists:
    """`listed` and `shelved` count the tools and the other lists, so that an unchanged number means unchanged ones.
    `patience`: what a list may take, seconds; `now`: the clock; `wake` is called when something is to be listed again,
    `changed` when there is something new to see, `warn` with what belongs in the log."""

    def __init__(
        self,
        patience: float,
        now: Callable[[], float],
        *,
        wake: Callable[[], None],
        changed: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        self.tools: tuple[bytes, ...] = ()
        self.listed = 0
        self.shelf: Shelf = {}
        self.shelved = 0
        #: What a modern server said of its lists, by method.
        self.fresh: Mapping[str, Freshness] = {}
        #: A legacy server cannot tell of changes, whatever it says that it does: it has no stream for it.
        self.deaf = False
        #: Those that may not be what the server has now, though there is a connection.
        self.doubts = Doubts()
        #: Those of which its server said that they have changed, until they were listed after that.
        self.coming = Coming()
        #: What these lists are of, None = there are none.
        self.source: Source | None = None
        #: They are of before this daemon: its server has not been connected yet.
        self.saved = False
        self._met = Source()
        #: They are of another source than what is being listed now.
        self._foreign = False
        #: Those that are being listed now.
        self._flying: frozenset[str] = frozenset()
        self._patience = patience
        self._now = now
        self._wake = wake
        self._changed = changed
        self._warn = warn
        self._again: set[str] = set()
        #: Lists that may not be whole, and when each one may be looked at again because an agent asks.
        self._partial: set[str] = set()
        self._untold: dict[str, float] = {}
        self._settle = SETTLE
        self._listed_at = float("-inf")

    # --- when --------------------------------------------------------------------------------------------------------

    @property
    def due(self) -> bool:
        """Something is to be listed again."""
        return bool(self._again)

    @property
    def whole(self) -> bool:
        """None of them was cut when it was listed last."""
        return not self._partial

    @property
    def busy(self) -> bool:
        """A connection is being opened, and lists already."""
        return bool(self._flying)

    def reset(self) -> None:
        """There is a new connection, on which all will be listed."""
        self._again.clear()
        self.coming.reset()
        self._settle = SETTLE
        self._flying = frozenset()

    def met(self, source: Source) -> None:
        """Whom the new connection is to. Lists of another source, of an older release say, are shown until there are
        others, but take the place of none that fails."""
        self._met = source
        self._foreign = self.source is not None and self.source != source

    def look_again(self, *methods: str) -> None:
        """They may have changed; without any, all may have."""
        self._again.update(methods or (TOOLS, *SHELF))
        self._wake()

    def told(self, method: str) -> bool:
        """Whether this notification speaks of lists; they are then looked at again."""
        if method not in CHANGED:
            return False
        self.coming.told(CHANGED[method])
        self._doubt(*CHANGED[method])
        self.look_again(*CHANGED[method])
        return True

    def mistrust(self) -> None:
        """All of them may be other ones now: those who may see them are others, or changes may have been missed."""
        self._doubt(TOOLS, *SHELF)
        self.look_again()

    def _doubt(self, *methods: str) -> None:
        if self.doubts.add(methods, self._now()):
            self._changed()

    def wanted(self, method: str, facts: Facts, link: Link) -> None:
        """An agent asks for this list, and gets what is here. Where the server tells of no changes, and the time is
        over for which its word counts, the list is then looked at again: agents are told if it has changed."""
        if self.hears(link, facts):
            self._changed()
        now = self._now()
        if now < self._untold.get(method, float("inf")) or method in self._flying:
            return  # one request is enough for all who ask
        doubted = method in self.doubts
        if facts.tells(handshake.LISTS[method][0]) and not self.deaf and not doubted:
            return
        if doubted and self.doubts.over(method, now):
            self._drop(method)
        self._untold[method] = now + UNTOLD_LEAST
        self.look_again(method)

    def hears(self, link: Link, facts: Facts) -> bool:
        """See whether the server can tell of changes on this connection; returns whether that is news."""
        before, self.deaf = self.deaf, link.deaf and facts.era == "legacy"
        return self.deaf is not before

    def settle(self) -> float:
        """For how many seconds further changes are to be waited for before the lists are."""
        quiet = self._now() - self._listed_at > SETTLE_MOST
        self._settle = SETTLE if quiet else min(self._settle * 2, SETTLE_MOST)
        return min(self._settle, self.hurried) if self.coming.awaited else self._settle

    @property
    def hurried(self) -> float:
        """The same from now on, where somebody waits for the lists: for that, a server that goes on and on is asked
        every `HURRIED` seconds at most."""
        return max(SETTLE, self._listed_at + HURRIED - self._now())

    # --- listing -----------------------------------------------------------------------------------------------------

    async def first_tools(
        self, client: Client, link: Link, capabilities: Any
    ) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
        """The tools of a connection that is being opened, and warnings; the caller bounds the whole. Raises as
        handshake.list_all."""
        self.fresh = {}
        self._flying = frozenset((TOOLS, *SHELF))
        # Pages without end must not cost those that came.
        pages = (anyio.current_effective_deadline() - self._now()) * PAGES
        listing = await handshake.list_tools(client, capabilities, self._patience, pages)
        tools, warnings = self._kept(TOOLS, listing, self.tools)
        tools, dropped = link.usable(tools)
        return tools, warnings + dropped

    async def first_shelf(self, client: Client, capabilities: Any) -> tuple[Shelf, tuple[str, ...]]:
        """The other lists of a connection that is being opened, and warnings. Raises TransportError."""
        # A list that does not come must not cost the tools: together they may take no more than half of the time.
        left = anyio.current_effective_deadline() - self._now()
        patience = min(self._patience / 2, left * PAGES) / len(SHELF)
        found, warnings = await handshake.list_shelf(client, capabilities, SHELF, patience)
        shelf, cut = self._kept_shelf(found)
        if not self._foreign:
            self._failed(method for method in SHELF if method not in found and self.shelf.get(method))
        return shelf, warnings + cut

    def take(self, tools: tuple[bytes, ...], shelf: Shelf) -> None:
        """From now on these are its lists, of whom was met."""
        self._flying = frozenset()
        self.source, self.saved = self._met, False
        self._take_tools(tools)
        self._take_shelf(shelf)
        self._foreign = False

    def recall(self, tools: tuple[bytes, ...], shelf: Shelf, source: Source, *, saved: bool = True) -> None:
        """What they were when its server was connected last, before there is a connection."""
        self.source, self.saved = source, saved
        self._take_tools(tools)
        self._take_shelf(shelf)

    def forget(self) -> None:
        """They are nobody's any more: whoever sees them must not, or they are too old."""
        self.tools, self.shelf, self.source, self.saved = (), {}, None, False
        self.listed = 0
        self.shelved += 1
        self.fresh = {}

    def _drop(self, method: str) -> None:
        """One that could not be confirmed for too long."""
        self._warn(f"{method} could not be listed again for too long, so it is empty from now on")
        self._partial.add(method)
        if method == TOOLS:
            self._take_tools(())
        else:
            self._take_shelf({method: ()})
        self._changed()

    async def again(self, client: Client, link: Link, facts: Facts) -> None:
        """List again what is due. What cannot be listed stays as it was."""
        try:
            if TOOLS in self._again:
                self._again.discard(TOOLS)
                self._fly(TOOLS)
                await self._list_again(client, link, facts)
                self._landed()
            if self._again - {TOOLS} and not client.over:
                await self._shelve_again(client, facts)
        finally:
            self._landed()
        self._listed_at = self._now()

    def _fly(self, *methods: str) -> None:
        self._flying = frozenset(methods)
        self.coming.begin(methods, self._now())

    def _landed(self) -> None:
        self._flying = frozenset()
        if self.coming.end():
            self._changed()  # whoever waited for them gets what there is, also where that is nothing new

    async def _list_again(self, client: Client, link: Link, facts: Facts) -> None:
        try:
            listing = await handshake.list_tools(client, facts.capabilities, self._patience)
        except (JSONRPCError, RemoteProtocolError) as e:
            self._warn(f"the tools cannot be listed again, the old list is kept: {e}")
            self._failed((TOOLS,))
            return
        except TransportError as e:
            if not client.over:
                self._warn(f"the tools cannot be listed again, the old list is kept: {e}")
                self._failed((TOOLS,))
            return
        doubted = TOOLS in self.doubts
        tools, cut = self._kept(TOOLS, listing, self.tools)
        for warning in cut:
            self._warn(warning)
        before = self.listed
        dropped: tuple[str, ...] = ()
        if tools is not self.tools:
            tools, dropped = link.usable(tools)
            self._take_tools(tools)
        if self.listed != before:
            for warning in dropped:
                self._warn(warning)
        if self.listed != before or facts.era == "modern" or doubted:
            self._changed()  # what holds of an unchanged list is new as well

    async def _shelve_again(self, client: Client, facts: Facts) -> None:
        methods = tuple(sorted(self._again - {TOOLS}))
        self._again.difference_update(methods)
        self._fly(*methods)
        try:
            patience = self._patience / 2 / len(SHELF)
            found, warnings = await handshake.list_shelf(client, facts.capabilities, methods, patience)
        except TransportError as e:
            if not client.over:
                self._warn(f"what has changed cannot be listed, the old lists are kept: {e}")
                self._failed(methods)
            return
        doubts = self.doubts.methods
        self._failed(method for method in methods if method not in found)
        shelf, cut = self._kept_shelf(found)
        for warning in warnings + cut:
            self._warn(warning)
        before = self.shelved
        self._take_shelf(shelf)
        if self.shelved != before or facts.era == "modern" or self.doubts.methods is not doubts:
            self._changed()

    def _failed(self, methods: Iterable[str]) -> None:
        """They could not be listed: they are tried again when an agent asks, whoever tells of changes."""
        failed = tuple(methods)
        for method in failed:
            self._untold[method] = self._now() + FAILED_LEAST
        self._doubt(*failed)

    # --- what counts -------------------------------------------------------------------------------------------------

    def _kept(
        self, method: str, listing: Listing, old: tuple[bytes, ...]
    ) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
        """The items that count after a list, and warnings: a whole list of before is better than one that was cut."""
        now = self._now()
        said = listing.freshness
        self._untold[method] = now + UNTOLD_LEGACY if said == UNSAID else max(said.until, now + UNTOLD_LEAST)
        self.fresh = {**self.fresh, method: said}
        if method not in self._again:
            self.doubts.remove(method)  # else it has changed while it was read: it is no list to be kept
        if not listing.cut:
            self._partial.discard(method)
            return listing.items, ()
        if old and method not in self._partial and not self._foreign:
            self._doubt(method)
            return old, (f"{listing.cut}; the old list is kept",)
        self._partial.add(method)
        return listing.items, (listing.cut,)

    def _kept_shelf(self, found: Mapping[str, Listing]) -> tuple[Shelf, tuple[str, ...]]:
        shelf: dict[str, tuple[bytes, ...]] = {}
        warnings: tuple[str, ...] = ()
        for method, listing in found.items():
            shelf[method], cut = self._kept(method, listing, self.shelf.get(method, ()))
            warnings += cut
        return shelf, warnings

    def _take_tools(self, tools: tuple[bytes, ...]) -> None:
        if tools != self.tools or not self.listed:
            self.tools = tools
            self.listed += 1

    def _take_shelf(self, shelf: Shelf) -> None:
        new = {**shelf} if self._foreign else {**self.shelf, **shelf}
        if new != self.shelf:
            self.shelf = new
            self.shelved += 1
