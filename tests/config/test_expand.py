"""The grammar of references, row by row."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.config.expand import Expanded, Variables, expand, looked_up, only_references, secret_name_fault

ENV = {"V": "val", "EMPTY": "", "NESTED": "${V}", "v": "low", "_1": "one", "W": "w"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("plain $ text $5 100% }{", "plain $ text $5 100% }{"),
        ("${V}", "val"),
        ("a${V}b${_1}c", "avalbonec"),
        ("${EMPTY}", ""),
        ("${EMPTY:-d}", "d"),
        ("${V:-d}", "val"),
        ("${U:-http://h.example:8080/a}", "http://h.example:8080/a"),
        ("${U:-}", ""),
        ("${U:-a}b}", "ab}"),
        ("${U:-line\nline}", "line\nline"),
        ("${U:-$V}", "$V"),
        ("${NESTED}", "${V}"),
        ("${workspaceFolder}/x", "/w/x"),
        ("${V}${V}", "valval"),
        ("$", "$"),
        ("$$", "$$"),
        ("$(V)", "$(V)"),
    ],
)
def test_supported_forms(text: str, expected: str) -> None:
    """C021: a reference gives the value, `:-` counts for unset and empty, a default is taken as it stands."""
    assert expand(text, Variables(ENV, "/w")) == Expanded(expected)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("${U:-${W}}", "${U..."),
        ("${v%.*}", "${v..."),
        ("$V", "$V"),
        ("$${V}", "$${V}"),
        ("$$V", "$$V"),
        ("${}", "${}"),
        ("${V", "${V"),
        ("${V:+x}", "${V..."),
        ("${V-x}", "${V..."),
        ("${V:=x}", "${V..."),
        ("${1}", "${1}"),
        ("${env:V}", "${env..."),
        ("${V }", "${V..."),
        ("${U:-${W}", "${U..."),
        ("${U:-tok-1${W}}", "${U..."),
    ],
)
def test_other_forms_pass_through(text: str, reported: str) -> None:
    """C021: what the grammar does not have stays untouched and is reported as unsupported, not as missing; a default
    inside it is not repeated, since it may be secret."""
    assert expand(text, Variables(ENV)) == Expanded(text, unsupported=(reported,))


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("${UNSET_D}/data", ("UNSET_D",)),
        ("Bearer ${A} ${B} ${A}", ("A", "B")),
        ("${workspaceFolder}", ("workspaceFolder",)),
    ],
)
def test_missing_variables_are_named_once(text: str, missing: tuple[str, ...]) -> None:
    """C020: an unset variable without default is named, and the literal is not in the text."""
    result = expand(text, Variables(ENV))
    assert result.missing == missing
    assert "${" not in result.text


def test_secrets_are_named() -> None:
    """A reference to the vault is told apart from a variable."""
    assert expand("${secret:gh/token} ${V}", Variables(ENV)).secrets == ("gh/token",)
    kept = Variables(ENV, secret={"gh/token": "s${V}"}.get)
    assert expand("${secret:gh/token} ${V}", kept) == Expanded("s${V} val")
    assert expand("${secret:other}", kept).secrets == ("other",)
    assert "s${V}" not in repr(kept)


PIECES = st.sampled_from(["$", "{", "}", "${", ":-", "secret:", "V", "EMPTY", "U", "gh", "%", " ", "workspaceFolder"])


@given(st.lists(PIECES | st.text(max_size=3), max_size=12).map("".join))
def test_any_text(text: str) -> None:
    """C020, C021: nothing is raised; what has no dollar stays; what comes out of a text without anything missing or
    unsupported has no reference left in it, but for what a value or a default said itself."""
    result = expand(text, Variables({"V": "val", "EMPTY": ""}, "/w", secret={"gh": "s"}.get))
    if "$" not in text:
        assert result == Expanded(text)
    if not (result.missing or result.secrets or result.unsupported):
        assert "${" not in result.text or ":-" in text
    again = expand(text, Variables({"V": "val", "EMPTY": ""}, "/w", lambda name: name == "V", {"gh": "s"}.get))
    assert "val" not in again.text or "val" in text


def test_unsupported_forms_are_reported_once() -> None:
    """The same form twice is one report."""
    assert expand("$V $V ${}", Variables(ENV)).unsupported == ("$V", "${}")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("${A} ${B:-x} ${A}", ("A", "B")),
        ("${workspaceFolder}/${secret:s}", ("secret:s",)),
        ("$A $${B} ${} ${C%.*} ${D:-${E}} ${F", ()),
        ("${KEEP_OUT}${A}", ("A",)),
    ],
)
def test_what_is_looked_up(text: str, names: tuple[str, ...]) -> None:
    """What is asked of the environment and of the secrets, and nothing else that has dollars."""
    assert looked_up(text, "KEEP_OUT".__eq__) == names


def test_values_do_not_show() -> None:
    """Neither the environment nor the result shows in a repr."""
    assert "val" not in repr(expand("${V}", Variables(ENV))).replace("Expanded", "")
    assert "val" not in repr(Variables(ENV)).replace("Variables", "")


@pytest.mark.parametrize(
    ("text", "answer"),
    [("${A}", True), ("${A}${B}", True), ("${secret:a/b}", True), ("${secret:}", False), ("", False),
     ("a${A}", False), ("${A:-x}", False)],
)  # fmt: skip
def test_only_references(text: str, answer: bool) -> None:
    """Only text made of plain references says no value by itself."""
    assert only_references(text) is answer


@pytest.mark.parametrize("unit", ["$", "${", "${A:-", "$A", "${V}", "}", "$${"])
def test_long_texts_take_linear_time(unit: str) -> None:
    """A megabyte of any form is done within seconds."""
    started = time.monotonic()
    expand(unit * (1_000_000 // len(unit)), Variables(ENV))
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("name", ["a", "gh-token", "A/b_c.9", "x" * 128])
def test_names_of_secrets(name: str) -> None:
    """What a person may call one can be referred to, and shown."""
    assert secret_name_fault(name) == ""
    assert only_references(f"${{secret:{name}}}")


@pytest.mark.parametrize("name", ["", "a b", "a}", "${a}", "a\n", "ä", "x" * 129, "a=b"])
def test_what_no_secret_is_called(name: str) -> None:
    """It is told before anything is kept."""
    assert "letters" in secret_name_fault(name)
