"""Owns the sign-ins of people that are under way: one for each account, each in a task of the daemon's.

It must not open a browser, nor know who asked. A new sign-in takes the place of one that is under way; what was signed
in stays so until the new tokens are kept (case C118).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio
import anyio.abc

from mcphub.auth.credentials import Credentials
from mcphub.auth.records import idp_key
from mcphub.spec import IdpSpec

if TYPE_CHECKING:
    # What signing in takes, and what reads JWTs, is imported for those who need it.
    from mcphub.auth.credential import Credential
    from mcphub.auth.sign_in import Listen, Plan, SignIn
    from mcphub.auth.sign_out import SignedOut

    #: The credentials that a sign-in is for.
    Whose = Callable[[], list[Credential]]

#: Called when somebody has signed in at the organisation.
Woken = Callable[[], None]


class Logins:
    """`document_url` gives where this client's own metadata document is published, "" = nowhere; `woken` is called when
    something that several servers waited for is there."""

    def __init__(
        self,
        credentials: Credentials,
        document_url: Callable[[], str],
        woken: Woken,
        listen: Listen | None = None,
        patience: float | None = None,
    ) -> None:
        self.credentials = credentials
        self._document_url = document_url
        self._woken = woken
        self._listen = listen
        self._patience = patience
        self._pending: dict[str, SignIn] = {}
        self._tasks: anyio.abc.TaskGroup | None = None

    async def run(self, started: anyio.Event) -> None:
        """Carry them, until cancelled."""
        async with anyio.create_task_group() as self._tasks:
            started.set()
            await anyio.sleep_forever()

    def of_server(self, credential: Credential) -> SignIn | None:
        """The one that is under way for this account."""
        return self._pending.get(credential.account.key)

    def to_server(self, credential: Credential) -> SignIn:
        """Begin one. Another one for this account is superseded."""
        from mcphub.auth.server_plan import ServerPlan

        plan = ServerPlan(credential, self._document_url())
        return self._begin(credential.account.key, plan, lambda: [credential], None)

    def of_idp(self, provider: IdpSpec) -> SignIn | None:
        return self._pending.get(_idp(provider))

    def at_idp(self, provider: IdpSpec) -> SignIn:
        """Begin one at the organisation's identity provider, for all servers that take it."""
        from mcphub.auth.idp_plan import IdpPlan

        def woken() -> None:
            for credential in self.credentials.of_organisation():
                credential.with_login()
            self._woken()

        return self._begin(
            _idp(provider), IdpPlan(self.credentials, provider), self.credentials.of_organisation, woken
        )

    def join(self, credential: Credential) -> SignIn | None:
        """The sign-in that is under way for this server, or a new one; None where a person's helps nothing."""
        if not credential.silent:
            return self.of_server(credential) or self.to_server(credential)
        provider = self.credentials.idp()
        if credential.account.oauth.mode != "xaa" or provider is None:
            return None
        return self.of_idp(provider) or self.at_idp(provider)

    def again(self) -> None:
        """What is signed in to without a person is tried again."""
        self._woken()

    async def out_of(self, credential: Credential) -> SignedOut:
        """Sign out of a server; what is under way ends. Raises VaultUnavailable, OSError."""
        from mcphub.auth.sign_out import sign_out

        await self._end(credential.account.key)
        return await sign_out(credential)

    async def out_of_idp(self, provider: IdpSpec) -> SignedOut:
        """The same at the organisation. Raises as `out_of` does."""
        from mcphub.auth.sign_out import sign_out_of_idp

        await self._end(_idp(provider))
        return await sign_out_of_idp(self.credentials, provider)

    def _begin(self, key: str, plan: Plan, whose: Whose, after: Woken | None) -> SignIn:
        """`whose`: of all of these it is told how it failed."""
        assert self._tasks is not None
        from mcphub.auth.authorization_code import PATIENCE
        from mcphub.auth.sign_in import SignIn
        from mcphub.login.callback import listening

        patience = PATIENCE if self._patience is None else self._patience
        before = self._pending.get(key)
        if before is not None:
            before.cancel(superseded=True)
        mine = self._pending[key] = SignIn(plan, self._listen or listening, patience=patience)
        for credential in whose():
            credential.person_failed(None)
        self._tasks.start_soon(self._carry, key, mine, before, whose, after)
        return mine

    async def _carry(
        self, key: str, mine: SignIn, before: SignIn | None, whose: Whose, after: Woken | None
    ) -> None:
        try:
            if before is not None:
                await before.over.wait()  # it may have the port that this one wants
            await mine.run()
        finally:
            if self._pending.get(key) is mine:
                del self._pending[key]
        if mine.failure is None:
            if after is not None:
                after()
            return
        from mcphub.auth.failures import FlowFailure

        if not mine.superseded and mine.failure.reason is not FlowFailure.CANCELLED:
            for credential in whose():
                credential.person_failed(mine.failure)

    async def _end(self, key: str) -> None:
        if (before := self._pending.get(key)) is not None:
            before.cancel()
            await before.over.wait()


def _idp(provider: IdpSpec) -> str:
    return "idp " + idp_key(provider.issuer, provider.client_id)
