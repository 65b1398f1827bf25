"""Owns the limits that a process takes upon itself, and hands on to all that it starts.

It must not know servers.

Each is one process's, not one tree's: the kernel has no limit for a tree but control groups, which a user's daemon may
not make everywhere. RLIMIT_DATA counts private memory that can be written to, also what was mapped (Linux 4.7 and
later), and not, as RLIMIT_AS does, what runtimes merely reserve.
"""

from __future__ import annotations

import os
import resource


def take_limits(memory: int, cpu_time: int, nice: int) -> None:
    """`memory` bytes, `cpu_time` seconds, `nice` steps; 0 = no limit. A smaller one that holds already stays."""
    if memory:
        _lower(resource.RLIMIT_DATA, memory, memory)
    if cpu_time:
        # SIGXCPU at the first, SIGKILL at the second, for programs that take no notice.
        _lower(resource.RLIMIT_CPU, cpu_time, cpu_time + 5)
    if nice:
        os.nice(nice)


def _lower(number: int, soft: int, hard: int) -> None:
    present = resource.getrlimit(number)[1]
    if present != resource.RLIM_INFINITY:
        soft, hard = min(soft, present), min(hard, present)
    resource.setrlimit(number, (soft, hard))
