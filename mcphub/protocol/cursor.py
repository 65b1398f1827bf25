"""Owns the cursors that mcphub gives out: where in which list the next page begins, in a form that only we can make.

It must not know what is listed. A cursor belongs to one list as it was: for any other, also the same one after a
change, it is nothing. It holds no state of a connection, so it works on another one, and after a restart (MCP spec,
server/utilities/pagination).
"""

from __future__ import annotations

import base64
import hashlib
import hmac

#: Bytes of the position and of the seal; together they need no padding in base64.
_POSITION, _SEAL = 4, 14
_LENGTH = (_POSITION + _SEAL) * 4 // 3


def give_cursor(key: bytes, method: str, digest: str, position: int) -> str:
    """The cursor for the page of this list that begins with item `position`; `digest` says which list."""
    at = position.to_bytes(_POSITION, "big")
    # The first word keeps these seals apart from others under the same key.
    seal = hmac.new(key, b"list\0%b\0%b\0" % (method.encode(), digest.encode()) + at, hashlib.sha256).digest()
    return base64.urlsafe_b64encode(at + seal[:_SEAL]).decode("ascii")


def take_cursor(key: bytes, method: str, digest: str, cursor: str) -> int | None:
    """The position that the cursor was given out for, None where it was not given out for this list."""
    if len(cursor) != _LENGTH or not cursor.isascii():
        return None
    try:
        position = int.from_bytes(base64.urlsafe_b64decode(cursor)[:_POSITION], "big")
    except ValueError:
        return None
    return position if hmac.compare_digest(give_cursor(key, method, digest, position), cursor) else None
