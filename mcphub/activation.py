"""Owns the listening sockets that a service manager opens for the daemon and passes to it (sd_listen_fds(3)).

It must not know what is spoken over them. They are told apart by their paths alone, since names are for whoever writes
a socket unit; one that leads nowhere in this daemon is refused, for whoever connects to it would never be answered.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Iterable, Mapping, MutableMapping

from mcphub.errors import ConfigError

#: The first descriptor that is passed.
FIRST = 3
#: More than anybody has sockets; a number beyond it is a mistake.
MOST = 100
VARIABLES = ("LISTEN_FDS", "LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDNAMES")


def descriptors(environ: Mapping[str, str], pid: int) -> range:
    """The descriptors that were passed to the process with this pid, none where they are another's.

    Raises ConfigError where LISTEN_FDS is no number.
    """
    count, whose = environ.get("LISTEN_FDS", ""), environ.get("LISTEN_PID", "")
    if not count or whose != str(pid):
        return range(0)
    if not (count.isascii() and count.isdigit()) or int(count) > MOST:
        raise ConfigError(f"cannot take over sockets: LISTEN_FDS is {count[:40]!r}, and must be a number up to {MOST}")
    return range(FIRST, FIRST + int(count))


def taken(environ: MutableMapping[str, str], paths: Collection[str]) -> dict[str, socket.socket]:
    """The sockets that were passed, non-blocking and closed on exec, by which of `paths` each one listens at.

    Their variables are not in `environ` any more. The socket file is the service manager's: nobody here removes it.
    Raises ConfigError where one listens elsewhere, or is no listening Unix stream socket; then all are closed.
    """
    given = {name: environ.pop(name) for name in VARIABLES if name in environ}
    opened: list[socket.socket] = []
    found: dict[str, socket.socket] = {}
    try:
        for fd in descriptors(given, os.getpid()):
            sock = _opened(fd)
            opened.append(sock)
            path = _path(sock, fd, paths)
            if path in found:
                raise ConfigError(f"cannot take over sockets: two of them listen at {path}")
            found[path] = sock
    except BaseException:
        for sock in opened:
            sock.close()
        raise
    return found


def close(sockets: Iterable[socket.socket]) -> None:
    """Those that nobody has taken."""
    for sock in sockets:
        sock.close()


def _opened(fd: int) -> socket.socket:
    try:
        os.set_inheritable(fd, False)
        sock = socket.socket(fileno=fd)
    except OSError as error:
        what = f"cannot take over descriptor {fd}, which LISTEN_FDS counts: {error.strerror or error}"
        raise ConfigError(f"{what}. Start the daemon through its socket unit, or without LISTEN_FDS") from None
    sock.setblocking(False)
    return sock


def _path(sock: socket.socket, fd: int, paths: Collection[str]) -> str:
    expected = " or ".join(sorted(paths))
    if sock.family != socket.AF_UNIX or sock.type != socket.SOCK_STREAM:
        raise ConfigError(
            f"cannot take over descriptor {fd}: it is no Unix stream socket. "
            f"The daemon takes sockets that listen at {expected} (ListenStream= in mcphub.socket)"
        )
    if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        raise ConfigError(f"cannot take over descriptor {fd}: it does not listen; Accept=yes cannot be used")
    name = sock.getsockname()
    at = os.fsdecode(name) if isinstance(name, bytes) else str(name)
    for path in paths:
        if at == path or _same(at, path):
            return path
    raise ConfigError(
        f"cannot take over the socket at {at or 'no path'!r}: this daemon listens at {expected}. Correct ListenStream= "
        "in mcphub.socket, or XDG_RUNTIME_DIR in the daemon's environment"
    )


def _same(one: str, other: str) -> bool:
    """Whether two paths are one file: the way there may lead over links."""
    try:
        return not one.startswith("\0") and os.path.samefile(one, other)
    except (OSError, ValueError):
        return False
