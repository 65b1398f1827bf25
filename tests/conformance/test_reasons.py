"""The table of reasons: what a run is compared with, and what the page says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance import reasons
from tests.conformance.reasons import NEW, Run
from tests.conformance.score import Verdict

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
CROSSED = Run("server", NEW, crossed=True)
FAILS, WARNS = "input-required-result-basic-elicitation", "input-required-result-ignore-extra-params"


def test_the_page_says_what_the_table_says() -> None:
    """A changed table without a changed page is a failure, not a stale page."""
    page = PAGE.read_text("utf-8")
    assert reasons.written(page) == page, "run: .venv/bin/python -m tests.conformance.reasons docs/conformance.md"
    assert reasons.tables() in page
    for reason in reasons.REASONS:
        assert f"`{reason.scenario}`" in page and reason.why in page


def test_each_reason_is_of_runs_that_there_are() -> None:
    """No run has two reasons for one scenario, and none has a reason that is empty or of no run."""
    seen = [(run, reason.scenario) for reason in reasons.REASONS for run in reason.runs]
    assert len(seen) == len(set(seen))
    assert {run for run, _ in seen} <= set(reasons.RUNS)
    assert all(reason.runs and reason.why.endswith(".") and "|" not in reason.why for reason in reasons.REASONS)
    assert {(run.leg, run.revision) for run in reasons.RUNS} == set(reasons.TOTALS)


def test_same_era_everything_that_is_scored_passes() -> None:
    """117 of 117: no reason excuses a scored scenario where both sides of mcphub speak one era."""
    assert not [r for r in reasons.REASONS for run in r.runs if r.scored and not run.crossed]
    assert "117 of 117 scored" in reasons.tables()


def test_a_page_without_marks() -> None:
    """It is refused, not overwritten."""
    with pytest.raises(ValueError, match="no lines"):
        reasons.written("# A page\n")


@pytest.mark.parametrize(
    ("one", "says"),
    [
        (Verdict("tools-list", True, succeeded=1), ""),
        (Verdict("tools-list", False, failed=1), "NOT PASS"),
        (Verdict("tools-list", False), "NOT PASS"),
        (Verdict("tools-list", True, succeeded=1, warned=1), "WARNS"),
        (Verdict(FAILS, False, failed=1), ""),
        (Verdict(FAILS, True, succeeded=1), "PASSES"),
        (Verdict(WARNS, True, succeeded=1, warned=1), ""),
        (Verdict(WARNS, True, succeeded=1), "PASSES"),
        (Verdict(WARNS, False, failed=1), "NOT PASS"),
        (Verdict(WARNS, False, succeeded=1, warned=1), ""),
    ],
)
def test_what_is_not_as_the_table_says(one: Verdict, says: str) -> None:
    """A failure or warning without a reason is told, and so is a reason that nothing needs; the rest is not."""
    found = reasons.surprises(CROSSED, [one])
    assert [one.name in line and says in line for line in found] == ([True] if says else [])


def test_another_number_of_scenarios() -> None:
    """A suite that has more, or fewer, is told of: the page counts by the table."""
    assert not reasons.miscounted(CROSSED, 37, 13)
    assert "38 + 13" in reasons.miscounted(CROSSED, 38, 13)[0]
