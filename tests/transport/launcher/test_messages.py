"""The wire between daemon and launcher."""

from __future__ import annotations

import pytest

from mcphub.transport.launcher.messages import pack, unpack


def test_messages_survive_any_cut() -> None:
    """What is packed is unpacked, whatever pieces it comes in, and a rest stays for later."""
    spawn = ("spawn", 1, b"/x", [b"a"], {b"k": b"v" * 9000}, b"/")
    messages: list[tuple[object, ...]] = [("hello", 1 << 61), spawn, ("gone", 2)]
    stream = b"".join(map(pack, messages))
    for size in (1, 3, 4096, len(stream)):
        buffer, got = bytearray(), []
        for i in range(0, len(stream), size):
            buffer += stream[i : i + size]
            got += unpack(buffer)
        assert got == messages
        assert not buffer


def test_a_message_of_impossible_length_is_refused() -> None:
    """A length that no peer of ours sends is an error, not a reason to wait for it."""
    with pytest.raises(ValueError, match="too long"):
        unpack(bytearray(b"\xff\xff\xff\xff"))
