"""Owns what credentials take from the daemon: a place to keep them, a way to send, a clock, tasks that outlive callers.

It must not know any server, nor what is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from mcphub.auth.drive import Sender
from mcphub.auth.failures import Failure
from mcphub.auth.records import Account
from mcphub.spec import IdpSpec
from mcphub.store.challenges import Challenged
from mcphub.store.vault_state import Record, VaultState, VaultUnavailable

#: What a person does about a `Need`: sign in with a browser, sign in at the organisation, change the entry, open the
#: vault; or nothing, since it is tried again without anybody.
BROWSER, IDP_LOGIN, CONFIG, VAULT, WAIT = "browser", "idp_login", "config", "vault", "wait"


class Need(msgspec.Struct, frozen=True):
    """What stands between a server and its credentials. `how` is one of the five above; `scopes` are those that
    it named as missing."""

    failure: Failure
    how: str
    scopes: tuple[str, ...] = ()

    @property
    def a_person_can(self) -> bool:
        """Whether a sign-in by a person helps."""
        return self.how in (BROWSER, IDP_LOGIN)


class Safe(Protocol):
    """What credentials use of the vault; each call raises VaultUnavailable. See store.vault."""

    @property
    def state(self) -> VaultState: ...

    async def get(self, kind: str, key: str) -> Record | None: ...

    async def put(self, kind: str, key: str, data: bytes, expected_gen: int | None = None) -> int: ...

    async def delete(self, kind: str, key: str, expected_gen: int | None = None) -> bool: ...

    async def list(self, kind: str) -> dict[str, Record]: ...

    async def ready(self) -> None: ...

    async def barred(self) -> VaultUnavailable | None: ...


class Home(Protocol):
    """The daemon, as far as credentials need it."""

    @property
    def safe(self) -> Safe: ...

    def sender(self, account: Account) -> Sender:
        """How requests for this account are sent: with its limits, to the places that it may ask."""

    def now(self) -> float:
        """Seconds of the wall clock."""

    def chance(self) -> float:
        """Between 0 and 1."""

    def random(self, size: int) -> bytes:
        """So many bytes that nobody can guess."""

    def environment(self) -> Mapping[str, str]:
        """The hub's environment."""

    async def forbidden(self, account: Account, url: str) -> str:
        """Why no request for this account may go to a URL, as far as that can be judged now, as the end of a sentence;
        "" = nothing is known against it."""

    def idp(self) -> IdpSpec | None:
        """The organisation's identity provider, None where none is configured."""

    def idp_sender(self, idp: IdpSpec) -> Sender:
        """How requests to the identity provider are sent."""

    async def printed(self, words: Sequence[str], within: float, most: int) -> str:
        """What a program prints. Raises SignInFailed (`client_required`)."""

    async def looked(self, kind: str, key: str) -> Record | None:
        """What the vault has, read at once for all who look at this moment. Raises VaultUnavailable."""

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin something that nobody's leaving ends but the daemon's."""

    def turn(self, key: str) -> AbstractAsyncContextManager[None]:
        """Hold the lock of this key among all processes. Raises OSError."""

    async def rest(self, seconds: float) -> bool:
        """Wait so long, or until the daemon ends; whether it ends."""

    def hide(self, *values: str, owner: str = "") -> None:
        """These are secrets from now on; those of an owner until it has had others several times."""

    def log(self, level: str, text: str) -> None: ...

    def challenged(self, key: str) -> Challenged | None:
        """What this account was told, by this daemon or one before it."""

    def remember(self, key: str, challenged: Challenged | None) -> None:
        """It was told this; None = that is over."""

    def changed(self, account: Account) -> None:
        """Its tokens are others, or what it needs is."""
