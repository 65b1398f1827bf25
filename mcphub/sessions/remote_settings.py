"""Owns keeping managed settings fetched: from the URL that administrators' files name, at the start and every hour.

It must not know what the settings say, nor act on them: it writes what came to the state directory, where they are read
like any other file, and asks for another look. What was good stays while nothing better comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import anyio
import anyio.to_thread
import msgspec

from mcphub.config.managed_document import parse_managed
from mcphub.config.places import Places
from mcphub.config.readfile import Reader
from mcphub.config.remote_settings import RemoteSettings
from mcphub.config.trusted_file import read_trusted
from mcphub.errors import ConfigError, McphubError
from mcphub.store.fetched_settings import Copy, fetched_settings_file

from .fetch import fetch
from .workspaces import Workspaces

#: Seconds between two looks, and after a failed one at first; that doubles up to the former.
EVERY = 3600.0
AGAIN = 30.0

# The way there may be the user's, whom to trust may not.
_PROXIES = frozenset(["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"])


class RemoteSettingsRefresher:
    """One daemon's. `log` takes a level and a line."""

    def __init__(
        self,
        workspaces: Workspaces,
        places: Places,
        log: Callable[[str, str], None],
        *,
        every: float = EVERY,
        again: float = AGAIN,
    ) -> None:
        self._workspaces = workspaces
        self._trust = places.system.trust
        self._file = fetched_settings_file(places.fetched_settings)
        self._log = log
        self._every = every
        self._again = again
        #: What this daemon wrote. The state of a copy that somebody else did, or changed, is not asked about by its
        #: name: the server's "still the same" would vouch for it.
        self._ours: Copy | None = None

    async def run(self) -> None:
        """Until cancelled."""
        failures = 0
        while True:
            applied, remote = self._workspaces.applied, self._workspaces.remote
            if remote is None:
                await applied.wait()
                continue
            from random import uniform  # most people have nothing to fetch

            error = await self.refresh(remote)
            if error:
                self._log("warning", f"cannot refresh the managed settings of {remote.shown}: {error}")
            await self._workspaces.tick()
            failures = failures + 1 if error else 0
            delay = min(self._again * 2 ** min(failures - 1, 16), self._every) if failures else self._every
            # A fleet that was switched on together must not ask together for ever.
            with anyio.move_on_after(delay * uniform(0.9, 1.0)):
                while self._workspaces.remote == remote:
                    await self._workspaces.applied.wait()

    async def refresh(self, remote: RemoteSettings) -> str:
        """One look. Returns why it gave nothing, "" where what is kept now is what the server has."""
        try:
            return await self._refresh(remote)
        except (ConfigError, OSError) as e:
            return str(e)

    async def _refresh(self, remote: RemoteSettings) -> str:
        kept, _ = await anyio.to_thread.run_sync(self._file.load)
        if kept.url != remote.url:
            kept = Copy(url=remote.url)
        etag = kept.etag if kept == self._ours else ""
        now = time.time_ns() // 10**9
        try:
            env = await anyio.to_thread.run_sync(self._environment, remote, self._workspaces.environment())
            found = await fetch(remote.url, etag, env)
        except McphubError as e:
            new = _failed(kept, str(e), now)
        else:
            if found is None:
                new = Copy(kept.url, kept.document, kept.etag, now, now)
            else:
                new = _taken(remote, kept, found.body, found.etag, now)
        await anyio.to_thread.run_sync(self._file.change, lambda _: new)
        self._ours = new
        return new.error

    def _environment(self, remote: RemoteSettings, env: Mapping[str, str]) -> dict[str, str]:
        """The way there, and whom to trust. Raises ConfigError where others can write the file of `caFile`."""
        found = {name: value for name, value in env.items() if name.upper() in _PROXIES}
        if remote.ca_file:
            if read_trusted(remote.ca_file, self._trust, Reader()) is None:
                raise ConfigError(f"there is no {remote.ca_file}, which {remote.origin} names as caFile")
            found["SSL_CERT_FILE"] = remote.ca_file
        return found


def _failed(kept: Copy, error: str, now: int) -> Copy:
    return msgspec.structs.replace(kept, tried=now, error=error)


def _taken(remote: RemoteSettings, kept: Copy, body: bytes, etag: str, now: int) -> Copy:
    """The new copy. A document that is broken does not take the place of a good one; as the first it closes."""
    fault = document_fault(body, remote.shown)
    if fault:
        return _failed(kept, fault, now) if kept.document else Copy(remote.url, tried=now, fault=fault, error=fault)
    return Copy(remote.url, body.decode("utf-8"), etag, now, now)


def document_fault(body: bytes, shown: str) -> str:
    """Why a fetched document would close, "" = it would not."""
    policy = parse_managed(body, path=shown, directory="", fetched=True).policy
    assert policy is not None, "managed settings always have one"
    from mcphub.policy.document import read_policy  # most machines have no policy

    return next(iter(read_policy(policy).closed), "")
