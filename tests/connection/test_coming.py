"""Lists that are on their way, by what their server said."""

from __future__ import annotations

from mcphub.connection.coming import Coming

TOOLS, PROMPTS = "tools/list", "prompts/list"


def test_until_it_was_read() -> None:
    """A list that was told of is on its way until one that began after that is over; no other list is."""
    coming = Coming()
    assert coming.number(TOOLS, 0.0, 1.0) == 0
    coming.told((TOOLS,))
    number = coming.number(TOOLS, 0.0, 1.0)
    assert number and coming.awaits(TOOLS, number)
    assert not coming.number(PROMPTS, 0.0, 1.0) and not coming.awaits(PROMPTS, number)
    coming.begin((PROMPTS,), 1.0)
    assert not coming.end() and coming.awaits(TOOLS, number)
    coming.begin((TOOLS,), 2.0)
    assert coming.number(TOOLS, 2.5, 1.0) == number
    assert coming.end() and not coming.end()
    assert not coming.awaits(TOOLS, number) and not coming.number(TOOLS, 2.5, 1.0)


def test_what_is_said_meanwhile() -> None:
    """It makes another list due, and keeps nobody waiting who asked before."""
    coming = Coming()
    coming.told((TOOLS,))
    first = coming.number(TOOLS, 0.0, 1.0)
    coming.awaited.add(TOOLS)
    coming.begin((TOOLS,), 0.0)
    assert not coming.awaited
    coming.told((TOOLS, PROMPTS))
    second = coming.number(TOOLS, 0.0, 1.0)
    assert second > first
    coming.end()
    assert not coming.awaits(TOOLS, first) and coming.awaits(TOOLS, second) and coming.awaits(PROMPTS, second)
    coming.reset()
    assert not coming.awaits(TOOLS, second) and not coming.number(PROMPTS, 0.0, 1.0)


def test_a_server_that_does_not_answer() -> None:
    """It is not waited for, whatever list it is that it does not give, until it does."""
    coming = Coming()
    coming.told((TOOLS,))
    coming.begin((TOOLS,), 0.0)
    coming.told((TOOLS, PROMPTS))
    assert coming.number(TOOLS, 0.9, 1.0) and coming.number(PROMPTS, 0.9, 1.0)
    assert not coming.number(TOOLS, 1.0, 1.0) and not coming.number(PROMPTS, 1.0, 1.0)
    coming.end()
    assert coming.number(TOOLS, 1.0, 1.0) and coming.number(PROMPTS, 1.0, 1.0)
