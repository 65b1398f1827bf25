"""The form of a sealed file."""

from __future__ import annotations

import pytest

from mcphub.store.sealed_file import MAGIC, NO_SALT, Key, Newer, OtherKey, Unreadable, read_head, seal, unseal

KEY = Key(b"k" * 32)
NONCE = b"n" * 12
PLAIN = b"what is inside"


def test_there_and_back() -> None:
    """The head can be read by anybody, what is inside by whoever has the key."""
    data = seal(PLAIN, KEY, 7, NONCE)
    head = read_head(data)
    assert (head.counter, head.mark, head.salt) == (7, KEY.mark, NO_SALT)
    assert unseal(data, KEY) == PLAIN
    assert PLAIN not in data and KEY.data not in data


def test_the_salt_travels() -> None:
    """A key that was made from a passphrase can be made again."""
    assert read_head(seal(PLAIN, Key(b"k" * 32, b"s" * 16), 1, NONCE)).salt == b"s" * 16


def test_every_changed_byte_is_noticed() -> None:
    """Head, nonce, inside and tag: nothing of it can be another."""
    data = seal(PLAIN, KEY, 7, NONCE)
    for index in range(len(data)):
        changed = bytearray(data)
        changed[index] ^= 1
        with pytest.raises((Unreadable, OtherKey, Newer)):
            unseal(bytes(changed), KEY)


def test_every_length_that_is_not_whole() -> None:
    """C115: a half-written file is unreadable, never empty."""
    data = seal(PLAIN, KEY, 7, NONCE)
    for size in range(len(data)):
        with pytest.raises(Unreadable):
            unseal(data[:size], KEY)
    with pytest.raises(Unreadable):
        unseal(data + b"x", KEY)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", Unreadable),
        (b"{}", Unreadable),
        (MAGIC, Unreadable),
        (MAGIC + b"\x00\x00" + bytes(100), Unreadable),
        (MAGIC + b"\x00\x02", Newer),
        (MAGIC + b"\xff\xff" + bytes(100), Newer),
    ],
)
def test_what_is_none(data: bytes, error: type[Exception]) -> None:
    """A version to come is told from damage."""
    with pytest.raises(error):
        read_head(data)


def test_another_key_is_not_damage() -> None:
    """The file of another key is whole."""
    with pytest.raises(OtherKey):
        unseal(seal(PLAIN, KEY, 7, NONCE), Key(b"j" * 32))


def test_a_key_does_not_print() -> None:
    """S12: no text of it has a byte of it."""
    assert repr(KEY) == str(KEY) == "Key()"
