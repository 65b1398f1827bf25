"""Owns who goes next where calls of several agents meet: how many of each are on their way, what waits, in which order.

It must not know what a call is, nor read a clock: times are seconds of any one clock, and come in as arguments.

While several want the same, none has more on its way than twice as many as the one that wants least, and a few in any
case; the rest waits here, and goes in turns, in order within one. What is slow because it is queued and what is slow by
itself is told apart by trying: whose answers take no longer than they did within its share gets one more with each,
else one fewer. Who gets no answers at all for a moment gets some more, since what they wait for may run side by side.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

#: On their way in all that those who compete share, where answers take less than SLOW seconds.
AMPLE = 4
#: What one may have in any case, so that a server never waits for mcphub. Where an answer takes SLOW seconds or
#: longer, more is only a longer queue.
FEW = 2
SLOW = 0.005
#: So many times as much as the one that wants least has: it then waits for three times as much as its own at most.
FACTOR = 2
#: Answers that take less than so many times what they took within the share are not queued.
QUEUED = 1.25
#: Seconds without an answer, or so many of the usual pauses between two, after which STEP more go.
PATIENCE = 0.025
PAUSES = 2.0
STEP = 8
#: Where more was only queued before, it takes so many times the usual, and FEW more go; never more than LONGEST
#: seconds, since what is on its way may take as long as it likes, and be none of the others' business.
LONG = 4.0
LONGEST = 10.0
#: Seconds for which one who wants nothing any more is still counted, and after which what was learned is tried anew.
REMEMBERED = 10.0
RELEARNED = 60.0
#: How often it is looked who wants least, seconds.
LOOK = 0.05
#: The part that a new time has in the mean.
NEW = 0.125

_NOBODY = float("inf")

T = TypeVar("T")


class Place(Generic[T]):
    """One thing's place here: it waits (`going` False), is on its way, or neither any more (`over`)."""

    __slots__ = ("going", "item", "of", "over", "sent", "within")

    def __init__(self, item: T, of: Share[T]) -> None:
        self.item = item
        self.of = of
        self.going = False
        self.over = False
        self.sent = 0.0
        #: It was within the share when it went, so that the time it takes is that without a queue.
        self.within = True


class Share(Generic[T]):
    """What one of those who compete has here."""

    __slots__ = (
        "asked", "count", "flying", "heard", "learned", "pause", "queue", "queues", "room", "since", "spoke", "usual",
        "wants",
    )

    def __init__(self, now: float) -> None:
        self.flying = 0
        #: Those of the queue that still wait.
        self.count = 0
        self.queue: deque[Place[T]] = deque()
        #: The most that were wanted at once lately, when this was last looked at, and when something was asked for.
        self.wants = 0
        self.since = self.asked = now
        #: What may be on its way beyond the share.
        self.room = 0
        #: Seconds that an answer takes within the share, 0 = not known yet; since when this is learned.
        self.usual = 0.0
        self.learned = now
        #: What went beyond the share last was queued: silence says less then.
        self.queues = False
        #: When the last answer came, or the first went (`heard`: or some more did); the usual pause between two.
        self.heard = self.spoke = now
        self.pause = 0.0


