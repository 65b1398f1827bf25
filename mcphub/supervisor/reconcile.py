"""Owns the comparison of what is wanted with what runs.

It must not start or stop anything: it returns the plan.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from mcphub.spec import Desired, InstanceKey, Want


class Plan(msgspec.Struct, frozen=True):
    """What to do so that the running instances are the wanted ones. Unchanged ones appear in neither."""

    start: tuple[InstanceKey, ...]
    stop: tuple[InstanceKey, ...]


def reconcile(desired: Desired, running: Collection[InstanceKey]) -> Plan:
    """The plan, in a stable order. A changed spec has another key: the old one stops, the new one starts."""
    wanted = {key for key, wish in desired.items() if isinstance(wish, Want)}
    return Plan(
        start=tuple(key for key in desired if key in wanted and key not in running),
        stop=tuple(sorted(key for key in running if key not in wanted)),
    )
