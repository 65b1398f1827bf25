"""Owns the form of one call in the outcome journal: which bytes stand for it, its public id, what can come of a call.

It must not know where the bytes are kept, nor any value of an argument: there is only a keyed digest of them.

A record is RECORD bytes: an end (16 bytes, written anew as the call goes on), a check of all that follows, and what is
known before the call is sent. The end repeats the low half of the record's number: an end without its record, or the
other way round, is what a killed writer may leave, and counts as none.
"""

from __future__ import annotations

import struct
from zlib import crc32

import msgspec

#: Bytes of one record.
RECORD = 512
#: What can come of a call, by the byte that stands for it; 0 = there is no record.
OPEN, ANSWERED, TOOL_ERROR, ERROR, NOT_ACTED_ON, INPUT, UNKNOWN, TASK = range(1, 9)
OUTCOMES = ("", "open", "answered", "tool_error", "error", "not_acted_on", "input_required", "unknown", "task")
#: Why nothing is known, or why the server did not act; the byte is the place. Only ever add at the end.
REASONS = (
    "", "lost", "timeout", "cancelled", "killed", "stopped", "unreadable", "no_response", "status", "ended",
    "unreachable", "tls", "refused", "rate_limited", "needs_auth", "session", "not_sent", "given_up", "exited", "task",
    "task_cancelled", "session_over",
)  # fmt: skip
REASON_OF = {reason: place for place, reason in enumerate(REASONS)}
#: Eras by the byte that stands for them.
ERAS = ("legacy", "modern")
#: Bytes that names may take, as UTF-8; of a workspace the end is kept, of the others the beginning.
MAX_SERVER, MAX_TOOL, MAX_AGENT = 64, 128, 80

#: The low half of the number, outcome, reason, how often it was sent, when it ended (nanoseconds since 1970).
END = struct.Struct("<IBBHQ")
CHECK = struct.Struct("<I")
#: Epoch, number, when it was sent, who asked for it, bytes of arguments, their digest, trace id, eras of agent and
#: server.
BODY = struct.Struct("<IQQII16s16sBB")
_BODY = END.size + CHECK.size
HEAD = _BODY + BODY.size
_LENGTHS = struct.Struct("<BBBB")
MAX_WORKSPACE = RECORD - HEAD - _LENGTHS.size - MAX_SERVER - MAX_TOOL - MAX_AGENT
#: Of it, what says whether there is one: the low half of the number, outcome, check, number.
_LOOK = struct.Struct("<IB11xI4xQ").unpack_from
_NOTHING = bytes(HEAD)
_CUT = "\u2026".encode()


class Unreadable(ValueError):
    """The bytes are no record that any mcphub wrote whole."""


class CallRecord(msgspec.Struct, frozen=True):
    """One call. Times are seconds since 1970, `ended` 0.0 = it has not; `trace` is 32 hex digits, "" = none; `size` is
    that of the arguments in bytes, `digest` 32 hex digits. `request` stands for the agent's process and request id."""

    id: str
    number: int
    server: str
    tool: str
    agent: str
    workspace: str
    digest: str
    size: int
    trace: str
    began: float
    ended: float
    attempts: int
    agent_era: str
    server_era: str
    outcome: int
    reason: str
    request: int


def names(server: str, tool: str, agent: str, workspace: str) -> bytes:
    """The names of a call as they stand in a record."""
    parts = [_cut(server, MAX_SERVER), _cut(tool, MAX_TOOL), _cut(agent, MAX_AGENT)]
    place = workspace.encode("utf-8", "backslashreplace")
    if len(place) > MAX_WORKSPACE:
        place = _CUT + place[len(place) - MAX_WORKSPACE + len(_CUT) :].decode("utf-8", "ignore").encode()
    parts.append(place)
    return _LENGTHS.pack(*map(len, parts)) + b"".join(parts)


def _cut(text: str, most: int) -> bytes:
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= most:
        return data
    return data[: most - len(_CUT)].decode("utf-8", "ignore").encode() + _CUT


def public_id(epoch: int, number: int) -> str:
    """What people and agents are given: the epoch in 8 hex digits, then the number."""
    return f"op_{epoch:08x}{number:x}"


def number_of(id: str) -> tuple[int, int] | None:
    """(epoch, number) of a public id, None where it is none."""
    digits = id.removeprefix("op_")
    if len(digits) == len(id) or not 9 <= len(digits) <= 24 or not all(d in "0123456789abcdef" for d in digits):
        return None
    return int(digits[:8], 16), int(digits[8:], 16)


def look(data: bytes, at: int = 0) -> tuple[int, int]:
    """(number, outcome) of the record that begins there, (0, 0) where there is none. Raises Unreadable."""
    head = at + HEAD
    if data[at:head] == _NOTHING:
        return 0, 0
    try:
        tag, outcome, check, number = _LOOK(data, at)
    except struct.error as e:
        raise Unreadable(str(e)) from None
    end = head + _LENGTHS.size + sum(data[head : head + _LENGTHS.size])
    whole = at + RECORD
    if len(data) < whole or end > whole or crc32(data[at + _BODY : head], crc32(data[head:end])) != check:
        raise Unreadable("its check does not fit")
    if tag != number & 0xFFFFFFFF or not 0 < outcome < len(OUTCOMES) or not number:
        raise Unreadable("its end is of another record")
    return number, outcome


def read(data: bytes) -> CallRecord | None:
    """The record in these RECORD bytes, None where there is none. Raises Unreadable."""
    if not look(data)[0]:
        return None
    _, outcome, reason, attempts, ended = END.unpack_from(data)
    epoch, number, began, request, size, digest, trace, agent_era, server_era = BODY.unpack_from(data, _BODY)
    at = HEAD + _LENGTHS.size
    found = []
    try:
        for length in data[HEAD:at]:
            found.append(data[at : at + length].decode("utf-8"))
            at += length
        server, tool, agent, workspace = found
        return CallRecord(
            id=public_id(epoch, number),
            number=number,
            server=server,
            tool=tool,
            agent=agent,
            workspace=workspace,
            digest=digest.hex(),
            size=size,
            trace=trace.hex() if any(trace) else "",
            began=began / 1e9,
            ended=ended / 1e9,
            attempts=attempts,
            agent_era=ERAS[agent_era],
            server_era=ERAS[server_era],
            outcome=outcome,
            reason=REASONS[reason] if reason < len(REASONS) else "",
            request=request,
        )
    except (UnicodeDecodeError, IndexError) as e:
        raise Unreadable(str(e)) from None
