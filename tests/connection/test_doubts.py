"""Which lists are in doubt, and for how long they are used still."""

from __future__ import annotations

from mcphub.connection.doubts import MOST, Doubts

TOOLS, PROMPTS = "tools/list", "prompts/list"


def test_the_first_moment_counts() -> None:
    """A second doubt about the same list is no news, and gives it no more time; the set is another object only where it
    is another set."""
    doubts = Doubts()
    none = doubts.methods
    assert TOOLS not in doubts and not doubts.remove(TOOLS)
    assert doubts.add((TOOLS, PROMPTS), 10.0)
    both = doubts.methods
    assert not doubts.add((TOOLS,), 20.0) and doubts.methods is both
    assert not none and both == frozenset((TOOLS, PROMPTS))
    assert doubts.since == 10.0
    assert not doubts.over(TOOLS, 10.0 + MOST) and doubts.over(TOOLS, 10.1 + MOST)


def test_what_was_listed_is_in_no_doubt() -> None:
    """Until it is again, from then on."""
    doubts = Doubts()
    doubts.add((TOOLS,), 10.0)
    assert doubts.remove(TOOLS) and not doubts.methods and TOOLS not in doubts
    assert not doubts.over(TOOLS, 10.1 + MOST)
    assert doubts.add((TOOLS,), 30.0) and doubts.since == 30.0
