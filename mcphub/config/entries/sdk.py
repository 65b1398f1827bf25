"""Owns what an entry says of a server that lives in the daemon, given to it by whoever started it.

It must not know which servers those are: one that the daemon was not given fails when it is opened.
"""

from __future__ import annotations

from mcphub.spec import InProcessSpec

from .fields import Fault, string
from .reading import Reading


def read_sdk(reading: Reading) -> InProcessSpec:
    """The server that is called `name`, or else as the entry is. Raises `Fault`."""
    if reading.foreign:
        raise Fault(f"type 'sdk' works only for the host that supplies the server, and not in {reading.whose}", "type")
    return InProcessSpec(string(reading.raw, "name") or reading.entry.name)
