"""Owns reading the tables in tests/data: one row is one case, written to be read by whoever runs a fleet.

It must not know what a table is about. `#` begins a line of explanation, ` | ` ends a column, white space around one
does not count; a line that begins with `@` sets something up for the rows below it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).with_name("data")


class Row(NamedTuple):
    """One line; `setup` are the `@` lines above it, without the sign."""

    place: str
    columns: tuple[str, ...]
    setup: tuple[str, ...]

    @property
    def label(self) -> str:
        """The first column: what the case is about, its id first where it has one."""
        return self.columns[0]


def rows(kind: str, name: str) -> list[Row]:
    """The rows of tests/data/KIND/NAME.txt; all have as many columns as the first."""
    path = DATA / kind / f"{name}.txt"
    found: list[Row] = []
    setup: list[str] = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if line.startswith("@"):
            setup.append(line[1:].strip())
        elif line.strip() and not line.startswith("#"):
            columns = tuple(part.strip() for part in line.split(" | "))
            found.append(Row(f"{path.name}:{number}", columns, tuple(setup)))
    widths = {len(row.columns) for row in found}
    assert len(widths) == 1, f"{path}: rows of {sorted(widths)} columns"
    return found


def label(row: Row) -> str:
    """For `ids` of pytest.mark.parametrize."""
    return f"{row.place} {row.label}"
