from __future__ import annotations

import signal

import anyio
import pytest

from mcphub.transport.child import Child

pytestmark = pytest.mark.anyio

GRACE = 0.05


class Tree:
    """What a child's starter does for it, decided by a table: which signal ends what."""

    def __init__(self, ends_on: int, *, leftovers_end_on: int | None = None) -> None:
        self.child = Child(100, self.signal)
        self.sent: list[int] = []
        self._ends_on = ends_on
        self._leftovers = leftovers_end_on

    async def signal(self, signo: int) -> int:
        self.sent.append(signo)
        if signo == self._ends_on:
            self.child.report_exit(-signo)
        if signo == (self._leftovers or self._ends_on):
            self.child.report_gone()
        return 2


@pytest.mark.parametrize(
    ("tree", "steps", "sent"),
    [
        (Tree(0), "waited 0.05 s after end of input|SIGTERM to 2|SIGKILL to 2|left running: some of the tree", [15, 9]),
        (Tree(15), "waited 0.05 s after end of input|SIGTERM to 2|killed by SIGTERM", [15]),
        (Tree(9), "waited 0.05 s after end of input|SIGTERM to 2|SIGKILL to 2|killed by SIGKILL", [15, 9]),
        (
            Tree(15, leftovers_end_on=9),
            "waited 0.05 s after end of input|SIGTERM to 2|SIGKILL to 2|killed by SIGTERM",
            [15, 9],
        ),
    ],
)
async def test_the_ladder_goes_only_as_far_as_it_must(
    tree: Tree, steps: str, sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C029: end of input, SIGTERM, SIGKILL in that order, each only when the one before did not do."""
    monkeypatch.setattr("mcphub.transport.child.KILL_PATIENCE", GRACE)
    with anyio.fail_after(5):
        taken = await tree.child.end(GRACE)
    assert "|".join(taken).startswith(steps)
    assert tree.sent == sent


async def test_an_exit_on_end_of_input_is_not_signalled() -> None:
    """C029: a process that exits when its input ends is signalled by nobody."""
    tree = Tree(15)
    async with anyio.create_task_group() as tasks:
        ended: list[str] = []

        async def end() -> None:
            ended.extend(await tree.child.end(5))

        tasks.start_soon(end)
        await anyio.wait_all_tasks_blocked()
        tree.child.report_exit(0)
        tree.child.report_gone()
    assert ended == ["exited with code 0 by itself"]
    assert tree.sent == []


async def test_what_crashed_is_not_waited_for() -> None:
    """C028: when the direct child exited before, its leftovers are signalled without waiting the grace."""
    tree = Tree(15)
    tree.child.report_exit(3)
    with anyio.fail_after(2):
        steps = await tree.child.end(60)
    assert steps == ["exited with code 3, its children did not", "SIGTERM to 2", "exited with code 3"]


async def test_ending_twice_at_once_is_one_ladder() -> None:
    """Two tasks that end the same child share one ladder and its result; cancelling them does not stop it."""
    tree = Tree(9)
    results = []

    async def end() -> None:
        results.append(await tree.child.end(GRACE))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end)
            tasks.start_soon(end)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    assert tree.sent == [15, 9]
    assert len(results) == 2
    assert results[0] == results[1] == await tree.child.end()


async def test_a_launcher_that_does_not_answer_costs_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for ever on whoever sends the signals."""
    monkeypatch.setattr("mcphub.transport.child._SIGNAL_PATIENCE", GRACE)
    monkeypatch.setattr("mcphub.transport.child.KILL_PATIENCE", GRACE)

    async def never(signo: int) -> int:
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.fail_after(5):
        steps = await Child(100, never).end(GRACE)
    assert steps[1:3] == ["SIGTERM: no answer from the launcher", "SIGKILL: no answer from the launcher"]


@pytest.mark.parametrize(
    ("returncode", "words"),
    [(0, "exited with code 0"), (1, "exited with code 1"), (-signal.SIGSEGV, "killed by SIGSEGV")]
    + [(-40, "killed by signal 40"), (None, "ended, exit status unknown")],
)
async def test_outcomes_in_words(returncode: int | None, words: str) -> None:
    """How a process ended is said as a person would."""
    child = Child(1, Tree(0).signal)
    assert child.outcome() == "still running"
    child.report_exit(returncode)
    child.report_exit(99)
    assert (child.outcome(), child.returncode) == (words, returncode)
