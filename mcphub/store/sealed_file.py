"""Owns the form of a sealed file: bytes and a key to an envelope, and back.

It must not know files, where keys come from, or what is inside. AES-256-GCM (NIST SP 800-38D) with a nonce of 12 bytes
that the caller makes anew for each envelope. What stands before the nonce is authenticated, not hidden:

    12 bytes  mcphub-vault
     2 bytes  version of the form, 1
     8 bytes  counter: each writing has a higher one
     8 bytes  which key: the begin of a hash of it, so that a wrong key is not taken for damage
    16 bytes  the salt that the key was made from a passphrase with, else zeros
    12 bytes  nonce
    and the ciphertext with its tag of 16 bytes

Numbers are big-endian.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field

import msgspec

MAGIC = b"mcphub-vault"
VERSION = 1
KEY_BYTES = 32
SALT_BYTES = 16
NONCE_BYTES = 12
TAG_BYTES = 16
NO_SALT = bytes(SALT_BYTES)

_HEAD = struct.Struct(f">{len(MAGIC)}sHQ8s{SALT_BYTES}s")


class Unreadable(Exception):
    """It is no envelope, or not whole, or something in it was changed. The text is the cause."""


class Newer(Exception):
    """A version that this one does not know."""


class OtherKey(Exception):
    """It was sealed with another key."""


@dataclass(frozen=True, slots=True)
class Key:
    """32 bytes, and the salt where they were made from a passphrase."""

    data: bytes = field(repr=False)
    salt: bytes = field(default=NO_SALT, repr=False)

    @property
    def mark(self) -> bytes:
        """Which key it is: 8 bytes that say nothing else about it."""
        return hashlib.sha256(b"mcphub vault key\0" + self.data).digest()[:8]


class Head(msgspec.Struct, frozen=True):
    """What can be read without a key."""

    counter: int
    mark: bytes
    salt: bytes


def read_head(data: bytes) -> Head:
    """The head of an envelope. Raises Unreadable, Newer."""
    if not data.startswith(MAGIC):
        raise Unreadable("it does not begin as a vault does" if data else "it is empty")
    if len(data) < len(MAGIC) + 2:
        raise Unreadable("it ends too early")
    if (version := int.from_bytes(data[len(MAGIC) : len(MAGIC) + 2])) > VERSION:
        raise Newer(f"it has version {version} and this mcphub knows up to {VERSION}")
    if len(data) < _HEAD.size + NONCE_BYTES + TAG_BYTES:
        raise Unreadable("it ends too early")
    _, version, counter, mark, salt = _HEAD.unpack_from(data)
    if version < VERSION:
        raise Unreadable("no mcphub wrote this version")
    return Head(counter, mark, salt)


def seal(plain: bytes, key: Key, counter: int, nonce: bytes) -> bytes:
    """The envelope. `nonce` must never have been used with this key before."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # some 20 ms, for those who have a vault

    head = _HEAD.pack(MAGIC, VERSION, counter, key.mark, key.salt)
    return head + nonce + AESGCM(key.data).encrypt(nonce, plain, head)


def unseal(data: bytes, key: Key) -> bytes:
    """What is inside. Raises Unreadable, Newer, OtherKey."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if read_head(data).mark != key.mark:
        raise OtherKey
    body = _HEAD.size + NONCE_BYTES
    try:
        return AESGCM(key.data).decrypt(data[_HEAD.size : body], data[body:], data[: _HEAD.size])
    except InvalidTag:
        raise Unreadable("it is not as it was sealed") from None
