"""Owns descriptors that `mcphub connect` hands over: the agent's stdin and stdout become a wire of the daemon's own.

It must not know sessions. Descriptors come with the first bytes of a connection (SCM_RIGHTS); pipes and sockets are
taken, anything else is refused so that the bridge copies instead.
"""

from __future__ import annotations

import array
import asyncio
import fcntl
import os
import socket
import stat
import sys

from mcphub.transport.wire import PipeReadSide, Wire, WriteSide

#: Bytes asked for an agent's pipe, so that a large reply needs fewer switches; the system may refuse.
PIPE_SIZE = 1 << 20
#: Most first bytes read at once.
FIRST = 1 << 16


def receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    """The first bytes of a connection and the descriptors that came with them, close-on-exec. Raises OSError.

    `socket.recv_fds` would leave the descriptors inheritable on 3.11, so that every server got them.
    """
    flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
    data, ancillary, _, _ = sock.recvmsg(FIRST, socket.CMSG_LEN(2 * array.array("i").itemsize), flags)
    fds = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    for fd in fds:
        os.set_inheritable(fd, False)
    return data, list(fds)


class HandedOver:
    """Two descriptors of an agent. `close` gives the shared file descriptions back as they were."""

    def __init__(self, fds: list[int]) -> None:
        self._fds = fds
        self._taken = False
        self._blocking: list[tuple[int, bool]] = []

    def usable(self) -> str:
        """Why these descriptors cannot be taken, "" = they can."""
        if len(self._fds) != 2:
            return f"{len(self._fds)} descriptors came, not two"
        for fd in self._fds:
            mode = os.fstat(fd).st_mode
            if not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode):
                return "stdin and stdout must be pipes or sockets"
        return ""

    async def attach(self, wire: Wire) -> None:
        """Make them the wire's transports. Raises OSError, ValueError."""
        loop = asyncio.get_running_loop()
        rfd, wfd = self._fds
        # O_NONBLOCK is set on what others may share: keep a copy of the description to undo it at the end.
        self._blocking = [(os.dup(fd), os.get_blocking(fd)) for fd in self._fds]
        self._taken = True
        read_stat, write_stat = os.fstat(rfd), os.fstat(wfd)
        if stat.S_ISSOCK(read_stat.st_mode) and os.path.samestat(read_stat, write_stat):
            os.close(wfd)
            await loop.create_connection(lambda: wire, sock=socket.socket(fileno=rfd))
            return
        if stat.S_ISSOCK(write_stat.st_mode):
            await loop.create_connection(lambda: WriteSide(wire), sock=socket.socket(fileno=wfd))
        else:
            if sys.platform == "linux":
                try:
                    fcntl.fcntl(wfd, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
                except OSError:
                    pass  # the user's share of pipe memory is used up: the usual size works too
            await loop.connect_write_pipe(lambda: WriteSide(wire), os.fdopen(wfd, "wb", 0))
        if stat.S_ISSOCK(read_stat.st_mode):
            await loop.create_connection(lambda: wire, sock=socket.socket(fileno=rfd))
        else:
            await loop.connect_read_pipe(lambda: PipeReadSide(wire), os.fdopen(rfd, "rb", 0))

    def close(self) -> None:
        for fd, blocking in self._blocking:
            os.set_blocking(fd, blocking)
            os.close(fd)
        if not self._taken:
            for fd in self._fds:
                os.close(fd)
        self._fds, self._blocking = [], []
