"""Owns what an entry says of how much its server, and single tools of it, may be asked for: at once, and a second.

It must not know what becomes of a call for which there is no room.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mcphub.config.jsonc import kind_of
from mcphub.spec import Allowance, Allowances

from .fields import Fault, mapping
from .reading import Reading

#: What of `limits` is about calls; the rest is about processes.
KEYS = frozenset(["calls", "rate", "burst"])
MAX_CALLS = 100_000
#: Calls a second; the lowest is one in a quarter of an hour.
MIN_RATE = 0.001
MAX_RATE = 100_000


def read_allowances(reading: Reading) -> Allowances | None:
    """What `limits`, and `limits` of single tools, say of calls; None = nothing. Raises `Fault`."""
    server = _allowance(mapping(reading.raw, "limits"), "limits")
    tools: dict[str, Allowance] = {}
    for tool, said in mapping(reading.raw, "tools").items():
        if not isinstance(said, dict) or "limits" not in said:
            continue  # `tools.py` says what is wrong
        limits = said["limits"]
        if not isinstance(limits, dict):
            raise Fault(f"expected an object, found {kind_of(limits)}", "tools", tool, "limits")
        for key in limits:
            if key not in KEYS:
                reading.note("unknown limit, not used", "tools", tool, "limits", key)
        own = _allowance(limits, "tools", tool, "limits")
        if own != Allowance():
            tools[tool] = own
    return Allowances(server, tools) if tools or server != Allowance() else None


def _allowance(raw: Mapping[str, Any], *path: str) -> Allowance:
    calls, burst = _whole(raw, "calls", *path), _whole(raw, "burst", *path)
    rate = raw.get("rate", 0)
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not math.isfinite(rate):
        raise Fault(f"expected a number of calls a second, found {kind_of(rate)}", *path, "rate")
    if "rate" in raw and not MIN_RATE <= rate <= MAX_RATE:
        raise Fault(f"expected {MIN_RATE:g} to {MAX_RATE} calls a second, found {rate:g}", *path, "rate")
    if burst and not rate:
        raise Fault("says nothing without rate", *path, "burst")
    return Allowance(calls, float(rate), burst or max(1, math.ceil(rate)))


def _whole(raw: Mapping[str, Any], key: str, *path: str) -> int:
    """The whole number at `key`, 0 when it is not given."""
    if key not in raw:
        return 0
    value = raw[key]
    if isinstance(value, bool) or not isinstance(value, int):
        raise Fault(f"expected a whole number of calls, found {kind_of(value)}", *path, key)
    if not 1 <= value <= MAX_CALLS:
        raise Fault(f"expected 1 to {MAX_CALLS} calls, found {value}", *path, key)
    return value
