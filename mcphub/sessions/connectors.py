"""Owns keeping the list of connectors fetched: from the catalogue that the settings name, at the start and regularly.

It must not know what a connector is, nor act on the list: it writes what came to the state directory, where it is read
like any other file, and asks for another look. What was good stays while nothing better comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio
import anyio.to_thread
import msgspec

from mcphub.config.masking import masked_url
from mcphub.config.places import Places
from mcphub.config.settings import WebappSettings
from mcphub.config.sources.webapp import catalogue_fault, parse_catalogue
from mcphub.errors import ConfigError, McphubError
from mcphub.store.connectors import Said, connectors_file

from .fetch import fetch
from .workspaces import Workspaces

#: Seconds after a failed look at first; that doubles up to the time between two looks.
AGAIN = 30.0


class ConnectorsRefresher:
    """One daemon's. `log` takes a level and a line."""

    def __init__(
        self, workspaces: Workspaces, places: Places, log: Callable[[str, str], None], *, again: float = AGAIN
    ) -> None:
        self._workspaces = workspaces
        self._file = connectors_file(places.webapp)
        self._log = log
        self._again = again

    def _settings(self) -> WebappSettings:
        loaded = self._workspaces.loaded.get("")
        return loaded.settings.webapp if loaded is not None else WebappSettings()

    async def run(self) -> None:
        """Until cancelled."""
        failures = 0
        while True:
            applied, settings = self._workspaces.applied, self._settings()
            if not settings.catalogue or catalogue_fault(settings.catalogue):
                await applied.wait()
                continue
            from random import uniform  # most people have no catalogue

            error = await self.refresh(settings.catalogue)
            if error:
                shown = masked_url(settings.catalogue)
                self._log("warning", f"cannot refresh the connectors of {shown}: {error}")
            await self._workspaces.tick()
            failures = failures + 1 if error else 0
            delay = settings.refresh
            if failures:
                delay = min(self._again * 2 ** min(failures - 1, 16), delay)
            with anyio.move_on_after(delay * uniform(0.9, 1.0)):
                while self._settings() == settings:
                    await self._workspaces.applied.wait()

    async def refresh(self, catalogue: str) -> str:
        """One look. Returns why it gave nothing, "" where what is kept now is what the catalogue says."""
        try:
            return await self._refresh(catalogue)
        except (ConfigError, OSError) as e:
            return str(e)

    async def _refresh(self, catalogue: str) -> str:
        kept, _ = await anyio.to_thread.run_sync(self._file.load)
        if kept.catalogue != catalogue:
            kept = Said(catalogue)
        now = time.time_ns() // 10**9
        try:
            found = await fetch(catalogue, kept.etag, self._workspaces.environment())
            if found is None:
                new = msgspec.structs.replace(kept, confirmed=now, error="")
            else:
                parse_catalogue(found.body, masked_url(catalogue))
                new = Said(catalogue, found.body.decode("utf-8"), found.etag, now)
        except McphubError as e:
            new = msgspec.structs.replace(kept, error=str(e))
        await anyio.to_thread.run_sync(self._file.change, lambda _: new)
        return new.error
