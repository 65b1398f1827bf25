"""Owns the key in a file of its own, which only its owner may read: for machines without a key ring.

It must not know the vault. Whoever can read both files can read everything, so the key belongs on other storage, or at
least out of the backups that have the vault.
"""

from __future__ import annotations

import errno
import os
import stat

from mcphub.errors import ConfigError
from mcphub.store import atomicfile
from mcphub.store.sealed_file import Head, Key
from mcphub.store.vault_state import Trouble, VaultUnavailable

from .key_text import read, written


class KeyFile:
    """Implements KeySource. `path` may begin with `~/`."""

    makes = True

    def __init__(self, path: str) -> None:
        self._path = os.path.expanduser(path)
        self.label = f"the key file {self._path}"

    def quiet(self) -> bool:
        return True

    def missing(self) -> None:
        self.keys(None)

    def keys(self, head: Head | None) -> tuple[Key, ...]:
        found = (_read(self._path), _read(self._next) if head is not None else None)
        return tuple(key for key in found if key is not None)

    def keep_next(self, key: Key) -> None:
        _write(self._next, key)

    def promote(self, key: Key) -> None:
        _write(self._path, key)
        try:
            os.unlink(self._next)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise VaultUnavailable(f"cannot remove {self._next}: {error.strerror}", Trouble.IO) from None

    @property
    def _next(self) -> str:
        return f"{self._path}.next"


def _read(path: str) -> Key | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP and os.path.islink(path):
            place = os.path.realpath(path)
            text = f"it is a link; put the file itself there, or name where it is: [vault] key = \"file:{place}\""
            raise VaultUnavailable(f"cannot use the vault's key {path}: {text}", Trouble.PERMISSIONS) from None
        if error.errno in (errno.EACCES, errno.EPERM):
            text = f"{error.strerror}; it must be yours, mode 600, in directories that you may enter"
            raise VaultUnavailable(f"cannot read the vault's key {path}: {text}", Trouble.PERMISSIONS) from None
        raise VaultUnavailable(f"cannot read the vault's key {path}: {error.strerror}", Trouble.IO) from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            text = "it is not a regular file; move it away, or name another place: [vault] key"
            raise VaultUnavailable(f"cannot use the vault's key {path}: {text}", Trouble.PERMISSIONS)
        if found.st_uid != os.geteuid():
            raise VaultUnavailable(
                f"cannot use the vault's key {path}: it belongs to uid {found.st_uid} and you are {os.geteuid()}; give "
                f"it to yourself: chown {os.geteuid()} {path}",
                Trouble.PERMISSIONS,
            )
        if found.st_mode & 0o077:
            raise VaultUnavailable(
                f"cannot use the vault's key {path}: others may use it; it must be yours and yours alone: "
                f"chmod 600 {path}",
                Trouble.PERMISSIONS,
            )
        data = os.read(descriptor, 1024)
    finally:
        os.close(descriptor)
    if (key := read(data)) is None:
        raise VaultUnavailable(f"cannot use the vault's key {path}: it must hold 44 characters", Trouble.WRONG_KEY)
    return key


def _write(path: str, key: Key) -> None:
    try:
        atomicfile.replace(path, written(key).encode() + b"\n", mode=0o600)
    except ConfigError as error:
        raise VaultUnavailable(f"cannot keep the vault's key: {error}", Trouble.IO) from None
