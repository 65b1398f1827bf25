"""What people are told of the outcome journal."""

from __future__ import annotations

import pytest

from mcphub.questions.calls import REASONS, TEXTS, CallsAsked, calls_report, no_such_call, recorded
from mcphub.store import call_record
from mcphub.store.call_record import ANSWERED, NOT_ACTED_ON, OPEN
from tests.store.calls import record

RECORDS = [
    record(4, outcome=OPEN, reason="", ended=0.0),
    record(3, server="mail", agent="Cursor"),
    record(2, outcome=ANSWERED, reason=""),
    record(1),
]


@pytest.mark.parametrize(
    ("asked", "found", "more"),
    [
        (CallsAsked(), [4, 3, 2, 1], False),
        (CallsAsked(unknown=True), [3, 1], False),
        (CallsAsked(server="db"), [4, 2, 1], False),
        (CallsAsked(server="d"), [], False),
        (CallsAsked(agent="curs"), [3], False),
        (CallsAsked(unknown=True, server="db", agent="claude"), [1], False),
        (CallsAsked(limit=2), [4, 3], True),
        (CallsAsked(limit=4), [4, 3, 2, 1], False),
        (CallsAsked(id="op_0000000a2"), [2], False),
        (CallsAsked(id="op_0000000a2", unknown=True), [], False),
        (CallsAsked(id="op_0000000a2", limit=0), [2], False),
        (CallsAsked(id="op_0000000b2"), [], False),
    ],
)
def test_what_is_found(asked: CallsAsked, found: list[int], more: bool) -> None:
    """What was asked for, newest first, and whether there is more of it."""
    report = calls_report(RECORDS, asked, ["x"], live=True)
    assert [int(one["operation"][-1]) for one in report["calls"]] == found
    assert (report["more"], report["problems"], report["live"]) == (more, ["x"], True)


def test_no_more_is_read_than_it_takes() -> None:
    """A journal is long, and what is asked for is mostly at its beginning."""
    left = iter(RECORDS)
    calls_report(left, CallsAsked(limit=1), live=False)
    assert len(list(left)) == 2


def test_one_call() -> None:
    """Moments, texts, and what to do."""
    one = recorded(record(trace="ab" * 16))
    assert (one["began"], one["ended"]) == ("2023-11-14T22:13:20.250Z", "2023-11-14T22:13:21.000Z")
    assert one["text"] == "unknown: mcphub was killed before the answer came"
    assert one["check"].startswith("look at db for what drop may have done")
    assert (one["outcome"], one["reason"], one["trace"]) == ("unknown", "killed", "ab" * 16)
    waits = recorded(RECORDS[0])
    assert (waits["ended"], waits["text"], waits["check"]) == (None, "waits for its answer", "")
    refused = recorded(record(outcome=NOT_ACTED_ON, reason="unheard_of"))
    assert refused["text"] == "not acted on: unheard_of" and refused["check"] == ""


def test_every_word_has_its_text() -> None:
    """Whatever a record may say is told."""
    assert REASONS.keys() == set(call_record.REASONS) - {""}
    assert TEXTS.keys() == set(call_record.OUTCOMES) - {""}


@pytest.mark.parametrize(("id", "says"), [("op_1\x1b", r"op_1\x1b"), ("7", "an id begins with op_")])
def test_what_is_not_there(id: str, says: str) -> None:
    """Who asks for it reads why there may be none."""
    assert says in no_such_call(id)
