"""Owns telling the desktop, where there is one, that servers need a person: once for each server and need.

It must not open anything. What it says goes to a program by its argv, and nobody waits for that.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from mcphub.auth.credential import Credential

#: Seconds in which further servers are told of together, seconds for the program, bytes of what it prints.
GATHER = 2.0
WITHIN = 5.0
MOST = 4096
#: Servers that are named.
NAMED = 3

#: Runs a program and gives what it prints. Raises SignInFailed.
Run = Callable[[Sequence[str], float, int], Awaitable[str]]


class Notifications:
    """`wanted` says whether a person wants them; `environment` is the daemon's."""

    def __init__(
        self,
        run: Run,
        environment: Callable[[], Mapping[str, str]],
        wanted: Callable[[], bool],
        platform: str = sys.platform,
    ) -> None:
        self._run = run
        self._environment = environment
        self._wanted = wanted
        self._platform = platform
        self._told: dict[str, str] = {}
        self._new: dict[str, None] = {}
        self._came = anyio.Event()

    def changed(self, credential: Credential | None) -> None:
        """What a server needs may be something else."""
        if credential is None:
            return
        key, need = credential.account.key, credential.need
        reason = str(need.failure.reason) if need is not None and need.a_person_can else ""
        if not reason:
            self._told.pop(key, None)
            self._new.pop(credential.account.name, None)
        elif self._told.get(key) != reason:
            self._told[key] = reason
            self._new[credential.account.name] = None
            self._came.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._came.wait()
            await anyio.sleep(GATHER)
            self._came = anyio.Event()
            names, self._new = list(self._new), {}
            words = command(names, self._platform, self._environment())
            if not names or not words or not self._wanted():
                continue
            from mcphub.auth.failures import SignInFailed

            try:
                await self._run(words, WITHIN, MOST)
            except SignInFailed:
                pass  # a desktop that cannot be told is none


def command(names: Sequence[str], platform: str, environ: Mapping[str, str]) -> list[str]:
    """The program that tells of these servers, () where there is no desktop."""
    others = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    who = ", ".join(names[:NAMED]) + others
    what = f"{who} {'needs' if len(names) == 1 else 'need'} a sign-in"
    todo = f"mcphub login {names[0] if len(names) == 1 else '--all'}" if names else ""
    if platform == "darwin":
        # The texts are arguments of the script, and no part of it.
        script = "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run"
        return ["osascript", "-e", script, f"mcphub: {what}", todo]
    if platform == "linux" and environ.get("DBUS_SESSION_BUS_ADDRESS") and _display(environ):
        return ["notify-send", "--app-name=mcphub", "--", f"mcphub: {what}", todo]
    return []


def _display(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))
