"""Owns one launcher process as the daemon sees it: requests and reports, its death, and what it leaves then (Linux).

It must not know MCP, nor which server a child is; `launcher.messages` says what is written to it.

A killed launcher takes its direct children with it (parent-death signal); their descendants are adopted by the daemon,
if that called `become_subreaper`, are told from the daemon's other children by their mark, and are killed and waited
for here. A daemon that is no subreaper loses them to init. A launcher that does not answer, since it was stopped or
hangs, is killed.
"""

from __future__ import annotations

import array
import asyncio
import collections
import errno
import logging
import os
import signal
import socket
from collections.abc import Callable, Sequence
from functools import partial

import anyio

from mcphub.errors import TransportError
from mcphub.transport.child import Child
from mcphub.transport.launcher.marks import read_mark
from mcphub.transport.launcher.messages import MAX_MESSAGE, pack, unpack
from mcphub.transport.launcher.proc import Process, look, send_signal, tree
from mcphub.transport.launcher.start import Started, start
from mcphub.transport.spawn_request import Encoded

#: Seconds that the launcher gets to end all trees when the daemon lets go of it, before it is killed itself.
_CLOSE_PATIENCE = 5.0
#: Seconds for which the leftovers of a killed launcher are hunted.
_SWEEP_PATIENCE = 2.0
_SWEEP_PAUSE = 0.01
#: A launcher that owes an answer and says nothing at all for so many times so many seconds, a probe included, is taken
#: for dead. Counted in steps, so that a daemon that was itself stopped meanwhile leaves it the time to answer.
_STEP = 1.0
_SILENT_STEPS = 10

_LOG = logging.getLogger(__name__)


class Refused(Exception):
    """The system did not start a program; `stage` and `number` as `SpawnRequest.refusal` takes them."""

    def __init__(self, stage: str, number: int) -> None:
        super().__init__(stage, number)
        self.stage = stage
        self.number = number


