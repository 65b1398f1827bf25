"""Changing one variable of the environment file, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcphub.config.environment import parse_environment
from mcphub.config.environment_edit import name_fault, set_variable, unset_variable
from mcphub.errors import ConfigError

FILE = "# keys\nA=1\n\nexport B=two words # all of it\nA='3'\nbroken\n"


@pytest.mark.parametrize(
    ("before", "name", "value", "after"),
    [
        (None, "A", "x", "A=x\n"),
        ("", "A", "", "A=\n"),
        ("B=1", "A", "x", "B=1\nA=x\n"),
        ("B=1\r\n", "A", "x", "B=1\r\nA=x\r\n"),
        ("B=1\r\nA=2\r\n", "A", "x", "B=1\r\nA=x\r\n"),
        ("\ufeffA=1\n", "A", "x", "\ufeffA=x\n"),
        ("  export A = 1\n", "A", "x", "  export A =x\n"),
        ("#A=1\nAB=1\n", "A", "x", "#A=1\nAB=1\nA=x\n"),
        ("", "A", "a#b $c 'd'", "A=a#b $c 'd'\n"),
        ("", "A", " x", 'A=" x"\n'),
        ("", "A", "'x'", "A=\"'x'\"\n"),
        ("", "A", 'say "hi"\\', 'A=say "hi"\\\n'),
        ("", "A", '"\\\n', 'A="\\"\\\\\\n"\n'),
        (FILE, "A", "x", FILE.replace("A='3'", "A=x")),
        (FILE, "B", "x", FILE.replace("B=two words # all of it", "B=x")),
    ],
)
def test_set(before: str | None, name: str, value: str, after: str) -> None:
    """The line that counts is changed, where it stands and as it was begun; else one is added."""
    made = set_variable(None if before is None else before.encode(), name, value)
    assert made.decode() == after
    assert parse_environment(made, "/e")[0][name] == value


def test_unset() -> None:
    """Every line that sets it goes, and no other."""
    assert unset_variable(FILE.encode(), "A").decode() == FILE.replace("A=1\n", "").replace("A='3'\n", "")
    assert unset_variable(FILE.encode(), "C") == FILE.encode()
    assert unset_variable(None, "C") == b""


@pytest.mark.parametrize(
    ("data", "name", "value", "message"),
    [
        (b"", "1A", "x", "begins with no digit"),
        (b"", "", "x", "a variable has letters"),
        (b"", "A=B", "x", "a variable has letters"),
        (b"", "A", "tok-1\0", "NUL"),
        (b"", "A", "tok-1\udcff", "not Unicode"),
        (b"\xff", "A", "tok-1", "not UTF-8 at byte 0"),
    ],
)
def test_what_cannot_be_written(data: bytes, name: str, value: str, message: str) -> None:
    """A name or value that the file cannot hold is refused, and the message does not hold the value."""
    with pytest.raises(ConfigError, match=message) as caught:
        set_variable(data, name, value)
    assert "tok-1" not in str(caught.value)
    assert bool(name_fault(name)) == (name != "A")


LINES = st.lists(st.sampled_from(["A=1", "B='x y'", "# A=2", "", "export A=3", "A", "C=\"\\n\""]), max_size=5)

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@settings(deadline=None, max_examples=100)
@given(LINES, st.sampled_from(["\n", "\r\n"]), TEXTS)
def test_any_value_in_any_file(lines: list[str], newline: str, value: str) -> None:
    """It is read back as it was given, and every other variable as it was."""
    data = newline.join(lines).encode()
    made = set_variable(data, "A", value)
    assert parse_environment(made, "")[0] == {**parse_environment(data, "")[0], "A": value}
    assert "A" not in parse_environment(unset_variable(made, "A"), "")[0]
