"""Owns what a change of credentials does to the workers of the servers that they are for: a sign-in wakes them, tokens
that are dead end what was open with them.

It must not know how anybody signs in. A missing scope moves no state, nor does a refusal of one call: they are facts of
the row.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mcphub.auth.credentials import Credentials
from mcphub.auth.records import Account, account_of
from mcphub.connection.worker import Worker
from mcphub.spec import IdpSpec
from mcphub.supervisor.supervisor import Supervisor

if TYPE_CHECKING:
    from mcphub.auth.credential import Credential

#: Seconds in which requests that dead tokens were refused with are answered, before what is open ends: what ends with a
#: connection counts as lost, and nobody would know whether it had been acted on.
ANSWERED_WITHIN = 0.25


class SignIns:
    """Hears of every change from the moment it is made."""

    def __init__(self, supervisor: Supervisor, credentials: Credentials) -> None:
        self._supervisor = supervisor
        self._credentials = credentials
        credentials.listeners.append(self._changed)
        self._provider: IdpSpec | None = None

    def provided(self, provider: IdpSpec | None) -> None:
        """The organisation's identity provider as it is configured now: another one may take who waits."""
        if provider != self._provider:
            self._provider = provider
            self.wake_all()

    def wake_all(self) -> None:
        """Something that several servers wait for is there: the organisation's login, the vault."""
        for worker in list(self._supervisor.workers.values()):
            credential = self._credentials.of(worker.spec)
            if credential is not None and (credential.silent or credential.need is not None):
                credential.retry()
                worker.signed_in()

    def _changed(self, account: Account) -> None:
        for worker in list(self._supervisor.workers.values()):
            if worker.name != account.name:
                continue
            own = account_of(worker.spec)
            if own is not None and own.key == account.key:
                self._tell(worker)

    def _tell(self, worker: Worker) -> None:
        credential = self._credentials.of(worker.spec)
        if credential is None:
            return
        worker.used_as(credential.principal or "")
        if credential.tokens is not None and credential.shown is None:
            worker.signed_in()
        elif credential.ended is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(ANSWERED_WITHIN, self._end, worker, credential, credential.version)
        worker.changed()

    def _end(self, worker: Worker, credential: Credential, version: int) -> None:
        if credential.ended is not None and credential.version == version:
            from mcphub.auth.bearer import told

            worker.signed_out(told(worker.name, credential.ended, silent=credential.silent))
