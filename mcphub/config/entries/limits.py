"""Owns what an entry says of how much of the machine its programs may use.

It must not know how a limit is put on a process.
"""

from __future__ import annotations

import math
from typing import Any

from mcphub.config.jsonc import kind_of
from mcphub.spec import Limits

from .allowance import KEYS as CALLS
from .fields import Fault, mapping, seconds
from .reading import Reading

#: MiB. Less holds no interpreter; the upper end is far above any machine.
MIN_MEMORY = 16
MAX_MEMORY = 1 << 24
MAX_NICE = 19
#: What of `limits` is about processes.
KEYS = frozenset(["memory", "cpuTime", "nice"])
_NONE = Limits()


def read_limits(reading: Reading) -> Limits:
    """`limits` of an entry. Raises `Fault`."""
    raw = mapping(reading.raw, "limits")
    if not raw:
        return _NONE
    for key in raw:
        if key not in KEYS and key not in CALLS:
            reading.note("unknown limit, not used", "limits", key)
    try:
        cpu_time = seconds(raw, "cpuTime")
    except Fault as fault:
        raise Fault(fault.cause, "limits", "cpuTime") from None
    return Limits(
        memory=_whole(raw, "memory", MIN_MEMORY, MAX_MEMORY, "MiB") << 20,
        cpu_time=math.ceil(cpu_time) if cpu_time is not None else 0,
        nice=_whole(raw, "nice", 0, MAX_NICE, "steps"),
    )


def _whole(raw: Any, key: str, least: int, most: int, unit: str) -> int:
    """The whole number at `key`, 0 when it is not given."""
    if key not in raw:
        return 0
    value = raw[key]
    if isinstance(value, bool) or not isinstance(value, int):
        raise Fault(f"expected a whole number of {unit}, found {kind_of(value)}", "limits", key)
    if not least <= value <= most:
        raise Fault(f"expected {least} to {most} {unit}, found {value}", "limits", key)
    return value


def note_unused(reading: Reading) -> None:
    """Tell of limits in the entry of a server that is no process of mcphub's."""
    for key in mapping(reading.raw, "limits"):
        if key not in CALLS:
            known = key in KEYS
            reading.note("not used by a remote server" if known else "unknown limit, not used", "limits", key)
