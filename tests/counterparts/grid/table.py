"""Owns how the grid is shown: one table, a row for each client with each server, and what else there is to say.

It must not judge or run anything. Pure, but for `write`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from tests.counterparts.grid.cells import FEATURES, Cell, counts

WORDS = {"pass": "ok", "fail": "FAIL"}
#: How a cell is shown that passed from one era to the other.
CARRIED = "carried"
#: What lies between these lines of a document is replaced by `write`.
BEGIN = "<!-- grid: begin -->"
END = "<!-- grid: end -->"
PACKAGES = ("sdk", "client", "server", "node")


def markdown(cells: Sequence[Cell], versions: str) -> str:
    """The whole grid: its versions, its table, and how many cells passed."""
    return "\n\n".join([versions, table(cells), counts(cells)]) + "\n"


def table(cells: Sequence[Cell]) -> str:
    """A row for each client with each server, a column for each feature; aligned for a terminal."""
    rows: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        rows.setdefault((cell.client.title, cell.server.title), []).append(word(cell))
    lines = [("client", "server", *FEATURES), *((*peers, *words) for peers, words in rows.items())]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]

    def show(line: Sequence[str]) -> str:
        return "| " + " | ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)) + " |"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([show(lines[0]), rule, *map(show, lines[1:])])


def word(cell: Cell) -> str:
    return CARRIED if cell.crossed and cell.verdict == "pass" else WORDS[cell.verdict]


def notes(cells: Sequence[Cell], verdict: str) -> list[str]:
    """A line for each cell of this verdict."""
    return [f"{word(cell)}: {cell.title}: {cell.note}" for cell in cells if cell.verdict == verdict]


def installed(npm: Path) -> str:
    """What the SDKs are, in one sentence; `npm` is the folder that the counterparts are installed in."""
    found = [f"`mcp` {version('mcp')} (Python)"]
    for package in PACKAGES:
        name = f"@modelcontextprotocol/{package}"
        about = json.loads((npm / "node_modules" / name / "package.json").read_text("utf-8"))
        found.append(f"`{name}` {about['version']}")
    return f"With {', '.join(found)}."


def write(text: str, path: Path) -> None:
    """Put the text between the marks of a document. Raises ValueError where it has none."""
    old = path.read_text("utf-8")
    before, begin, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"cannot write the grid to {path}: the lines {BEGIN} and {END} are missing; add them")
    path.write_text(f"{before}{begin}\n\n{text}\n{end}{after}", "utf-8")
