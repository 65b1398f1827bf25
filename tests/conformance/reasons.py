"""Owns which scenarios of the conformance suite do not pass, each with its reason, and the page that says so.

It must not run or judge anything. `python -m tests.conformance.reasons PAGE` writes the tables between PAGE's marks.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.score import Verdict

#: What lies between these lines of a page is replaced by `written`.
BEGIN = "<!-- conformance: begin -->"
END = "<!-- conformance: end -->"
LEGS = ("client", "server", "direct")
OLD, NEW = "2025-11-25", "2026-07-28"


@dataclass(frozen=True, slots=True)
class Run:
    """One leg at one revision. `crossed`: the two sides of the hub speak different eras."""

    leg: str
    revision: str
    crossed: bool = False

    def __str__(self) -> str:
        return f"{self.leg} {self.revision}{' crossed' if self.crossed else ''}"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a scenario does not pass in these runs, or, with `warns`, why it passes with a warning."""

    scenario: str
    runs: tuple[Run, ...]
    why: str
    scored: bool = False
    warns: bool = False


#: How many scenarios a revision has for each leg: those that are scored, and those that are only reported.
TOTALS: Mapping[tuple[str, str], tuple[int, int]] = {
    ("client", OLD): (18, 7),
    ("client", NEW): (32, 7),
    ("server", OLD): (30, 3),
    ("server", NEW): (37, 13),
    ("direct", OLD): (30, 3),
    ("direct", NEW): (37, 13),
}
RUNS = (
    *(Run(leg, revision) for leg in ("client", "server") for revision in (OLD, NEW)),
    *(Run(leg, revision, crossed=True) for leg in ("client", "server") for revision in (OLD, NEW)),
    *(Run("direct", revision) for revision in (OLD, NEW)),
)

_SERVER, _CROSSED, _DIRECT = Run("server", NEW), Run("server", NEW, crossed=True), Run("direct", NEW)
_NO_TASK = (
    "It wants the handle of a task. The server is spoken to in 2025-11-25, where its tools answer by their results "
    "and make no task; mcphub passes these on and makes no task of a call itself."
)
REASONS: tuple[Reason, ...] = (
    Reason(
        "input-required-result-basic-elicitation",
        (_CROSSED,),
        "It wants the question under the key `user_name`. A question of a server of 2025-11-25 has no key, so mcphub "
        "gives it one, `r1`; a client that answers under the key that it got has its result.",
        scored=True,
    ),
    Reason(
        "input-required-result-ignore-extra-params",
        (_CROSSED,),
        "It answers under `user_name` before it was asked, and no question of a server of 2025-11-25 has that key: "
        "mcphub ignores the answer, as it does unknown ones, and asks.",
        scored=True,
        warns=True,
    ),
    *(
        Reason(name, (_CROSSED,), _NO_TASK)
        for name in (
            "tasks-capability-negotiation",
            "tasks-dispatch-and-envelope",
            "tasks-lifecycle",
            "tasks-mrtr-composition",
            "tasks-mrtr-input",
            "tasks-request-headers",
            "tasks-request-state-removal",
            "tasks-wire-fields",
        )
    ),
    Reason(
        "tasks-required-task-error",
        (_CROSSED,),
        "It wants -32021 for a tool that must be a task. The server is spoken to in 2025-11-25, where that tool "
        "answers by its result, which mcphub passes on.",
    ),
    Reason(
        "tasks-required-task-error",
        (_SERVER,),
        "It wants -32021 for a client without the extension, which SEP-2663 asks for where a server cannot do without "
        "a task. mcphub can: it has the extension itself, follows the server's task, and gives the client its result.",
    ),
    Reason(
        "tasks-status-notifications",
        (_SERVER, _CROSSED, _DIRECT),
        "The suite skips it in all cases: it is to be written anew for `subscriptions/listen`.",
    ),
)


def expected(run: Run) -> Mapping[str, Reason]:
    """The reasons of one run, by scenario."""
    return {reason.scenario: reason for reason in REASONS if run in reason.runs}


def surprises(run: Run, verdicts: Iterable[Verdict]) -> list[str]:
    """A line for each scenario that is not as this table says."""
    known, found = expected(run), []
    for one in verdicts:
        reason = known.get(one.name)
        if not one.passed and one.failed == 0 and one.warned and reason is not None and reason.warns:
            continue  # a warning fails where the command line is strict
        if not one.passed and (reason is None or reason.warns):
            found.append(f"{run}: {one.name} does NOT PASS, and no reason is on record")
        elif one.passed and one.warned and reason is None:
            found.append(f"{run}: {one.name} WARNS, and no reason is on record")
        elif one.passed and reason is not None and not (reason.warns and one.warned):
            found.append(f"{run}: {one.name} PASSES, though a reason is on record why it does not")
    return found


def miscounted(run: Run, scored: int, beside: int) -> list[str]:
    """A line where the suite has another number of scenarios than this table, in a run of all of them."""
    known = TOTALS[run.leg, run.revision]
    if known == (scored, beside):
        return []
    return [f"{run}: the suite has {scored} + {beside} scenarios, the table {known[0]} + {known[1]}"]


# -- the page


def passing(run: Run, scored: bool) -> str:
    """`N of M`, by this table."""
    total = TOTALS[run.leg, run.revision][0 if scored else 1]
    failing = [one for one in expected(run).values() if one.scored == scored and not one.warns]
    return f"{total - len(failing)} of {total}"


def tables() -> str:
    """What the page says between its marks."""
    lines = ["| Run | Revision of the suite's side | scored | reported only |", "|---|---|---|---|"]
    for run in RUNS:
        title = _TITLES[run.leg, run.crossed]
        lines.append(f"| {title} | {run.revision} | {passing(run, True)} | {passing(run, False)} |")
    every = [run for run in RUNS if not run.crossed and run.leg != "direct"]
    total = sum(TOTALS[run.leg, run.revision][0] for run in every)
    failing = sum(not one.warns for run in every for one in expected(run).values() if one.scored)
    lines += ["", f"In the era of the suite's side, {total - failing} of {total} scored scenarios pass.", ""]
    lines += ["| Does not pass | In | Why |", "|---|---|---|"]
    for names, reason in _together(REASONS):
        shown = ", ".join(f"`{name}`" for name in names) + (" (a warning)" if reason.warns else "")
        runs = "; ".join(map(str, reason.runs))
        lines.append(f"| {shown} | {runs}, {'scored' if reason.scored else 'reported only'} | {reason.why} |")
    return "\n".join(lines)


_TITLES = {
    ("client", False): "client: the suite's servers, mcphub, an agent of the same era",
    ("client", True): "client, crossed: an agent of the other era",
    ("server", False): "server: the suite as agent, mcphub, a server of the same era",
    ("server", True): "server, crossed: the server in the other era",
    ("direct", False): "direct: the suite and that server, without mcphub",
}


def _together(reasons: Sequence[Reason]) -> list[tuple[list[str], Reason]]:
    """Scenarios of one reason stand in one line."""
    lines: dict[tuple[tuple[Run, ...], str], tuple[list[str], Reason]] = {}
    for reason in reasons:
        lines.setdefault((reason.runs, reason.why), ([], reason))[0].append(reason.scenario)
    return list(lines.values())


def written(page: str) -> str:
    """The page with the tables between its marks. Raises ValueError where it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"cannot write the tables: the page has no lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def main(arguments: Collection[str]) -> None:
    for name in arguments:
        path = Path(name)
        path.write_text(written(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
