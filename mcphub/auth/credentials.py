"""Owns the credentials of all servers while the daemon runs: one for each account, and what they take from the daemon.

It must not know connections or states: who is told of a change is given to it.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.to_thread

from mcphub.auth.records import Account, account_of
from mcphub.errors import ConfigError
from mcphub.spec import IdpSpec, OAuthSpec, Secret, ServerSpec
from mcphub.store.challenges import Challenged, ChallengeStore
from mcphub.store.turn import turn
from mcphub.store.vault_state import Record, Trouble, VaultUnavailable

if TYPE_CHECKING:
    # What signing in takes is loaded for the first server that may want it: a start with none is a third shorter of it.
    from mcphub.auth.bearer import BearerSigner
    from mcphub.auth.credential import Credential
    from mcphub.auth.drive import Sender
    from mcphub.auth.home import Safe

Log = Callable[[str, str], None]

#: Seconds that renewals under way get when the daemon stops, beyond the time that its servers take.
DRAIN = 3.0
#: Accounts that are kept in mind: entries that are edited often leave some behind.
MOST = 4000


class _Look:
    """One reading of the vault; `found` or `failure` once it is `over`."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.found: Mapping[str, Record] = {}
        #: Until it has succeeded it has not: nothing read is not nothing there.
        self.failure: VaultUnavailable | None = VaultUnavailable("mcphub is stopping", Trouble.WAITING)


