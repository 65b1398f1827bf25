"""Owns being told that the networks may have changed, or that the machine slept, by the system itself.

It must not say what is different: whoever is told looks. While nothing happens nothing runs, but where the system does
not tell (`complete`): there somebody looks every POLL seconds.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import anyio

from mcphub.outage import rtnetlink
from mcphub.outage.clocks import Clocks, slept
from mcphub.outage.kernel import clocks

#: Seconds of quiet after which what happened is told as one, and the longest that it is held back: a network that is
#: joined or left is several changes.
QUIET = 0.2
AT_MOST = 1.0
#: Seconds between two looks where the system does not tell.
POLL = 15.0

_READ = 64 * 1024
# <sys/timerfd.h>
_CLOCK_REALTIME = 0
_ABSTIME, _CANCEL_ON_SET = 0x1, 0x2
#: A moment that never comes: seconds and nanoseconds of the interval, then of the moment.
_NEVER = struct.pack("@4l", 0, 0, (1 << (8 * struct.calcsize("@l") - 1)) - 1, 0)


class News:
    """What happens from its beginning to its end; a context manager."""

    def __init__(self, read: Callable[[], Clocks] = clocks, every: float | None = None) -> None:
        """`read` reads the clocks. `every`: look every so many seconds, and ask the system for nothing."""
        self._told = every is None
        self._every = POLL if every is None else every
        self._read = read
        self._before = read()
        self._open = ExitStack()
        self._network: socket.socket | None = None
        self._clock = -1
        #: Readable when one of the two is.
        self._any = -1

    @property
    def complete(self) -> bool:
        """Everything is told."""
        return self._network is not None and self._clock >= 0

    def __enter__(self) -> Self:
        if not self._told:
            return self
        with ExitStack() as opened:
            try:
                self._network = _network()
                opened.enter_context(self._network)
            except OSError:
                self._network = None  # there is none, or a sandbox does not allow it: then it is looked
            if sys.platform == "linux":
                self._clock = _clock()
                if self._clock >= 0:
                    opened.callback(os.close, self._clock)
                both = opened.enter_context(select.epoll())
                for fd in (self._clock, self._network.fileno() if self._network is not None else -1):
                    if fd >= 0:
                        both.register(fd, select.EPOLLIN)
                self._any = both.fileno()
            elif self._network is not None:
                self._any = self._network.fileno()
            self._open = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    async def wait(self) -> float:
        """Until something may be different, and nothing more happens for a moment. Returns for how many seconds the
        machine slept meanwhile, 0 = not at all."""
        while await self._happens(None if self.complete else self._every):
            asleep, news = self._slept(), self._heard()
            if asleep:
                return asleep
            if news:
                with anyio.move_on_after(AT_MOST):
                    while await self._happens(QUIET):
                        self._heard()
                break
        return self._slept()

    async def _happens(self, at_most: float | None) -> bool:
        with anyio.move_on_after(at_most):
            if self._any < 0:
                await anyio.sleep_forever()
            await anyio.wait_readable(self._any)
            return True
        return False

    def _slept(self) -> float:
        before, self._before = self._before, self._read()
        self._rewind()
        return slept(before, self._before)

    def _rewind(self) -> None:
        """Have the clock tell again."""
        if self._clock >= 0:
            try:
                os.read(self._clock, 8)
            except BlockingIOError:
                return
            except OSError as e:
                if e.errno != errno.ECANCELED:
                    raise
            _arm(self._clock)

    def _heard(self) -> bool:
        """Take in what the networks told; whether any of it matters."""
        news = False
        while self._network is not None:
            try:
                data = self._network.recv(_READ)
            except BlockingIOError:
                break
            except OSError as e:
                if e.errno != errno.ENOBUFS:
                    raise
                news = True  # more happened than the system keeps
                continue
            news |= sys.platform != "linux" or any(map(rtnetlink.is_news, rtnetlink.messages(data)))
        return news


def _network() -> socket.socket:
    """Readable when links, addresses or routes change. Raises OSError."""
    if sys.platform == "linux":
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        try:
            sock.bind((0, rtnetlink.GROUPS))
        except OSError:
            sock.close()
            raise
    else:
        sock = socket.socket(socket.AF_ROUTE, socket.SOCK_RAW, 0)  # route(4)
    sock.setblocking(False)
    return sock


def _clock() -> int:
    """A timer that never ends, readable when the time of day is set, or is another after sleep; -1 = there is none."""
    fd: int = _libc().timerfd_create(_CLOCK_REALTIME, os.O_NONBLOCK | os.O_CLOEXEC)
    if fd >= 0 and not _arm(fd):
        os.close(fd)
        return -1
    return fd


def _arm(fd: int) -> bool:
    return bool(_libc().timerfd_settime(fd, _ABSTIME | _CANCEL_ON_SET, _NEVER, None) == 0)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
