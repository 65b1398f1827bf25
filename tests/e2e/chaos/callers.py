"""Owns the agents of a chaos run and the judgement of each answer: a result with its token, or an error with a name.

It must not know what is done to servers. Many calls of one agent are in flight at once; a call that is not answered in
HANG seconds hangs, whatever its server does.
"""

from __future__ import annotations

import itertools
import time
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import anyio

from tests.fakes.agent import Agent, Message
from tests.fakes.http_agent import HttpAgent

#: Seconds for an answer, above every limit of mcphub's own that the run sets.
HANG = 20.0
_tokens = itertools.count(1)


class Asks(Protocol):
    """An agent that may have many calls in flight."""

    name: str

    async def call(self, tool: str, arguments: Message) -> Message:
        """The response. Raises TimeoutError, ConnectionError."""


class Streamed:
    """One on a byte stream. `read` runs as long as it lives."""

    def __init__(self, agent: Agent, era: str, name: str) -> None:
        self.name = name
        self._agent, self._era = agent, era
        self._waiting: dict[int | str | None, anyio.Event] = {}

    async def read(self) -> None:
        agent = self._agent
        while True:
            try:
                await agent._take(await agent._line())
            except (ConnectionError, anyio.ClosedResourceError):
                return
            agent.notifications.clear()
            agent.asked.clear()
            for mid in agent.responses:
                if mid in self._waiting:
                    self._waiting.pop(mid).set()

    async def call(self, tool: str, arguments: Message) -> Message:
        agent, mid = self._agent, next(self._agent.ids)
        self._waiting[mid] = came = anyio.Event()
        start = agent.start if self._era == "legacy" else agent.start_modern
        try:
            with anyio.fail_after(HANG):
                await start("tools/call", {"name": tool, "arguments": arguments}, id=mid)
                await came.wait()
        finally:
            self._waiting.pop(mid, None)
        [answer] = agent.responses.pop(mid)
        return answer

    @property
    def strays(self) -> int:
        """Answers that nobody waits for."""
        return len(self._agent.responses)


class OverHttp:
    """One at the HTTP endpoint, a connection a call."""

    def __init__(self, agent: HttpAgent, era: str, name: str) -> None:
        self.name = name
        self._agent, self._era = agent, era
        self._ids = itertools.count(1)

    async def call(self, tool: str, arguments: Message) -> Message:
        params, mid = {"name": tool, "arguments": arguments}, next(self._ids)
        with anyio.fail_after(HANG):
            if self._era == "legacy":
                reply = await self._agent.request("tools/call", params, id=mid)
            else:
                reply = await self._agent.modern("tools/call", params, id=mid)
            answer: Message = reply.response
        assert answer["id"] == mid, answer
        return answer


@dataclass
class Score:
    """What came of the calls to one server."""

    calls: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    wrong: list[str] = field(default_factory=list)


def kind_of(answer: Message, token: str, server: str) -> tuple[str, str]:
    """(how the call ended, what is wrong with that: "" = nothing)."""
    error = answer.get("error")
    if error is not None:
        data = error.get("data")
        named = data.get("dev.mcphub/error", {}) if isinstance(data, dict) else {}
        kind = str(named.get("kind") or f"error {error.get('code')}")
        return kind, "" if error.get("message") else f"an error without words: {answer}"
    result = answer.get("result")
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(result, dict) or not content:
        return "odd", f"neither a result nor an error: {str(answer)[:300]}"
    said = content[0].get("text", "")
    if result.get("isError"):
        return "tool error", "" if server in said else f"a tool error that does not say whose: {said[:300]}"
    return "result", "" if said == token else f"the answer of another call: {said[:80]!r} for {token!r}"


class Work:
    """Calls of all agents to all servers, each pair at its own pace, until `stop`."""

    def __init__(self, servers: Mapping[str, str], rate: float, pairs: int) -> None:
        """`servers`: name to tool; `rate`: calls a second in all, of so many pairs."""
        self.scores = {name: Score() for name in servers}
        self.stop = anyio.Event()
        self._servers = servers
        self._pause = pairs / rate

    @property
    def calls(self) -> int:
        return sum(score.calls for score in self.scores.values())

    async def once(self, agent: Asks, server: str) -> str:
        """One call, judged; returns how it ended."""
        score, token = self.scores[server], f"{agent.name}/{server}/{next(_tokens)}"
        began = time.monotonic()
        try:
            answer = await agent.call(self._servers[server], {"text": token})
        except TimeoutError:
            kind, wrong = "hang", f"no answer in {HANG:g} s"
        except Exception as e:
            kind, wrong = "broken", f"{type(e).__name__}: {e}"
        else:
            kind, wrong = kind_of(answer, token, server)
        score.calls += 1
        score.kinds[kind] += 1
        score.slowest = max(score.slowest, time.monotonic() - began)
        if wrong and len(score.wrong) < 5:
            score.wrong.append(f"{token}: {wrong}")
        return kind

    async def keep_calling(self, agent: Asks, server: str) -> None:
        due = anyio.current_time() + self._pause * (zlib.crc32(f"{agent.name} {server}".encode()) % 97) / 97
        while not self.stop.is_set():
            with anyio.move_on_after(due - anyio.current_time()):
                await self.stop.wait()
                return
            await self.once(agent, server)
            # What was missed while a call took long is not made up for in a burst.
            due = max(due + self._pause, anyio.current_time() - self._pause)


def table(scores: Mapping[str, Score]) -> str:
    """A line a server."""
    lines = []
    for name, score in scores.items():
        kinds = ", ".join(f"{kind} {count}" for kind, count in score.kinds.most_common())
        lines.append(f"  {name:16} {score.calls:6} calls, slowest {score.slowest:5.2f} s: {kinds}")
    return "\n".join(lines)