class Lane(Generic[T]):
    """`limit`: how many may be on their way in all, 0 = any number."""

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self.flying = 0
        self.waiting = 0
        self.shares: dict[Hashable, Share[T]] = {}
        #: Those of whom something waits, who is first in turn in front.
        self._turns: deque[Share[T]] = deque()
        self._looked = -_NOBODY
        self._least: Share[T] | None = None
        self._least_wants = self._next_wants = _NOBODY

    def share(self, owner: Hashable, now: float) -> Share[T]:
        """What this one has."""
        share = self.shares.get(owner)
        if share is None:
            share = self.shares[owner] = Share(now)
            self._looked = -_NOBODY
        return share

    def ask(self, owner: Hashable, item: T, now: float) -> Place[T]:
        """Its place: it goes at once, or waits until `ready` names it."""
        share = self.shares.get(owner) or self.share(owner, now)
        place = Place(item, share)
        share.asked = now
        wanted = share.flying + share.count + 1
        if wanted > share.wants:
            share.wants = wanted
        if not share.count and self._may(share, now):
            self._go(place, now)
            return place
        if not share.count:
            self._turns.append(share)
        share.queue.append(place)
        share.count += 1
        self.waiting += 1
        return place

    def adopt(self, owner: Hashable, item: T, now: float) -> Place[T]:
        """The place of what is on its way already, whatever the limits."""
        share = self.share(owner, now)
        place = Place(item, share)
        self._go(place, now)
        share.wants = max(share.wants, share.flying)
        place.within = False
        return place

    def end(self, place: Place[T], now: float, answered: bool) -> None:
        """It is not on its way any more, or waits no more. `answered`: how long it took says something."""
        if place.over:
            return
        place.over = True
        share = place.of
        if not place.going:
            share.count -= 1
            self.waiting -= 1
            return
        share.flying -= 1
        self.flying -= 1
        if answered and len(self.shares) > 1:
            self._learn(share, place, now)

    def ready(self, now: float) -> Iterator[Place[T]]:
        """What may go now; each counts as on its way when it is named."""
        turns = self._turns
        blocked = 0
        while turns and blocked < len(turns):
            if self.limit and self.flying >= self.limit:
                return
            share = turns[0]
            if not share.count:
                turns.popleft()
                share.queue.clear()
                continue
            if not self._may(share, now):
                turns.rotate(-1)
                blocked += 1
                continue
            place = share.queue.popleft()
            if place.over:
                continue
            share.count -= 1
            self.waiting -= 1
            turns.rotate(-1)
            blocked = 0
            self._go(place, now)
            yield place

    def silent(self, now: float) -> bool:
        """Whether somebody was waiting for answers for so long that some more may go: see `ready`."""
        found = False
        for share in self._turns:
            usually = LONG * share.usual if share.queues else PAUSES * share.pause
            if share.count and now - share.heard >= max(PATIENCE, min(usually, LONGEST)):
                share.heard = now
                share.room += FEW if share.queues else STEP
                found = True
        return found

    def forget(self, owner: Hashable) -> None:
        """This one has left, and nothing of it waits."""
        if self.shares.pop(owner, None) is not None:
            self._looked = -_NOBODY

    def level(self, now: float) -> bool:
        """Whether nobody has to be held: one alone is here, or all want about as much."""
        self._look(now)
        if self.waiting:
            return False
        return all(share.wants <= max(AMPLE, self._allowed(share, now)) for share in self.shares.values())

    def _go(self, place: Place[T], now: float) -> None:
        share = place.of
        if not share.flying:
            share.heard = share.spoke = now
        share.flying += 1
        self.flying += 1
        place.going = True
        place.sent = now
        place.within = share.flying <= AMPLE and (not share.room or share.flying <= self._allowed(share, now))

    def _may(self, share: Share[T], now: float) -> bool:
        if self.limit and self.flying >= self.limit:
            return False
        if self.flying < FEW or len(self.shares) < 2:
            return True
        return share.flying < self._allowed(share, now) + share.room

    def _allowed(self, share: Share[T], now: float) -> float:
        """How many this one may have on their way, as long as nothing was learned."""
        if now >= self._looked + LOOK:
            self._look(now)
        least = self._next_wants if share is self._least else self._least_wants
        if least is _NOBODY:
            return _NOBODY
        few = FEW if share.usual > SLOW else max(FEW, AMPLE // (len(self.shares) - 1))
        return max(few, FACTOR * least)

    def _look(self, now: float) -> None:
        """Who is here still, and who wants least."""
        self._looked = now
        self._least, self._least_wants, self._next_wants = None, _NOBODY, _NOBODY
        for owner, share in list(self.shares.items()):
            wants = share.flying + share.count
            if not wants and now - share.asked > REMEMBERED:
                del self.shares[owner]
                continue
            if now - share.since > REMEMBERED:
                share.wants, share.since = wants, now
            if share.wants < self._least_wants:
                self._next_wants = self._least_wants
                self._least, self._least_wants = share, share.wants
            elif share.wants < self._next_wants:
                self._next_wants = share.wants

    def _learn(self, share: Share[T], place: Place[T], now: float) -> None:
        took = now - place.sent
        pause = now - share.spoke
        share.pause += (pause - share.pause) * NEW if share.pause else pause
        share.heard = share.spoke = now
        if now - share.learned > RELEARNED:
            share.learned, share.usual, share.room, share.queues = now, 0.0, 0, False
        if place.within:
            share.usual += (took - share.usual) * NEW if share.usual else took
        quick = took < QUEUED * share.usual
        if not place.within and share.usual:
            share.queues = not quick
        if share.usual > SLOW and quick:
            if share.count:
                share.room += 1
        elif share.room:
            share.room -= 1
