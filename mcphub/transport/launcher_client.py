"""Owns starting and ending server programs by way of a launcher process, and starting another where it died (Linux).

It must not know MCP, nor which server a child is, nor how the launcher is talked to.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

import anyio
import msgspec

from mcphub.errors import TransportError
from mcphub.transport.child import Child
from mcphub.transport.launcher.start import Started
from mcphub.transport.launcher_link import LauncherLink, Refused
from mcphub.transport.spawn_request import SpawnRequest


class Launcher:
    """Starts server programs; leaving the context ends every one of them, whatever state it is in.

    Enter and leave it in one task; `spawn` may be called by any task of that event loop. `started`: its first process,
    where that was started before. `on_mark` is told the highest mark of each process that there is in time.
    """

    def __init__(self, started: Started | None = None, on_mark: Callable[[int], None] | None = None) -> None:
        self._started = started
        self._on_mark = on_mark
        self._link: LauncherLink | None = None
        self._starting = anyio.Lock()

    async def __aenter__(self) -> Launcher:
        started, self._started = self._started, None
        self._link = LauncherLink(started, self._on_mark)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        link, self._link = self._link, None
        if link is not None:
            with anyio.CancelScope(shield=True):
                await link.close()

    @property
    def pid(self) -> int | None:
        """The launcher process, None while there is none."""
        link = self._link
        return link.process.pid if link is not None and not link.dead else None

    async def spawn(self, request: SpawnRequest) -> Child:
        """Start a program; returns once it was executed.

        If the caller is cancelled, the program is killed as soon as it is known to run.
        Raises TransportError (kind `spawn`) as `SpawnRequest` says.
        """
        encoded = request.encoded()
        link = await self._living_link()
        try:
            return await link.spawn(encoded, request.fds, msgspec.structs.astuple(request.limits))
        except Refused as refused:
            raise request.refusal(refused.stage, refused.number) from None

    async def _living_link(self) -> LauncherLink:
        async with self._starting:
            link = self._link
            if link is None:
                raise TransportError("cannot start a process: the launcher is closed", kind="spawn")
            if link.dead:
                await link.swept.wait()
                link = self._link = LauncherLink(None, self._on_mark)
            return link
