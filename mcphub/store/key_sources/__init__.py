"""Owns where the key of the vault comes from: one file a source, chosen by `[vault] key` of the settings alone.

It must not know the vault's file. A new source is one file and one line in `source_of`. Calls may block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from mcphub.store.sealed_file import Head, Key


class KeySource(Protocol):
    """One place that a key is kept in.

    A key that replaces another is kept beside it first, as the next one, until the file is sealed with it: so there is
    no moment at which a crash loses the key of the file. Every method raises VaultUnavailable.
    """

    #: as a message names it
    label: str
    #: whether mcphub can make a key there by itself
    makes: bool

    def quiet(self) -> bool:
        """Whether `keys` would ask no person for anything now, and may be tried without being told to. Never raises."""

    def missing(self) -> None:
        """Raise where no key can be had or kept there, as far as that is seen without asking a person anything."""

    def keys(self, head: Head | None) -> tuple[Key, ...]:
        """The keys there, the current one first; () = none is kept yet. `head` is the file's, None without one."""

    def keep_next(self, key: Key) -> None:
        """Keep a key that the file is going to be sealed with."""

    def promote(self, key: Key) -> None:
        """Make it the current one, and forget every other."""


def source_of(choice: str, env: Mapping[str, str]) -> KeySource:
    """The source for `os`, `credentials`, `file:PATH` or `passphrase`; `env` is the daemon's own environment."""
    kind, _, path = choice.partition(":")
    if kind == "file":
        from .key_file import KeyFile

        return KeyFile(path)
    if kind == "credentials":
        from .credentials import Credentials

        return Credentials(env.get("CREDENTIALS_DIRECTORY", ""))
    if kind == "passphrase":
        from .passphrase import Passphrase

        return Passphrase()
    from .os_store import OsStore

    return OsStore()
