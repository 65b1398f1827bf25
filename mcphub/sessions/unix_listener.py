"""Owns agent.sock: accepts agents, checks who they are, and holds one task for each session.

It must not know messages or servers. A task waits for the session's end only; messages run in the wire's callbacks.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Callable, Collection

import anyio
import anyio.abc

from mcphub.gateway.dispatch import Gateway
from mcphub.gateway.standing import encoded
from mcphub.sessions import attach
from mcphub.sessions.handover import HandedOver, receive
from mcphub.sessions.journal import Journal
from mcphub.sessions.session import Session
from mcphub.sessions.workspaces import Workspaces
from mcphub.transport.peer import peer_of
from mcphub.transport.wire import Batch, Wire

#: How long an attach line that has begun may take to come whole, seconds.
ATTACH_TIMEOUT = 10.0
#: How long answers on the way may take to reach an agent once the daemon ends, seconds.
GOODBYE = 0.5
#: How long to wait when the system has no descriptor left, seconds.
EXHAUSTED = 0.1

Log = Callable[[str, str], None]


class AgentListener:
    """The sessions of one daemon."""

    def __init__(
        self,
        gateway: Gateway,
        workspaces: Workspaces,
        batch: Batch,
        log: Log,
        report: Callable[[BaseException], None],
        trim: Callable[[], None],
        news: Callable[[], None],
    ) -> None:
        """`news` is called when there are other sessions, or one of them is seen in another way."""
        self.sessions: set[Session] = set()
        self.numbers = itertools.count(1)
        #: Whether another daemon comes next, in which the sessions of bridges go on.
        self.restarting = False
        #: Whether that one is the service manager's to start, so that no bridge may.
        self.managed = False
        self._kept: dict[Session, Wire] = {}
        self._door = anyio.CancelScope()
        self._gateway = gateway
        self._workspaces = workspaces
        self._batch = batch
        self._log = log
        self._report = report
        self._trim = trim
        self._news = news

    def outliving(self) -> Collection[Session]:
        """The sessions that go on in another daemon, if there is to be one."""
        return self._kept if self.restarting else ()

    def close_door(self) -> None:
        """Let nobody in any more. What sessions that go on elsewhere still send is left for the next daemon."""
        self._door.cancel()
        for session in self.outliving():
            self._kept[session].hold()

    async def run(self, listener: socket.socket) -> None:
        """Accept until cancelled; then every session is told, flushed and closed."""
        async with anyio.create_task_group() as tasks:
            with self._door:
                await self._accept(listener, tasks)
            await anyio.sleep_forever()

    async def _accept(self, listener: socket.socket, tasks: anyio.abc.TaskGroup) -> None:
        trouble = ""
        while True:
            await anyio.wait_readable(listener)
            try:
                sock, _ = listener.accept()
            except BlockingIOError:
                continue
            except OSError as e:
                if trouble != str(e):  # said once, not ten times a second
                    trouble = str(e)
                    self._log("error", f"cannot accept an agent: {e}; trying again")
                await anyio.sleep(EXHAUSTED)
                continue
            trouble = ""
            sock.setblocking(False)
            tasks.start_soon(self._serve, sock)

    async def _serve(self, sock: socket.socket) -> None:
        fds: list[int] = []
        try:
            with sock:
                peer = peer_of(sock)
                if peer is None or peer.uid != os.geteuid():
                    self._log("warning", f"refused an agent of uid {peer.uid if peer else 'unknown'}")
                    return
                first, fds = await _first_bytes(sock)
                if not first and not fds:
                    return
                who, rest = attach.split(first)
                if who is not None and who.problem:
                    self._log("warning", f"an agent attached with a bad line: {who.problem}")
                who = who or attach.Attach()
                handed = HandedOver(fds) if fds else None
                fds = []
                try:
                    place = self._workspaces.place(who.workspace, who.env)
                    number = next(self.numbers)
                    async with self._workspaces.using(place, str(number)) as place:
                        await self._session(sock, number, who.client, place, rest, handed, peer.pid)
                finally:
                    if handed is not None:
                        handed.close()
        except (OSError, ValueError) as e:
            self._log("warning", f"an agent's connection failed: {e}")
        except Exception as e:
            self._report(e)  # one agent's trouble is not the daemon's
        finally:
            for fd in fds:
                os.close(fd)

    async def _session(
        self,
        sock: socket.socket,
        number: int,
        client: str,
        place: str,
        rest: bytes,
        handed: HandedOver | None,
        pid: int | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        session = Session(
            number,
            self._gateway,
            client=client,
            workspace=place,
            pid=pid,
            since=loop.time(),
            news=self._news,
        )
        wire = Wire(self._batch, session, on_error=self._report)
        session.use(wire)
        session.paths = {}
        before = journal = None
        if handed is not None:
            refused = handed.usable()
            if refused:
                sock.send(b"copy " + refused.encode() + b"\n")
                return
            if handed.journal is not None:
                from mcphub.sessions import resumption  # few daemons take over from one that was there before

                try:
                    before = resumption.read(handed.journal)
                except resumption.UnreadableJournal as e:
                    self._log("warning", f"the session of the agent {client} cannot go on: its journal: {e}")
                    return
        self.sessions.add(session)
        self._news()
        self._gateway.join(session)
        try:
            wire.feed(rest)
            if handed is None:
                await loop.create_connection(lambda: wire, sock=sock)
                await wire.closed.wait()
            else:
                if before is not None:
                    from mcphub.sessions.resuming import resume

                    resume(self._gateway, session, wire, before)
                journal = self._journal(session, wire)
                # The bridge has it before a byte of its agent's is read.
                socket.send_fds(sock, [b"taken\n"], [] if journal is None else [journal.fd])
                await handed.attach(wire)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_until_let_go, sock, wire)
                    await wire.closed.wait()
                    tasks.cancel_scope.cancel()
        finally:
            self.sessions.discard(session)
            self._news()
            self._kept.pop(session, None)
            word = self._last_word() if not wire.closed.is_set() else b"end\n"
            with anyio.CancelScope(shield=True):
                if not wire.closed.is_set():
                    wire.finish()
                    with anyio.move_on_after(GOODBYE):
                        await wire.closed.wait()
                    wire.abort()
                    await wire.closed.wait()
            self._gateway.leave(session)
            wire.keep(None)
            if journal is not None:
                journal.close()
            if wire.reason:
                self._log("info", f"the session of the agent {client or session.number} ended: {wire.reason}")
            if handed is not None:
                try:
                    # So that the bridge can tell an orderly end from a death.
                    sock.send(word)
                except OSError:
                    pass  # the bridge went first
            self._trim()

    def _last_word(self) -> bytes:
        """What a bridge is told of the end: `end`, `restarting` (start another daemon, and go on in it), or `managed`
        (go on in the one that the service manager starts)."""
        if not self.restarting:
            return b"end\n"
        return b"managed\n" if self.managed else b"restarting\n"

    def _journal(self, session: Session, wire: Wire) -> Journal | None:
        """The memory of this session, with what it is now; None where the system has none for it."""
        gateway = self._gateway
        try:
            journal = Journal(
                lambda pending: encoded(gateway.standing(session, pending)),
                wire.unread,
                wire.unwritten,
                gateway.outcomes.epoch,
            )
        except OSError as e:
            self._log("warning", f"an agent would not outlive this daemon: no memory for its session: {e}")
            return None
        wire.keep(journal)
        self._kept[session] = wire
        if self.restarting and self._door.cancel_called:
            wire.hold()
        return journal


async def _first_bytes(sock: socket.socket) -> tuple[bytes, list[int]]:
    """The first bytes of a connection, with the whole attach line where it begins with one. Raises OSError."""
    await anyio.wait_readable(sock)
    data, fds = receive(sock)
    try:
        with anyio.move_on_after(ATTACH_TIMEOUT):
            while data and attach.may_grow(data):
                await anyio.wait_readable(sock)
                more = sock.recv(attach.MAX_LINE)
                if not more:
                    break
                data += more
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise
    return data, fds


async def _until_let_go(sock: socket.socket, wire: Wire) -> None:
    """The bridge process is the lease: its end ends the session."""
    while True:
        await anyio.wait_readable(sock)
        try:
            if not sock.recv(4096):
                break
        except BlockingIOError:
            continue
        except OSError:
            break
    wire.finish()
    with anyio.move_on_after(GOODBYE):
        await wire.closed.wait()
    wire.abort()
