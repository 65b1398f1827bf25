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
from io import FileIO

from mcphub.transport.pipe_reader import PipeReader
from mcphub.transport.wire import Wire, WriteSide

#: Bytes asked for an agent's pipe, so that a large reply needs fewer switches; the system may refuse.
PIPE_SIZE = 1 << 20
#: Most first bytes read at once.
FIRST = 1 << 16


def receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    """The first bytes of a connection and the descriptors that came with them, at most three, close-on-exec: stdin,
    stdout, and the journal of a session that goes on. Raises OSError.

    `socket.recv_fds` would leave the descriptors inheritable on 3.11, so that every server got them.
    """
    flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
    data, ancillary, said, _ = sock.recvmsg(FIRST, socket.CMSG_LEN(3 * array.array("i").itemsize), flags)
    fds = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    for fd in fds:
        os.set_inheritable(fd, False)
    if said & socket.MSG_CTRUNC:
        for fd in fds:
            os.close(fd)
        raise OSError("more than three descriptors came, or the system has no room for them")
    return data, list(fds)


class HandedOver:
    """Two descriptors of an agent, and maybe a third, the `journal` of its session in another daemon. `close` gives the
    shared file descriptions back as they were."""

    def __init__(self, fds: list[int]) -> None:
        self.journal = fds[2] if len(fds) > 2 else None
        self._fds = fds[:2]
        self._blocking: list[tuple[int, bool]] = []

    def usable(self) -> str:
        """Why these descriptors cannot be taken, "" = they can."""
        if len(self._fds) != 2:
            return f"{len(self._fds)} descriptors came, not two"
        for fd, access in zip(self._fds, (os.O_RDONLY, os.O_WRONLY), strict=True):
            mode = os.fstat(fd).st_mode
            if stat.S_ISSOCK(mode):
                if _type_of(fd) != socket.SOCK_STREAM:
                    return "stdin and stdout must be streams"
            elif not stat.S_ISFIFO(mode):
                return "stdin and stdout must be pipes or sockets"
            # A pipe that is written to counts as broken once it can be read from, as one open both ways can.
            elif fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != access:
                return "a pipe must be open one way: stdin to read, stdout to write"
        return ""

    async def attach(self, wire: Wire) -> None:
        """Make them the wire's transports. Raises OSError."""
        loop = asyncio.get_running_loop()
        rfd, wfd = self._fds
        # O_NONBLOCK is set on what others may share: keep a copy of the description to undo it at the end.
        for fd in self._fds:
            self._blocking.append((os.dup(fd), os.get_blocking(fd)))
        one = os.path.samestat(os.fstat(rfd), os.fstat(wfd))
        self._fds = []
        reading = _opened(rfd, "rb")
        if one and isinstance(reading, socket.socket):
            os.close(wfd)
            await loop.create_connection(lambda: wire, sock=reading)
            return
        writing = _opened(wfd, "wb")
        try:
            if isinstance(writing, socket.socket):
                await loop.create_connection(lambda: WriteSide(wire), sock=writing)
            else:
                if sys.platform == "linux":
                    try:
                        fcntl.fcntl(wfd, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
                    except OSError:
                        pass  # the user's share of pipe memory is used up: the usual size works too
                await loop.connect_write_pipe(lambda: WriteSide(wire), writing)
        except BaseException:
            reading.close()  # the other one has a transport by now, whatever became of it
            raise
        if isinstance(reading, socket.socket):
            await loop.create_connection(lambda: wire, sock=reading)
        else:
            PipeReader(loop, reading, wire)

    def close(self) -> None:
        for fd, blocking in self._blocking:
            os.set_blocking(fd, blocking)
            os.close(fd)
        for fd in self._fds:
            os.close(fd)
        if self.journal is not None:
            os.close(self.journal)
        self._fds, self._blocking, self.journal = [], [], None


def _type_of(fd: int) -> int:
    sock = socket.socket(fileno=fd)
    try:
        return sock.type
    finally:
        sock.detach()


def _opened(fd: int, mode: str) -> socket.socket | FileIO:
    """The descriptor as what closes it."""
    return socket.socket(fileno=fd) if stat.S_ISSOCK(os.fstat(fd).st_mode) else FileIO(fd, mode)
