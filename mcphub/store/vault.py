"""Owns the daemon's way to its vault: records under (kind, key), asked for by coroutines, kept sealed in one file.

It must not know what a record means. The interface, whole:

    vault = Vault(path, choice, env)            choice = `[vault] key` of the settings
    await vault.open()                          once, at the start; never raises, `vault.state` says how it went
    await vault.get(kind, key)                  -> Record(data, gen) | None
    await vault.put(kind, key, data)            -> the new gen; whatever is there
    await vault.put(kind, key, data, gen)       ... only if that gen is there (0 = nothing), else GenerationConflict
    await vault.delete(kind, key)               -> whether something was there
    await vault.delete(kind, key, gen)          ... only if that gen is there; False = nothing was deleted
    await vault.list(kind)                      -> {key: Record}
    await vault.ready()                         makes sure that a put would work: before a person is asked to sign in
    await vault.barred()                        why there is none and none could be made, None = it could
    await vault.unlock(passphrase)              tries the source of the key again
    await vault.newer_than(revision)            waits until the state, or some record of kind `secret`, is another

Kinds in use: `secret`, `tokens`, `registration`, `idp`, `dpop`, `challenge`. Keys are any text, data any bytes.

Each of these raises VaultUnavailable where the vault cannot be used (`.trouble` says why, the text what to do): then
nothing was read, and that must never be taken for "there is nothing". A put that returned is on the disk (fsync). Every
change reads the file again under a lock that all processes share, so two daemons, or a daemon and a command, lose
nothing of each other's.

All of it runs in one thread at a time, since a key ring may block for as long as a person looks at its prompt. Whoever
waited `deadline` seconds gets VaultUnavailable(WAITING), and so does everybody else until that thread has ended; what
it brings then still counts. A caller that is cancelled stops waiting; what it began is done to its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

import anyio

from .key_sources.os_store import OsStore
from .one_thread import OneThread, Overdue
from .vault_file import SECRET, VaultFile
from .vault_state import GenerationConflict, Record, Trouble, VaultState, VaultUnavailable

__all__ = ["DEADLINE", "SECRET", "GenerationConflict", "Record", "Trouble", "Vault", "VaultState", "VaultUnavailable"]

#: Seconds that anybody waits for the vault.
DEADLINE = 5.0

T = TypeVar("T")


class Vault:
    """The vault at `path`, whose key comes from where `choice` says (see `key_sources.source_of`).

    `env` is the daemon's own environment. Made on the event loop's thread and used there.
    """

    def __init__(self, path: str, choice: str, env: Mapping[str, str], *, deadline: float = DEADLINE) -> None:
        self.file = VaultFile(path, choice, env)
        self.deadline = deadline
        self.revision = 1
        self._thread = OneThread()
        self._newer = anyio.Event()
        self._told: tuple[VaultState, int] = (self.file.state, 0)

    @property
    def state(self) -> VaultState:
        """How it stands: what the last use of it found."""
        return self._told[0]

    def warnings(self) -> tuple[str, ...]:
        """What to look at though it can be used."""
        return (self.state.warning,) if self.state.warning else ()

    async def newer_than(self, revision: int) -> int:
        """Wait until `revision` is above this one, and return it: the state is another, or some secret is."""
        while self.revision <= revision:
            await self._newer.wait()
        return self.revision

    async def open(self) -> VaultState:
        """Ask the source for the key and read the file, where there is one. Never raises but when cancelled."""
        try:
            await self._run(self.file.open)
        except VaultUnavailable:
            pass
        return self.state

    async def sought(self) -> None:
        """Wait until somebody asks for a secret though the vault was not opened."""
        loop, sought = asyncio.get_running_loop(), anyio.Event()
        self.file.when_sought(lambda: loop.call_soon_threadsafe(sought.set))
        await sought.wait()

    async def retry(self) -> None:
        """As `open`, but only where nobody would be asked for anything: what was away may have come by itself."""
        try:
            await self._run(self.file.retry)
        except VaultUnavailable:
            pass

    async def unlock(self, passphrase: str | None = None, *, start_over: bool = False) -> VaultState:
        """As `open`, with the passphrase where the key is made from one; returns how it stands then.

        `start_over`: a file that cannot be opened is set aside first, and an empty one takes its place. Raises
        VaultUnavailable where a passphrase was given and it is of no use.
        """
        await self._run(lambda: self.file.unlock(passphrase, start_over=start_over))
        return self.state

    async def rotate(self, passphrase: str | None = None) -> None:
        """Seal everything with a new key, and keep that where the old one was. Raises VaultUnavailable."""
        await self._run(lambda: self.file.rotate(passphrase))

    async def ready(self) -> None:
        """Have a key in hand, if need be a new one. Raises VaultUnavailable where a put would."""
        await self._run(self.file.ready)

    async def barred(self) -> VaultUnavailable | None:
        """Why there is no vault and none could be made; None = there is one, or it could, or that is not known."""
        try:
            return await self._run(self.file.barred)
        except VaultUnavailable:
            return None

    async def get(self, kind: str, key: str) -> Record | None:
        """What is there. Raises VaultUnavailable."""
        return await self._run(lambda: self.file.get(kind, key))

    async def put(self, kind: str, key: str, data: bytes, expected_gen: int | None = None) -> int:
        """Keep `data`, and return its gen; see above. Raises VaultUnavailable, GenerationConflict."""
        return await self._run(lambda: self.file.put(kind, key, data, expected_gen))

    async def delete(self, kind: str, key: str, expected_gen: int | None = None) -> bool:
        """Take a record away; whether one was. Raises VaultUnavailable."""
        return await self._run(lambda: self.file.delete(kind, key, expected_gen))

    async def list(self, kind: str) -> dict[str, Record]:
        """All of one kind, by key. Raises VaultUnavailable."""
        return await self._run(lambda: self.file.list(kind))

    async def _run(self, call: Callable[[], T]) -> T:
        try:
            return await self._thread.run(call, self.deadline, self._tell)
        except Overdue:
            asks = self.file.source == OsStore.label
            why = "it may be asking you something on your screen" if asks else "the disk is slow, or the file is locked"
            message = (
                f"cannot use the vault {self.file.path}: {self.file.source} did not answer within {self.deadline:g} s; "
                f"{why}"
            )
            self.file.state = VaultState(self.file.source, Trouble.WAITING, message)
            self._tell()
            raise VaultUnavailable(message, Trouble.WAITING) from None

    def _tell(self) -> None:
        """On the loop's thread, after each call that ended, however long it took."""
        told = (self.file.state, self.file.secrets_mark)
        if told != self._told:
            self._told = told
            self.revision += 1
            newer, self._newer = self._newer, anyio.Event()
            newer.set()

