"""Owns `mcphub connect`: the program a host is configured with, between its stdio and the daemon's socket.

It must not import more than os, sys, socket and what it needs once in a while: it runs once for each agent, and starts
in milliseconds. Where stdin and stdout are pipes or sockets it hands them to the daemon and only waits; else it copies
between them and a socket that it hands over. It outlives the daemon, and hands the same to the next.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
import time

from mcphub.config.runtime_dir import agent_socket, private_directory, runtime_dir, unused
from mcphub.sessions.client_env import offered

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal  # `signal` around it makes enums

USAGE = """usage: mcphub connect [--client NAME] [--workspace DIR] [--no-start]
       mcphub connect --print-url [--workspace DIR] [--server NAME] [--no-start]

Attach the program that started this one to mcphub: MCP on stdin and stdout, both protocol eras.
Starts the daemon if none runs.

  --client NAME     a label for `mcphub status`
  --workspace DIR   the project whose servers the agent sees too (default: the current directory)
  --no-start        fail if no daemon runs
  --print-url       for hosts that take a URL: print where agents are served over HTTP, and end; the URL holds a secret.
                    Without --workspace, the servers of no project
  --server NAME     with --print-url: only this server, under its own tool names
"""
#: How long a daemon that was started may take until it listens, seconds.
START_TIMEOUT = 30
#: Bytes copied at once where the descriptors cannot be handed over.
COPY = 1 << 18
ENDED = "the mcphub daemon has ended; calls in flight may have had effects. Start this server again to go on"
NOT_UP = "the mcphub daemon, which is installed as a service, does not come up: `mcphub service status` says more"
#: So often in so many seconds another daemon is sought: one that ends at once does not come to an end here.
MOST_AGAIN, AGAIN_WITHIN = 10, 30.0
#: So often in a row one may end without having taken us, each time a little later.
MOST_REFUSED, PAUSE = 5, 0.05
#: How long one that we may not start may take to come back, seconds.
PATIENCE = 10.0
#: How long the service may take until it listens once the service manager has started it, seconds.
MANAGER_TIMEOUT = 10.0
#: What a daemon says that could not start since another one, started by somebody else, was there first.
ANOTHER = "another mcphub daemon"
#: So long that one is waited for, seconds; in between it is tried once more, since it may have ended meanwhile.
ANOTHER_WAITS = 1.0, 5.0
#: The daemon's log is begun anew above this size.
MAX_LOG = 4 << 20


def main(argv: list[str]) -> int:
    """Run the bridge. Returns the exit status: 0 the agent or the daemon ended in order, 1 not, 2 usage."""
    client, workspace, start = "", "", True
    args = list(argv)
    while args:
        arg = args.pop(0)
        name, equals, value = arg.partition("=")
        if name in ("-h", "--help"):
            sys.stdout.write(USAGE)
            return 0
        if name == "--no-start" and not equals:
            start = False
        elif name in ("--client", "--workspace"):
            if not equals:
                if not args:
                    return _fail(f"{name} needs a value\n\n{USAGE}", 2)
                value = args.pop(0)
            if name == "--client":
                client = value
            else:
                workspace = value
        else:
            return _fail(f"unknown argument {arg!r}\n\n{USAGE}", 2)
    try:
        workspace = os.path.abspath(workspace or os.getcwd())
        workspace.encode()
    except (OSError, UnicodeEncodeError):
        sys.stderr.write("mcphub connect: the current directory has no usable name; attaching without a workspace\n")
        workspace = ""
    try:
        if note := unused():
            _fail(note)
        sock = reach(agent_socket(), start)
        if sock is None:
            return 1
        env = b",".join([_quote(name) + b":" + _quote(value) for name, value in offered(os.environ).items()])
        line = b'{"jsonrpc":"2.0","method":"dev.mcphub/attach","params":{"client":%b,"workspace":%b%b}}\n' % (
            _quote(client),
            _quote(workspace),
            b',"env":{%b}' % env if env else b"",
        )
        return _stay(sock, line, start)
    except (KeyboardInterrupt, BrokenPipeError):
        return 0  # who started us has had enough
    except Exception as e:
        return _fail(str(e))


def _fail(message: str, status: int = 1) -> int:
    if sys.stderr is not None:  # closed by whoever started us
        sys.stderr.write(f"mcphub connect: {message}\n")
    return status


def _quote(text: str) -> bytes:
    """A JSON string, without the json module."""
    out = []
    for c in text:
        n = ord(c)
        if n < 32 or c in '"\\' or n == 127:
            out.append(f"\\u{n:04x}")
        else:
            out.append(c)
    return ('"' + "".join(out) + '"').encode("utf-8", "replace")


def _takes(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _stay(sock: socket.socket, line: bytes, start: bool) -> int:
    """Attach, and attach again wherever the daemon ends and another one can go on. Returns the exit status.

    What a next daemon needs to know is in memory that the daemon gives us (`journal`): we hold it, and never look.
    """
    blocking = os.get_blocking(0), os.get_blocking(1)
    pump = None if _takes(0) and _takes(1) else _Pump()
    interrupted = _interrupted()
    journal = -1
    attached: list[float] = []
    refused = 0
    managed = False
    try:
        while True:
            socket.send_fds(sock, [line], (pump.theirs if pump else [0, 1]) + ([journal] if journal >= 0 else []))
            said, given = _reply(sock, interrupted)
            if said.startswith(b"copy") and pump is None:
                sock.close()
                pump = _Pump()
            else:
                if given >= 0:
                    if journal >= 0:
                        os.close(journal)
                    journal = given
                said = pump.run(sock, said, interrupted) if pump else _until_end(sock, said, interrupted)
                sock.close()
                if said.startswith(b"taken\nend"):
                    return 0
                now = time.monotonic()
                if said.startswith(b"taken"):
                    refused = 0
                    attached = [at for at in attached if at > now - AGAIN_WITHIN] + [now]
                else:
                    refused += 1
                    time.sleep(PAUSE)  # it was about to end when we came, or cannot go on with what we have
                if journal < 0 or len(attached) > MOST_AGAIN or refused > MOST_REFUSED:
                    return _fail(ENDED if attached else _never_up())
                if pump is None and _host_is_gone():
                    return 0
            managed = said.startswith(b"taken\nmanaged") or (managed and not said.startswith(b"taken"))
            again = _next(start, managed)
            if again is None:
                return 1
            sock = again
    finally:
        if journal >= 0:
            os.close(journal)
        for fd in (0, 1):  # a daemon that was killed leaves them as it used them
            os.set_blocking(fd, blocking[fd])


def _never_up() -> str:
    """What to say where no daemon has ever taken this agent."""
    from mcphub.service.places import installed

    return NOT_UP if installed() else ENDED


def _next(start: bool, managed: bool) -> socket.socket | None:
    """A connection to the next daemon. One that a service manager ended is that manager's to start again; where the
    service is taken away meanwhile, it is ours."""
    if not managed:
        return reach(agent_socket(), start, PATIENCE)
    from mcphub.service.places import installed

    unit, until = installed(), time.monotonic() + PATIENCE
    while True:
        sock = _connect(agent_socket())
        if sock is not None:
            return sock
        if unit and not installed():
            return reach(agent_socket(), start, PATIENCE)
        if time.monotonic() > until:
            _fail("the mcphub daemon was stopped as a service; to start it again: mcphub service install")
            return None
        time.sleep(0.05)


def _interrupted() -> int:
    """A descriptor that is readable once Ctrl-C was pressed: Python misses one that comes right before it waits. -1
    where that is ignored."""
    if _signal.getsignal(_signal.SIGINT) is not _signal.default_int_handler:
        return -1
    came, wake = os.pipe()
    os.set_blocking(wake, False)
    _signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    return came


def _await(sock: socket.socket, interrupted: int) -> None:
    """Until there is something to read. Raises KeyboardInterrupt."""
    import select

    watched = [sock.fileno()] if interrupted < 0 else [sock.fileno(), interrupted]
    poll = select.poll()
    for fd in watched:
        poll.register(fd, select.POLLIN)
    if any(ready == interrupted for ready, _ in poll.poll()):
        raise KeyboardInterrupt


def _reply(sock: socket.socket, interrupted: int) -> tuple[bytes, int]:
    """The first words of the daemon, and the descriptor that came with them, -1 = none."""
    try:
        _await(sock, interrupted)
        said, fds, _, _ = socket.recv_fds(sock, 4096, 1)
    except ConnectionResetError:
        return b"", -1
    for fd in fds:
        os.set_inheritable(fd, False)
    return said, fds[0] if fds else -1


def _until_end(sock: socket.socket, said: bytes, interrupted: int) -> bytes:
    """The daemon has our descriptors: stay until it is done with them, or has ended. Our end is the session's end.
    Returns all that it said."""
    try:
        _await(sock, interrupted)
        while data := sock.recv(64):
            said += data
            _await(sock, interrupted)
    except ConnectionResetError:
        pass  # it was killed with something of ours unread
    return said


def _host_is_gone() -> bool:
    """Whether there is nobody for whom to start a daemon again."""
    import select

    poll = select.poll()
    poll.register(0, select.POLLIN)
    found = poll.poll(0)
    return bool(found) and not found[0][1] & select.POLLIN


class _Pump:
    """Copies between stdin and stdout and a socket, whose other end is handed over in their place. That end is held
    here too, so that nothing on the way is lost with a daemon."""

    def __init__(self) -> None:
        self._ours, end = socket.socketpair()
        self._ours.setblocking(False)
        self._end = end
        self.theirs = [end.fileno(), end.fileno()]
        self._waiting = memoryview(b"")
        self._ended = False

    def run(self, sock: socket.socket, said: bytes, interrupted: int) -> bytes:
        """Copy both ways until the daemon ends; returns all that it said. One that does not take requests, since nobody
        takes its answers, is still read. Raises BrokenPipeError where the host reads no more."""
        import select

        fd, word = self._ours.fileno(), sock.fileno()
        poll = select.poll()
        poll.register(fd, select.POLLIN | (select.POLLOUT if self._waiting else 0))
        poll.register(word, select.POLLIN)
        if interrupted >= 0:
            poll.register(interrupted, select.POLLIN)
        if not self._waiting and not self._ended:
            poll.register(0, select.POLLIN)
        while True:
            for ready, events in poll.poll():
                if ready == 0:
                    try:
                        self._waiting = memoryview(os.read(0, COPY))
                    except BlockingIOError:
                        continue
                    poll.unregister(0)
                    if self._waiting:
                        poll.modify(fd, select.POLLIN | select.POLLOUT)
                    else:
                        self._ended = True
                        self._ours.shutdown(socket.SHUT_WR)
                elif ready == word:
                    try:
                        data = sock.recv(64)
                    except ConnectionResetError:
                        data = b""
                    if not data:
                        self._out()
                        return said
                    said += data
                elif ready == interrupted:
                    raise KeyboardInterrupt
                else:
                    if events & select.POLLOUT and self._waiting:
                        self._waiting = self._waiting[self._ours.send(self._waiting) :]
                        if not self._waiting:
                            poll.modify(fd, select.POLLIN)
                            poll.register(0, select.POLLIN)
                    if events & ~select.POLLOUT:
                        self._out()

    def _out(self) -> None:
        """All that there is by now."""
        try:
            while data := self._ours.recv(COPY):
                _write(data)
        except BlockingIOError:
            pass


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(1, view) :]
        except BlockingIOError:
            import select

            select.select([], [1], [])


# --- reaching the daemon ---------------------------------------------------------------------------------------------


def _connect(path: str) -> socket.socket | None:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(path)
        return sock
    except (FileNotFoundError, ConnectionRefusedError):
        sock.close()
        return None
    except OSError as e:
        sock.close()
        raise OSError(f"cannot reach the mcphub daemon at {path}: {e.strerror}") from None


def reach(path: str, start: bool, patience: float = 0) -> socket.socket | None:
    """A connection to the daemon, which is started where there is none; None after the reason was said. Where none may
    be started: if one comes within `patience` seconds."""
    until = time.monotonic() + patience
    while True:
        sock = _connect(path)
        if sock is not None:
            return sock
        if start:
            break
        if time.monotonic() > until:
            _fail(f"cannot reach the mcphub daemon at {path}: none runs. Start it with `mcphub serve`")
            return None
        time.sleep(0.05)
    lock = start_lock()
    try:
        sock = _connect(path)
        for wait in ANOTHER_WAITS:
            if sock is not None:
                return sock
            trouble = _start_apart(path)
            # Where it was not started since another came first, that one is what we want.
            another = ANOTHER in trouble
            sock = _connect_within(path, wait if another else 0)
            if not another:
                break
        if sock is None:
            _fail(f"cannot start the mcphub daemon: {trouble or f'it ended at once; see {_log_path()}'}")
        return sock
    finally:
        os.close(lock)


def _connect_within(path: str, seconds: float) -> socket.socket | None:
    """As `_connect`, again until there is one."""
    until = time.monotonic() + seconds
    while True:
        sock = _connect(path)
        if sock is not None or time.monotonic() >= until:
            return sock
        time.sleep(0.02)


def start_lock() -> int:
    """A descriptor; until it is closed nobody else starts a daemon: twenty agents at once start one. Raises OSError."""
    import fcntl

    private_directory(runtime_dir())
    lock = os.open(runtime_dir() + "/start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _start_apart(path: str) -> str:
    """As `_start`, in another process: it takes modules that this one would keep for as long as its agent lives."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        trouble = "it was not started"
        try:
            trouble = _start_by_manager(path)
        except BaseException as e:
            trouble = str(e) or type(e).__name__
        finally:
            os.write(writable, trouble.encode("utf-8", "replace")[:4000])
            os._exit(0)
    os.close(writable)
    said = b""
    while data := os.read(readable, 4096):
        said += data
    os.close(readable)
    os.waitpid(child, 0)
    return said.decode("utf-8", "replace")


