"""Owns the launcher's turns: requests and ends come in, programs are started, trees watched and ended.

It must not know the daemon but as the other end of a socket, nor how processes are told apart.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import sys
import time

from . import IGNORED
from .execution import execute, ignored_signals
from .marks import highest_mark
from .messages import STAGES, pack, unpack
from .prctl import PR_SET_NAME, PR_SET_PDEATHSIG, become_subreaper, prctl
from .proc import look, send_signal, tree
from .servers import Server, Servers

TYPE_CHECKING = False  # the typing module itself would cost this process memory
if TYPE_CHECKING:
    from typing import Any

#: Seconds between SIGTERM and SIGKILL when the daemon is gone.
LAST_GRACE = 0.2
#: Seconds after which processes that survive SIGKILL (another user's, uninterruptible) are left to init.
GIVE_UP = 10.0
#: Milliseconds after which SIGKILL is sent again to a tree that is not gone.
KILL_AGAIN = 50


class _Launcher:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.pid = os.getpid()
        self.parent = os.getppid()
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.descriptors: list[list[int]] = []  # one list a spawn request, in their order
        self.servers = Servers(self.pid)
        self.died = False  # something was waited for since the last check
        self.open = True
        self.mark = highest_mark()
        self.ignored = ignored_signals()
        self.wake, self.waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.poll = select.poll()

    # -- turns --

    def run(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)  # the wake-up descriptor needs a handler
        signal.set_wakeup_fd(self.waker, warn_on_full_buffer=False)
        self.send("hello", self.mark)
        self.poll.register(self.wake, select.POLLIN)
        while self.open:
            self.poll.register(self.sock, select.POLLIN | (select.POLLOUT if self.outbox else 0))
            killing = any(server.killing for server in self.servers.by_key.values())
            for fd, events in self.poll.poll(KILL_AGAIN if killing else None):
                if fd == self.wake:
                    self.drain_wake()
                elif fd in self.servers.by_pipe:
                    self.executed(self.servers.by_pipe[fd])
                elif fd == self.sock.fileno() and events & ~select.POLLOUT:
                    self.receive()
            self.servers.new_turn(childless=not self.reap())
            self.check()
            self.flush()
            if os.getppid() != self.parent:  # the daemon is gone, though somebody holds its end of the socket
                self.open = False

    def drain_wake(self) -> None:
        try:
            os.read(self.wake, 4096)
        except BlockingIOError:
            pass

    def send(self, *message: object) -> None:
        self.outbox += pack(message)

    def flush(self) -> None:
        try:
            while self.outbox:
                del self.outbox[: self.sock.send(self.outbox)]
        except BlockingIOError:
            pass
        except OSError:  # the daemon is gone: reading says so too
            self.outbox.clear()

    def receive(self) -> None:
        try:
            data, ancillary, flags, _ = self.sock.recvmsg(1 << 18, socket.CMSG_SPACE(12), socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:  # ECONNRESET: the daemon died with messages unread
            data, ancillary, flags = b"", [], 0
        # One recvmsg never returns the descriptors of two messages (unix(7)). Truncated: too many are open here.
        passed = []
        for _, _, raw in ancillary:
            passed += [int.from_bytes(raw[i : i + 4], sys.byteorder) for i in range(0, len(raw), 4)]
        if passed or flags & socket.MSG_CTRUNC:
            self.descriptors.append(passed)
        self.inbox += data
        try:
            for message in unpack(self.inbox):
                self.handle(*message)
        except (ValueError, EOFError, TypeError, KeyError):  # not our daemon's words
            data = b""
        if not data:
            self.open = False

    def handle(self, kind: str, *rest: Any) -> None:
        if kind == "spawn":
            descriptors = self.descriptors.pop(0) if self.descriptors else []
            try:
                self.spawn(descriptors, *rest)
            finally:
                for fd in descriptors:
                    os.close(fd)
        elif kind == "signal":
            key, request, signo = rest
            server = self.servers.by_key.get(key)
            self.send("signalled", request, self.signal_tree(server, signo) if server else 0)
        else:
            raise ValueError(kind)

    # -- starting --

    def spawn(
        self,
        fds: list[int],
        key: int,
        path: bytes,
        argv: list[bytes],
        env: dict[bytes, bytes],
        cwd: bytes,
        limits: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        if len(fds) != 3:
            self.send("refused", key, "fork", errno.EMFILE)
            return
        server = Server(key, self.mark - key if self.mark else 0)
        try:
            server.pipe, report = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            self.send("refused", key, "fork", error.errno)
            return
        try:
            server.pid = os.fork()
            if server.pid == 0:
                execute(self.pid, report, server.mark, self.ignored, fds, path, argv, env, cwd, limits)
        except OSError as error:
            os.close(server.pipe)
            self.send("refused", key, "fork", error.errno)
            return
        finally:
            os.close(report)
        self.servers.add(server)
        self.poll.register(server.pipe, select.POLLIN)

    def executed(self, server: Server) -> None:
        """The pipe of a started child has ended: it was executed, or said why not."""
        try:
            said = os.read(server.pipe, 16)
        except BlockingIOError:
            return
        self.poll.unregister(server.pipe)
        del self.servers.by_pipe[server.pipe]
        os.close(server.pipe)
        server.pipe = -1
        if said:
            self.send("refused", server.key, STAGES[said[0]], int.from_bytes(said[1:3], "little"))
            self.servers.forget(server)  # the child that reported it is waited for as any orphan is
            self.servers.by_pid.pop(server.pid, None)
        else:
            self.send("spawned", server.key, server.pid)

    # -- watching --

    def reap(self) -> bool:
        """Wait for all that ended. False = this process has no children at all."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                self.died = True
                server = self.servers.by_pid.get(pid)
                if server is not None and server.pipe >= 0:
                    self.executed(server)
                server = self.servers.by_pid.pop(pid, None)
                if server is not None:
                    server.exited = True
                    self.send("exit", server.key, status)
        except ChildProcessError:
            return False

    def check(self) -> None:
        """Say which trees are gone. That changes only when a child of this process died: an orphan is one."""
        if not self.died and not any(server.killing for server in self.servers.by_key.values()):
            return
        self.died = False
        waiting = [server for server in self.servers.by_key.values() if server.exited or server.killing]
        if not waiting:
            return
        alive = self.servers.trees()
        for server in waiting:
            if server.exited and server not in alive:
                self.send("gone", server.key)
                self.servers.forget(server)
            elif server.killing:
                self.signal_tree(server, signal.SIGKILL)

    # -- ending --

    def signal_tree(self, server: Server, signo: int) -> int:
        if signo == signal.SIGKILL:
            server.killing = True
        members = self.servers.trees().get(server, [])
        if not server.exited:
            self.signal_group(server.pid, signo)
        reached = 0
        for process in members:
            in_group = not server.exited and process.group == server.pid
            if (in_group or send_signal(process, signo)) and process.state != b"Z":
                reached += 1
        return reached

    def signal_group(self, pid: int, signo: int) -> None:
        """The group of a direct child not waited for: at once, also what it forks meanwhile. The number is pinned."""
        try:
            os.killpg(pid, signo)
        except ProcessLookupError:  # it has not called setsid yet
            os.kill(pid, signo)
        except PermissionError:
            pass

    def signal_all(self, signo: int) -> None:
        for pid in self.servers.by_pid:
            self.signal_group(pid, signo)
        children = look()
        for top in children.get(self.pid, ()):
            for process in tree(children, top):
                if signo == signal.SIGKILL or process.group not in self.servers.by_pid:
                    send_signal(process, signo)

    def end_all(self) -> None:
        """The daemon is gone: end every descendant, then return."""
        now = time.monotonic()
        patience, give_up = now + LAST_GRACE, now + GIVE_UP
        if self.reap():
            self.signal_all(signal.SIGTERM)
        while self.reap() and (now := time.monotonic()) < patience:
            self.flush()
            self.pause(patience - now)
        pause = 0.01
        while self.reap() and time.monotonic() < give_up:
            self.signal_all(signal.SIGKILL)
            self.flush()
            self.pause(pause)
            pause = min(pause * 1.5, 0.5)
        self.flush()

    def pause(self, seconds: float) -> None:
        """Until a child ends, at most that long."""
        select.select([self.wake], [], [], seconds)
        self.drain_wake()


def main(fd: int) -> None:
    sock = socket.socket(fileno=fd)
    sock.set_inheritable(False)
    sock.setblocking(False)
    for signo in IGNORED:
        signal.signal(signo, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    prctl(PR_SET_NAME, b"mcphub-launcher")
    become_subreaper()
    launcher = _Launcher(sock)
    prctl(PR_SET_PDEATHSIG, signal.SIGCHLD)  # a wake-up, to see whether the daemon is there
    try:
        launcher.run()
    finally:
        launcher.end_all()
