"""Owns what others see of an instance at one moment: a frozen value, of which every snapshot is made.

It must not know how any of it came to be.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mcphub.connection.handshake import Facts
from mcphub.connection.machine import State
from mcphub.protocol.caching import Freshness
from mcphub.spec import InstanceKey, ServerSpec


class View(msgspec.Struct, frozen=True):
    """What others see of a worker at one moment. `tools` are the last listed ones, kept while it is not connected;
    `listed` counts the lists, so that an unchanged number means unchanged tools."""

    key: InstanceKey
    spec: ServerSpec
    state: State
    facts: Facts | None
    tools: tuple[bytes, ...]
    listed: int
    pid: int | None
    shelf: Mapping[str, tuple[bytes, ...]] = msgspec.field(default_factory=dict)
    shelved: int = 0
    #: It was tried before, in vain, or there is no way to its host: no list waits for it.
    tried: bool = False
    #: What a modern server said of its lists, by method.
    fresh: Mapping[str, Freshness] = msgspec.field(default_factory=dict)
    #: A legacy server cannot tell of changes, whatever it says that it does: it has no stream for it.
    deaf: bool = False
    #: Lists that may not be what its server has now, by method: they have changed, or could not be listed again.
    doubted: frozenset[str] = frozenset()
