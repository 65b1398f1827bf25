"""Whose orphan it is, told from made-up processes."""

from __future__ import annotations

import os

from mcphub.transport.launcher.proc import Process, look_at
from mcphub.transport.launcher.servers import Server, Servers

#: Above every number that a process can have.
PID = 1 << 30


def process(pid: int, group: int = 1, session: int = 1) -> Process:
    return Process(pid, f"{pid} (x) S 1 {group} {session} {'0 ' * 15}50 0".encode())


def server(servers: Servers, key: int, pid: int, mark: int = 0) -> Server:
    one = Server(key, mark)
    one.pid = pid
    servers.add(one)
    return one


def test_an_orphan_is_told_by_its_session() -> None:
    """C030: the session or the group of a direct child is proof until its tree is gone, also when it was waited for."""
    servers = Servers(1)
    one, other = server(servers, 1, PID), server(servers, 2, PID + 1)
    assert servers.owner(process(PID)) is one
    del servers.by_pid[PID]
    assert servers.owner(process(PID + 9, session=PID)) is one
    assert servers.owner(process(PID + 9, group=PID + 1)) is other
    assert servers.owner(process(PID + 9)) is None
    servers.forget(one)
    assert servers.owner(process(PID + 9, session=PID)) is None
    assert list(servers.by_key) == [2]


def test_one_look_a_turn() -> None:
    """What one look found is in force until the next turn, and a tree is remembered by number and start time."""
    me = look_at(os.getpid())
    assert me is not None
    servers = Servers(me.parent)
    one = server(servers, 1, me.pid)
    assert me.pid in [found.pid for found in servers.trees()[one]]
    del servers.by_pid[me.pid]
    servers.forget(one)
    assert one in servers.trees()
    assert servers.owner(me) is one
    me.start += 1
    assert servers.owner(me) is None
    servers.new_turn(childless=True)
    assert servers.trees() == {}
