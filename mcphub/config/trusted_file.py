"""Owns reading a file that only the machine's administrator can have written: it and the whole way to it are theirs.

It must not know what such a file is for. Blocking calls on small local files: an event loop calls it from a thread.

Each step of the way is opened below the one before it without following links (openat(2), O_NOFOLLOW), and what is
judged is what was opened: nothing can be exchanged between the look and the reading (case C131).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from mcphub.errors import ConfigError

from .layer import NOT_SEEN
from .readfile import MAX_BYTES, Reader, file_kind, read_all

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC


class Trust(msgspec.Struct, frozen=True):
    """Who may have written a trusted file: uid `owner` alone. The way to it is looked at from the directory `root` on,
    that one included."""

    owner: int = 0
    root: str = "/"


def read_trusted(path: str, trust: Trust, reader: Reader) -> bytes | None:
    """The bytes of the regular file at the absolute `path`, None when nothing is there.

    Raises ConfigError where anybody but the owner could have written it, where a link or something that is no regular
    file stands on the way, or where it cannot be read. Never blocks on a FIFO and never opens a device. `reader` only
    notes what was looked at.
    """
    reader.note(path)
    try:
        if not _exists(path):
            return None
        directory, name = os.path.split(path)
        with _directory(directory, trust, path) as above:
            status = os.stat(name, dir_fd=above, follow_symlinks=False)
            # Looked at before it is opened: opening a device can already do something.
            _regular(path, status)
            descriptor = os.open(name, _FILE, dir_fd=above)
            try:
                status = os.fstat(descriptor)
                _regular(path, status)
                _owned(path, path, status, trust)
                if status.st_size > MAX_BYTES:
                    raise ConfigError(f"cannot trust {path}: larger than {MAX_BYTES >> 20} MiB")
                return read_all(path, descriptor)
            finally:
                os.close(descriptor)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def trusted_names(path: str, trust: Trust, reader: Reader) -> tuple[str, ...] | None:
    """The names in the directory at the absolute `path`, sorted, None when nothing is there. Raises ConfigError as
    `read_trusted` does: what others can write may also lack what stood there."""
    reader.note(path)
    try:
        if not _exists(path):
            return None
        with _directory(path, trust, path) as descriptor:
            return tuple(sorted(os.listdir(descriptor)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def _exists(path: str) -> bool:
    """Something stands at `path`, a dangling link included. What cannot be looked at is no absence: raises OSError."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _unreadable(path, error, NOT_SEEN) from error
    return True


@contextmanager
def _directory(path: str, trust: Trust, wanted: str) -> Iterator[int]:
    """The directory at `path`, opened step by step from the root of trust."""
    here = trust.root.rstrip("/") or "/"
    steps = [step for step in os.path.relpath(path, here).split("/") if step != "."]
    if not os.path.isabs(path) or ".." in steps:
        raise ConfigError(f"cannot trust {wanted}: it does not lie below {here}")
    descriptor = os.open(here, _DIRECTORY)
    try:
        _owned(here, wanted, os.fstat(descriptor), trust)
        for step in steps:
            here = os.path.join(here, step)
            status = os.stat(step, dir_fd=descriptor, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                raise ConfigError(f"cannot trust {wanted}: {here} is {file_kind(status.st_mode)}, not a real directory")
            below = os.open(step, _DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
            _owned(here, wanted, os.fstat(descriptor), trust)
        yield descriptor
    finally:
        os.close(descriptor)


def _regular(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"cannot trust {path}: it is {file_kind(status.st_mode)}, not a regular file")


def _owned(path: str, wanted: str, status: os.stat_result, trust: Trust) -> None:
    subject = "it" if path == wanted else path
    if status.st_uid != trust.owner:
        name = "root" if trust.owner == 0 else str(trust.owner)
        owner = "root" if trust.owner == 0 else f"uid {trust.owner}"
        cause = f"{subject} belongs to uid {status.st_uid}, not to {owner}; run: chown {name} {path}"
        raise ConfigError(f"cannot trust {wanted}: {cause}")
    if status.st_mode & 0o022:
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        # A directory that is everybody's on purpose must stay so: what others can replace does not belong into it.
        sticky = status.st_mode & stat.S_ISVTX
        cure = "move the file to where only root can write" if sticky else f"run: chmod go-w {path}"
        cause = f"others can write to {subject} (mode {mode}); {cure}"
        raise ConfigError(f"cannot trust {wanted}: {cause}")


def _unreadable(path: str, error: OSError | ValueError, what: str = "cannot read") -> ConfigError:
    cause = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    hint = "; the daemons of all users must be able to read it" if isinstance(error, PermissionError) else ""
    return ConfigError(f"{what} {path}: {cause}{hint}")
