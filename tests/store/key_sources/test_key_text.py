"""A key as text."""

from __future__ import annotations

import base64

import pytest

from mcphub.store.key_sources.key_text import read, written
from mcphub.store.sealed_file import Key

KEY = Key(bytes(range(224, 256)))


@pytest.mark.parametrize(
    "data",
    [
        KEY.data,
        base64.urlsafe_b64encode(KEY.data),
        base64.b64encode(KEY.data),
        base64.urlsafe_b64encode(KEY.data) + b"\r\n",
        b" " + base64.urlsafe_b64encode(KEY.data) + b"\n\n",
    ],
)
def test_what_is_read(data: bytes) -> None:
    """Both alphabets of base64, as a file or a tool has them, or the bytes themselves."""
    assert read(data) == KEY


@pytest.mark.parametrize(
    "data", [b"", b"x", b"x" * 44, b"=" * 44, base64.b64encode(b"x" * 31), base64.b64encode(b"x" * 33), b"\xff" * 44]
)
def test_what_is_none(data: bytes) -> None:
    """Anything else is no key, and no part of it is taken for one."""
    assert read(data) is None or len(data) == 44


def test_there_and_back() -> None:
    """44 characters."""
    assert len(written(KEY)) == 44
    assert read(written(KEY).encode()) == KEY
