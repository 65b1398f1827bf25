"""Owns which server a process belongs to.

It must not start, wait for or signal anything.

A process below a living direct child belongs to that child's server. One that was reparented to the launcher has lost
that proof; it is told by, in this order:

1. its mark (marks.py), each server has one of its own;
2. its session or process group, where that is the direct child's;
3. having been seen in the server's tree, with the same start time, at the last look.

An orphan that has no mark any more and left the session and was never seen belongs to nobody.
"""

from __future__ import annotations

from .marks import read_mark
from .proc import Process, look, tree


class Server:
    """One direct child and what is known of its tree."""

    __slots__ = ("exited", "key", "killing", "mark", "pid", "pipe")

    def __init__(self, key: int, mark: int) -> None:
        self.key = key
        self.mark = mark
        self.pid = 0
        self.pipe = -1  # tells whether exec worked; -1 = it is known
        self.exited = False
        self.killing = False


class Servers:
    """Those whose tree is not gone, below the launcher of that pid."""

    def __init__(self, launcher: int) -> None:
        self.launcher = launcher
        self.by_key: dict[int, Server] = {}
        self.by_pid: dict[int, Server] = {}  # direct children not yet waited for
        self.by_pipe: dict[int, Server] = {}
        self._by_mark: dict[int, Server] = {}
        self._by_session: dict[int, Server] = {}
        self._seen: dict[tuple[int, int], Server] = {}
        self._known: dict[Server, list[Process]] | None = None

    def add(self, server: Server) -> None:
        self._known = None
        self.by_key[server.key] = self.by_pid[server.pid] = self._by_session[server.pid] = server
        self.by_pipe[server.pipe] = server
        if server.mark:
            self._by_mark[server.mark] = server

    def forget(self, server: Server) -> None:
        self.by_key.pop(server.key, None)
        self._by_mark.pop(server.mark, None)
        if self._by_session.get(server.pid) is server:
            del self._by_session[server.pid]

    def new_turn(self, *, childless: bool) -> None:
        """Processes may have come and gone; without a child of the launcher there is nothing to look for."""
        self._known = {} if childless else None

    def trees(self) -> dict[Server, list[Process]]:
        """Each server's processes, one look a turn; servers that have none are absent."""
        if self._known is not None:
            return self._known
        children = look()
        found: dict[Server, list[Process]] = {}
        seen = {}
        for top in children.get(self.launcher, ()):
            server = self.owner(top)
            if server is not None:
                members = tree(children, top)
                found.setdefault(server, []).extend(members)
                for process in members:
                    seen[process.pid, process.start] = server
        self._seen = seen
        self._known = found
        return found

    def owner(self, top: Process) -> Server | None:
        """The server of a child of the launcher; the module text says why so."""
        server = self.by_pid.get(top.pid) or self._by_mark.get(read_mark(top.pid))
        server = server or self._by_session.get(top.session) or self._by_session.get(top.group)
        return server or self._seen.get((top.pid, top.start))
