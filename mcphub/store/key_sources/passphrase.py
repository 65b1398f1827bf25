"""Owns the key that is made from a passphrase, by Argon2id (RFC 9106) with the salt that stands in the vault's file.

It must not know the vault, and forgets the passphrase when the key is made; the key is in memory until the end.
"""

from __future__ import annotations

import secrets

from mcphub.store.sealed_file import KEY_BYTES, SALT_BYTES, Head, Key
from mcphub.store.vault_state import Trouble, VaultUnavailable

#: 64 MiB, three passes, four lanes: a tenth of a second.
MEMORY_KIB, PASSES, LANES = 64 * 1024, 3, 4

_ASK = "the vault is locked since mcphub started; give its passphrase: mcphub vault unlock"


class Passphrase:
    """Implements KeySource; `offer` is what the others do not have."""

    label = "the passphrase"
    makes = False

    def __init__(self) -> None:
        self._offered: str | None = None
        self._key: Key | None = None

    def offer(self, passphrase: str) -> None:
        """Use this one for the next `keys`."""
        self._offered = passphrase

    def missing(self) -> None:
        """A person has it."""

    def quiet(self) -> bool:
        return False

    def keys(self, head: Head | None) -> tuple[Key, ...]:
        offered, self._offered = self._offered, None
        if offered is not None:
            salt = secrets.token_bytes(SALT_BYTES) if head is None else head.salt
            return (_derived(offered, salt),)
        if self._key is None or (head is not None and head.salt != self._key.salt):
            raise VaultUnavailable(_ASK, Trouble.PASSPHRASE)
        return (self._key,)

    def keep_next(self, key: Key) -> None:
        pass  # nothing is kept anywhere

    def promote(self, key: Key) -> None:
        self._key = key


def _derived(passphrase: str, salt: bytes) -> Key:
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    made = Argon2id(salt=salt, length=KEY_BYTES, iterations=PASSES, lanes=LANES, memory_cost=MEMORY_KIB)
    return Key(made.derive(passphrase.encode("utf-8", "surrogateescape")), salt)
