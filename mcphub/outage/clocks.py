"""Owns whether the machine slept between two readings of its clocks.

It must not read a clock.
"""

from __future__ import annotations

import msgspec

#: A sleep of fewer seconds is none: the clocks are read one after the other, and a task may wait in between.
LEAST = 2.0
#: A machine that was stopped from outside (a virtual one, a debugger's) has no clock that went on. All there is to see
#: is that the time of day was put forward; when it is put right by less than this, it was only wrong.
LEAST_STOPPED = 30.0


class Clocks(msgspec.Struct, frozen=True):
    """One reading, seconds. `awake` stands still in sleep, `always` goes on (as `awake` where there is none), `wall`
    is the time of day and may be set by anybody. Source: clock_gettime(2)."""

    awake: float
    always: float
    wall: float


def slept(before: Clocks, after: Clocks) -> float:
    """Seconds of sleep between the two, 0 = none."""
    awake = after.awake - before.awake
    asleep = after.always - before.always - awake
    if asleep >= LEAST:
        return asleep
    stopped = after.wall - before.wall - awake
    return stopped if stopped >= LEAST_STOPPED else 0.0
