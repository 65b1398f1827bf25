"""Owns what a run of the conformance suite is worth: the pass rule, and the lines that are printed.

It must not run anything; it reads the result files that the suite wrote.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: One check as the suite writes it: {id, status, description, errorMessage, ...}.
Check = Mapping[str, Any]
_RESULT = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One scenario: how many of its checks succeeded, failed and warned, and a line for each that did not succeed."""

    name: str
    passed: bool
    succeeded: int = 0
    failed: int = 0
    warned: int = 0
    why: tuple[str, ...] = ()


def verdict(name: str, checks: Sequence[Check] | None, *, strict: bool = False) -> Verdict:
    """A scenario passes with at least one SUCCESS and no FAILURE; with `strict`, a WARNING fails it too.

    The suite's own rule passes a scenario without any check, so a client that does nothing would pass some.
    """
    if checks is None:
        return Verdict(name, False, why=("did not run",))
    by: dict[str, list[Check]] = {"SUCCESS": [], "FAILURE": [], "WARNING": []}
    for check in checks:
        by.setdefault(check["status"], []).append(check)
    succeeded, failed, warned = (len(by[status]) for status in ("SUCCESS", "FAILURE", "WARNING"))
    why = [_line(check) for check in by["FAILURE"]] + [f"(warning) {_line(check)}" for check in by["WARNING"]]
    if not succeeded and not failed:
        why.append("no check succeeded")
    passed = succeeded > 0 and not failed and not (strict and warned)
    return Verdict(name, passed, succeeded, failed, warned, tuple(why))


def _line(check: Check) -> str:
    said = str(check.get("errorMessage") or check.get("description") or "")
    return f"{check['id']}: {' '.join(said.split())[:200]}"


def results(directory: Path, leg: str) -> dict[str, list[Check]]:
    """The checks that the suite left below `directory`, by scenario; of two runs of one, the later."""
    found: dict[str, list[Check]] = {}
    for path in sorted(directory.rglob("checks.json")):
        if name := scenario_of(path.parent.relative_to(directory).as_posix(), leg):
            found[name] = json.loads(path.read_text("utf-8"))
    return found


def scenario_of(folder: str, leg: str) -> str:
    """`auth/basic-cimd` of `auth/basic-cimd-2026-08-22T10-00-00-000Z`; the server leg's begin with `server-`."""
    name = _RESULT.sub("", folder)
    if name == folder:
        return ""
    return name.removeprefix("server-") if leg == "server" else name


def needs_authorization(scenario: str) -> bool:
    return scenario.startswith("auth/")


def report(
    title: str, verdicts: Iterable[Verdict], *, checks: bool = True, reasons: Mapping[str, str] | None = None
) -> list[str]:
    """`TITLE: N/M`, then what did not pass or warned: what its `checks` said, and its reason, by scenario, if any.

    Without a reason its checks are always shown.
    """
    known = reasons or {}
    every = list(verdicts)
    lines = [count(title, every)]
    for one in every:
        if not one.passed or one.warned:
            lines.append(f"   {'passed' if one.passed else 'FAILED'} {one.name}")
            lines += [f"      {line}" for line in one.why if checks or one.name not in known]
            lines += textwrap.wrap(
                f"reason: {known.get(one.name, 'NONE ON RECORD (tests/conformance/reasons.py)')}",
                width=118,
                initial_indent="      ",
                subsequent_indent="      ",
            )
    return lines


def count(title: str, verdicts: Iterable[Verdict]) -> str:
    every = list(verdicts)
    return f"{title}: {sum(one.passed for one in every)}/{len(every)}"
