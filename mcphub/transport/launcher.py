"""Owns the launcher process: it starts server programs, reports how they end, and ends whole trees of them (Linux).

It must not know MCP, configuration, asyncio or any module of mcphub: it runs alone as `python -I -S launcher.py FD`.

The daemon's one child is this single-threaded process, and every server is a child of it. It is a *subreaper*
(prctl(2)): a process whose parent died is handed to it, never to init, so nothing that a server starts can leave its
tree. When the daemon is gone, however it went, the socket ends and the launcher ends everything below itself.

**Wire** (Unix stream socket; each message is a 4-byte little-endian length and a marshalled tuple):

    -> ("spawn", key, path, argv, env, cwd)   bytes; the first one carries stdin, stdout, stderr (SCM_RIGHTS)
    -> ("signal", key, request, signo)        to the whole tree of that server; SIGKILL is repeated until it is gone
    <- ("hello", mark)                        the highest mark of this launcher, 0 = marks do not work here
    <- ("spawned", key, pid)                  the program was executed
    <- ("refused", key, stage, errno)         it was not; stage is `fork`, `cwd` or `exec`
    <- ("signalled", request, count)          that many processes were alive and were sent the signal
    <- ("exit", key, status)                  the direct child ended; status as waitpid(2) gives it
    <- ("gone", key)                          no process of that server's tree is left; the key is forgotten

**Whose orphan is it?** A process below a living direct child belongs to that child's server. One that was reparented
to the launcher has lost that proof; it is told by, in this order:

1. its *mark*: each server is started with its own value of the resource limit RLIMIT_LOCKS, which no kernel since
   2.4.25 uses. Fork and exec hand it on; setsid, a double fork and a cleared environment do not change it;
   /proc/PID/limits shows it to everybody;
2. its session or process group, where that is the direct child's;
3. having been seen in the server's tree, with the same start time, at the last look.

Limits, all of them only until the daemon ends, since then everything below the launcher goes: an orphan that set
RLIMIT_LOCKS anew (a hub nested in a server does) and left the session and was never seen, belongs to nobody; where
the daemon itself runs under a small hard RLIMIT_LOCKS there are no marks and 2 and 3 are all there is; what
became another user's process (setuid) cannot be signalled by an unprivileged launcher; a process in uninterruptible
sleep dies when it wakes. A program started by asking a daemon outside (docker, systemd-run) was never in the tree.

**Never a stranger.** Only descendants are signalled. A direct child that was not waited for pins its number and its
group; any other process is opened as a pidfd, and its start time is compared with that of the look, before it is
signalled.
"""

from __future__ import annotations

import ctypes
import errno
import marshal
import os
import resource
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False  # the typing module itself would cost this process memory
if TYPE_CHECKING:
    from typing import Any

RLIMIT_LOCKS = 10
LIMITS_LABEL = b"Max file locks"
#: A message longer than this is refused by the daemon's side; the kernel takes about 2 MiB of arguments.
MAX_MESSAGE = 16 << 20
#: Seconds between SIGTERM and SIGKILL when the daemon is gone.
LAST_GRACE = 0.2
#: Seconds after which processes that survive SIGKILL (another user's, uninterruptible) are left to init.
GIVE_UP = 10.0
#: Milliseconds after which SIGKILL is sent again to a tree that is not gone.
KILL_AGAIN = 50

IGNORED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGUSR1,
    signal.SIGUSR2,
)

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_STAGES = ("fork", "cwd", "exec")


def prctl(option: int, value: int | bytes) -> bool:
    """prctl(2) with one argument; False where it failed."""
    libc = ctypes.CDLL(None, use_errno=True)
    argument = ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_ulong(value)
    return bool(libc.prctl(option, argument, 0, 0, 0) == 0)


def become_subreaper() -> bool:
    """Adopt the orphans among this process's descendants from now on; False where the kernel refuses."""
    return prctl(_PR_SET_CHILD_SUBREAPER, 1)


# --- messages ---


def pack(message: tuple[Any, ...]) -> bytes:
    body = marshal.dumps(message)
    return len(body).to_bytes(4, "little") + body


def unpack(buffer: bytearray) -> list[tuple[Any, ...]]:
    """Take the complete messages out of `buffer`. Raises ValueError for a length that no peer of ours sends."""
    messages = []
    start = 0
    while len(buffer) - start >= 4:
        end = start + 4 + int.from_bytes(buffer[start : start + 4], "little")
        if end - start > MAX_MESSAGE:
            raise ValueError("message too long")
        if len(buffer) < end:
            break
        messages.append(marshal.loads(buffer[start + 4 : end]))
        start = end
    del buffer[:start]
    return messages


# --- /proc ---


class Process:
    """One process at a look at /proc; (`pid`, `start`) is its identity, `start` in clock ticks since boot."""

    __slots__ = ("group", "parent", "pid", "session", "start", "state")

    def __init__(self, pid: int, stat: bytes) -> None:
        fields = stat[stat.rindex(b")") + 2 :].split()  # the name before it may hold blanks and parentheses
        self.pid = pid
        self.state = fields[0]
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.start = int(fields[19])


