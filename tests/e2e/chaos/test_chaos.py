"""The short run of the chaos: thirty seconds, 20,000 calls, in a process and, where it can be, a network of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.e2e.chaos.callers import kind_of
from tests.e2e.chaos.world import ROOT


@pytest.mark.timeout(180)
def test_thirty_seconds() -> None:
    """Servers of every transport are killed, stopped, cut off and made to lie: no call hangs or gets another's answer,
    nothing leaks, all are connected at the end, and those that were left alone notice nothing."""
    argv = [sys.executable, "-m", "tests.e2e.chaos", "--seconds", "30"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]


@pytest.mark.parametrize(
    ("answer", "kind", "wrong"),
    [
        ({"id": 1, "result": {"content": [{"type": "text", "text": "t1"}]}}, "result", ""),
        ({"id": 1, "result": {"content": [{"type": "text", "text": "t2"}]}}, "result", "of another call"),
        ({"id": 1, "result": {"isError": True, "content": [{"text": "far is away"}]}}, "tool error", ""),
        ({"id": 1, "result": {"isError": True, "content": [{"text": "no"}]}}, "tool error", "does not say whose"),
        ({"id": 1, "error": {"code": -32603, "message": "no"}}, "error -32603", ""),
        ({"id": 1, "error": {"code": -32603, "message": ""}}, "error -32603", "without words"),
        ({"id": 1, "error": {"code": 1, "message": "m", "data": {"dev.mcphub/error": {"kind": "lost"}}}}, "lost", ""),
        ({"id": 1, "result": [1]}, "odd", "neither"),
        ({"id": 1}, "odd", "neither"),
    ],
)
def test_an_answer_is_judged(answer: dict[str, object], kind: str, wrong: str) -> None:
    """A result must bring the token of its call, an error its name."""
    found = kind_of(answer, "t1", "far")
    assert found[0] == kind
    assert (wrong in found[1]) if wrong else not found[1]
