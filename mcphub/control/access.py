"""Owns who may use a route: access is a value in the route table, judged from the peer's credentials.

It must not know sockets, routes or HTTP.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from mcphub.transport.peer import Peer


class OpenAccess(msgspec.Struct, frozen=True):
    """For reading: everyone whom the listener lets in. Shows, changes nothing."""


class OwnerAccess(msgspec.Struct, frozen=True):
    """For changing: only the user whom the daemon runs as."""


#: The listener lets in the daemon's own uid only, so today both admit the same people. They differ once it lets in
#: more (a monitoring group, say): those would read through OpenAccess and still change nothing through OwnerAccess.
Access = OpenAccess | OwnerAccess


def may_connect(peer: Peer | None, owner: int) -> bool:
    """Whether the listener lets this peer in at all; a peer that the kernel cannot name is a stranger."""
    return peer is not None and peer.uid == owner


def refusal(access: Access, peer: Peer, owner: int) -> str | None:
    """Why this peer may not use a route with this access; None = it may. `owner` is the daemon's effective uid."""
    match access:
        case OpenAccess():
            return None
        case OwnerAccess():
            return None if peer.uid == owner else f"only uid {owner} may change anything, and this is uid {peer.uid}"
        case _:
            assert_never(access)
