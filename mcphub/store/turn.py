"""Owns whose turn it is among processes: one lock file a key, held while something must not be done twice.

It must not know what is done. The system lets go of the lock when its process ends, however that happens.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

#: Seconds between looks at a lock that another process holds, and until it is taken for stuck.
LOOK = 0.05
PATIENCE = 60.0


_FULL = frozenset([errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT])


class Busy(OSError):
    """Another process has held the lock for as long as anybody waits."""


@asynccontextmanager
async def turn(directory: str, key: str, patience: float = PATIENCE) -> AsyncIterator[None]:
    """Hold the lock of this key (letters and digits) in a directory of our own. Raises OSError, `Busy` among them."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(os.path.join(directory, f"{key}.lock"), flags, 0o600)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        # Where no file can be made the directory itself serves: nobody else can make one either.
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        end = anyio.current_time() + patience
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
            if anyio.current_time() >= end:
                raise Busy(errno.EBUSY, "another process holds it", f"{key}.lock")
            await anyio.sleep(LOOK)
        yield
    finally:
        os.close(descriptor)
