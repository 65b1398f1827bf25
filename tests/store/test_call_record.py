"""The form of one call in the outcome journal."""

from __future__ import annotations

import struct
from zlib import crc32

import pytest

from mcphub.store import call_record as module
from mcphub.store.call_record import (
    BODY,
    CHECK,
    END,
    HEAD,
    OPEN,
    OUTCOMES,
    REASON_OF,
    REASONS,
    RECORD,
    UNKNOWN,
    Unreadable,
    look,
    names,
    number_of,
    public_id,
    read,
)


def made(number: int = 7, outcome: int = UNKNOWN, reason: int = 1, text: bytes = names("db", "t", "a", "/w")) -> bytes:
    body = BODY.pack(10, number, 1_500_000_000, 3, 17, bytes(range(16)), bytes(16), 1, 0)
    end = END.pack(number & 0xFFFFFFFF, outcome, reason, 2, 2_000_000_000)
    return (end + CHECK.pack(crc32(body, crc32(text))) + body + text).ljust(RECORD, b"\0")


def test_what_is_read() -> None:
    """All that was known before the call was sent, and what came of it."""
    one = read(made())
    assert one is not None
    assert (one.id, one.number) == ("op_0000000a7", 7)
    assert (one.server, one.tool, one.agent, one.workspace) == ("db", "t", "a", "/w")
    assert (one.began, one.ended, one.attempts, one.size, one.request) == (1.5, 2.0, 2, 17, 3)
    assert (one.agent_era, one.server_era, one.trace, one.reason) == ("modern", "legacy", "", "lost")
    assert (OUTCOMES[one.outcome], one.digest) == ("unknown", bytes(range(16)).hex())
    assert look(made()) == (7, UNKNOWN)
    assert look(made(1 << 40, OPEN)) == (1 << 40, OPEN)
    unheard_of = read(made(reason=200))
    assert unheard_of is not None and unheard_of.reason == ""


def test_nothing() -> None:
    """An empty place holds no record, and is not damaged."""
    assert read(bytes(RECORD)) is None
    assert look(bytes(RECORD)) == (0, 0)


@pytest.mark.parametrize("at", [0, 4, END.size, END.size + 4 + 4, HEAD - 1, HEAD, HEAD + 5])
def test_damage(at: int) -> None:
    """A flipped bit anywhere but in what may change is seen; so is an end that is of another record."""
    data = bytearray(made())
    data[at] ^= 0x40
    with pytest.raises(Unreadable):
        read(bytes(data))


@pytest.mark.parametrize("data", [made()[:100], made()[:HEAD], b"\x01", b"x" * RECORD, made(0)])
def test_what_is_none(data: bytes) -> None:
    """What is cut, or was never one, is refused, not guessed."""
    with pytest.raises(Unreadable):
        read(data)


@pytest.mark.parametrize(
    ("server", "tool", "agent", "workspace"),
    [
        ("s" * 900, "t" * 900, "a" * 900, "/w" * 900),
        ("\u4e2d" * 90, "\u4e2d" * 90, "\u4e2d" * 90, "\u4e2d" * 90),
        ("", "", "", ""),
        ("a\udcff", "b", "c", "/\udcff"),
    ],
)
def test_names_that_are_long(server: str, tool: str, agent: str, workspace: str) -> None:
    """Whatever they are, a record has its size; of a workspace the end is kept, of others the beginning."""
    data = made(text=names(server, tool, agent, workspace))
    assert len(data) == RECORD
    one = read(data)
    assert one is not None
    if len(server) > 100:
        assert one.server.endswith("s\u2026") and one.workspace.startswith("\u2026") and one.workspace.endswith("/w")
        assert len(one.tool) < 129
    elif not server:
        assert (one.server, one.tool, one.agent, one.workspace) == ("", "", "", "")


@pytest.mark.parametrize(
    "id", ["", "op_", "op_123", "op_0000000a", "op_0000000ag", "op_0000000A1", "x", "op_" + "f" * 25]
)
def test_ids_that_are_none(id: str) -> None:
    """Only what `public_id` makes is one."""
    assert number_of(id) is None


def test_ids() -> None:
    """They stand for epoch and number, and never for two calls."""
    assert number_of(public_id(10, 255)) == (10, 255)
    assert number_of(public_id(0xFFFFFFFF, 1 << 40)) == (0xFFFFFFFF, 1 << 40)


def test_the_form_stays() -> None:
    """Files outlive a release: the sizes and the bytes of outcomes and reasons are what they were."""
    assert (RECORD, HEAD, END.size, struct.calcsize("<IQQII16s16sBB")) == (512, 82, 16, BODY.size)
    assert OUTCOMES.index("answered") == 2 and OUTCOMES.index("unknown") == 7
    assert REASONS[:6] == ("", "lost", "timeout", "cancelled", "killed", "stopped")
    assert REASON_OF["given_up"] == 17 and len(set(REASONS)) == len(REASONS) < 256
    assert module.MAX_WORKSPACE > 100
