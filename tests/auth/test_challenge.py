"""What is read of WWW-Authenticate, whatever stands there."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.auth.challenge import MOST_CHALLENGES, Challenge, parse
from tests.tables import Row, label, rows


@pytest.mark.parametrize("row", rows("auth", "challenge"), ids=label)
def test_what_is_read(row: Row) -> None:
    """The first challenge that we know, parameter by parameter, and nothing out of the text of another one."""
    _, header, expected = row.columns
    lines = [] if header == '""' else header.split(" || ")
    pairs = [] if expected == "-" else [part.partition("=") for part in expected.split(" ")]
    assert parse(lines) == Challenge(**{name: value.replace("~", " ") for name, _, value in pairs})


def test_scopes() -> None:
    """Each once, in their order."""
    assert parse(['Bearer scope=" b a  b "']).scopes == ("b", "a")
    assert parse(["Bearer"]).scopes == ()


def test_how_much_is_read() -> None:
    """16 challenges and 8 KiB; what stands behind is not there."""
    others = ", ".join(f'X{number} a="b"' for number in range(MOST_CHALLENGES - 1))
    assert parse([f"{others}, Bearer scope=a"]).scope == "a"
    assert parse([f"{others}, X a=b, Bearer scope=a"]) == Challenge()
    assert parse([f'X a="{"x" * 8192}", Bearer scope=a']) == Challenge()


@given(st.lists(st.text(max_size=200), max_size=4))
def test_any_text(lines: list[str]) -> None:
    """It is never an error, nor endless."""
    assert parse(lines).scheme in ("", "bearer", "dpop")


@given(st.lists(st.text(alphabet='Bearer ,="\\scope\t', max_size=60), max_size=4))
def test_any_text_of_its_signs(lines: list[str]) -> None:
    """Nor where it is nearly a challenge."""
    assert parse(lines).scheme in ("", "bearer", "dpop")


_FIELD = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_categories=["Cc"]), max_size=40)


@given(_FIELD, _FIELD, _FIELD, _FIELD, st.permutations(["resource_metadata", "scope", "error", "error_description"]))
def test_quoting_round_trips(a: str, b: str, c: str, d: str, order: list[str]) -> None:
    """What a server quotes is what is read, in whichever order, behind a challenge of another kind."""
    said = Challenge("bearer", a, b, c, d)
    values = msgspec.structs.asdict(said)

    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    line = "Bearer " + ", ".join(f"{name}={quoted(values[name])}" for name in order)
    assert parse([f"Basic realm={quoted(a)}", line]) == said
