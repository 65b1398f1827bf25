"""Owns the secret that agents bring to the loopback endpoint: made once, kept for this user alone.

It must not know HTTP. Blocking; an event loop calls it from a thread.
"""

from __future__ import annotations

import os
import re
import secrets
import stat

from mcphub.errors import ConfigError
from mcphub.store import atomicfile

#: Random bytes of a token that is made here.
BYTES = 32
#: What a token may be: safe in a URL's path and in a header, and not to be guessed.
_TOKEN = re.compile(rb"[A-Za-z0-9_-]{22,200}").fullmatch


def http_token(path: str) -> str:
    """The token in this file; made, with mode 0600, where there is none. Deleting the file makes a new one.

    Raises ConfigError where the file cannot be used: others can read it, or it holds something else.
    """

    def keep(old: bytes | None) -> bytes:
        return old if old and old.strip() else secrets.token_urlsafe(BYTES).encode() + b"\n"

    found = atomicfile.update(path, keep).strip()
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError as error:
        raise ConfigError(f"cannot use {path}: {error.strerror}") from error
    if mode & 0o077:
        raise ConfigError(f"cannot use {path}: others can read it (mode {mode:04o}); delete it for a new one")
    if not _TOKEN(found):
        raise ConfigError(f"cannot use {path}: a token is 22 to 200 of A-Z a-z 0-9 _ -; delete it for a new one")
    return found.decode()
