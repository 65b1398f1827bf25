"""Owns what is left of the budgets that agents name for their tasks: until when each may call, and how often.

It must not know calls or agents, nor read a clock. What a budget is comes with each request; all that is kept is how
many calls there were.
"""

from __future__ import annotations

from collections.abc import Hashable

from mcphub.protocol.task_budget import Task

#: Tasks that are remembered; beyond it those that were not used for longest are forgotten.
MAX_TASKS = 1000


class Budgets:
    """The tasks of all agents. One that is forgotten begins anew: an agent's own budget is no limit that others set."""

    def __init__(self, most: int = MAX_TASKS) -> None:
        self._used: dict[tuple[Hashable, str], int] = {}
        self._most = most

    def refusal(self, owner: Hashable, task: Task, now: float, calls: int = 1) -> str:
        """Take so many calls; why they may not be made, "" = they may. `now`: milliseconds since 1970."""
        key = (owner, task.id)
        used = self._used.pop(key, 0)
        if task.deadline is not None and now >= task.deadline:
            return f"the deadline of the task {task.id!r} has passed"
        if task.calls is None:
            return ""
        spent = used + calls > task.calls
        self._used[key] = used if spent else used + calls
        if len(self._used) > self._most:
            del self._used[next(iter(self._used))]
        if not spent:
            return ""
        return f"the task {task.id!r} has " + (f"made all of its {task.calls} calls" if task.calls else "no calls left")

    def left(self, owner: Hashable) -> None:
        """Forget the tasks of an agent that left."""
        if self._used:
            for key in [key for key in self._used if key[0] == owner]:
                del self._used[key]
