"""Owns asking Linux to tell what happens in directories: inotify(7), by the C library.

It must not know what the directories are for. Nothing runs while nothing happens, and what is only read is not told.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable
from types import TracebackType
from typing import Self

# <sys/inotify.h>. What is written is told when the writer closes it: until then it may be half of a file.
_ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x4, 0x8, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_ONLYDIR = 0x01000000
_OVERFLOW, _IGNORED = 0x4000, 0x8000
_MASK = _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF | _ONLYDIR

_EVENT = struct.Struct("iIII")
_READ = 64 * 1024
_LIMITS = {
    errno.ENOSPC: "the limit fs.inotify.max_user_watches is reached",
    errno.EMFILE: "the limit fs.inotify.max_user_instances is reached",
}


class Inotify:
    """One queue of the kernel's, readable at `fd` when something happened. A context manager, closed at its end."""

    def __init__(self) -> None:
        """Raises OSError where the system gives none."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise _error()
        self._directories: dict[int, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.fd)

    def follow(self, directories: Iterable[str]) -> bool:
        """From now on these, and no others. Returns whether all that exist could be had; one that is followed already
        goes on. Raises OSError at the system's limits: those that came before are followed."""
        all_of_them = True
        found: dict[int, str] = {}
        for path in directories:
            watch = self._libc.inotify_add_watch(self.fd, os.fsencode(path), _MASK)
            if watch >= 0:
                found[watch] = path
            elif (number := ctypes.get_errno()) in _LIMITS or number == errno.ENOMEM:
                self._directories |= found
                raise _error()
            elif number not in (errno.ENOENT, errno.ENOTDIR):
                all_of_them = False
        for watch in self._directories.keys() - found.keys():
            self._libc.inotify_rm_watch(self.fd, watch)  # one that the kernel ended by itself is an error to ignore
        self._directories = found
        return all_of_them

    def read(self) -> list[str] | None:
        """The paths that something happened to since the last time, a directory's own for its end; None when more
        happened than the kernel keeps."""
        paths: dict[str, None] = {}
        while True:
            try:
                data = os.read(self.fd, _READ)
            except BlockingIOError:
                return list(paths)
            at = 0
            while at < len(data):
                watch, mask, _, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size
                name = data[at : at + length].rstrip(b"\0")
                at += length
                if mask & _OVERFLOW:
                    return None
                directory = self._directories.get(watch)
                if directory is not None:
                    paths[os.path.join(directory, os.fsdecode(name)) if name else directory] = None
                if mask & _IGNORED:
                    self._directories.pop(watch, None)


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, _LIMITS.get(number, os.strerror(number)))