def look_at(pid: int) -> Process | None:
    """The process of that number now, None = there is none."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            return Process(pid, os.read(fd, 4096))
        finally:
            os.close(fd)
    except (OSError, ValueError, IndexError):
        return None


def look() -> dict[int, list[Process]]:
    """All processes by the number of their parent."""
    children: dict[int, list[Process]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            process = look_at(int(name))
            if process is not None:
                children.setdefault(process.parent, []).append(process)
    return children


def tree(children: dict[int, list[Process]], top: Process) -> list[Process]:
    """`top` and all below it. A child is never older than its parent: such a pair is a number that was used again."""
    found = [top]
    for process in found:
        found.extend(child for child in children.get(process.pid, ()) if child.start >= process.start)
    return found


def read_mark(pid: int) -> int:
    """The mark a process carries (see the module text); 0 = none or not to be known."""
    try:
        with open(f"/proc/{pid}/limits", "rb") as file:
            for line in file:
                if line.startswith(LIMITS_LABEL):
                    word = line[len(LIMITS_LABEL) :].split()[1]  # the hard limit: it cannot be raised again
                    return int(word) if word.isdigit() else 0
    except (OSError, IndexError):
        pass
    return 0


def send_signal(process: Process, signo: int) -> bool:
    """Signal that very process, not another that got its number since. False = gone, or not ours to signal."""
    try:
        fd = os.pidfd_open(process.pid)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            return False
        fd = -1
    try:
        now = look_at(process.pid)
        if now is None or now.start != process.start:
            return False
        if fd >= 0:
            signal.pidfd_send_signal(fd, signo)
        else:
            os.kill(process.pid, signo)
        return True
    except OSError:
        return False
    finally:
        if fd >= 0:
            os.close(fd)


# --- the process ---


class _Server:
    """One direct child and what is known of its tree."""

    __slots__ = ("exited", "key", "killing", "mark", "pid", "pipe")

    def __init__(self, key: int, mark: int) -> None:
        self.key = key
        self.mark = mark
        self.pid = 0
        self.pipe = -1  # tells whether exec worked; -1 = it is known
        self.exited = False
        self.killing = False


class _Launcher:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.pid = os.getpid()
        self.parent = os.getppid()
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.descriptors: list[list[int]] = []  # one list a spawn request, in their order
        self.servers: dict[int, _Server] = {}
        self.by_pid: dict[int, _Server] = {}  # direct children not yet waited for
        self.by_mark: dict[int, _Server] = {}
        self.by_session: dict[int, _Server] = {}
        self.by_pipe: dict[int, _Server] = {}
        self.seen: dict[tuple[int, int], _Server] = {}
        self.known: dict[_Server, list[Process]] | None = None  # what this turn's look at /proc found
        self.died = False  # something was waited for since the last check
        self.open = True
        self.mark = self.highest_mark()
        self.wake, self.waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.poll = select.poll()

    def highest_mark(self) -> int:
        """A random start, below the mark that this process may carry itself, so that nested launchers do not clash."""
        try:
            limit = resource.getrlimit(RLIMIT_LOCKS)[1]
            limit = (1 << 62) if limit == resource.RLIM_INFINITY else min(limit, 1 << 62)
            mark = limit // 2 + int.from_bytes(os.urandom(8), "little") % (limit // 2)
            return mark if mark > 1 << 40 else 0
        except (OSError, ValueError, ZeroDivisionError):
            return 0

    # -- turns --

    def run(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)  # the wake-up descriptor needs a handler
        signal.set_wakeup_fd(self.waker, warn_on_full_buffer=False)
        self.send("hello", self.mark)
        self.poll.register(self.wake, select.POLLIN)
        while self.open:
            self.poll.register(self.sock, select.POLLIN | (select.POLLOUT if self.outbox else 0))
            killing = any(server.killing for server in self.servers.values())
            for fd, events in self.poll.poll(KILL_AGAIN if killing else None):
                if fd == self.wake:
                    self.drain_wake()
                elif fd in self.by_pipe:
                    self.executed(self.by_pipe[fd])
                elif fd == self.sock.fileno() and events & ~select.POLLOUT:
                    self.receive()
            self.known = None if self.reap() else {}  # without a child there is nothing to look for
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
            server = self.servers.get(key)
            self.send("signalled", request, self.signal_tree(server, signo) if server else 0)
        else:
            raise ValueError(kind)

    # -- starting --

    def spawn(
        self, fds: list[int], key: int, path: bytes, argv: list[bytes], env: dict[bytes, bytes], cwd: bytes
    ) -> None:
        if len(fds) != 3:
            self.send("refused", key, "fork", errno.EMFILE)
            return
        server = _Server(key, self.mark - key if self.mark else 0)
        try:
            server.pipe, report = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            self.send("refused", key, "fork", error.errno)
            return
        try:
            server.pid = os.fork()
            if server.pid == 0:
                self.become(report, server.mark, fds, path, argv, env, cwd)
        except OSError as error:
            os.close(server.pipe)
            self.send("refused", key, "fork", error.errno)
            return
        finally:
            os.close(report)
        self.known = None
        self.servers[key] = self.by_pid[server.pid] = self.by_session[server.pid] = self.by_pipe[server.pipe] = server
        if server.mark:
            self.by_mark[server.mark] = server
        self.poll.register(server.pipe, select.POLLIN)

    def become(
        self,
        report: int,
        mark: int,
        fds: list[int],
        path: bytes,
        argv: list[bytes],
        env: dict[bytes, bytes],
        cwd: bytes,
    ) -> None:
        """The forked child: never returns."""
        stage, cause = 0, errno.EINVAL
        try:
            os.setsid()
            # Should the launcher be killed, its direct children go with it; unless that happened before this call.
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != self.pid:
                os._exit(127)
            signal.set_wakeup_fd(-1)
            for signo in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(signo, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            if mark:
                try:
                    resource.setrlimit(RLIMIT_LOCKS, (mark, mark))
                except (OSError, ValueError):
                    pass
            for number, fd in enumerate(fds):  # all are above 2: the launcher's own three are open
                os.dup2(fd, number)
            stage = 1
            os.chdir(cwd)
            stage = 2
            os.execve(path, argv, env)
        except OSError as error:
            cause = error.errno or errno.EINVAL
        except BaseException:
            pass
        finally:
            try:
                os.write(report, bytes([stage]) + cause.to_bytes(2, "little"))
            finally:
                os._exit(127)

    def executed(self, server: _Server) -> None:
        """The pipe of a started child has ended: it was executed, or said why not."""
        try:
            said = os.read(server.pipe, 16)
        except BlockingIOError:
            return
        self.poll.unregister(server.pipe)
        del self.by_pipe[server.pipe]
        os.close(server.pipe)
        server.pipe = -1
        if said:
            self.send("refused", server.key, _STAGES[said[0]], int.from_bytes(said[1:3], "little"))
            self.forget(server)  # the child that reported it is waited for as any orphan is
            self.by_pid.pop(server.pid, None)
        else:
            self.send("spawned", server.key, server.pid)

    def forget(self, server: _Server) -> None:
        self.servers.pop(server.key, None)
        self.by_mark.pop(server.mark, None)
        if self.by_session.get(server.pid) is server:
            del self.by_session[server.pid]

    # -- watching --

    def reap(self) -> bool:
        """Wait for all that ended. False = this process has no children at all."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                self.died = True
                server = self.by_pid.get(pid)
                if server is not None and server.pipe >= 0:
                    self.executed(server)
                server = self.by_pid.pop(pid, None)
                if server is not None:
                    server.exited = True
                    self.send("exit", server.key, status)
        except ChildProcessError:
            return False

    def check(self) -> None:
        """Say which trees are gone. That changes only when a child of this process died: an orphan is one."""
        if not self.died and not any(server.killing for server in self.servers.values()):
            return
        self.died = False
        waiting = [server for server in self.servers.values() if server.exited or server.killing]
        if not waiting:
            return
        alive = self.trees()
        for server in waiting:
            if server.exited and server not in alive:
                self.send("gone", server.key)
                self.forget(server)
            elif server.killing:
                self.signal_tree(server, signal.SIGKILL)

    def trees(self) -> dict[_Server, list[Process]]:
        """Each server's processes now; servers that have none are absent."""
        if self.known is not None:
            return self.known
        children = look()
        found: dict[_Server, list[Process]] = {}
        seen = {}
        for top in children.get(self.pid, ()):
            server = self.owner(top)
            if server is not None:
                members = tree(children, top)
                found.setdefault(server, []).extend(members)
                for process in members:
                    seen[process.pid, process.start] = server
        self.seen = seen
        self.known = found
        return found

    def owner(self, top: Process) -> _Server | None:
        """The server of a child of this process; the module text says why so."""
        server = self.by_pid.get(top.pid) or self.by_mark.get(read_mark(top.pid))
        server = server or self.by_session.get(top.session) or self.by_session.get(top.group)
        return server or self.seen.get((top.pid, top.start))

    # -- ending --

    def signal_tree(self, server: _Server, signo: int) -> int:
        if signo == signal.SIGKILL:
            server.killing = True
        members = self.trees().get(server, [])
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
        for pid in self.by_pid:
            self.signal_group(pid, signo)
        children = look()
        for top in children.get(self.pid, ()):
            for process in tree(children, top):
                if signo == signal.SIGKILL or process.group not in self.by_pid:
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
    # The daemon decides when to end, also where a service stop or a terminal signals every process.
    for signo in IGNORED:
        signal.signal(signo, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    prctl(_PR_SET_NAME, b"mcphub-launcher")
    become_subreaper()
    launcher = _Launcher(sock)
    prctl(_PR_SET_PDEATHSIG, signal.SIGCHLD)  # a wake-up, to see whether the daemon is there
    try:
        launcher.run()
    finally:
        launcher.end_all()


if __name__ == "__main__":
    main(int(sys.argv[1]))
