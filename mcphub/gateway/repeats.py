"""Owns which calls of which agent failed lately, so that one that makes the same failing call again and again is told.

It must not know why they failed, but for what says nothing of the call itself, nor keep any argument: of those only a
digest stays. Nothing becomes of a call because of what is kept here.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec

from mcphub.channel import Data

#: The failure from which on the agent is told, and seconds after which the next one begins to count anew.
TOLD_FROM = 3
WITHIN = 600.0
#: Agents that are remembered, tools of each, and calls of each tool.
MAX_AGENTS = 200
MAX_TOOLS = 20
MAX_CALLS = 8
#: Failures that are not the call's own: a budget is a task's, and the next one has its own.
NOT_COUNTED = frozenset({"task_budget"})


class _Failed(msgspec.Struct):
    """How one call failed the last time, how often so in a row, and when last (monotonic seconds)."""

    how: str
    count: int
    at: float


#: By digest of the arguments, "" = they were not known.
_Calls = dict[str, _Failed]


class Repeats:
    """What failed. `failing` is empty as long as all is well; else it has, by agent, the tools that failed for it."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.failing: dict[Any, dict[str, _Calls]] = {}
        self._now = now
        self._swept = 0.0

    def watches(self, who: object, tool: str) -> bool:
        """Whether this tool failed lately for this agent, so that the next answer is worth a look. To be asked only
        where the agent is among the `failing`."""
        now = self._now()
        if now - self._swept > WITHIN / 10:
            self._sweep(now)
        return tool in self.failing.get(who, ())

    def failed(self, who: object, tool: str, arguments: Data | None, how: str) -> str:
        """Note a failure; what the agent is to be told about its being one of several, "" = nothing. `how` is equal for
        failures that are alike; those that are NOT_COUNTED are as if they had not been. `arguments` None = nobody knows
        them any more."""
        if how in NOT_COUNTED:
            return ""
        now = self._now()
        if now - self._swept > WITHIN / 10:
            self._sweep(now)
        tools: dict[str, _Calls] = _newest(self.failing, who, MAX_AGENTS)
        calls: _Calls = _newest(tools, tool, MAX_TOOLS)
        digest = _digest(arguments) if arguments is not None else ""
        last = calls.pop(digest, None)
        if last is None and digest:
            # The first of them may have been one of which the arguments were not known.
            last = calls.pop("", None)
        if len(calls) >= MAX_CALLS:
            del calls[next(iter(calls))]
        again = last is not None and last.how == how and now - last.at <= WITHIN
        count = last.count + 1 if again and last is not None else 1
        calls[digest] = _Failed(how, count, now)
        return _sentence(count) if count >= TOLD_FROM and digest else ""

    def done(self, who: object, tool: str, arguments: Data) -> None:
        """A call of a tool that is watched did not fail."""
        tools = self.failing.get(who, {})
        calls = tools.get(tool)
        if calls is not None:
            calls.pop("", None)
            calls.pop(_digest(arguments), None)
            self._tidy(who, tools, tool, calls)

    def left(self, who: object) -> None:
        """The agent is gone."""
        self.failing.pop(who, None)

    def _sweep(self, now: float) -> None:
        self._swept = now
        for who, tools in list(self.failing.items()):
            for tool, calls in list(tools.items()):
                for digest in [digest for digest, failed in calls.items() if now - failed.at > WITHIN]:
                    del calls[digest]
                self._tidy(who, tools, tool, calls)

    def _tidy(self, who: object, tools: dict[str, _Calls], tool: str, calls: _Calls) -> None:
        if not calls:
            del tools[tool]
        if not tools:
            del self.failing[who]


def _newest(of: dict[Any, Any], key: object, most: int) -> Any:
    """What stands under this key, which is the newest now; the oldest goes where there are too many."""
    found = of.pop(key, None)
    if found is None:
        found = {}
        if len(of) >= most:
            del of[next(iter(of))]
    of[key] = found
    return found


def _digest(arguments: Data) -> str:
    return blake2b(arguments, digest_size=16).hexdigest()


def _sentence(count: int) -> str:
    return (
        f"This call has failed in the same way {count} times in a row, and will most likely fail again: change what is "
        "named here, do something else, or ask a person."
    )
