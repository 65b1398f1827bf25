"""Owns the start-up limiters, the only thing that instances share: so many openings of each kind at once.

It must not know what is opened. A slow opening holds its slot for its connect timeout at most.
"""

from __future__ import annotations

from dataclasses import dataclass

import anyio

from mcphub.spec import ServerSpec


@dataclass(frozen=True, slots=True)
class Limiters:
    """`local`: processes; a server inside the daemon opens at once and needs no slot of theirs."""

    local: anyio.CapacityLimiter
    in_process: anyio.CapacityLimiter

    @classmethod
    def of(cls, local: int) -> Limiters:
        return cls(anyio.CapacityLimiter(local), anyio.CapacityLimiter(100))

    def for_spec(self, spec: ServerSpec) -> anyio.CapacityLimiter:
        return self.local if spec.transport.kind == "stdio" else self.in_process
