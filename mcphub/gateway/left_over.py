"""Owns what can be said of a call that was in flight when its daemon ended: that it did no harm, or that nobody knows.

It must not look anything up: what the outcome journal has, and where the name leads now, comes in.

Each call that is not known to only read is in the outcome journal before it is sent. So one that is certainly not in
there was not sent, or only reads. What its tool says now counts for no more than to confirm that: it may have been
another one then.
"""

from __future__ import annotations

import msgspec

from mcphub.gateway.outcomes import Record
from mcphub.gateway.standing import Owed


class Aim(msgspec.Struct, frozen=True):
    """Where an exposed name leads: the server, the tool's own name there, and whether that is known to only read now.
    "" = it is not known."""

    server: str = ""
    tool: str = ""
    reads: bool = False


def judge(owed: Owed, record: Record, aim: Aim) -> None:
    """Complete what is owed by whose it is, and by whether it may have had effects."""
    owed.server = owed.server or aim.server
    if not owed.tool:
        return  # it is no call, or the daemon itself has said what it knows of it
    owed.own_name = owed.own_name or aim.tool
    harmless = record is Record.NONE or (record is Record.GONE and aim.reads)
    if owed.unsent:
        # It may have been sent since that was noted, and even answered, where its tool only reads.
        owed.unsent, owed.read_only, owed.first = False, harmless, True
    elif owed.first:
        owed.read_only = harmless
