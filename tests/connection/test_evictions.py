"""Whether a server keeps one session at a time."""

from __future__ import annotations

import pytest

from mcphub.connection.evictions import SHORTLY, TOGETHER, Evictions

#: What happens: when another one was opened, or (when it was opened, whether it has answered since, now) of one lost.
Seen = float | tuple[float, bool, float]


def verdicts(*seen: Seen) -> list[bool]:
    found, told = Evictions(), []
    for one in seen:
        if isinstance(one, tuple):
            told.append(found.lost(*one))
        else:
            found.opened(one)
    return told


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        # Two that end each other: the own one, the other, the own one again.
        ((0.0, 1.0, (0.0, False, 2.0), 2.1, (1.0, False, 3.0), 3.1, (2.1, False, 3.2)), [False, False, True]),
        # It answered after the other one was opened: they live beside each other.
        ((0.0, 1.0, (0.0, True, 2.0), 2.1, (1.0, True, 3.0), 3.1, (2.1, True, 3.2)), [False, False, False]),
        # A restart ends all of them, which is one event however many there are.
        ((0.0, 1.0, 2.0, (0.0, False, 3.0), 3.1, (1.0, False, 3.2), 3.3, (2.0, False, 3.4)), [False, False, False]),
        # The one that was opened last is lost: that was no eviction, and what was seen before says nothing.
        ((0.0, 1.0, (0.0, False, 2.0), 3.0, (3.0, True, 4.0), 5.0, (4.5, False, 6.0)), [False, False, False]),
        # Long after the other one was opened: its own time was over.
        ((0.0, (0.0, False, SHORTLY + 1), 70.0, (65.0, False, 71.0)), [False, False]),
        # Once in a while is not again and again.
        ((1.0, (0.0, False, 2.0), TOGETHER + 9, (3.0, False, TOGETHER + 10)), [False, False]),
    ],
)
def test_verdicts(seen: tuple[Seen, ...], told: list[bool]) -> None:
    """Lost shortly after another was opened, twice within a time, and not for what ended another one already."""
    assert verdicts(*seen) == told


def test_what_was_sure_once() -> None:
    """When the server is tried again later, one more eviction is enough."""
    later = 10 * TOGETHER
    seen: list[Seen] = [1.0, (0.0, False, 2.0), 2.1, 3.0, (2.1, False, 3.1)]
    assert verdicts(*seen, later, (4.0, False, later + 1)) == [False, True, True]
