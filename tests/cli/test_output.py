"""How text reaches a person."""

from __future__ import annotations

import json

import pytest

from mcphub.cli import output


def test_a_table_is_aligned_and_safe() -> None:
    """Wide characters count twice, empty cells show, nothing in a cell can break a row."""
    rows = [("a", "", "x"), ("中文", "2\x1b[2J", "y\nz")]
    assert output.table(("NAME", "N", "WHY"), rows) == (
        "NAME  N         WHY\n"
        "a     -         x\n"
        "中文  2\\x1b[2J  y\\nz\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, ""), (1023, "1023B"), (1024, "1.0K"), (25 << 20, "25.0M"), (200 << 20, "200M"), (1 << 42, "4096G")],
)
def test_sizes(count: int | None, text: str) -> None:
    """Three digits say enough."""
    assert output.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0.4, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (7325, "2h02m"), (90061, "1d01h")],
)
def test_durations(seconds: float | None, text: str) -> None:
    """Two units say enough."""
    assert output.duration(seconds) == text


def test_shortening_counts_columns() -> None:
    """A wide character does not make a line longer than the terminal."""
    assert output.shortened("abcdef", 6) == "abcdef"
    assert output.shortened("abcdefg", 6) == "abc..."
    assert output.shortened("中" * 100_000, 20_001) == "中" * 9_999 + "..."
    assert output.shortened("a" + "中" * 9 + "\u0301b" * 9, 13) == "a中中中中..."
    assert output.shortened("中文中文", 6) == "中..."
    assert output.width("e\u0301") == 1


def test_json_is_json_and_safe() -> None:
    """Readable or on one line; Chinese stays, escapes stay escapes."""
    value = {"a": "中\x1b\x9b\u202e\U000e0041\x7f"}
    for text in (output.json_text(value), output.json_text(value, compact=True)):
        assert json.loads(text) == value
        assert "中" in text
        assert all(char.isprintable() or char == "\n" for char in text)
    assert output.json_text(value, compact=True).count("\n") == 0


def test_complaints_are_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the message quotes a server, and nowhere when stderr is closed."""
    output.complain("cannot: a\nb\x1b")
    assert capsys.readouterr() == ("", "mcphub: cannot: a\\nb\\x1b\n")
    monkeypatch.setattr("sys.stderr", None)
    output.complain("x")
    assert capsys.readouterr().out == ""
    monkeypatch.setattr("sys.stdout", None)
    assert output.on_terminal() is False
