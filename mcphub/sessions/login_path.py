"""Owns having the login shell asked for its PATH by a program of its own, at the daemon's first start and then daily.

It must not ask by itself, nor use the answer: `mcphub env path --refresh` writes it to the state directory and tells
the daemon to look. What a profile starts is in that program's tree, and ends with it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping

import anyio
import anyio.to_thread

from mcphub.config.environment import base_environment
from mcphub.config.places import Places
from mcphub.errors import TransportError
from mcphub.transport.process import Launcher
from mcphub.transport.spawn_request import SpawnRequest

#: Seconds that the program may take: the shell's own limit is shorter.
PATIENCE = 20.0


class LoginPathRefresher:
    """One daemon's. `log` takes a level and a line, `env` is the daemon's own environment."""

    def __init__(
        self, launcher: Launcher, places: Places, env: Mapping[str, str], log: Callable[[str, str], None]
    ) -> None:
        self._launcher = launcher
        self._places = places
        self._env = env
        self._log = log

    async def run(self, quiet: anyio.Event) -> None:
        """Ask, if it is time to, once the servers have had their start. Nothing waits for it."""
        await quiet.wait()
        if await anyio.to_thread.run_sync(self._is_due):
            await self._ask()

    def _is_due(self) -> bool:
        from mcphub.config.login_refresh import due
        from mcphub.store.login_path import login_path_file

        known, _ = login_path_file(self._places.login_path).load()
        return due(known, self._env, time.time_ns() / 1e9)

    async def _ask(self) -> None:
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            argv = [sys.executable, "-P", "-m", "mcphub", "env", "path", "--refresh"]
            request = SpawnRequest(argv, base_environment(self._env), "/", (null, null, null))
            child = await self._launcher.spawn(request)
        except TransportError as error:
            self._log("warning", f"cannot ask the login shell for its PATH: {error}")
            return
        finally:
            os.close(null)
        try:
            with anyio.move_on_after(PATIENCE):
                await child.exited.wait()
        finally:
            await child.end(0.0)
        await anyio.to_thread.run_sync(self._tell)

    def _tell(self) -> None:
        from mcphub.store.login_path import login_path_file

        known, problems = login_path_file(self._places.login_path).load()
        for problem in (*problems, *filter(None, [known.error])):
            self._log("warning", problem)
