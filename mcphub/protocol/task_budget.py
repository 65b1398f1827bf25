"""Owns what an agent says of the budget of its task: the value of `dev.mcphub/task` in `_meta`.

It must not know what was used of it. The same value goes with each request of a task, so that it is read once.
"""

from __future__ import annotations

import msgspec

KEY = "dev.mcphub/task"
#: Characters of a task's id.
MAX_ID = 128


class Task(msgspec.Struct, frozen=True):
    """`deadline`: milliseconds since 1970. `calls`: how many calls of tools it has in all. None = no limit; 0 is one,
    to which an agent gets that counts its budget down."""

    id: str
    deadline: float | None = None
    calls: int | None = None


_decode = msgspec.json.Decoder(Task).decode


def read_task(raw: bytes | memoryview) -> Task:
    """A task as its agent names it. Raises ValueError, whose message says what is wrong."""
    try:
        task = _decode(raw)
    except (msgspec.DecodeError, RecursionError) as e:
        raise ValueError(f"{KEY}: {e}") from None
    if not 0 < len(task.id) <= MAX_ID:
        raise ValueError(f"{KEY}: `id` must have 1 to {MAX_ID} characters")
    if (task.deadline or 0.0) < 0 or (task.calls or 0) < 0:
        raise ValueError(f"{KEY}: `deadline` and `calls` must not be below 0")
    return task
