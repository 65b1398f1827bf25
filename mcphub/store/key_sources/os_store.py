"""Owns the key in the system's key ring: Secret Service or KWallet on Linux, Keychain, Windows' credentials.

It must not know the vault. The backend is named by its class and never chosen by priority: a package that is installed
by chance could otherwise bring one that keeps the key as plain text, or asks for a password on the daemon's terminal.
Environment variables and files that choose a backend for `keyring` count for nothing here.
"""

from __future__ import annotations

import importlib
import os
import stat
import sys
import urllib.parse
from contextlib import closing
from typing import TYPE_CHECKING

from mcphub.store.sealed_file import Head, Key
from mcphub.store.vault_state import Trouble, VaultUnavailable

from .key_text import read, written

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

SERVICE = "mcphub"
CURRENT = "vault-key-v1"
NEXT = "vault-key-v1-next"

#: (system, module, class), in the order in which they are tried. All others are refused.
BACKENDS = (
    ("linux", "keyring.backends.SecretService", "Keyring"),
    ("linux", "keyring.backends.kwallet", "DBusKeyring"),
    ("darwin", "keyring.backends.macOS", "Keyring"),
    ("win32", "keyring.backends.Windows", "WinVaultKeyring"),
)

_DEFAULT = "/org/freedesktop/secrets/aliases/default"

_WITHOUT = (
    'on a machine without one choose another place for its key in settings.toml: [vault] key = "file:PATH", '
    '"credentials" or "passphrase"'
)


class OsStore:
    """Implements KeySource."""

    label = "the key ring"
    makes = True

    def __init__(self) -> None:
        self._ring: KeyringBackend | None = None

    def quiet(self) -> bool:
        """A Secret Service that is unlocked; of other key rings it cannot be known."""
        if sys.platform != "linux":
            return False
        _find_bus()
        try:
            import secretstorage

            with closing(secretstorage.dbus_init()) as connection:
                # By the alias, since asking for the collection itself may begin to make one, with a window.
                return not secretstorage.Collection(connection, _DEFAULT).is_locked()
        except Exception:  # there is no bus, or nobody on it: each library in between has exceptions of its own
            return False

    def missing(self) -> None:
        """Whether there is a key ring; it may be locked."""
        if self._ring is None:
            _find_bus()
            _backend()

    def keys(self, head: Head | None) -> tuple[Key, ...]:
        found = (self._get(CURRENT), self._get(NEXT) if head is not None else None)
        return tuple(key for key in found if key is not None)

    def keep_next(self, key: Key) -> None:
        self._set(NEXT, key)

    def promote(self, key: Key) -> None:
        self._set(CURRENT, key)
        if self._get(NEXT) is not None:
            self._call("delete_password", NEXT)

    def _get(self, name: str) -> Key | None:
        text = self._call("get_password", name)
        if text is None:
            return None
        key = read(text.encode("utf-8", "replace"))
        if key is None:
            message = f"cannot use the entry {SERVICE}/{name} of the key ring: it is no key of ours; take it out there"
            raise VaultUnavailable(message, Trouble.WRONG_KEY)
        return key

    def _set(self, name: str, key: Key) -> None:
        self._call("set_password", name, written(key))
        if self._get(name) != key:
            message = f"cannot keep the vault's key as {SERVICE}/{name}: the key ring took it and does not have it"
            raise VaultUnavailable(message, Trouble.IO)

    def _call(self, method: str, *words: str) -> str | None:
        """Raises VaultUnavailable for whatever goes wrong there; texts of it hold no key."""
        if self._ring is None:
            _find_bus()
            self._ring = _backend()
        from keyring.errors import InitError, KeyringLocked

        try:
            answer = getattr(self._ring, method)(SERVICE, *words)
            return answer if isinstance(answer, str) else None
        except (KeyringLocked, InitError) as error:
            trouble = Trouble.LOCKED
            message = f"cannot open the key ring: it is locked ({_cause(error)}); unlock it, then: mcphub vault unlock"
        except Exception as error:  # each backend has exceptions of its own, of the libraries behind it
            self._ring = None
            trouble = Trouble.NO_STORE
            message = f"cannot use the key ring: {_cause(error)}; when it works again: mcphub vault unlock"
        # Out here, so that nothing of the failure stays alive: neither a connection nor a frame that holds a key.
        raise VaultUnavailable(message, trouble)


def _find_bus() -> None:
    """Let the session bus be found where systemd has it, though nobody said so: a host that starts a daemon may have
    been started without the variable. It is what sd-bus(3) does."""
    directory = os.environ.get("XDG_RUNTIME_DIR", "")
    if sys.platform != "linux" or os.environ.get("DBUS_SESSION_BUS_ADDRESS") or not os.path.isabs(directory):
        return
    path = os.path.join(directory, "bus")
    try:
        found = os.stat(path)
    except OSError:
        return
    if stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid():
        os.environ["DBUS_SESSION_BUS_ADDRESS"] = f"unix:path={urllib.parse.quote(path)}"


def _backend() -> KeyringBackend:
    causes = []
    for system, module, name in BACKENDS:
        if system != sys.platform:
            continue
        try:
            kind: type[KeyringBackend] = getattr(importlib.import_module(module), name)
            _ = kind.priority  # raises where it cannot work here
            return kind()
        except Exception as error:
            causes.append(_cause(error))
    why = causes[0] if causes else f"{sys.platform} is not supported"
    raise VaultUnavailable(f"cannot find a key ring: {why}; {_WITHOUT}", Trouble.NO_STORE)


def _cause(error: Exception) -> str:
    text = " ".join(str(error).split())[:200].rstrip(".")
    return text or type(error).__name__
