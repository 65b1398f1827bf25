"""What is said of a call that was in flight when its daemon ended."""

from __future__ import annotations

import pytest

from mcphub.gateway.left_over import Aim, judge
from mcphub.gateway.outcomes import Record
from mcphub.gateway.standing import Owed

READS, WRITES = Aim("db", "get", True), Aim("db", "get")


@pytest.mark.parametrize(
    ("record", "aim", "harmless"),
    [
        (Record.NONE, READS, True),
        (Record.NONE, WRITES, True),
        (Record.NONE, Aim(), True),
        (Record.GONE, READS, True),
        (Record.GONE, WRITES, False),
        (Record.UNSURE, READS, False),
        (Record.THERE, READS, False),
    ],
)
def test_a_call(record: Record, aim: Aim, harmless: bool) -> None:
    """It did no harm only where the journal certainly has nothing of it: what its tool says now it need not have said
    then. The same goes for one that was not sent when that was noted: it may have been since."""
    owed = Owed("1", "tools/call mcp__db__get", tool="mcp__db__get", first=True)
    judge(owed, record, aim)
    assert owed.read_only is harmless and (owed.server, owed.own_name) == (aim.server, aim.tool)
    waits = Owed("1", "a request", server="db", tool="mcp__db__get", unsent=True)
    judge(waits, record, aim)
    assert (waits.unsent, waits.read_only, waits.first) == (False, harmless, True)


def test_a_round_of_an_earlier_call() -> None:
    """Its call is in the journal under another id, if it is: nothing follows from that there is none under this one."""
    owed = Owed("1", "tools/call t", tool="t")
    judge(owed, Record.NONE, READS)
    assert not owed.read_only


@pytest.mark.parametrize("read_only", [True, False])
def test_what_the_daemon_itself_has_said(read_only: bool) -> None:
    """It knew the call, and is believed."""
    owed = Owed("1", "get", read_only, "db", own_name="get")
    judge(owed, Record.THERE, Aim())
    assert (owed.read_only, owed.server, owed.own_name) == (read_only, "db", "get")