class Credentials:
    """Implements home.Home. `locks` is a directory of our own; `provider` gives the organisation's identity provider as
    it is configured now; `printed(words, seconds, bytes)` runs a program and gives what it prints."""

    def __init__(
        self,
        safe: Safe,
        challenges: ChallengeStore,
        locks: str,
        provider: Callable[[], IdpSpec | None],
        printed: Callable[[Sequence[str], float, int], Awaitable[str]],
        environment: Callable[[], Mapping[str, str]],
        hide: Callable[..., None],
        log: Log,
        clock: Callable[[], float] = lambda: time.time_ns() / 1e9,
    ) -> None:
        self.safe = safe
        self._challenges = challenges
        self._locks = locks
        self._provider = provider
        self._printed = printed
        self._environment = environment
        self._hide = hide
        self._log = log
        self._clock = clock
        self._known: dict[str, Credential] = {}
        self._told: Mapping[str, Challenged] = {}
        self._looks: dict[str, _Look] = {}
        self._writing = anyio.Lock()
        self._busy = 0
        self._idle = anyio.Event()
        self._ending = anyio.Event()
        self._tasks: anyio.abc.TaskGroup | None = None
        #: Whoever wants to know of a change.
        self.listeners: list[Callable[[Account], None]] = []

    async def drain(self) -> None:
        """Let what is under way end, DRAIN seconds at most: tokens that are just being renewed would be lost."""
        self._ending.set()
        with anyio.move_on_after(DRAIN):
            while self._busy:
                self._idle = anyio.Event()
                await self._idle.wait()

    async def run(self, started: anyio.Event) -> None:
        """Carry the work that belongs to the daemon, until cancelled."""
        self._told, problems = await anyio.to_thread.run_sync(self._challenges.load)
        for problem in problems:
            self._log("warning", problem)
        async with anyio.create_task_group() as self._tasks:
            started.set()
            await anyio.sleep_forever()

    def of(self, spec: ServerSpec) -> Credential | None:
        """The credential of a server, None where it is not for us to sign in."""
        account = account_of(spec)
        if account is None:
            return None
        found = self._known.get(account.key)
        if found is None:
            from mcphub.auth.credential import Credential

            found = self._known[account.key] = Credential(account, self)
            if len(self._known) > MOST:
                del self._known[next(iter(self._known))]  # of an entry that is no more; what is kept of it stays
        found.become(account)
        return found

    def known(self, account: Account) -> Credential | None:
        """The credential of an account that some server has."""
        return self._known.get(account.key)

    def of_organisation(self) -> list[Credential]:
        """Those of servers that take the organisation's login."""
        return [one for one in self._known.values() if one.account.oauth.mode == "xaa"]

    def signer(self, spec: ServerSpec, hide: Callable[..., None] | None = None) -> BearerSigner | None:
        """For one connection to this server; `hide` takes what must not be seen in what is said of it."""
        credential = self.of(spec)
        if credential is None:
            return None
        from mcphub.auth.bearer import BearerSigner

        return BearerSigner(credential, hide)

    def again(self, spec: ServerSpec) -> None:
        """There is a way to it that there was not: what could not be reached may be."""
        credential = self.of(spec)
        if credential is not None:
            credential.retry()

    def principal(self, spec: ServerSpec) -> str | None:
        """Whose credentials a server is used with now; see Credential.principal. What an entry itself brings is part of
        what the entry is, and nobody's here."""
        credential = self.of(spec)
        return credential.principal if credential is not None else ""

    async def principal_kept(self, spec: ServerSpec) -> str | None:
        """The same, once it was looked up in the vault; that is not waited for long."""
        credential = self.of(spec)
        if credential is None:
            return ""
        await credential.look()
        return credential.principal

    def wanted(self, spec: ServerSpec) -> None:
        """It could not be opened for want of a sign-in: that is remembered."""
        credential = self.of(spec)
        if credential is not None:
            credential.wanted()

    # --- home.Home ---------------------------------------------------------------------------------------------------

    def sender(self, account: Account) -> Sender:
        from mcphub.auth.sending import HttpSender

        return HttpSender(account, self._environment)

    async def forbidden(self, account: Account, url: str) -> str:
        from mcphub.auth.sending import HttpSender

        return await HttpSender(account, self._environment).forbidden(url)

    def idp(self) -> IdpSpec | None:
        return self._provider()

    def idp_sender(self, idp: IdpSpec) -> Sender:
        return self.sender(Account(idp.issuer, Secret(idp.issuer), OAuthSpec(), ""))

    async def printed(self, words: Sequence[str], within: float, most: int) -> str:
        return await self._printed(words, within, most)

    def now(self) -> float:
        return self._clock()

    def chance(self) -> float:
        return random.random()

    def random(self, size: int) -> bytes:
        return secrets.token_bytes(size)

    def environment(self) -> Mapping[str, str]:
        return self._environment()

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        assert self._tasks is not None

        async def counted() -> None:
            try:
                await work()
            finally:
                self._busy -= 1
                self._idle.set()

        self._busy += 1
        self._tasks.start_soon(counted)

    async def looked(self, kind: str, key: str) -> Record | None:
        look = self._looks.get(kind)
        if look is None:
            look = self._looks[kind] = _Look()
            mine = look
            self.start(lambda: self._look(kind, mine))
        await look.over.wait()
        if look.failure is not None:
            raise VaultUnavailable(str(look.failure), look.failure.trouble)
        return look.found.get(key)

    async def _look(self, kind: str, look: _Look) -> None:
        try:
            look.found = await self.safe.list(kind)
            look.failure = None
        except VaultUnavailable as e:
            look.failure = e
        finally:
            del self._looks[kind]
            look.over.set()

    def turn(self, key: str) -> AbstractAsyncContextManager[None]:
        return turn(self._locks, key)

    async def rest(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await self._ending.wait()
        return self._ending.is_set()

    def hide(self, *values: str, owner: str = "") -> None:
        self._hide(*values, owner=owner)

    def log(self, level: str, text: str) -> None:
        self._log(level, text)

    def challenged(self, key: str) -> Challenged | None:
        return self._told.get(key)

    def remember(self, key: str, challenged: Challenged | None) -> None:
        if challenged == self._told.get(key):
            return
        others = {name: one for name, one in self._told.items() if name != key}
        self._told = others if challenged is None else {**others, key: challenged}

        self.start(lambda: self._write(key))

    async def _write(self, key: str) -> None:
        async with self._writing:
            now = self._told.get(key)  # it may be another by now

            def change() -> None:
                if now is None:
                    self._challenges.forget(key)
                else:
                    self._challenges.keep(key, now)

            try:
                await anyio.to_thread.run_sync(change)
            except (ConfigError, OSError) as e:
                self._log("warning", f"cannot remember which servers want a sign-in: {e}")

    def changed(self, account: Account) -> None:
        for listener in self.listeners:
            listener(account)
