"""Compressed bodies in odd pieces."""

from __future__ import annotations

import gzip
import zlib

import pytest

from mcphub.outbound.inflate import INFLATED, Inflate

DATA = bytes(range(256)) * 20


def bare(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflate.compress(data) + deflate.flush()


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("encoding", "packed"),
    [("gzip", gzip.compress(DATA)), ("x-gzip", gzip.compress(DATA)), ("deflate", zlib.compress(DATA)),
     ("deflate", bare(DATA))],
    ids=["gzip", "x-gzip", "deflate", "bare"],
)  # fmt: skip
def test_any_chunking(encoding: str, packed: bytes, size: int) -> None:
    """A compressed body is what it was, however it was cut."""
    inflate = Inflate(encoding)
    pieces = [piece for at in range(0, len(packed), size) for piece in inflate.feed(packed[at : at + size])]
    assert b"".join(pieces) == DATA


def test_a_bomb_comes_in_pieces() -> None:
    """What is small on the wire and large in memory is given bit by bit, so that a reader can stop."""
    pieces = Inflate("gzip").feed(gzip.compress(bytes(20 * INFLATED)))
    assert len(next(pieces)) <= INFLATED


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip"])
def test_unknown_encodings(encoding: str) -> None:
    """What cannot be read is refused by name."""
    with pytest.raises(zlib.error, match="unknown encoding"):
        Inflate(encoding)


def test_damage() -> None:
    """A body that is not what it says is an error, once it is seen."""
    with pytest.raises(zlib.error):
        list(Inflate("gzip").feed(b"no gzip at all"))
