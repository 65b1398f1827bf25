"""Owns how long an agent may keep a merged list, and whether others may have its copy: the strictest of all its parts.

It must not know agents, nor list anything itself. The rules: a modern server's word, as far as it is not used up; of a
legacy server, which has no word for it, the hub's own where it tells of changes; nothing of a server that is away, nor
of a list that has changed, or could not be listed again.
"""

from __future__ import annotations

from collections.abc import Iterable

from mcphub.connection.handshake import LISTS
from mcphub.connection.machine import Connected
from mcphub.connection.view import View
from mcphub.protocol.caching import UNSAID, Freshness, least

#: How long an agent may keep any list at most, seconds: a server can be added at any time, and only those who listen
#: are told.
DEFAULT_MOST = 60.0


def merged_freshness(views: Iterable[View], method: str, now: float, most: float = DEFAULT_MOST) -> Freshness:
    """What holds for the list of this method that these instances bring their parts to. Private where none does."""
    parts = [part for view in views if (part := _part(view, method, now, most)) is not None]
    if not parts:
        return Freshness(now + most)
    found = least(parts)
    return Freshness(min(found.until, now + most), found.public)


def _part(view: View, method: str, now: float, most: float) -> Freshness | None:
    """One instance's part; None where it has none, and never will while it is what it is."""
    if view.facts is None:
        return UNSAID
    capability = LISTS[method][0]
    if capability not in view.facts.capabilities:
        return None
    if view.facts.era == "modern":
        said = view.fresh.get(method, UNSAID)
    else:
        said = Freshness(now + most if view.facts.tells(capability) and not view.deaf else 0.0)
    known = isinstance(view.state, Connected) and method not in view.doubted
    return said if known else Freshness(0.0, said.public)
