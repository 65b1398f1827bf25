"""Owns the start-up limiters, the only thing that instances share: so many openings of each kind at once.

It must not know what is opened. A slow opening holds its slot for its connect timeout at most.
"""

from __future__ import annotations

import anyio
import msgspec

from mcphub.spec import HttpSpec, ServerSpec


class Limiters(msgspec.Struct, frozen=True):
    """`local`: processes. `remote`: servers at a URL. A server inside the daemon opens at once and needs no slot of
    theirs."""

    local: anyio.CapacityLimiter
    in_process: anyio.CapacityLimiter
    remote: anyio.CapacityLimiter

    @classmethod
    def of(cls, local: int, remote: int = 20) -> Limiters:
        return cls(anyio.CapacityLimiter(local), anyio.CapacityLimiter(100), anyio.CapacityLimiter(remote))

    def for_spec(self, spec: ServerSpec) -> anyio.CapacityLimiter:
        if spec.transport.kind == "stdio":
            return self.local
        return self.remote if isinstance(spec.transport, HttpSpec) else self.in_process
