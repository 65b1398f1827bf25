"""Owns a scripted server that makes tasks of calls, in either era, and agents that have handles of them.

It must not know what is tested.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tests.gateway.bench import META, Agent, Bench, Message
from tests.gateway.shelves import Shelves

EXTENSION = META + "tasks"
#: What an agent says of itself that can have a handle.
HANDLES: Message = {META + "clientCapabilities": {"extensions": {EXTENSION: {}}, "elicitation": {"form": {}}}}


class Maker(Shelves):
    """Modern, or legacy: then `t` must be called as a task, and `u` may be. It answers nothing about tasks by itself
    but what is cancelled; when it was asked about them is in `when`."""

    def __init__(self, name: str = "s", *, era: str = "modern", offers: bool = True) -> None:
        modern: Message = {"extensions": {EXTENSION: {}}}
        legacy: Message = {"tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}
        kind = (modern if era == "modern" else legacy) if offers else {}
        super().__init__(name, era=era, offers=kind, tools=("t", "u"))
        self.when: list[float] = []
        if era == "legacy":
            support = {"t": "required", "u": "optional"}
            schema = {"type": "object"}
            self.beside = {
                "tools": [
                    {"name": tool, "inputSchema": schema, "execution": {"taskSupport": how}}
                    for tool, how in support.items()
                ]
            }

    def _answer(self, message: Message) -> None:
        if message.get("method") == "tasks/cancel":
            self.answer(message)
            return
        if message.get("method") == "tasks/get":
            self.when.append(asyncio.get_running_loop().time())
        super()._answer(message)

    def makes(self, request: Message, id: str = "up-1", **more: Any) -> None:
        """It makes a task of this call."""
        if self._era == "modern":
            self.result(request["id"], {"resultType": "task", **task(id, **more)})
        else:
            self.result(request["id"], {"task": old_task(id, **more)})

    def tells(self, request: Message, id: str = "up-1", status: str = "working", **more: Any) -> None:
        """It says how the task is."""
        self.answer(request, **(task if self._era == "modern" else old_task)(id, status, **more))


def task(id: str, status: str = "working", **more: Any) -> Message:
    times = {"createdAt": "2026-11-30T10:00:00Z", "lastUpdatedAt": "2026-11-30T10:00:00Z", "ttlMs": 60000}
    return {"taskId": id, "status": status, **times, "pollIntervalMs": 100, **more}


def old_task(id: str, status: str = "working", **more: Any) -> Message:
    times = {"createdAt": "2026-11-30T10:00:00Z", "lastUpdatedAt": "2026-11-30T10:00:00Z", "ttl": 60000}
    return {"taskId": id, "status": status, **times, "pollInterval": 100, **more}


def text(words: str) -> Message:
    return {"content": [{"type": "text", "text": words}]}


def call_modern(agent: Agent, id: int = 1, *, meta: Message | None = None, **params: Any) -> Any:
    return agent.modern("tools/call", {"name": "mcp__s__t", "arguments": {}, **params}, id=id, meta=meta)


async def handle_of(bench: Bench, server: Maker, agent: Agent, id: int = 1, number: int = 1) -> str:
    """The id under which this agent has the task that its call became."""
    call_modern(agent, id, meta=HANDLES)
    server.makes(await server.call(number))
    [answer] = agent.answers(id)
    found: str = answer["result"]["taskId"]
    return found
