"""Owns when the login shell is asked for its PATH again, and what is kept of the answer.

It must not know who asks, nor use the PATH: what it writes is read with all other files.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec

from mcphub.errors import ConfigError
from mcphub.store.login_path import LoginPath

from .login_shell import PATIENCE, ask_path, login_shell

#: Seconds for which an answer is not asked for again at a start: version managers change their directories at times.
FRESH = 86_400


def due(known: LoginPath, env: Mapping[str, str], now: float) -> bool:
    """Whether a daemon that starts at `now` (seconds since 1970) should ask: never asked, another shell, or long ago.
    A clock that was set back counts as long ago."""
    shell = login_shell(env)
    return bool(shell) and (known.shell != shell or not 0 <= now - known.asked < FRESH)


def refreshed(before: LoginPath, env: Mapping[str, str], patience: float = PATIENCE) -> LoginPath:
    """Ask now. What was good before stays while nothing better comes, but not what another shell said. Blocks."""
    shell, now = login_shell(env), time.time_ns() // 10**9
    if not shell:
        return LoginPath("", "", now, "cannot learn the PATH of a login shell: this account has none")
    try:
        return LoginPath(ask_path(shell, env, patience), shell, now)
    except ConfigError as error:
        kept = before.path if before.shell == shell else ""
        return msgspec.structs.replace(before, path=kept, shell=shell, asked=now, error=str(error))
