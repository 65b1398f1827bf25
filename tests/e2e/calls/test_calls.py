"""Calls that are counted on both sides while servers are killed: the short run, and that its judgement is right."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.calls.agents import _Agent
from tests.e2e.calls.journal import differences
from tests.e2e.calls.ledger import Book, Ledger, Outcome, disagreement, executions, judge, read_answer
from tests.e2e.calls.work import NAMES, SERVERS, Work
from tests.e2e.chaos.world import ROOT


@pytest.mark.timeout(180)
@pytest.mark.parametrize("more", [("--calls", "20000"), ("--calls", "8000", "--bursts")], ids=["many", "bursts"])
def test_twenty_thousand_calls(more: tuple[str, ...]) -> None:
    """No answer is lost without a name, none given twice or to another agent, each write is done at most once, and what
    agents were told of it agrees with what its server wrote down."""
    argv = [sys.executable, "-m", "tests.e2e.calls", *more]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-3000:]


def said(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, **members}).encode()


def failed(kind: str, **more: str) -> bytes:
    return said(error={"code": -32603, "message": "no", "data": {"dev.mcphub/error": {"kind": kind, **more}}})


def content(text: str, **more: Any) -> bytes:
    return said(result={"content": [{"type": "text", "text": text}], **more})


@pytest.mark.parametrize(
    ("line", "tool", "outcome", "wrong"),
    [
        (content("a-1"), "write", Outcome.RESULT, ""),
        (content("a-2"), "write", Outcome.RESULT, "of another call"),
        (content("b-1"), "read", Outcome.RESULT, "of another call"),
        (said(result={}), "write", Outcome.RESULT, "of another call"),
        (content("a-1", structuredContent={"token": "a-1", "count": 1}), "record", Outcome.RESULT, ""),
        (content("a-1", structuredContent={"token": "a-2", "count": 1}), "record", Outcome.RESULT, "structured"),
        (content("a-1"), "record", Outcome.RESULT, "structured"),
        (content("far is down", isError=True), "write", Outcome.NOT_TAKEN, ""),
        (content("it is down", isError=True), "write", Outcome.NOT_TAKEN, "does not say whose"),
        (content("declined a-1"), "ask", Outcome.NOT_TAKEN, ""),
        (content("b-7 was brought for a-1"), "ask", Outcome.RESULT, "of another call"),
        (failed("outcome_unknown", server="far"), "write", Outcome.UNKNOWN, ""),
        (failed("request_state_lost", server="far"), "ask", Outcome.UNKNOWN, ""),
        (failed("outcome_unknown", server="near"), "write", Outcome.UNKNOWN, "of the server near"),
        (failed("lost", server="far"), "write", Outcome.NOT_TAKEN, ""),
        (failed("lost", server="far"), "read", Outcome.UNKNOWN, ""),
        (failed("busy"), "put", Outcome.NOT_TAKEN, ""),
        (said(error={"code": -32603, "message": "no"}), "write", Outcome.NOT_TAKEN, "without a name"),
        (said(error={"code": "x"}), "write", Outcome.UNKNOWN, "an error that is none"),
        (said(result=[1]), "write", Outcome.UNKNOWN, "no result"),
        (said(), "write", Outcome.UNKNOWN, "no result"),
    ],
)
def test_an_answer_is_judged(line: bytes, tool: str, outcome: Outcome, wrong: str) -> None:
    """A result must bring the token of its call, an error its name; whether it was done is what mcphub says."""
    found = judge(read_answer(line), "a-1", "far", tool)
    assert found.outcome == outcome
    assert (wrong in found.wrong) if wrong else not found.wrong


@pytest.mark.parametrize(
    ("outcome", "tool", "times", "wrong"),
    [
        (Outcome.OPEN, "read", 0, "not ended"),
        (Outcome.RESULT, "write", 0, "never executed"),
        (Outcome.RESULT, "write", 1, ""),
        (Outcome.RESULT, "ask", 2, "2 times"),
        (Outcome.RESULT, "record", 2, "2 times"),
        (Outcome.RESULT, "put", 3, ""),
        (Outcome.RESULT, "read", 3, ""),
        (Outcome.RESULT, "read", 4, "4 times"),
        (Outcome.RESULT, "read", 0, "never executed"),
        (Outcome.UNKNOWN, "write", 0, ""),
        (Outcome.UNKNOWN, "write", 1, ""),
        (Outcome.UNKNOWN, "write", 2, "2 times"),
        (Outcome.CANCELLED, "write", 1, ""),
        (Outcome.CANCELLED, "write", 2, "2 times"),
        (Outcome.NOT_TAKEN, "write", 0, ""),
        (Outcome.NOT_TAKEN, "write", 1, "was not done, and it was"),
        (Outcome.NOT_TAKEN, "put", 1, "was not done, and it was"),
        (Outcome.NOT_TAKEN, "read", 1, ""),
    ],
)
def test_both_sides_are_compared(outcome: Outcome, tool: str, times: int, wrong: str) -> None:
    """How often a call may have been executed depends on how it ended, and on what its tool does."""
    found = disagreement(outcome, tool, times)
    assert (wrong in found) if wrong else not found


def test_a_fault_is_told_with_the_history_of_its_call() -> None:
    """What its agent sent and got, what servers did, and what was done to its server about then."""
    ledger = Ledger(("far", "near"))
    book = ledger.book("a")
    for now in (10.0, 11.0):
        book.begin(0, 0, "act-die", now)
    book.answered(0, read_answer(content("a-0")), 10.5)
    book.answered(0, read_answer(content("a-0")), 10.6)
    book.note(1, "is withdrawn", 11.1)
    book.cancelled(1, 11.2)
    ledger.harms += [(10.2, "far", "kill"), (10.2, "near", "reset"), (30.0, "far", "stop")]
    lines = [b"a-0 write 7 10.100000\n", b"a-0 write 8 10.300000\n", b"a-1 write 8 11.150000\n"]
    done = {"far": lambda: iter(lines), "near": lambda: iter([b"a-1 read 9 11.3\n"])}
    count, found = ledger.settle(done)
    assert (count, found["RESULT write 2"], found["CANCELLED write 2"]) == (4, 1, 1)
    told = "\n".join(ledger.told(done))
    for words in ("a second answer", "executed 2 times", "another server or tool", "far: kill", "executes write in 8"):
        assert words in told
    assert "near: reset" not in told and "far: stop" not in told
    assert book.open() == [] and book.given_up() == Counter(far=2)


def row(operation: str, outcome: str = "unknown", tool: str = "write") -> dict[str, str]:
    return {"operation": operation, "outcome": outcome, "agent": "a", "server": "far", "tool": tool}


def test_the_journal_is_compared() -> None:
    """What agents were told is unknown is unknown there, and nothing else but what was withdrawn."""
    ledger = Ledger(("far",))
    book = ledger.book("a")
    for number in range(4):
        book.begin(0, 0, "", float(number))
    book.answered(0, read_answer(failed("outcome_unknown", server="far", operationId="op_0")), 1.0)
    book.answered(1, read_answer(failed("outcome_unknown", server="far", operationId="op_1")), 2.0)
    book.answered(2, read_answer(failed("busy", server="far", operationId="op_2")), 3.0)
    book.cancelled(3, 4.0)
    right = [row("op_0"), row("op_1"), row("op_3"), row("op_4", "answered"), row("op_2", "not_acted_on")]
    assert differences(right, [book]) == []
    for rows, words in (
        ([row("op_0"), row("op_1"), row("op_3", "open")], "is open"),
        ([row("op_0"), row("op_3")], "a-1: unknown to its agent, and not in the journal"),
        ([*right[:3], row("op_2")], "a-2: it was not done"),
        ([*right, row("op_5")], "2 calls of"),
        ([*right[:2], row("op_3", tool="put")], "1 calls of"),
    ):
        assert any(words in one for one in differences(rows, [book])), words
    open_ = [*right[:2], row("op_3", "open"), *right[3:]]
    assert differences(open_, [book], in_flight={"far": 1}) == []
    assert differences([*open_, row("op_6", "open")], [book], in_flight={"far": 1}) != []
    assert differences([*open_, row("op_6", "open")], [book], in_flight={"far": 2}) != []
    assert differences([row("op_1"), row("op_3")], [book], most=2, last=1) == []
    assert differences([row("op_0"), row("op_3")], [book], most=2, last=1) != []
    book.begin(0, 0, "", 5.0)
    book.answered(4, read_answer(failed("outcome_unknown", server="far")), 6.0)
    assert any("of no operation" in one for one in differences(right, [book]))


def test_the_same_seed_is_the_same_work() -> None:
    """What each agent asks for, one call after the other, follows from the seed and its name alone."""

    def asked(seed: str) -> list[object]:
        work, agent = Work(200), _Agent(Book("a", NAMES, lambda *_: None), "legacy", seed)
        return [work.next(agent.chance, Counter()) for _ in range(201)]

    assert asked("1") == asked("1") != asked("2")
    assert asked("1")[-1] is None
    assert {NAMES[one.server] for one in asked("1")[:-1]} == set(SERVERS)  # type: ignore[attr-defined]


def test_a_server_writes_down_before_it_answers(tmp_path: Path) -> None:
    """And what it wrote is there when the call itself killed it, once."""
    server = Path(__file__).with_name("server.py")
    for how, times, answers in (("die", 0, b""), ("act-die", 1, b""), ("half", 1, b'{"jsonrpc"'), ("", 1, b"}\n")):
        folder = tmp_path / (how or "plain")
        folder.mkdir()
        call = {"name": "write", "arguments": {"token": "a-1", "how": how}}
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode() + b"\n"
        argv = [sys.executable, "-I", "-S", str(server), "stdio", "legacy", "far", str(folder)]
        done = subprocess.run(argv, input=line, capture_output=True, timeout=20, check=False)
        assert (folder / "far.pid").exists() and answers in done.stdout
        lines = (folder / "far.done").read_bytes().splitlines()
        assert [one.token for one in executions("far", lines)] == ["a-1"] * times
