"""Owns `mcphub connect`: the program a host is configured with, between its stdio and the daemon's socket.

It must not import more than os, sys, socket and what it needs once in a while: it runs once for each agent, and starts
in milliseconds. Where stdin and stdout are pipes or sockets it hands them to the daemon and only waits; else it copies.
"""

from __future__ import annotations

import os
import socket
import stat
import sys

from mcphub.config.runtime_dir import agent_socket, private_directory, runtime_dir
from mcphub.sessions.client_env import offered

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
        sock = reach(agent_socket(), start)
        if sock is None:
            return 1
        env = b",".join([_quote(name) + b":" + _quote(value) for name, value in offered(os.environ).items()])
        line = b'{"jsonrpc":"2.0","method":"dev.mcphub/attach","params":{"client":%b,"workspace":%b%b}}\n' % (
            _quote(client),
            _quote(workspace),
            b',"env":{%b}' % env if env else b"",
        )
        if _takes(0) and _takes(1):
            socket.send_fds(sock, [line], [0, 1])
            reply = sock.recv(4096)
            if reply.startswith(b"taken"):
                return _wait(sock, reply[6:])
            sock.close()
            sock = reach(agent_socket(), False)
            if sock is None:
                return 1
        sock.sendall(line)
        return _copy(sock)
    except KeyboardInterrupt:
        return 0
    except Exception as e:
        return _fail(str(e))


def _fail(message: str, status: int = 1) -> int:
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


def _wait(sock: socket.socket, said: bytes) -> int:
    """The daemon has our descriptors: stay until it is done with them. Our end is the session's end."""
    try:
        while data := sock.recv(64):
            said += data
    except ConnectionResetError:
        pass  # it was killed with something of ours unread
    return 0 if said.startswith(b"end") else _fail(ENDED)


def _copy(sock: socket.socket) -> int:
    """Copy both ways until one side ends. A daemon that does not take requests, since nobody takes its answers, is
    still read."""
    import select

    fd = sock.fileno()
    sock.setblocking(False)
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(fd, select.POLLIN)
    waiting = memoryview(b"")
    ended = False
    while True:
        for ready, events in poll.poll():
            if ready == 0:
                try:
                    waiting = memoryview(os.read(0, COPY))
                except BlockingIOError:
                    continue
                poll.unregister(0)
                ended = not waiting
                if waiting:
                    poll.modify(fd, select.POLLIN | select.POLLOUT)
                else:
                    _shut(sock)
                continue
            if events & select.POLLOUT and waiting:
                try:
                    waiting = waiting[sock.send(waiting) :]
                except BlockingIOError:
                    pass
                except OSError:
                    waiting = memoryview(b"")  # it is gone; what it said last is read below
                if not waiting:
                    poll.modify(fd, select.POLLIN)
                    poll.register(0, select.POLLIN)
            if events & ~select.POLLOUT:
                try:
                    data = sock.recv(COPY)
                except BlockingIOError:
                    continue
                except OSError:
                    data = b""
                if not data:
                    return 0 if ended else _fail(ENDED)
                try:
                    _write(data)
                except BrokenPipeError:
                    return 0


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the daemon went first


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


def reach(path: str, start: bool) -> socket.socket | None:
    """A connection to the daemon, which is started where there is none; None after the reason was said."""
    sock = _connect(path)
    if sock is not None:
        return sock
    if not start:
        _fail(f"cannot reach the mcphub daemon at {path}: none runs. Start it with `mcphub serve`")
        return None
    import fcntl

    private_directory(runtime_dir())
    lock = os.open(runtime_dir() + "/start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # twenty agents at once start one daemon
        sock = _connect(path)
        if sock is not None:
            return sock
        trouble = _start()
        if trouble:
            _fail(f"cannot start the mcphub daemon: {trouble}")
            return None
        # Starting it took modules that this process would keep for as long as its agent lives: begin again without.
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:], "--no-start"])
    finally:
        os.close(lock)


def _log_path() -> str:
    from mcphub.config.places import places

    return os.path.join(places().state_dir, "daemon.log")


def _start() -> str:
    """Start a daemon that belongs to no host: own session, base environment, cwd /. Returns what went wrong, "" = it
    listens."""
    import select

    from mcphub.config.environment import base_environment

    log_path = _log_path()
    os.makedirs(os.path.dirname(log_path), mode=0o700, exist_ok=True)
    try:
        fresh = os.stat(log_path).st_size > MAX_LOG
    except FileNotFoundError:
        fresh = True
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (os.O_TRUNC if fresh else 0), 0o600)
    readable, ready = os.pipe()
    argv = [sys.executable, "-P", "-m", "mcphub", "serve", "--ready-fd", str(ready)]
    env = base_environment(os.environ)
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
