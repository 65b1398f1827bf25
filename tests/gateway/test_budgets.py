"""What is left of the budgets of tasks."""

from __future__ import annotations

from mcphub.gateway.budgets import Budgets
from mcphub.protocol.task_budget import Task


def test_calls_are_counted_by_agent_and_task() -> None:
    """Each has its own; what is over stays over."""
    budgets, task = Budgets(), Task("t", calls=2)
    assert [budgets.refusal("a", task, 0) for _ in range(2)] == ["", ""]
    for _ in range(2):
        assert budgets.refusal("a", task, 0) == "the task 't' has made all of its 2 calls"
    assert budgets.refusal("b", task, 0) == "" == budgets.refusal("a", Task("u", calls=2), 0)
    assert budgets.refusal("a", Task("t", calls=3), 0) == ""


def test_a_deadline() -> None:
    """It is a moment, and when it has passed nothing is kept of the task."""
    budgets = Budgets()
    task = Task("t", deadline=1000, calls=1)
    assert budgets.refusal("a", task, 999) == ""
    assert budgets.refusal("a", task, 1000) == "the deadline of the task 't' has passed"
    assert budgets.refusal("a", Task("t", calls=1), 1000) == ""


def test_no_bound_is_not_counted() -> None:
    """A task that names none can be named for ever."""
    budgets = Budgets()
    for _ in range(5):
        assert budgets.refusal("a", Task("t"), 0) == ""


def test_what_is_kept_is_bounded() -> None:
    """Beyond it the task that was not used for longest is forgotten; so are those of an agent that left."""
    budgets = Budgets(most=2)
    one, two, three = (Task(name, calls=1) for name in "123")
    assert budgets.refusal("a", one, 0) == budgets.refusal("a", two, 0) == ""
    assert budgets.refusal("a", one, 0) != ""
    assert budgets.refusal("a", three, 0) == ""
    assert budgets.refusal("a", one, 0) != "" and budgets.refusal("a", two, 0) == ""
    budgets.left("a")
    assert budgets.refusal("a", one, 0) == ""


def test_nothing_is_left_of_it() -> None:
    """0 is a limit: an agent that counts its budget down does not become unlimited."""
    budgets = Budgets()
    assert budgets.refusal("a", Task("t", calls=0), 0) == "the task 't' has no calls left"
    assert budgets.refusal("a", Task("t", deadline=0), 1) == "the deadline of the task 't' has passed"
