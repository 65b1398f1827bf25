"""Owns what the machine's networks are at one moment, and what is different from one moment to the next.

It must not ask the system, nor know servers.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

#: Addresses that are set aside for examples (RFC 5737, RFC 3849): whatever leads there is the way to all of the
#: Internet, and nothing is ever sent there.
ANYWHERE = ("203.0.113.1", "2001:db8::1")


class Way(msgspec.Struct, frozen=True):
    """How one address would be reached: from which of the machine's own, by which interface (0 = not known)."""

    source: str
    interface: int = 0


#: By which a host is reached, one for each of its addresses that can be; none = not at all.
Ways = tuple[Way, ...]


class Standing(enum.StrEnum):
    """What can be reached at all. `local`: there are networks, but no way out of them."""

    ONLINE = "online"
    LOCAL = "local"
    OFFLINE = "offline"


class Network(msgspec.Struct, frozen=True):
    """`ways` by address, None = there is none; `addresses` of the machine, without the loopback's and those that hold
    on one link only (fe80::)."""

    ways: Mapping[str, Way | None]
    addresses: frozenset[str] = frozenset()

    @property
    def anywhere(self) -> Ways:
        """By which what is far away is reached."""
        return self.to(ANYWHERE)

    @property
    def standing(self) -> Standing:
        if self.anywhere:
            return Standing.ONLINE
        return Standing.LOCAL if self.addresses else Standing.OFFLINE

    def to(self, addresses: tuple[str, ...]) -> Ways:
        """By which these are reached; one that was not asked for is not."""
        found = (self.ways.get(one) for one in addresses)
        return tuple(dict.fromkeys(way for way in found if way is not None))


class Change(enum.StrEnum):
    """What happened to the ways to one host."""

    NONE = "none"
    #: It is not reached any more.
    CUT = "cut"
    #: It is again.
    BACK = "back"
    #: It is reached in another way: what is open may be open towards nobody.
    MOVED = "moved"


def change(before: Ways, after: Ways) -> Change:
    """What happened between the two."""
    if before == after:
        return Change.NONE
    if not after:
        return Change.CUT
    return Change.MOVED if before else Change.BACK


def came(before: Network, after: Network) -> bool:
    """Whether the machine has an address that it had not: a network was joined, though it may be no way to anything
    known."""
    return not after.addresses <= before.addresses
