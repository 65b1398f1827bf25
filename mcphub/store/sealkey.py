"""Owns the key of the seals that agents carry between the rounds of a request: made at first use, kept in a file.

It must not know what is sealed. A key that cannot be kept is made anew at each start: rounds then end with a restart.
"""

from __future__ import annotations

import os
import secrets

SIZE = 32


def load_or_create(path: str) -> tuple[bytes, str]:
    """(key, problem); the problem is "" where the key outlives this process. The file has mode 0600."""
    try:
        with open(path, "rb") as file:
            key = file.read(SIZE + 1)
        if len(key) == SIZE:
            return key, ""
        return secrets.token_bytes(SIZE), f"cannot use {path}: it does not hold {SIZE} bytes; move it away"
    except FileNotFoundError:
        pass
    except OSError as e:
        return secrets.token_bytes(SIZE), f"cannot read {path}: {e.strerror}"
    key = secrets.token_bytes(SIZE)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(key)
    except OSError as e:
        return key, f"cannot keep {path}: {e.strerror}; requests that wait for input do not outlive a restart"
    return key, ""
