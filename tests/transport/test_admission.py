"""Whether a server lets requests in: what is said while it does not, and for how long."""

from __future__ import annotations

from mcphub.transport.admission import Admission


def test_from_the_first_refusal_to_the_next_that_is_let_in() -> None:
    """C116: the last refusal counts, with the time of the first in the row; each change is told, and only those."""
    now, changes = [5.0], [0]

    def changed() -> None:
        changes[0] += 1

    one = Admission(lambda: now[0], changed)
    one.accepted()
    assert (one.refusal, changes) == ("", [0])
    one.refused("refuses a")
    now[0] = 6.0
    one.refused("refuses a")
    one.refused("refuses b")
    assert (one.refusal, one.since, changes) == ("refuses b", 5.0, [2])
    one.accepted()
    one.accepted()
    assert (one.refusal, changes) == ("", [3])
    now[0] = 7.0
    one.refused("refuses a")
    assert (one.since, changes) == (7.0, [4])
