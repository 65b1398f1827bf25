"""Owns what the service manager hears of a daemon while it runs: one line on all servers, and that the loop is alive.

It must not know why a server is as it is, nor how the daemon begins or ends.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

import anyio

from mcphub import sdnotify
from mcphub.connection.machine import Connected, Disabled, Failed, NeedsAuth, Pending, State
from mcphub.connection.view import View
from mcphub.spec import InstanceKey

#: Seconds between two status lines: ten servers that start are one line, not ten.
SETTLE = 0.5
#: What of its time the watchdog is told in, so that one late turn of the loop is not the end (sd_watchdog_enabled(3)).
SHARE = 0.5


class Snapshot(Protocol):
    """As supervisor.supervisor.Snapshot."""

    @property
    def views(self) -> Mapping[InstanceKey, View]: ...


class Snapshots(Protocol):
    """As supervisor.watch.Watch."""

    @property
    def value(self) -> Snapshot: ...

    async def newer_than(self, revision: int) -> int: ...


def headline(servers: Iterable[tuple[object, State]]) -> str:
    """`12 servers connected, 1 needs sign-in, 2 failed`: what a person would ask first; `no servers` where none is.

    Each state with what tells one server from the other: of a server that has several instances each state counts
    once, and idle ones where there is no other."""
    found = {(server, _word(state)) for server, state in servers}
    awake = {server for server, word in found if word not in ("", "idle")}
    count = Counter(word for server, word in found if word != "idle" or server not in awake)
    connected, others = count.pop("connected", 0), []
    for word, more in (("needs sign-in", "need sign-in"), ("failed", ""), ("starting", ""), ("idle", "")):
        if number := count[word]:
            others.append(f"{number} {more if more and number > 1 else word}")
    if not connected and not others:
        return "no servers"
    return ", ".join([f"{connected} server{'' if connected == 1 else 's'} connected", *others])


def _word(state: State) -> str:
    match state:
        case Connected():
            return "connected"
        case NeedsAuth():
            return "needs sign-in"
        case Failed():
            return "failed"
        case Pending(idle=True):
            return "idle"
        case Pending():
            return "starting"
        case Disabled():
            return ""


async def tell(environ: Mapping[str, str], snapshots: Snapshots, settle: float = SETTLE) -> None:
    """Keep the status line true, until cancelled. `environ` holds the service manager's variables."""
    revision, told = 0, ""
    while True:
        revision = await snapshots.newer_than(revision)
        text = headline(((v.spec.name, v.spec.origin), v.state) for v in snapshots.value.views.values())
        if text != told:
            told = text
            sdnotify.status(environ, text)
            await anyio.sleep(settle)


async def beat(environ: Mapping[str, str]) -> None:
    """Say that the loop is alive, as often as the watchdog wants, until cancelled. It is the loop itself that says so:
    one that hangs says nothing. Returns at once where no watchdog waits."""
    interval = sdnotify.watchdog_interval(environ, os.getpid())
    while interval is not None:
        sdnotify.alive(environ)
        await anyio.sleep(interval * SHARE)
