"""Owns what is said about the vault and its records: a record, the state, why it cannot be used.

It must not do anything: no file, no key, no cipher.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import msgspec

from mcphub.errors import McphubError


@dataclass(frozen=True, slots=True)
class Record:
    """The bytes that were put, and which put that was. `gen` only rises, also over a delete: it never comes twice."""

    data: bytes = field(repr=False)
    gen: int


class Trouble(enum.StrEnum):
    """Why the vault cannot be used. Names are API."""

    #: not tried yet
    OPENING = "opening"
    #: there is no key ring here, or no such directory, file or variable
    NO_STORE = "no_store"
    #: the key ring is locked, or a prompt was dismissed
    LOCKED = "locked"
    #: the key ring did not answer in time: it may be waiting for a person at a prompt
    WAITING = "waiting"
    #: a vault is there, and its key is not where the settings say
    NO_KEY = "no_key"
    #: the key is not the one that the vault was sealed with
    WRONG_KEY = "wrong_key"
    #: the passphrase was not given since the daemon began
    PASSPHRASE = "passphrase"
    #: the file is not what any mcphub wrote, or not whole
    DAMAGED = "damaged"
    #: a newer mcphub wrote the file
    NEWER = "newer"
    #: file or directory belong to somebody else, or others may use them
    PERMISSIONS = "permissions"
    #: the system refused to read or write
    IO = "io"


class VaultState(msgspec.Struct, frozen=True):
    """What `mcphub vault status` says. `trouble` None = it can be used. `detail` is for a person and says what to do.

    `source` is where the key comes from, as settings have it. `warning`: it can be used, but look at this.
    """

    source: str
    trouble: Trouble | None = None
    detail: str = ""
    warning: str = ""

    @property
    def usable(self) -> bool:
        return self.trouble is None


class VaultUnavailable(McphubError):
    """The vault cannot be used now: nothing was read and nothing is lost. `trouble` says why; this is never "empty"."""

    def __init__(self, message: str, trouble: Trouble) -> None:
        super().__init__(message)
        self.trouble = trouble


class GenerationConflict(McphubError):
    """A put expected another generation than there is. `current` is what is there, None = nothing."""

    def __init__(self, message: str, current: Record | None) -> None:
        super().__init__(message)
        self.current = current
