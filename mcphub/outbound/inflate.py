"""Owns taking apart compressed bodies, a bounded piece at a time.

It must not know where a body comes from.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

#: Bytes that one step of decompressing gives at most: a bomb must not be held whole.
INFLATED = 1 << 20


class Inflate:
    """gzip and deflate, the latter with its wrapper or, as some servers do, without. Raises zlib.error."""

    def __init__(self, encoding: str) -> None:
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise zlib.error(f"unknown encoding {encoding[:40]}")
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
        #: What came so far of the two bytes that show whether there is a wrapper, None = it is known.
        self._head: bytes | None = b"" if encoding == "deflate" else None

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._head is not None:
            self._head = data = self._head + data
            if len(data) < 2:
                return
            self._head = None
            if not _wrapped(data):
                self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        while data:
            piece = self._inflate.decompress(data, INFLATED)
            if piece:
                yield piece
            data = self._inflate.unconsumed_tail


def _wrapped(data: bytes) -> bool:
    """Whether this begins as zlib's format does (RFC 1950, 2.2), or gzip's under the wrong name."""
    return (data[0] & 15 == 8 and int.from_bytes(data[:2], "big") % 31 == 0) or data[:2] == b"\x1f\x8b"
