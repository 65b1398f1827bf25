"""Owns who goes next where calls of several agents meet: how many of each are on their way, what waits, in which order.

It must not know what a call is, nor read a clock: times are seconds of any one clock, and come in as arguments.

While several want the same, none has more on its way than twice as many as the one that wants least, and a few in any
case; the rest waits here, and goes in turns, in order within one. What is slow because it is queued and what is slow by
itself is told apart by trying: whose answers take no longer than they did within its share gets one more with each,
else one fewer. Who gets no answers at all for a moment gets some more, since what they wait for may run side by side.
One that is alone has many on their way before anything is held, and from then on it is tried in the same way: so a
queue is here, and not where the first of another would have to wait behind it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

#: On their way in all that those who compete share, where answers take less than SLOW seconds.
AMPLE = 2
#: What one may have in any case, so that a server never waits for mcphub. Where an answer takes SLOW seconds or
#: longer, more is only a longer queue.
FEW = 2
SLOW = 0.005
#: So many times as much as the one that wants least has: it then waits for three times as much as its own at most.
FACTOR = 2
#: On their way of one that is alone before anything is held, and seconds of what is done one after the other that are
#: kept there once it is known how long each takes.
ALONE = 64
AT_ONCE = 0.01
#: Part of what one alone has on its way by which silence lets it have more: none of it is in anybody's way.
GROWTH = 4
#: The part of a limit that is kept for those who have nothing on their way; and the least limit of which something is
#: kept though nobody else may come.
KEPT = 8
SPARE = 4
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
#: Seconds for which it counts what one wanted at most, for which one who wants nothing any more is still counted, and
#: after which what was learned is tried anew; sooner what one alone learned from what had been on its way before.
LATELY = 10.0
REMEMBERED = 60.0
RELEARNED = 60.0
GUESSED = 1.0
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
    """What one of those who compete has here; the queue is what waits of it."""

    __slots__ = (
        "asked", "flying", "guessed", "heard", "learned", "pause", "queue", "queues", "room", "since", "spoke", "usual",
        "wants",
    )

    def __init__(self, now: float) -> None:
        self.flying = 0
        self.queue: OrderedDict[Place[T], None] = OrderedDict()
        #: The most that were wanted at once lately, when this was last looked at, and when something was asked for.
        self.wants = 0
        self.since = self.asked = now
        #: What may be on its way beyond the share.
        self.room = 0
        #: Seconds that an answer takes within the share, 0 = not known yet, and whether that is a guess; since when
        #: this is learned.
        self.usual = 0.0
        self.guessed = False
        self.learned = now
        #: What went beyond the share last was queued: silence says less then.
        self.queues = False
        #: When the last answer came, or the first went (`heard`: or some more did); the usual pause between two.
        self.heard = self.spoke = now
        self.pause = 0.0


class Lane(Generic[T]):
    """`limit`: how many may be on their way in all, 0 = any number. A part of it is kept for those who have nothing on
    their way where it is `shared`. `alone`: one that is alone is held too, beyond so many; 0 = it is not. `ample`: what
    those who compete share in any case, where answers are quick."""

    def __init__(self, limit: int = 0, alone: int = 0, shared: bool = False, ample: int = AMPLE) -> None:
        self.limit = limit
        self.alone = alone
        self.shared = shared
        self.ample = ample
        #: Somebody else may come, so that something is kept of the smallest limits too.
        self.crowded = False
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
            if not self.shares:
                share = self.shares[owner] = Share(now)
                share.room = self.alone
            else:
                for other in self.shares.values():
                    if not other.usual:
                        other.room = 0  # it was given because nobody else was here
                share = self.shares[owner] = Share(now)
            self._looked = -_NOBODY
        return share

    def ask(self, owner: Hashable, item: T, now: float) -> Place[T]:
        """Its place: it goes at once, or waits until `ready` names it."""
        share = self.shares.get(owner) or self.share(owner, now)
        place = Place(item, share)
        share.asked = now
        wanted = share.flying + len(share.queue) + 1
        if wanted > share.wants:
            share.wants = wanted
        if not share.queue:
            if self._may(share, now):
                self._go(place, now)
                return place
            if share not in self._turns:
                self._turns.append(share)
        share.queue[place] = None
        self.waiting += 1
        return place

    def adopt(self, owner: Hashable, item: T, now: float, since: float | None = None) -> Place[T]:
        """The place of what is on its way already, since then, whatever the limits."""
        share = self.share(owner, now)
        place = Place(item, share)
        self._go(place, now)
        place.sent = now if since is None else since
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
            del share.queue[place]
            self.waiting -= 1
            return
        share.flying -= 1
        self.flying -= 1
        if answered and (self.alone or len(self.shares) > 1):
            self._learn(share, place, now)

    def ready(self, now: float) -> Iterator[Place[T]]:
        """What may go now; each counts as on its way when it is named."""
        turns = self._turns
        blocked = 0
        while turns and blocked < len(turns):
            if self.limit and self.flying >= self.limit:
                return
            share = turns[0]
            if not share.queue:
                turns.popleft()
                continue
            if not self._may(share, now):
                turns.rotate(-1)
                blocked += 1
                continue
            place, _ = share.queue.popitem(last=False)
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
            if share.queue and now - share.heard >= max(PATIENCE, min(usually, LONGEST)):
                share.heard = now
                if share.queues:
                    share.room += FEW
                else:
                    share.room += max(STEP, share.flying // GROWTH if len(self.shares) < 2 else 0)
                found = True
        return found

    def forget(self, owner: Hashable) -> None:
        """This one has left, and nothing of it waits."""
        if self.shares.pop(owner, None) is not None:
            self._looked = -_NOBODY

    def level(self, now: float) -> bool:
        """Whether nobody has to be held: one alone is here, or all want about as much, and far less than the limit."""
        self._look(now)
        if self.waiting or (self.limit and 2 * self.flying > self.limit):
            return False
        if len(self.shares) < 2:
            return not self.alone or all(share.wants <= self.alone for share in self.shares.values())
        return all(share.wants <= max(AMPLE, self._allowed(share, now)) for share in self.shares.values())

    def _go(self, place: Place[T], now: float) -> None:
        share = place.of
        if not share.flying:
            share.heard = share.spoke = now
        share.flying += 1
        self.flying += 1
        place.going = True
        place.sent = now
        place.within = share.flying <= self.ample and (not share.room or share.flying <= self._allowed(share, now))

    def _may(self, share: Share[T], now: float) -> bool:
        if self.limit and self.flying >= (self.limit - self._kept() if share.flying else self.limit):
            return False
        if self.flying < FEW or (len(self.shares) < 2 and not self.alone):
            return True
        return share.flying < self._allowed(share, now) + share.room

    def _kept(self) -> int:
        """How many of the limit are for those who have nothing on their way."""
        limit = self.limit
        if not self.shared or limit < (FEW if self.crowded else SPARE):
            return 0
        return max(1, limit // KEPT)

    def _allowed(self, share: Share[T], now: float) -> float:
        """How many this one may have on their way, as long as nothing was learned."""
        if now >= self._looked + LOOK:
            self._look(now)
        least = self._next_wants if share is self._least else self._least_wants
        if least is _NOBODY:
            if not self.alone:
                return _NOBODY
            if not share.usual or share.usual > SLOW:
                return FEW
            return max(AMPLE, min(self.alone, AT_ONCE / share.usual))
        few = FEW if share.usual > SLOW else max(FEW, self.ample // (len(self.shares) - 1))
        return max(few, FACTOR * least)

    def _look(self, now: float) -> None:
        """Who is here still, and who wants least."""
        self._looked = now
        self._least, self._least_wants, self._next_wants = None, _NOBODY, _NOBODY
        for owner, share in list(self.shares.items()):
            wants = share.flying + len(share.queue)
            if not wants and now - share.asked > REMEMBERED:
                del self.shares[owner]
                continue
            if now - share.since > LATELY:
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
            share.learned, share.usual, share.room, share.queues, share.guessed = now, 0.0, 0, False, False
        if place.within:
            share.usual += (took - share.usual) * NEW if share.usual else took
        elif not share.usual and len(self.shares) < 2 and share.room:
            # The first to be answered has waited least. It is a guess, and soon looked at again.
            share.usual, share.learned, share.guessed = took, now - RELEARNED + GUESSED, True
        elif share.guessed and took < share.usual:
            share.usual = took  # that one has waited less
        quick = took < QUEUED * share.usual
        if not place.within and share.usual:
            share.queues = not quick
        if share.usual > SLOW and quick:
            if share.queue:
                share.room += 1
        elif share.room:
            share.room -= 1
