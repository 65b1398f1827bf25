"""Owns the key that a service manager hands over: the credential `mcphub-vault-key` (systemd.exec(5), LoadCredential).

It must not know the vault, and never writes: who gives the key also keeps it.
"""

from __future__ import annotations

import os

from mcphub.store.sealed_file import Head, Key
from mcphub.store.vault_state import Trouble, VaultUnavailable

from .key_text import read

NAME = "mcphub-vault-key"


class Credentials:
    """Implements KeySource, from the directory that CREDENTIALS_DIRECTORY names ("" = it is not set)."""

    makes = False

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.label = f"the credential {NAME}"

    def quiet(self) -> bool:
        return True

    def missing(self) -> None:
        self.keys(None)

    def keys(self, head: Head | None) -> tuple[Key, ...]:
        if not self._directory:
            raise VaultUnavailable(
                f"cannot read {self.label}: CREDENTIALS_DIRECTORY is not set; start mcphub as a service with "
                f"LoadCredential={NAME}:PATH",
                Trouble.NO_STORE,
            )
        path = os.path.join(self._directory, NAME)
        try:
            with open(path, "rb") as file:
                data = file.read(1024)
        except OSError as error:
            raise VaultUnavailable(f"cannot read {path}: {error.strerror or error}", Trouble.NO_STORE) from None
        if (key := read(data)) is None:
            raise VaultUnavailable(f"cannot use {path}: it must hold 32 bytes, or them in base64", Trouble.WRONG_KEY)
        return (key,)

    def keep_next(self, key: Key) -> None:
        raise VaultUnavailable(
            f"cannot replace {self.label}: whoever starts mcphub keeps it; to have a new key, choose another place for "
            "it in settings.toml ([vault] key)",
            Trouble.NO_STORE,
        )

    def promote(self, key: Key) -> None:
        pass  # there is one, and it stays
