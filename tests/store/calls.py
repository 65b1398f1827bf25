"""Owns calls for tests of the outcome journal."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from mcphub.store.call_journal import CallJournal
from mcphub.store.call_record import UNKNOWN, CallRecord, names

DIGEST, TRACE = bytes(range(16)), bytes(range(1, 17))


def record(number: int = 1, **changes: Any) -> CallRecord:
    """One whose outcome is unknown."""
    fields: dict[str, Any] = {
        "id": f"op_0000000a{number:x}",
        "number": number,
        "server": "db",
        "tool": "drop",
        "agent": "claude-code",
        "workspace": "/w",
        "digest": DIGEST.hex(),
        "size": 17,
        "trace": "",
        "began": 1_700_000_000.25,
        "ended": 1_700_000_001.0,
        "attempts": 1,
        "agent_era": "legacy",
        "server_era": "modern",
        "outcome": UNKNOWN,
        "reason": "killed",
        "request": 5,
    }
    return CallRecord(**(fields | changes))


def begin(journal: CallJournal, tool: str = "drop", request: int = 5) -> int:
    """A call that is about to be sent; its number."""
    text = names("db", tool, "claude-code", "/w")
    return journal.begin(text, crc32(text), request, 17, DIGEST, TRACE, False, True)
