"""Whether the machine slept, from two readings of its clocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.outage.clocks import LEAST, LEAST_STOPPED, Clocks, slept

HOUR = 3600.0


@pytest.mark.parametrize(
    ("awake", "always", "wall", "expected"),
    [
        (0, 0, 0, 0),
        (HOUR, HOUR, HOUR, 0),
        # asleep: the clock that goes on did
        (5, 5 + HOUR, 5 + HOUR, HOUR),
        (5, 5 + LEAST, 5 + LEAST, LEAST),
        (5, 5 + LEAST - 0.1, 5 + LEAST - 0.1, 0),
        # asleep, and the time of day was put back meanwhile: it is not what counts
        (5, 5 + HOUR, 5 - HOUR, HOUR),
        # awake, and the time of day was put right, by hand or by NTP: forward a little, and back
        (5, 5, 5 + LEAST_STOPPED - 1, 0),
        (5, 5, 5 - 10 * HOUR, 0),
        # a virtual machine was stopped, or the system has no clock that goes on in sleep
        (5, 5, 5 + HOUR, HOUR),
        (5, 5, 5 + LEAST_STOPPED, LEAST_STOPPED),
    ],
)
def test_sleep(awake: float, always: float, wall: float, expected: float) -> None:
    """C189: sleep is what one clock has and the other has not; a clock that was set is no sleep."""
    before = Clocks(1000, 5000, 1.7e9)
    assert slept(before, Clocks(1000 + awake, 5000 + always, 1.7e9 + wall)) == expected


@given(st.floats(0, 1e6), st.floats(-0.5, 0.5))
def test_waiting_is_not_sleep(waited: float, skew: float) -> None:
    """However long nothing happens, and whatever passes between the readings of one moment."""
    before = Clocks(10, 20, 1.7e9)
    assert slept(before, Clocks(10 + waited, 20 + waited + skew, 1.7e9 + waited - skew)) == 0
