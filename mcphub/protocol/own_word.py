"""Owns which members are mcphub's own word to agents, and takes them out of what a server sends.

It must not know what mcphub says there, nor to whom. A key counts however it is written: JSON lets each of its letters
be an escape (RFC 8259, section 7), and a name stand twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from mcphub.protocol.jsonrpc import Raw, quote

#: Members that begin so, of an error's `data` and of a `_meta`, are said by mcphub alone.
DOMAIN = "dev.mcphub/"
#: What the row of a server that sent some counts them as.
COUNTER = "claimed_keys"

_members = msgspec.json.Decoder(dict[str, Raw]).decode


def may_claim(body: bytes) -> bool:
    """Whether some JSON may have such a key anywhere. Cheap; what has an escape of one of its letters may."""
    return b"dev.mcphub/" in body or (b"\\" in body and (b"\\u00" in body or b"\\/" in body))


def without(raw: bytes, counters: Counter[str] | None = None) -> bytes:
    """This object without such members of its own, and `counters` told of them; all others keep their bytes. What is no
    object, and what cannot be read, stays."""
    if raw[:1] != b"{" or not may_claim(raw):
        return raw
    try:
        fields = _members(raw)
    except (msgspec.DecodeError, RecursionError):
        return raw
    drop_from(fields, counters)
    return object_of(fields)


def without_in_meta(raw: bytes, counters: Counter[str] | None = None) -> bytes:
    """A result, or another object with a `_meta`, without such members of that; as in `without`."""
    return _without_in(raw, "_meta", counters)


def without_in_data(raw: bytes, counters: Counter[str] | None = None) -> bytes:
    """The same for the `data` of an error object."""
    return _without_in(raw, "data", counters)


def _without_in(raw: bytes, member: str, counters: Counter[str] | None) -> bytes:
    if raw[:1] != b"{" or not may_claim(raw):
        return raw
    try:
        fields = _members(raw)
    except (msgspec.DecodeError, RecursionError):
        return raw
    if member not in fields:
        return raw
    fields[member] = Raw(without(bytes(fields[member]), counters))
    return object_of(fields)


def drop_from(fields: dict[str, Raw], counters: Counter[str] | None = None) -> None:
    """The same for members that were read already."""
    claimed = [key for key in fields if key.startswith(DOMAIN)]
    for key in claimed:
        del fields[key]
    if claimed and counters is not None:
        counters[COUNTER] += len(claimed)


def object_of(fields: Mapping[str, Raw]) -> bytes:
    """These members as JSON."""
    return b"{" + b",".join([quote(k) + b":" + bytes(v) for k, v in fields.items()]) + b"}"
