"""Owns to which server a name or URI belongs that nobody has listed yet, as far as it says so itself.

It must not know workers, nor what becomes of the request. Names are looked up in tables where there are any; this is
for the time before.
"""

from __future__ import annotations

from collections.abc import Mapping

from mcphub.catalog.naming import prefix
from mcphub.protocol.content import conceal
from mcphub.spec import InstanceKey


def whose_name(seen: Mapping[str, InstanceKey], view: str, name: str) -> InstanceKey | None:
    """The server of which a tool or prompt of this name would be; None = of none that is seen. The longest beginning
    counts: what reads as another server's name is listed under another one (catalog.naming)."""
    servers = [server for server in seen if view or name.startswith(prefix(server))]
    return seen[max(servers, key=len)] if servers else None


def whose_uri(seen: Mapping[str, InstanceKey], view: str, uri: str) -> InstanceKey | None:
    """The same of a resource: in a view of one server every URI is its, else one that has a server's name in it."""
    if view:
        return seen.get(view)
    found = conceal(uri)
    return seen.get(found[0]) if found is not None else None
