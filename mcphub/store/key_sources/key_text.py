"""Owns how a key is written where text is kept: 44 characters of base64 (RFC 4648, URL-safe), or its 32 bytes.

It must not know where that is.
"""

from __future__ import annotations

import base64
import binascii

from mcphub.store.sealed_file import KEY_BYTES, Key


def written(key: Key) -> str:
    """The key as text. It is a secret."""
    return base64.urlsafe_b64encode(key.data).decode("ascii")


def read(data: bytes) -> Key | None:
    """The key in `data`, one line break at its end apart; None where it holds none."""
    if len(data) == KEY_BYTES:
        return Key(data)
    text = data.strip(b" \t\r\n").translate(bytes.maketrans(b"+/", b"-_"))
    try:
        raw = base64.b64decode(text, b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return Key(raw) if len(raw) == KEY_BYTES else None
