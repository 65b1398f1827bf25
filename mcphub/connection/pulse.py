"""Owns when a silent connection is probed, when a probe counts as unanswered, and whether its server is slow.

It must not send anything, read a clock or know an era: the time, and how many signs of life there were, come in.

A connection is silent on which the server gave no sign (an answer, or progress of a call) for `Health.idle` seconds and
no call is in flight. A probe is then sent, and where it stays unanswered the next one, each `Health.timeout` seconds
after the one before; what so many in a row mean is a matter of `strikes`. A server that is at one long call for
an agent may be able to answer nothing else, so silence during a call ends nothing: the call has its own deadline.
But it is told: after MUTE seconds of a call without any sign one probe is sent beside it, and where that stays
unanswered too the server is mute, until it gives a sign.

Away is a server whose last probe failed on its way, until it gives a sign or a later probe has got there. While no call
is in flight the next probe follows, and strikes are counted; beside a call it is sent every SLOW_EVERY seconds or so.

Slow is a server that took SLOW seconds or more for its last probe, or has not answered one for so long; it is not any
more after RECOVERED answers in a row that took less than QUICK. A slow one is looked at every SLOW_EVERY seconds.
"""

from __future__ import annotations

import enum

import msgspec

#: Seconds for an answer to a probe, which costs a server nothing.
SLOW = 2.0
QUICK = 1.0
#: Quick answers in a row after which a server is not slow any more.
RECOVERED = 2
#: How often a slow server is probed, seconds.
SLOW_EVERY = 15.0
#: Seconds without any sign of life, a call in flight, after which a probe is sent beside it.
MUTE = 30.0
#: Looks in that time: so much later than that the probe is sent at most.
MUTE_LOOKS = 3
#: Seconds after which a probe that has not failed has got there: a connection is made within ten, or never.
REACHED = 12.0
#: Looks in the time of silence: so much later than that a probe is sent at most.
LOOKS = 4


class Health(msgspec.Struct, frozen=True):
    """`idle`: seconds of silence before a connection is probed, 0 = never. `timeout`: seconds for an answer."""

    idle: float = 120.0
    timeout: float = 10.0


#: What counts where nobody says otherwise.
USUAL = Health()


class Look(enum.Enum):
    """What a look comes to; after MISSED the next probe is to be sent as well, unless the connection is ended."""

    NOTHING = enum.auto()
    PROBE = enum.auto()
    MISSED = enum.auto()


