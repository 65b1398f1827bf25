"""Owns how long a list may be kept, and by whom: what its server said of it, and how that is said to agents.

It must not know servers or clocks: moments are seconds of one clock that the caller reads (MCP spec 2026-07-28,
server/utilities/caching).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mcphub.protocol.jsonrpc import Raw

#: A server's word counts for so long at most, seconds: one that says a year is still asked once a day.
MAX_TTL = 86_400.0


class Freshness(msgspec.Struct, frozen=True):
    """`until`: the moment up to which a list may be kept; one that is past means not at all. `public`: by anybody, not
    only by those who have the credential it was got with."""

    until: float = 0.0
    public: bool = False


_members = msgspec.json.Decoder(dict[str, Raw]).decode
_ZERO, _PRIVATE = Raw(b"0"), Raw(b'"private"')

#: What holds where nothing was said.
UNSAID = Freshness()


def read_freshness(ttl: Raw, scope: Raw, received: float) -> Freshness:
    """What the members `ttlMs` and `cacheScope` of a result mean; one that is missing, negative or of another type is
    the stricter one: 0, private."""
    text = bytes(ttl)
    seconds = 0.0
    if text.isdigit():
        # Beyond so many digits only the size matters, and Python would refuse thousands of them.
        seconds = min(int(text) / 1000, MAX_TTL) if len(text) <= 15 else MAX_TTL
    return Freshness(received + seconds, bytes(scope) == b'"public"')


def least(parts: Iterable[Freshness]) -> Freshness:
    """What holds for a list of several parts: the shortest time, public only if all are. Of no parts: UNSAID."""
    found = tuple(parts)
    if not found:
        return UNSAID
    return Freshness(min(part.until for part in found), all(part.public for part in found))


def uncached(result: bytes) -> bytes:
    """A result of `resources/read` as one that nobody may keep, whatever its server says; other results as they are."""
    try:
        members = _members(result)
    except (msgspec.DecodeError, RecursionError):
        return result
    if "contents" not in members:
        return result
    return msgspec.json.encode({**members, "ttlMs": _ZERO, "cacheScope": _PRIVATE})


def freshness_members(freshness: Freshness, now: float) -> bytes:
    """The members of a result that say so, with what is left of the time, in whole milliseconds."""
    left = max(int((freshness.until - now) * 1000), 0)
    return b'"ttlMs":%d,"cacheScope":"%b"' % (left, b"public" if freshness.public else b"private")
