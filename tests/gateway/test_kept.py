"""Bytes of calls that wait."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcphub.gateway.kept import MAX_OF_ALL, MAX_OF_ONE, Kept


def test_of_one_and_of_all() -> None:
    """Each has its own bound, and all have one; what is refused is not counted."""
    kept = Kept(3 << 20, 5 << 20)
    assert kept.add("a", 3 << 20) == ""
    assert kept.add("a", 1) == "3 MiB of this agent's calls wait already"
    assert kept.add("b", 2 << 20) == ""
    assert kept.add("b", 1) == "5 MiB of calls wait already"
    kept.drop("a", 3 << 20)
    assert kept.add("b", 1 << 20) == "" and kept.total == 3 << 20


def test_one_message_may_wait() -> None:
    """However large it is, if nothing else waits."""
    assert MAX_OF_ONE >= 64 << 20 and MAX_OF_ALL >= MAX_OF_ONE


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60)), max_size=60))
def test_the_sum_is_right(steps: list[tuple[int, int]]) -> None:
    """Whatever comes and goes, what is kept is what was taken and not given back, and within both bounds."""
    kept, there = Kept(100, 200), list[tuple[int, int]]()
    for owner, size in steps:
        if size % 3 == 0 and there:
            kept.drop(*there.pop())
        elif not kept.add(owner, size):
            there.append((owner, size))
        assert kept.total == sum(size for _, size in there) <= 200
        assert all(sum(size for one, size in there if one == owner) <= 100 for owner in range(3))
    for one in there:
        kept.drop(*one)
    assert kept.total == 0 and not kept._owners