class Pulse:
    """Of one connection that was opened at `now`. `at` is when to look; `number` is that of the last probe."""

    def __init__(self, health: Health, now: float, signs: int) -> None:
        self.at = float("inf")
        self.number = 0
        self.slow = False
        #: There is no sign of it at all, though a call is or was in flight, and a probe was sent beside it.
        self.mute = False
        #: Its last probe failed on its way, and there was no sign of it since.
        self.away = False
        #: The last probe was sent while a call was in flight: whatever becomes of it must not end that.
        self.beside = False
        #: Why it counts as slow: the number of the probe, the seconds that it was waited for, whether in vain.
        self.slow_by = 0
        self.took = 0.0
        self.in_vain = False
        #: Seconds of the last answer, where that was quicker since.
        self.since_then: float | None = None
        self._health = health
        self._slow = min(SLOW, health.timeout / 2)
        self._quick = min(QUICK, health.timeout / 4)
        self._quick_ones = 0
        self._since = now
        self._signs = signs
        #: When it was last seen to have given a sign, or to have no call, and the signs then.
        self._heard = now
        self._heard_signs = signs
        #: When each probe was sent that is not answered, by number.
        self._sent: dict[int, float] = {}
        #: The number of the last one whose time says nothing, since the server may have been at a call.
        self._at_call = 0
        #: The last one is waited for; its silence is a miss; there will be no answer to it.
        self._waiting = self._counts = self._failed = False
        if health.idle:
            self._later(now)

    def look(self, now: float, *, busy: bool, signs: int) -> Look:
        """What is to be done now. `busy`: a call is in flight; `signs` of life so far."""
        if now < self.at:
            return Look.NOTHING
        self._hear(now, busy, signs)
        if self._waiting:
            return self._look_at_probe(now, busy, signs)
        if busy and now >= self._heard + MUTE and not self._sent:
            self._probe(now, True, signs)
            self._at_call = self.number
            return Look.PROBE
        alive = busy or signs != self._signs
        due = now >= self._since + self._every
        if due and (not alive or ((self.slow or self.away) and not self._sent)):
            return self._probe(now, busy, signs)
        if alive:
            self._signs = signs
            if not self.slow and not self.away:
                self._since = now
        self._later(now)
        return Look.NOTHING

    def answered(self, number: int, now: float) -> None:
        """The answer to this probe came, whatever it says."""
        sent = self._sent.get(number)
        if sent is None:
            return
        oldest = self.oldest
        waited = now - self._sent[oldest]
        self._sent = {later: at for later, at in self._sent.items() if later > number}
        self.mute = self.away = False
        if number == self._at_call:
            self._heard = now  # how long it took says nothing: the server may do one thing at a time
        else:
            self._took(now - sent)
            if oldest < number and waited >= self._slow:
                self._slow_since(oldest, waited, in_vain=True)
            elif now - sent >= self._slow:
                self._slow_since(number, now - sent, in_vain=False)
            if self.slow and now - sent < self._slow:
                self.since_then = now - sent
        if number == self.number and self._waiting:
            self._waiting = False
            self._since = now
            self._signs += 1  # the answer itself
            self._later(now)

    def _took(self, seconds: float) -> None:
        if seconds >= self._slow:
            self.slow, self._quick_ones = True, 0
        elif self.slow:
            self._quick_ones = self._quick_ones + 1 if seconds < self._quick else 0
            self.slow = self._quick_ones < RECOVERED
            if not self.slow:
                self._slow_since(0, 0.0, in_vain=False)

    def _slow_since(self, number: int, seconds: float, *, in_vain: bool) -> None:
        self.slow_by, self.took, self.in_vain, self.since_then = number, seconds, in_vain, None

    def failed(self, number: int, now: float, *, away: bool = True) -> None:
        """There will be no answer to this probe, which is known and counted; another is sent when its time is over.
        `away`: it failed on its way; else its server took it, and said nothing."""
        sent = self._sent.pop(number, None)
        if sent is not None and now - sent >= self._slow and self.slow:
            self._slow_since(number, now - sent, in_vain=True)
        if number == self.number:
            self._failed = True
            self.away = self.away or away

    @property
    def oldest(self) -> int:
        """The number of the oldest probe that is not answered, 0 = there is none."""
        return min(self._sent, default=0)

    def silent(self, now: float) -> float:
        """Seconds since the oldest probe that is not answered, 0 = there is none."""
        return now - min(self._sent.values()) if self._sent else 0.0

    def rested(self, now: float, signs: int) -> None:
        """There is no way to it now: silence begins anew, and what was sent counts for nothing."""
        self._sent.clear()
        self._waiting = self.slow = self.mute = self.away = False
        self._slow_since(0, 0.0, in_vain=False)
        self._since = self._heard = now
        self._signs = self._heard_signs = signs
        self._later(now)

    def heard_of(self, now: float) -> float:
        """Seconds since it is known to have given a sign last, or had no call in flight."""
        return now - self._heard

    def _hear(self, now: float, busy: bool, signs: int) -> None:
        if signs != self._heard_signs:
            self._heard, self._heard_signs = now, signs
            self.mute = self.away = False
        elif not busy and not self.mute:
            self._heard = now
        if self.away and now - self._sent.get(self.number, now) > REACHED:
            self.away = False

    @property
    def _every(self) -> float:
        return min(self._health.idle, SLOW_EVERY) if self.slow or self.away else self._health.idle

    def _look_at_probe(self, now: float, busy: bool, signs: int) -> Look:
        sent = self._since
        if now < sent + self._health.timeout:
            if self.number == self._at_call:
                self.mute = not self._failed and signs == self._signs
            elif not self._failed:
                self.slow, self._quick_ones = True, 0
            self.at = sent + self._health.timeout
            return Look.NOTHING
        if self._failed and not (busy and self.number == self._at_call):
            return self._probe(now, busy, signs)
        if self._counts and signs == self._signs:
            self._probe(now, False, signs)  # one was sent while no call was in flight: those since then excuse nothing
            return Look.MISSED
        self._waiting = False
        self._since, self._signs = now, signs
        self._later(now)
        return Look.NOTHING

    def _probe(self, now: float, busy: bool, signs: int) -> Look:
        self.number += 1
        self._sent[self.number] = self._since = now
        self._signs = signs
        self._waiting, self._counts, self._failed = True, not busy, False
        self.beside = busy
        if busy and not self.slow:
            self._at_call = self.number
        self.at = now + self._slow
        return Look.PROBE

    def _later(self, now: float) -> None:
        due, soon = self._since + self._every, now + min(self._every / LOOKS, MUTE / MUTE_LOOKS)
        self.at = due if now < due < soon else soon
