"""Owns the key in a file of its own, which only its owner may read: for machines without a key ring.

It must not know the vault. Whoever can read both files can read everything, so the key belongs on other storage, or at
least out of the backups that have the vault.
"""

from __future__ import annotations

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
        raise VaultUnavailable(f"cannot read the vault's key {path}: {error.strerror}", Trouble.IO) from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise VaultUnavailable(f"cannot use the vault's key {path}: it is not a regular file", Trouble.IO)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
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
