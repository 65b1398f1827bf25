"""What a server has shown that it read, by the ids that it answered."""

from __future__ import annotations

from mcphub.connection.client import Reply
from mcphub.connection.withdrawn import MOST, Withdrawn


def table(*mids: int, last: int) -> tuple[Withdrawn, dict[int, object]]:
    """Those withdrawn, in this order, when `last` was the last id; what waits."""
    withdrew = Withdrawn()
    for mid in mids:
        withdrew.add(Reply(1.0), mid, float(mid), last)
    return withdrew, {}


def unread(withdrew: Withdrawn, waiting: dict[int, object], last: int) -> list[int]:
    return [one.mid for one in withdrew.unread(waiting, last)]


def test_nothing_behind_it_is_answered() -> None:
    """What was sent before it says nothing, nor does what still waits, nor what was withdrawn or lapsed itself."""
    withdrew, waiting = table(1, last=3)
    assert unread(withdrew, waiting, 3) == [1]  # 2 and 3 were sent before
    waiting |= {4: None, 5: None}
    assert unread(withdrew, waiting, 5) == [1]
    del waiting[4]
    withdrew.add(Reply(1.0), 4, 4.0, 5)
    assert unread(withdrew, waiting, 5) == [1, 4]
    del waiting[5]
    withdrew.lapsed()
    assert unread(withdrew, waiting, 5) == [1, 4]


def test_something_behind_it_is_answered() -> None:
    """It has read that then, and of all before, not of what was withdrawn later."""
    withdrew, waiting = table(1, 2, last=2)
    waiting |= {3: None, 4: None}
    withdrew.add(Reply(1.0), 3, 3.0, 4)
    del waiting[3]
    assert unread(withdrew, waiting, 4) == [1, 2, 3]
    del waiting[4]  # answered; it was sent before 3 was withdrawn
    assert unread(withdrew, waiting, 4) == [3]
    assert unread(withdrew, waiting, 5) == []


def test_a_late_answer() -> None:
    """Its server is done with that one, whatever it has read."""
    withdrew, waiting = table(1, 2, last=2)
    withdrew.late(1)
    withdrew.late(7)
    assert unread(withdrew, waiting, 2) == [2]


def test_by_the_clock() -> None:
    """Where a server reads in no known order, those of the last moments count."""
    withdrew, _ = table(1, 2, 3, last=3)
    assert [one.mid for one in withdrew.since(1.0)] == [2, 3]
    withdrew.read_until(2.0)
    assert [one.mid for one in withdrew.since(0.0)] == [3]
    withdrew.clear()
    assert withdrew.since(0.0) == []


def test_it_is_bounded() -> None:
    """A server that reads nothing costs no memory without end."""
    withdrew, waiting = table(*range(1, MOST + 10), last=MOST + 10)
    assert len(unread(withdrew, waiting, MOST + 10)) == MOST
