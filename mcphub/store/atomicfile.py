"""Owns changing one file so that every reader, at every instant, finds the whole old or the whole new content.

It must not know what a file holds. Blocking calls: an event loop calls them from a thread.

A change takes a lock that all writers of mcphub share, reads, writes a temporary file in the same directory, syncs it,
renames it over the old one and syncs the directory (rename(2) is atomic within a file system). The lock file
`.NAME.lock` stays: removing it would let two writers hold "the" lock. The temporary name `.NAME.new` is fixed, so what
a killed writer left behind is replaced by the next one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator

from mcphub.errors import ConfigError

#: Seconds to wait for another writer; each holds the lock for a few milliseconds.
LOCK_SECONDS = 10.0
_RETRY_SECONDS = 0.005


def update(
    path: str,
    change: Callable[[bytes | None], bytes],
    *,
    mode: int = 0o600,
    private: bool = False,
    within: str = "",
    lock: str = "",
    sync: bool = True,
) -> bytes:
    """Replace the content of `path` by what `change` makes of it (None = there is no file), and return the new content.

    An existing file keeps its mode, and its owner where we may set it; a new one gets `mode`. With `private` nobody but
    the owner may use the new content, whatever was allowed before. A symbolic link stays a
    link: its target is replaced, but only below the directory `within` where that is given, since a link that somebody
    else made must not choose what we write to. `lock` is the lock file, by default one beside the file. Missing
    directories are made with mode 0700. Without `sync` the disk is not waited for: after a loss of power the file may
    be damaged, which its reader must notice. What `change` raises leaves the file as it was. Raises ConfigError when
    the file cannot be written, is no regular file, or stays locked for `LOCK_SECONDS`.
    """
    target = _target(path, within)
    directory, name = os.path.split(target)
    lock = lock or os.path.join(directory, f".{name}.lock")
    try:
        _make(directory)
        _make(os.path.dirname(lock))
        with _locked(target, lock):
            old, kept = _read(target)
            new = change(old)
            if new != old or (private and kept is not None and kept.st_mode & 0o077):
                kept_mode = mode if kept is None else stat.S_IMODE(kept.st_mode)
                _replace(target, new, kept, kept_mode & 0o700 if private else kept_mode, sync)
            return new
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error


def replace(path: str, data: bytes, *, mode: int = 0o600) -> None:
    """Replace the whole content of `path`; otherwise as `update`."""
    update(path, lambda _: data, mode=mode)


def check(path: str, *, within: str = "") -> bytes | None:
    """Try all that `update` of `path` would need, but change no content: for who asks a person first. Returns what the
    file holds, None where there is none. Raises ConfigError as `update`; waits for no other writer."""
    target = _target(path, within)
    directory, name = os.path.split(target)
    trial = os.path.join(directory, f".{name}.try")
    try:
        _make(directory)
        for one, flags in ((os.path.join(directory, f".{name}.lock"), os.O_RDWR), (trial, os.O_WRONLY)):
            os.close(os.open(one, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        return _read(target)[0]
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(trial)


def _target(path: str, within: str) -> str:
    """The file that is written. Raises ConfigError for a link that leads out."""
    target = os.path.realpath(path)
    if within and os.path.commonpath([os.path.realpath(within), target]) != os.path.realpath(within):
        raise ConfigError(f"cannot write {path}: it is a link that leads out of {within}; change {target} itself")
    return target


def _make(directory: str) -> None:
    """The directory and those above it; unlike os.makedirs this makes none of them for others to look into."""
    if not os.path.isdir(directory):
        _make(os.path.dirname(directory))
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o700)


@contextlib.contextmanager
def _locked(target: str, lock: str) -> Iterator[None]:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(lock, flags, 0o600)
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    message = f"cannot write {target}: another program has kept it locked for {LOCK_SECONDS:g} s"
                    raise ConfigError(message) from None
                time.sleep(_RETRY_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _read(target: str) -> tuple[bytes | None, os.stat_result | None]:
    try:
        descriptor = os.open(target, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        return None, None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return file.read(), os.fstat(descriptor)


def _replace(target: str, data: bytes, kept: os.stat_result | None, mode: int, sync: bool) -> None:
    directory, name = os.path.split(target)
    temporary = os.path.join(directory, f".{name}.new")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(temporary, flags, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if kept is not None and (kept.st_uid, kept.st_gid) != (os.geteuid(), os.getegid()):
                # Only root, or a member of the group, may: a file that changes hands is better than no file.
                with contextlib.suppress(OSError):
                    os.fchown(descriptor, kept.st_uid, kept.st_gid)
            os.fchmod(descriptor, mode)
            if sync:
                os.fsync(descriptor)
        os.rename(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if not sync:
        return
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
