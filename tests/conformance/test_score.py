"""The pass rule, and the names that the suite's result folders stand for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance import score


def checks(*statuses: str) -> list[score.Check]:
    return [{"id": f"check-{n}", "status": status, "description": "d"} for n, status in enumerate(statuses)]


@pytest.mark.parametrize(
    ("statuses", "strict", "passed"),
    [
        (("SUCCESS",), False, True),
        (("SUCCESS", "INFO", "SKIPPED"), False, True),
        (("SUCCESS", "WARNING"), False, True),
        (("SUCCESS", "WARNING"), True, False),
        (("SUCCESS", "FAILURE"), False, False),
        (("SKIPPED", "INFO"), False, False),
        (("WARNING",), False, False),
        ((), False, False),
    ],
)
def test_pass_rule(statuses: tuple[str, ...], strict: bool, passed: bool) -> None:
    """A scenario passes with a success and without a failure; one that checked nothing does not."""
    assert score.verdict("x", checks(*statuses), strict=strict).passed is passed


def test_a_scenario_that_did_not_run() -> None:
    """It failed, and says why."""
    one = score.verdict("x", None)
    assert not one.passed and one.why == ("did not run",)


@pytest.mark.parametrize(
    ("folder", "leg", "scenario"),
    [
        ("auth/basic-cimd-2026-08-22T10-00-00-123Z", "client", "auth/basic-cimd"),
        ("server-tools-list-2026-08-22T10-00-00-123Z", "server", "tools-list"),
        ("server-server-stateless-2026-08-22T10-00-00-123Z", "server", "server-stateless"),
        ("json-schema-2020-12-preservation-2026-08-22T10-00-00-123Z", "client", "json-schema-2020-12-preservation"),
        ("log", "client", ""),
    ],
)
def test_scenario_of(folder: str, leg: str, scenario: str) -> None:
    """The folder's time and the leg's prefix go, whatever dates and prefixes the scenario's own name has."""
    assert score.scenario_of(folder, leg) == scenario


def test_results(tmp_path: Path) -> None:
    """Of two runs of one scenario the later counts."""
    for minute, status in (("01", "FAILURE"), ("02", "SUCCESS")):
        folder = tmp_path / "auth" / f"iss-supported-2026-08-22T10-{minute}-00-000Z"
        folder.mkdir(parents=True)
        (folder / "checks.json").write_text(json.dumps(checks(status)), "utf-8")
    found = score.results(tmp_path, "client")
    assert score.verdict("auth/iss-supported", found["auth/iss-supported"]).passed


def test_report() -> None:
    """One line with the numbers, then the failures, what they said, and the reason, or that there is none."""
    verdicts = [score.verdict("good", checks("SUCCESS")), score.verdict("bad", checks("FAILURE"))]
    assert score.report("client R scored", verdicts, reasons={"bad": "It is odd."}) == [
        "client R scored: 1/2",
        "   FAILED bad",
        "      check-0: d",
        "      reason: It is odd.",
    ]
    assert score.report("client R", verdicts, checks=False, reasons={"bad": "It is odd."})[2:] == [
        "      reason: It is odd."
    ]
    unexplained = score.report("client R", verdicts, checks=False)
    assert unexplained[2] == "      check-0: d" and "NONE ON RECORD" in unexplained[3]
