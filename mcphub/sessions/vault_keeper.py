"""Owns what follows from news of the vault: it is opened once at the start, and what waited for it is tried when it is.

It must not know records or keys. Servers that refer to a secret are computed anew; those that wait for a person are
tried again, since what they miss may be in the vault.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import anyio

from mcphub.connection.machine import Asked, NeedsAuth
from mcphub.store.vault import Trouble, Vault
from mcphub.supervisor.supervisor import Supervisor

from .workspaces import Workspaces

#: Seconds between two looks at whether a locked vault can be opened without asking anybody.
RETRY = 20.0


class VaultKeeper:
    """For the life of the daemon; `log` takes a level and a text."""

    def __init__(
        self, vault: Vault, workspaces: Workspaces, supervisor: Supervisor, log: Callable[[str, str], None]
    ) -> None:
        self._vault = vault
        self._workspaces = workspaces
        self._supervisor = supervisor
        self._log = log

    async def run(self, quiet: anyio.Event) -> None:
        """Open the vault once `quiet` is set, or when a secret is asked for, and follow it until cancelled.

        To be begun before files are read first: whoever refers to a secret waits a moment for it then, and nobody else;
        what it takes to ask a key ring is a large part of a start.
        """
        async with anyio.create_task_group() as tasks:

            async def when(wait: Callable[[], Awaitable[object]]) -> None:
                await wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(when, quiet.wait)
            tasks.start_soon(when, self._vault.sought)
        before = state = await self._vault.open()
        self._say("", "")
        while True:
            revision = self._vault.revision
            # Who was refused has another reason now, or none; of a secret that changed the file is another one.
            refused, self._vault.file.refused = self._vault.file.refused, False
            if refused or state is not before:
                await self._workspaces.tick(again=refused)
            if state.usable and not before.usable:
                self._retry()
            while self._vault.revision <= revision:
                # A key ring that a login opens, or a disk that is mounted, tells nobody.
                with anyio.move_on_after(math.inf if state.usable else RETRY):
                    await self._vault.newer_than(revision)
                if self._vault.revision <= revision:
                    await self._vault.retry()
            before, state = state, self._vault.state
            self._say(before.detail, before.warning)

    def _say(self, detail: str, warning: str) -> None:
        state = self._vault.state
        if state.trouble not in (None, Trouble.OPENING) and state.detail != detail:
            self._log("warning", state.detail)
        if state.warning and state.warning != warning:
            self._log("warning", state.warning)

    def _retry(self) -> None:
        for worker in list(self._supervisor.workers.values()):
            if isinstance(worker.state, NeedsAuth):
                worker.post(Asked())
