"""Owns reading one configuration file without being hurt by what stands at its path, and noting what was looked at.

It must not know what a file is for. Blocking calls on small local files: an event loop calls it from a thread.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from mcphub.errors import ConfigError

MAX_BYTES = 4 * 1024 * 1024

#: Seconds for which a file that vanished, or became empty, may be one that is just being replaced (case C014).
GONE = 0.5

# A file that changed this short before it was read may change again within the same time stamp of its file system.
_SETTLE_NS = 100_000_000


class Stamp(msgspec.Struct, frozen=True):
    """What tells one state of a path from the next.

    `identity` is empty for a path with nothing at it; `presence` marks a path of which only that matters. `settled` is
    False when the file was so young that a later change could carry the same identity.
    """

    path: str
    identity: tuple[int, ...] = ()
    presence: bool = False
    settled: bool = True


@dataclass(frozen=True, slots=True)
class Content:
    """What a file said when it last said something, and since when it is gone or empty (`time.monotonic()`), None =
    it is not."""

    data: bytes = field(repr=False)
    gone: float | None = None


class Reader:
    """Reads files and remembers a stamp of each path it was asked about, taken before the bytes were read.

    `before` are the `contents` of the last reader of the same files: one that vanished or became empty since then still
    reads as it was, for `GONE` seconds. An editor that truncates and writes, or removes and writes, stops no server.
    """

    def __init__(self, before: Mapping[str, Content] | None = None) -> None:
        self._stamps: dict[str, Stamp] = {}
        self._before = before if before is not None else {}
        self.contents: dict[str, Content] = {}

    @property
    def stamps(self) -> tuple[Stamp, ...]:
        """One stamp a path, in the order of the first question."""
        return tuple(self._stamps.values())

    @property
    def gone(self) -> float | None:
        """Since when the file is away that has been so for longest, of those that are still read as they were."""
        return min((one.gone for one in self.contents.values() if one.gone is not None), default=None)

    def last(self, path: str) -> bytes:
        """What the file said last, b"" where nobody knows: for one who goes by that while it cannot be read."""
        known = self.contents.get(path)
        return known.data if known is not None else b""

    def read(self, path: str) -> bytes | None:
        """The bytes of the regular file at `path` (symbolic links are followed), None when nothing is there.

        Raises ConfigError when something is there that cannot be read: a directory, a FIFO, a device, more than 4 MiB,
        no permission. Never blocks on a FIFO and never opens a device.
        """
        before = self._before.get(path)
        try:
            data = self._read(path)
        except ConfigError:
            if before is not None:
                self.contents[path] = Content(before.data)
            raise
        if data:
            self.contents[path] = Content(data)
        elif before is not None:
            now = time.monotonic()
            since = before.gone if before.gone is not None else now
            if now - since < GONE:
                self.contents[path] = Content(before.data, since)
                return before.data
        return data

    def _read(self, path: str) -> bytes | None:
        try:
            # Looked at before it is opened: opening a device can already do something.
            self._regular(path, os.stat(path))
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
            try:
                status = os.fstat(descriptor)
                self._regular(path, status)
                if status.st_size > MAX_BYTES:
                    raise ConfigError(f"cannot read {path}: larger than {MAX_BYTES // 1024 // 1024} MiB")
                return read_all(path, descriptor)
            finally:
                os.close(descriptor)
        except (FileNotFoundError, NotADirectoryError):
            self._stamps[path] = Stamp(path)
            return None
        except (OSError, ValueError) as error:
            self._stamps.setdefault(path, _stamp(path))
            cause = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise ConfigError(f"cannot read {path}: {cause}") from error

    def exists(self, path: str) -> bool:
        """Something stands at `path`, a dangling link included. What cannot be looked at counts as absent."""
        stamp = self._stamps[path] = _presence(path)
        return bool(stamp.identity)

    def names(self, path: str) -> list[str]:
        """What the directory at `path` holds, sorted; nothing where it cannot be looked into."""
        self.note(path)
        try:
            return sorted(os.listdir(path))
        except (OSError, ValueError):
            return []

    def note(self, path: str) -> None:
        """Take a stamp of `path` for one who reads it in another way, before that."""
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            self._stamps[path] = Stamp(path)
        else:
            self._stamps[path] = Stamp(path, _identity(status), settled=_is_settled(status))

    def _regular(self, path: str, status: os.stat_result) -> None:
        self._stamps[path] = Stamp(path, _identity(status), settled=_is_settled(status))
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"cannot read {path}: it is {file_kind(status.st_mode)}, not a regular file")


def read_all(path: str, descriptor: int) -> bytes:
    """The bytes from here on. Raises ConfigError where there are more than MAX_BYTES: a file can grow while it is
    read."""
    parts: list[bytes] = []
    left = MAX_BYTES + 1
    while left > 0 and (part := os.read(descriptor, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    if left <= 0:
        raise ConfigError(f"cannot read {path}: larger than {MAX_BYTES // 1024 // 1024} MiB")
    return b"".join(parts)


def file_kind(mode: int) -> str:
    """What stands at a path, as the end of "it is ..."."""
    for test, name in (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISREG, "a regular file"),
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    ):
        if test(mode):
            return name
    return "something else"


def changed(stamps: tuple[Stamp, ...]) -> bool:
    """Whether anything at these paths is, or may be, another than when the stamps were taken. Costs one stat a path."""
    return any(
        not stamp.settled or stamp != (_presence(stamp.path) if stamp.presence else _stamp(stamp.path))
        for stamp in stamps
    )


def _stamp(path: str) -> Stamp:
    try:
        return Stamp(path, _identity(os.stat(path)))
    except (OSError, ValueError):
        return Stamp(path)


def _presence(path: str) -> Stamp:
    # A `.git` directory changes with every git command: only whether it is there may count.
    return Stamp(path, (1,) if os.path.lexists(path) else (), presence=True)


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _is_settled(status: os.stat_result) -> bool:
    # A time in the future was given to the file by somebody; the next writer will not give it the same.
    return abs(time.time_ns() - status.st_mtime_ns) > _SETTLE_NS