class LauncherLink:
    """One launcher process, from its start to the last of its leftovers. Works in callbacks of the event loop."""

    def __init__(self, started: Started | None = None, on_mark: Callable[[int], None] | None = None) -> None:
        """`started`: a launcher that was started before; `on_mark` is told its highest mark. Raises TransportError."""
        self._on_mark = on_mark
        self.dead = False
        self.swept = anyio.Event()
        self._loop = asyncio.get_running_loop()
        try:
            started = started or start()
        except OSError as error:
            raise TransportError(f"cannot start the launcher process: {error}", kind="spawn") from error
        self.process, self._sock = started.process, started.sock
        self._pidfd = os.pidfd_open(self.process.pid)
        self._inbox = bytearray()
        self._outbox: collections.deque[tuple[memoryview, list[int]]] = collections.deque()
        self._writing = False
        self._closing = False
        self._deaf = False  # it will not hear any more
        self._mark = 0
        self._keys = 0
        self._children: dict[int, Child] = {}
        self._spawning: dict[int, asyncio.Future[Child]] = {}
        self._signalling: dict[int, asyncio.Future[int]] = {}
        self._sweep_until = 0.0
        self._owed = 0  # answers
        self._silent = 0  # steps
        self._watch: asyncio.TimerHandle | None = None
        self._ended = "the launcher process ended"
        self._loop.add_reader(self._sock, self._readable)
        self._loop.add_reader(self._pidfd, self._died)

    async def spawn(
        self, request: Encoded, fds: tuple[int, int, int], limits: tuple[int, int, int] = (0, 0, 0)
    ) -> Child:
        """As `launcher_client.Launcher.spawn`. Raises `Refused`."""
        if self._deaf or self._closing:
            raise self._launcher_ended()
        self._keys += 1
        key = self._keys
        message = pack(("spawn", key, *request, limits))
        if len(message) > MAX_MESSAGE:
            raise Refused("exec", errno.E2BIG)
        # Copies: they may have to wait for room in the socket, and the caller closes its own if it is cancelled.
        copies: list[int] = []
        try:
            for fd in fds:
                copies.append(os.dup(fd))  # noqa: PERF401  (those made so far must be closed if one fails)
        except OSError as error:
            _close_all(copies)
            raise Refused("fork", error.errno or errno.EBADF) from None
        reply: asyncio.Future[Child] = self._loop.create_future()
        self._spawning[key] = reply
        self._send(message, copies)
        return await reply

    async def close(self) -> None:
        """Let go of the launcher: it ends every tree, reports that, and exits. Kills it if it does not."""
        self._closing = True
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        with anyio.move_on_after(_CLOSE_PATIENCE):
            await self.swept.wait()
        if not self.dead:
            self.process.kill()
        await self.swept.wait()

    # -- words --

    async def _signal_tree(self, key: int, signo: int) -> int:
        if self._deaf or key not in self._children:
            return 0
        self._keys += 1
        request = self._keys
        reply: asyncio.Future[int] = self._loop.create_future()
        self._signalling[request] = reply
        self._send(pack(("signal", key, request, int(signo))))
        try:
            return await reply
        finally:
            self._signalling.pop(request, None)

    def _send(self, message: bytes, fds: Sequence[int] = ()) -> None:
        self._owed += 1  # each is answered once
        if self._watch is None and not self._deaf:
            self._silent = 0
            self._watch = self._loop.call_later(_STEP, self._look)
        self._outbox.append((memoryview(message), list(fds)))
        if not self._writing:
            self._flush()

    def _flush(self) -> None:
        while self._outbox and not self._deaf:
            view, fds = self._outbox[0]
            passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            try:
                sent = self._sock.sendmsg([view], passed)
            except BlockingIOError:
                if not self._writing:
                    self._writing = True
                    self._loop.add_writer(self._sock, self._flush)
                return
            except OSError as error:
                if error.errno == errno.ETOOMANYREFS:  # descriptors on their way count against this user's limit
                    self._writing = True
                    self._loop.call_later(_SWEEP_PAUSE, self._flush)
                else:
                    self._broken()
                return
            _close_all(fds)
            if sent == len(view):
                self._outbox.popleft()
            else:
                self._outbox[0] = view[sent:], []
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._sock)

    def _readable(self) -> None:
        try:
            data = self._sock.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._broken()
            return
        self._silent = 0
        self._inbox += data
        self._hear()

    def _look(self) -> None:
        """Whether it still answers."""
        self._watch = None
        if self._deaf or not self._owed:
            return
        self._silent += 1
        if self._silent > _SILENT_STEPS:
            self._ended = f"the launcher process did not answer for {_SILENT_STEPS * _STEP:g} s and was killed"
            _LOG.error("%s, with the servers that it had started; they are started again by a new one", self._ended)
            self._broken()
            self.process.kill()
            return
        self._watch = self._loop.call_later(_STEP, self._look)
        if self._silent == 1:  # what is owed may take its time: a program on a slow disk
            self._send(pack(("signal", 0, 0, 0)))

    def _hear(self) -> None:
        try:
            for message in unpack(self._inbox):
                self._told(*message)
        except (ValueError, EOFError, TypeError, KeyError):  # not a launcher of ours
            self._broken()
            self.process.kill()

    def _told(self, kind: str, key: int, *rest: int) -> None:
        """A report of the launcher; `key` is what stands first after the kind."""
        if kind in ("spawned", "refused", "signalled"):
            self._owed -= 1
        if kind == "spawned":
            child = self._children[key] = Child(rest[0], partial(self._signal_tree, key))
            reply = self._spawning.pop(key)
            if reply.done():  # nobody waits any more
                self._send(pack(("signal", key, 0, int(signal.SIGKILL))))
            else:
                reply.set_result(child)
        elif kind == "refused":
            reply = self._spawning.pop(key)
            if not reply.done():
                reply.set_exception(Refused(str(rest[0]), rest[1]))
        elif kind == "signalled":
            answer = self._signalling.get(key)
            if answer is not None and not answer.done():
                answer.set_result(rest[0])
        elif kind == "exit":
            self._children[key].report_exit(os.waitstatus_to_exitcode(rest[0]))
        elif kind == "gone":
            self._children.pop(key).report_gone()
        elif kind == "hello":
            self._mark = key
            if self._on_mark is not None:
                self._on_mark(key)

    # -- death --

    def _broken(self) -> None:
        """The socket ended: the launcher is dying, or must."""
        if self._deaf:
            return
        self._deaf = True
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if not self._closing:
            self.process.kill()

    def _died(self) -> None:
        # Only now are its children the daemon's own: a process gives them away before its end can be seen.
        self.dead = True
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        try:
            while data := self._sock.recv(1 << 16):
                self._inbox += data
        except OSError:
            pass
        self._hear()
        self._broken()
        self._sock.close()
        self.process.wait()
        for _, fds in self._outbox:
            _close_all(fds)
        self._outbox.clear()
        for reply in self._spawning.values():
            if not reply.done():
                reply.set_exception(self._launcher_ended())
        for answer in self._signalling.values():
            if not answer.done():
                answer.set_result(0)
        self._spawning.clear()
        self._sweep_until = self._loop.time() + _SWEEP_PATIENCE
        self._sweep()

    def _sweep(self) -> None:
        """Kill and wait for what the dead launcher left to this process; again until nothing is left."""
        children = look()
        by_pid = {child.pid: child for child in self._children.values()}
        left = False
        for top in children.get(os.getpid(), ()):
            if not self._is_leftover(top, by_pid):
                continue
            for process in tree(children, top):
                send_signal(process, signal.SIGKILL)
            try:
                pid, status = os.waitpid(top.pid, os.WNOHANG)
            except ChildProcessError:
                continue
            if pid == 0:
                left = True
            elif top.pid in by_pid:
                by_pid[top.pid].report_exit(os.waitstatus_to_exitcode(status))
        if left and self._loop.time() < self._sweep_until:
            self._loop.call_later(_SWEEP_PAUSE, self._sweep)
            return
        for child in self._children.values():
            child.report_gone()
        self._children.clear()
        self.swept.set()

    def _launcher_ended(self) -> TransportError:
        return TransportError(f"cannot start a process: {self._ended}; try again", kind="spawn")

    def _is_leftover(self, top: Process, by_pid: dict[int, Child]) -> bool:
        if top.pid in by_pid or top.session in by_pid or top.group in by_pid:
            return True
        return 0 < self._mark - read_mark(top.pid) <= self._keys


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
    fds.clear()
