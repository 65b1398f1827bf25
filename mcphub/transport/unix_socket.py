"""Owns the socket file of a listening Unix socket: its directory, its mode, who held it before, its removal.

It must not know what is spoken over it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from mcphub.errors import ConfigError
from mcphub.transport.peer import peer_of

#: Bytes of a socket's path without the final NUL: unix(7), and sys/un.h of macOS.
MAX_PATH = 103 if sys.platform == "darwin" else 107


@contextmanager
def listening(path: str, given: socket.socket | None = None) -> Iterator[socket.socket]:
    """A non-blocking socket that listens at `path`, mode 0600 in a directory of mode 0700; the file goes at the end.

    A socket file that nobody answers on is replaced. One that is `given` listens there already, and its file stays: it
    is the service manager's. Raises ConfigError where another daemon answers, where the directory is not this user's
    own, and where the path does not fit.
    """
    if given is not None:
        with given:
            try:
                _private_directory(os.path.dirname(path))
                os.chmod(path, 0o600)
            except FileNotFoundError:
                pass  # somebody removed it: whoever holds a connection is answered all the same
            except OSError as error:
                raise ConfigError(f"cannot listen at {path}: {error.strerror or error}") from error
            yield given
        return
    size = len(os.fsencode(path))
    if size > MAX_PATH:
        raise ConfigError(
            f"cannot listen at {path}: the path has {size} bytes and the system allows {MAX_PATH}. "
            "Set XDG_RUNTIME_DIR to a shorter directory"
        )
    try:
        with _locked(_private_directory(os.path.dirname(path)), path):
            _clear(path)
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.setblocking(False)
                sock.bind(path)
                os.chmod(path, 0o600)
                sock.listen(64)
                mine = os.stat(path)
            except BaseException:
                sock.close()
                raise
    except OSError as error:
        raise ConfigError(f"cannot listen at {path}: {error.strerror or error}") from error
    try:
        yield sock
    finally:
        sock.close()
        try:
            if os.path.samestat(os.stat(path), mine):
                os.unlink(path)
        except OSError:
            pass


def _private_directory(directory: str) -> str:
    """Make the directory, or check that it is a real one of this user, and close it to everybody else."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode):
        raise ConfigError(f"cannot listen in {directory}: it is not a directory itself but a link or a file")
    if found.st_uid != os.geteuid():
        raise ConfigError(f"cannot listen in {directory}: it belongs to uid {found.st_uid}, not to uid {os.geteuid()}")
    if stat.S_IMODE(found.st_mode) != 0o700:
        os.chmod(directory, 0o700)
    return directory


@contextmanager
def _locked(directory: str, path: str) -> Iterator[None]:
    """Keep two daemons from clearing the same path at once."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"cannot listen at {path}: another mcphub daemon is starting right now") from None
        yield
    finally:
        os.close(handle)


def _is_service_manager(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip() == "systemd"
    except OSError:
        return False


def _clear(path: str) -> None:
    """Remove the socket that a daemon left behind when it was killed. Raises ConfigError where one still answers."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise ConfigError(f"cannot listen at {path}: there is something that is not a socket. Move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        answer = probe.connect_ex(path)  # EAGAIN: one that lives, with a full queue
        peer = peer_of(probe) if answer == 0 else None
    if answer in (0, errno.EAGAIN):
        if peer is not None and peer.pid is not None and _is_service_manager(peer.pid):
            raise ConfigError(
                f"cannot listen at {path}: the service manager holds it, and starts the daemon when somebody connects. "
                "See `mcphub service status`; to run one by hand: systemctl --user stop mcphub.socket mcphub.service"
            )
        who = f" (pid {peer.pid})" if peer is not None and peer.pid is not None else ""
        raise ConfigError(
            f"cannot listen at {path}: another mcphub daemon{who} answers there. Stop it with `mcphub stop`"
        )
    os.unlink(path)
