"""Owns the servers that run in the daemon: one tells what the daemon holds, the others answer, or lie as others do.

It must not change the daemon. The lies of one are read as those of `liar` are.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

import anyio

from mcphub.errors import JSONRPCError
from tests.e2e.chaos.liar import Liar

_FOLDER = os.environ.get("CHAOS_FOLDER", "")


def census(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """What the daemon has now: tasks by name, descriptors, threads."""
    if method != "tools/call":
        return _ordinary(_liar("census"), method, params)
    names = sorted(task.get_name().rstrip("0123456789") for task in asyncio.all_tasks() if not _rests(task))
    descriptors = [_described(int(fd)) for fd in os.listdir("/proc/self/fd")]
    found = {"tasks": names, "descriptors": sorted(descriptors), "threads": threading.active_count()}
    return {"content": [{"type": "text", "text": json.dumps(found)}]}


def _rests(task: asyncio.Task[Any]) -> bool:
    """It waits for the next request of its connection: a few of those are kept, and cost nothing."""
    at: Any = task.get_coro()
    while (inner := getattr(at, "cr_await", None)) is not None and hasattr(inner, "cr_frame"):
        at = inner
    return getattr(at, "__name__", "") == "_work"


def _described(fd: int) -> str:
    """What it is, and of a connection to a server which one."""
    try:
        what = os.readlink(f"/proc/self/fd/{fd}").partition(":[")[0]
    except OSError:
        return "gone"
    if what != "socket":
        return what
    try:
        with socket.socket(fileno=os.dup(fd)) as one:
            return f"socket {one.family.name} {one.getpeername()}"
    except OSError:
        return "socket"


async def victim(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Lies as far as a callable can: it may be slow, silent, raise, or return what is no result."""
    liar = _liar("embed-victim")
    match liar.mood(method) if method == "tools/call" else "":
        case "slow" | "big" | "noise":
            await anyio.sleep(0.3)
        case "silent" | "half":
            await anyio.sleep(60)
        case "error" | "wrong-id":
            raise JSONRPCError(-32603, "embed-victim says that it is out of order")
        case "die" | "garbage":
            raise RuntimeError("the callable fell over")
        case "neither" | "odd-result":
            wrong: Any = [1, 2, 3]
            found: dict[str, Any] = wrong
            return found
    return _ordinary(liar, method, params)


def control(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Never lies."""
    return _ordinary(_liar("embed-control"), method, params)


_liars: dict[str, Liar] = {}


def _liar(name: str) -> Liar:
    if name not in _liars:
        _liars[name] = Liar("legacy", Path(_FOLDER), name)
    return _liars[name]


def _ordinary(liar: Liar, method: str, params: dict[str, Any]) -> dict[str, Any]:
    answer = liar.honest({"id": 1, "method": method, "params": {k: v for k, v in params.items() if k != "_meta"}})
    assert answer is not None
    if "error" in answer:
        raise JSONRPCError(answer["error"]["code"], answer["error"]["message"])
    result: dict[str, Any] = answer["result"]
    return result
