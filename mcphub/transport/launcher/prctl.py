"""Owns the calls of prctl(2) that mcphub makes.

It must not know why a process wants them.
"""

from __future__ import annotations

import ctypes

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int | bytes) -> bool:
    """prctl(2) with one argument; False where it failed."""
    argument = ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_ulong(value)
    return bool(_libc.prctl(option, argument, 0, 0, 0) == 0)


def become_subreaper() -> bool:
    """Adopt the orphans among this process's descendants from now on; False where the kernel refuses."""
    return prctl(PR_SET_CHILD_SUBREAPER, 1)