def _log_path() -> str:
    from mcphub.config.places import places

    return os.path.join(places().state_dir, "daemon.log")


def _open_log(path: str) -> int:
    """The descriptor that the daemon logs to. It serves without a log where none can be written, which is said."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        try:
            fresh = os.stat(path).st_size > MAX_LOG
        except FileNotFoundError:
            fresh = True
        how = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (os.O_TRUNC if fresh else 0)
        return os.open(path, how, 0o600)
    except OSError as e:
        what = f"the daemon has no log: cannot write {path}: {e.strerror}"
        _fail(f"{what}; set XDG_STATE_HOME to a directory of yours")
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def _start_by_manager(path: str) -> str:
    """Have the service manager start it where it is installed as a service, else start it. As `_start`."""
    from mcphub.service.start import start

    trouble = start()
    if trouble is None:
        return _start()
    until = time.monotonic() + (0 if trouble else MANAGER_TIMEOUT)
    while True:
        sock = _connect(path)
        if sock is not None:
            sock.close()
            return ""
        if time.monotonic() >= until:
            break
        time.sleep(0.02)
    _fail(f"the service of mcphub does not listen at {path}{': ' + trouble if trouble else ''}; starting without it")
    return _start()


def _start() -> str:
    """Start a daemon that belongs to no host: own session, base environment, cwd /. Returns what went wrong, "" = it
    listens."""
    import select

    from mcphub.config.environment import daemon_environment

    log_path = _log_path()
    log = _open_log(log_path)
    readable, ready = os.pipe()
    argv = [sys.executable, "-P", "-m", "mcphub", "serve", "--ready-fd", str(ready)]
    env = daemon_environment(os.environ)
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                os.chdir("/")
                null = os.open(os.devnull, os.O_RDWR)
                os.dup2(null, 0)
                os.dup2(log, 1)
                os.dup2(log, 2)
                os.set_inheritable(ready, True)
                os.execve(sys.executable, argv, env)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(ready)
    os.close(log)
    said = b""
    poll = select.poll()
    poll.register(readable, select.POLLIN)
    try:
        while poll.poll(START_TIMEOUT * 1000):
            data = os.read(readable, 4096)
            said += data
            if said.startswith(b"1"):
                return ""
            if not data:
                text = said.decode("utf-8", "replace").strip()
                return text or f"it ended before it listened; see {log_path}"
        return f"it did not listen within {START_TIMEOUT} s; see {log_path}"
    finally:
        os.close(readable)
