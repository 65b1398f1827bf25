"""Owns how text reaches a person: aligned tables, units, JSON, complaints; what others wrote goes through the escapes.

It must not know verbs or the daemon, nor import anything heavy. All functions but `on_terminal` and
`complain` are pure.
"""

from __future__ import annotations

import json
import sys

from mcphub.observe.escape import block, json_document, line

__all__ = [
    "block",
    "complain",
    "duration",
    "json_text",
    "line",
    "on_terminal",
    "shortened",
    "size",
    "table",
    "width",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

def json_text(value: object, *, compact: bool = False) -> str:
    """The value as JSON in which every invisible character is an escape: valid JSON, and fit for a terminal.

    Readable over several lines, or compact on one."""
    return json_document(json.dumps(value, ensure_ascii=False, indent=None if compact else 2))


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Aligned columns, two blanks apart, one line a row. Cells are made safe here; empty ones show as `-`."""
    cells = [list(headers), *([line(cell) or "-" for cell in row] for row in rows)]
    widths = [max(width(row[column]) for row in cells) for column in range(len(headers))]
    return "".join(
        "  ".join(cell + " " * (size - width(cell)) for cell, size in zip(row, widths, strict=True)).rstrip() + "\n"
        for row in cells
    )


def width(text: str) -> int:
    """Columns that the text takes on a terminal."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def shortened(text: str, columns: int) -> str:
    """The text cut to so many columns, with an ellipsis where something is missing."""
    if width(text) <= columns:
        return text
    kept = text[: max(columns - 3, 0)]
    while kept and (over := width(kept) - columns + 3) > 0:
        kept = kept[: -max(over // 2, 1)]  # no sign takes more than two columns
    return kept.rstrip() + "..."


def size(count: int | None) -> str:
    """Bytes for a person: `512B`, `24.1M`; "" for None."""
    if count is None:
        return ""
    amount = float(count)
    for unit in ("B", "K", "M", "G"):
        if amount < 1024 or unit == "G":
            break
        amount /= 1024
    return f"{amount:.0f}{unit}" if unit == "B" or amount >= 100 else f"{amount:.1f}{unit}"


def duration(seconds: float | None) -> str:
    """Seconds for a person: `7s`, `12m`, `3h05m`, `2d04h`; "" for None."""
    if seconds is None:
        return ""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 60:
        return f"{minutes}m"
    return f"{hours}h{minutes % 60:02}m" if hours < 24 else f"{days}d{hours % 24:02}h"


def on_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def complain(message: str) -> None:
    """One line on stderr that says what cannot be done; may hold text of others."""
    if sys.stderr is not None:  # print would take stdout
        print(f"mcphub: {line(message)}", file=sys.stderr)
