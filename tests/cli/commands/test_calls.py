"""The verb calls."""

from __future__ import annotations

import json
from pathlib import Path

from anyio.from_thread import BlockingPortal

from mcphub.questions.calls import CallsAsked, calls_report
from mcphub.store.call_journal import CallJournal
from mcphub.store.call_record import ANSWERED
from tests.cli.conftest import Place
from tests.fakes.canned_hub import EVIL, CannedHub
from tests.store.calls import begin, record


def test_the_list(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """One line a call, newest first; what an agent calls itself is text."""
    hub.records = [record(2, agent=EVIL), record(1, outcome=ANSWERED, reason="")]
    out, err, status = place.run("calls")
    head, first, second = out.splitlines()
    assert head.split() == ["OPERATION", "SENT", "SERVER", "TOOL", "AGENT", "OUTCOME"]
    assert first.startswith("op_0000000a2  2023-11-14T22:13:20.250Z  db      drop  a\\x1b]0;owned")
    assert first.endswith("unknown: mcphub was killed before the answer came")
    assert second.endswith("claude-code" + " " * (second.index("answered") - second.index("claude") - 11) + "answered")
    assert (err, status) == ("", 0)
    assert place.run("calls", "--limit", "1")[1] == "mcphub: there are more: --limit 10 shows older ones\n"
    assert place.run("calls", "--unknown", "--server", "db", "--agent", "owned")[0].count("op_") == 1
    report = json.loads(place.run("calls", "--json")[0])
    assert report == calls_report(hub.records, CallsAsked(), live=True)


def test_one_call(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """All that is known of it, and what to do."""
    hub.records = [record(1, agent="", trace="ab" * 16)]
    out, err, status = place.run("calls", "op_0000000a1")
    assert out.splitlines()[:2] == [
        "operation  op_0000000a1",
        "outcome    unknown: mcphub was killed before the answer came",
    ]
    assert "agent      (no name)\n" in out and f"trace      {'ab' * 16}\n" in out
    assert out.splitlines()[-1].startswith("to do      look at db for what drop may have done")
    assert (err, status) == ("", 0)
    out, err, status = place.run("calls", "op_0000000a2")
    assert (out, status) == ("", 1) and err.startswith("mcphub: cannot find the call 'op_0000000a2'")


def test_nothing(place: Place, hub: CannedHub, portal: BlockingPortal) -> None:
    """An empty journal is not silent, and why calls are not recorded is told."""
    assert place.run("calls") == ("", "mcphub: no such call is recorded\n", 0)
    hub.problems = ["calls are not recorded: x"]
    said = "mcphub: calls are not recorded: x\nmcphub: no call of an unknown outcome is recorded\n"
    assert place.run("calls", "--unknown") == ("", said, 0)
    assert place.run("calls", "--limit", "0")[2] == 2


def test_without_a_daemon(home: Place) -> None:
    """The file itself is read, and not changed; what was open is unknown."""
    assert json.loads(home.run("calls", "--json")[0]) == calls_report([], CallsAsked(), live=False)
    journal = CallJournal(f"{home.root}/state/mcphub/calls")
    begin(journal)
    journal.end()
    before = Path(journal.path).read_bytes()
    [one] = json.loads(home.run("calls", "--json")[0])["calls"]
    assert (one["outcome"], one["reason"]) == ("unknown", "stopped")
    assert home.run("calls", one["operation"])[0].startswith(f"operation  {one['operation']}\n")
    assert home.run("calls", "op_x")[2] == 1
    assert Path(journal.path).read_bytes() == before
    Path(journal.path).write_bytes(b"mcphub calls 2\n")
    assert home.run("calls")[1:] == (f"mcphub: cannot read {journal.path}: another version of mcphub wrote it\n", 1)
