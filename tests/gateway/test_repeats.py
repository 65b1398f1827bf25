"""What is remembered of calls that failed, and when an agent is told."""

from __future__ import annotations

from mcphub.gateway.repeats import MAX_AGENTS, MAX_CALLS, MAX_TOOLS, TOLD_FROM, WITHIN, Repeats


class Clock:
    at = 1000.0

    def __call__(self) -> float:
        return self.at


def failing(
    repeats: Repeats, *arguments: bytes | None, how: str = "lost", who: object = "a", tool: str = "t"
) -> list[str]:
    return [repeats.failed(who, tool, one, how) for one in arguments]


def test_the_third_of_a_row_is_told() -> None:
    """Two may be chance; from the third on each is told how often it was."""
    told = failing(Repeats(Clock()), b"{}", b"{}", b"{}", b"{}")
    assert told[: TOLD_FROM - 1] == ["", ""]
    assert "3 times in a row" in told[2] and "4 times in a row" in told[3]


def test_what_is_not_equal_begins_anew() -> None:
    """Other arguments, another tool, another agent, another failure: none of them is the same call again."""
    repeats = Repeats(Clock())
    assert failing(repeats, b"1", b"2", b"1", b"2") == [""] * 4
    for other in (failing(repeats, b"1", who="b"), failing(repeats, b"1", tool="u"), failing(repeats, b"1", how="x")):
        assert other == [""]
    assert failing(repeats, b"1", how="x") == [""]
    assert failing(repeats, b"2")[0] != ""


def test_a_success_ends_the_row() -> None:
    """In a row means that nothing else came of this call between."""
    repeats = Repeats(Clock())
    failing(repeats, b"1", b"1", b"2")
    repeats.done("a", "t", b"1")
    assert failing(repeats, b"1", b"1") == ["", ""]
    repeats.done("a", "t", b"1")
    repeats.done("a", "t", b"2")
    repeats.done("a", "t", b"3")
    assert repeats.failing == {}


def test_time_ends_the_row() -> None:
    """What failed long ago says nothing of now; and is forgotten when somebody looks."""
    clock = Clock()
    repeats = Repeats(clock)
    failing(repeats, b"1", b"1")
    clock.at += WITHIN + 1
    assert failing(repeats, b"1") == [""]
    assert repeats.watches("a", "t") and not repeats.watches("a", "u") and not repeats.watches("b", "t")
    clock.at += WITHIN + 1
    assert not repeats.watches("a", "t")
    assert repeats.failing == {}


def test_arguments_that_nobody_knows_any_more() -> None:
    """The first failure of a tool may have been one of them; without any that is known nothing is told."""
    assert failing(Repeats(Clock()), None, None, None, None) == [""] * 4
    told = failing(Repeats(Clock()), None, b"1", b"1")
    assert told[:2] == ["", ""] and "3 times" in told[2]


def test_it_is_bounded() -> None:
    """However many agents, tools and arguments fail: what is oldest goes first. No argument is kept."""
    repeats = Repeats(Clock())
    for number in range(MAX_CALLS * 3):
        failing(repeats, b"secret%d" % number)
    assert len(repeats.failing["a"]["t"]) == MAX_CALLS and "secret" not in str(repeats.failing)
    for number in range(MAX_TOOLS * 2):
        failing(repeats, b"{}", tool=str(number))
    assert len(repeats.failing["a"]) == MAX_TOOLS and "t" not in repeats.failing["a"]
    for number in range(MAX_AGENTS * 2):
        failing(repeats, b"{}", who=number)
    assert len(repeats.failing) == MAX_AGENTS and "a" not in repeats.failing
    repeats.left(MAX_AGENTS * 2 - 1)
    repeats.left("nobody")
    assert len(repeats.failing) == MAX_AGENTS - 1


def test_refusals_by_a_budget_are_not_counted() -> None:
    """Those of different tasks have nothing in common; the row of the call's own failures goes on over them."""
    repeats = Repeats(Clock())
    assert [repeats.failed("a", "t", b"1", "task_budget") for _ in range(5)] == [""] * 5
    assert repeats.failing == {}
    failing(repeats, b"1", b"1")
    assert repeats.failed("a", "t", b"1", "task_budget") == ""
    assert failing(repeats, b"1") != [""]
