"""Owns network namespaces of Linux for one test: links between them that go and come, sockets that listen there.

It must not know what is tested. A network of a test is invisible to everything else on the machine, and gone with it.
As root it needs nothing but the programs `unshare`, `nsenter` and `ip`; anybody else needs user namespaces as well.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio
import pytest

T = TypeVar("T")

_ROOT = os.geteuid() == 0
_UNSHARE = ["unshare", "--net"] if _ROOT else ["unshare", "--user", "--map-root-user", "--net"]
_ENTER = ["--net"] if _ROOT else ["--user", "--net", "--preserve-credentials"]
#: What runs in each: it makes sockets for whoever asks at this descriptor, until nobody can any more.
_WITHIN = """
import socket, sys
link = socket.socket(fileno=int(sys.argv[1]))
while asked := link.recv(100):
    with socket.socket(*map(int, asked.split())) as made:
        socket.send_fds(link, [b"1"], [made.fileno()])
"""


class Namespace:
    """One, as long as the process in it runs."""

    def __init__(self, pid: int, link: socket.socket) -> None:
        self.pid = pid
        self._link = link

    @property
    def under(self) -> list[str]:
        """A command that runs another one in it, in its own process."""
        return ["nsenter", "--target", str(self.pid), *_ENTER, "--"]

    async def ip(self, command: str) -> None:
        """ip(8) in it; each line is a command."""
        for line in command.strip().splitlines():
            await anyio.run_process([*self.under, "ip", *line.split()])

    def listening(self, host: str) -> socket.socket:
        """A socket that listens in it at this address, usable from here."""
        return self.inside(lambda: socket.create_server((host, 0)))

    def inside(self, do: Callable[[], T]) -> T:
        """Do something whose sockets are made in it, where they stay."""
        made = socket.socket

        def elsewhere(family: int = -1, kind: int = -1, proto: int = -1, fileno: int | None = None) -> socket.socket:
            if fileno is not None:
                return made(family, kind, proto, fileno)
            self._link.send(b"%d %d %d" % (family, kind, proto))
            _, descriptors, _, _ = socket.recv_fds(self._link, 1, 1)
            return made(fileno=descriptors[0])

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(socket, "socket", elsewhere)
            return do()


@asynccontextmanager
async def namespace(beside: Namespace | None = None) -> AsyncIterator[Namespace]:
    """A new one, with a loopback that is up and nothing else; one `beside` another can have links to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        number = theirs.fileno()
        begin = _UNSHARE if beside is None else [*beside.under, "unshare", "--net"]
        command = [*begin, sys.executable, "-I", "-S", "-c", _WITHIN, str(number)]
        async with await anyio.open_process(command, stderr=None, pass_fds=[number]) as process:
            try:
                theirs.close()
                here = Namespace(process.pid, ours)
                here.inside(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close())  # it is there
                await here.ip("link set lo up")
                yield here
            finally:
                process.kill()
