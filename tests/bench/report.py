"""Owns how a run is shown: the table of goals and the raw tables as Markdown, everything as JSON.

It must not judge or measure. Pure, but for `write_markdown`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .goals import Row

HEAD = ("goal", "what", "measured (median)", "rounds, lowest to highest", "gate", "extreme", "verdict")
#: What lies between these lines of a document is replaced by `write_markdown`.
BEGIN = "<!-- measured: begin -->"
END = "<!-- measured: end -->"


@dataclass(frozen=True, slots=True)
class Report:
    """One run: the machine in words, the judged goals, and (title, Markdown) of each raw table."""

    machine: str
    rows: Sequence[Row]
    tables: Sequence[tuple[str, Sequence[str]]]

    def markdown(self, level: str = "##") -> str:
        """The whole run; LEVEL is the heading of its first section."""
        parts = [f"{level} Measured", self.machine, goal_table(self.rows), self.summary()]
        for title, tables in self.tables:
            parts += [f"{level}# {title}", *tables]
        return "\n\n".join(parts) + "\n"

    def summary(self) -> str:
        """How many of each verdict, in one sentence."""
        count = Counter(row.verdict for row in self.rows)
        words = [f"{count[verdict]} {verdict}" for verdict in ("extreme", "met", "missed", "not measured")]
        return f"Of {len(self.rows)} goals: {', '.join(words)}."

    def json(self) -> dict[str, Any]:
        """The goals with every round's value; a figure without values says why."""
        return {
            "machine": self.machine,
            "goals": [
                {
                    "goal": row.goal.key,
                    "what": row.goal.text,
                    "unit": row.goal.unit.strip(),
                    "gate": row.goal.gate,
                    "extreme": row.goal.extreme,
                    "values": list(row.figure.values),
                    "median": row.figure.median if row.figure.values else None,
                    "because": row.figure.because,
                    "verdict": row.verdict,
                }
                for row in self.rows
            ],
        }


def goal_table(rows: Sequence[Row]) -> str:
    """The table of all goals, its columns aligned for a terminal."""
    lines = [HEAD, *(tuple(cell.replace("|", "/") for cell in row.cells) for row in rows)]
    widths = [min(70, max(len(line[column]) for line in lines)) for column in range(len(HEAD))]

    def show(line: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([show(lines[0]), rule, *map(show, lines[1:])])


def write_markdown(report: Report, path: Path) -> None:
    """Put the run between the marks of PATH where it has them, else make PATH of it."""
    text = report.markdown()
    if path.exists():
        old = path.read_text(encoding="utf-8")
        before, begin, rest = old.partition(BEGIN)
        _, end, after = rest.partition(END)
        if begin and end:
            text = f"{before}{BEGIN}\n\n{text}\n{END}{after}"
    path.write_text(text, encoding="utf-8")
