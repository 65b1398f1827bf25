"""Secrets in text."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from mcphub.observe.redact import FOR_NOW, FOR_OWNER, Redactor
from mcphub.spec import Secret


def test_a_registered_value_is_masked_wherever_it_stands() -> None:
    """C025: neither a plain value nor one that was quoted, JSON-escaped or percent-encoded on the way gets out."""
    secrets = Redactor()
    value = 'tok"1\\ä/ '
    secrets.hide(Secret(value), "tok-2")
    for form in (value, json.dumps(value), repr(value), quote(value, safe=""), "xtok-2x"):
        cleaned = secrets.clean(f"a {form} b")
        assert "tok" not in cleaned
        assert "***" in cleaned


def test_the_longest_value_is_masked_first() -> None:
    """A secret that begins with another one must not leave its rest behind."""
    secrets = Redactor()
    secrets.hide("abcd")
    secrets.hide("abcdefgh")
    assert secrets.clean("abcdefgh abcd") == "*** ***"


def test_a_key_of_several_lines_is_masked_line_by_line() -> None:
    """C025: a program quotes a line of a key, not the whole."""
    secrets = Redactor()
    secrets.hide("-----BEGIN-----\nMIIEvQIBADANBg\n-----END-----\n")
    assert secrets.clean("bad key MIIEvQIBADANBg") == "bad key ***"


def test_short_values_are_left() -> None:
    """`1` or `yes` in an environment must not blot out the log."""
    secrets = Redactor()
    secrets.hide("1", "yes", "")
    assert secrets.clean("yes, 1 of 1") == "yes, 1 of 1"
    assert "tok" not in repr(secrets)


def test_values_of_an_owner() -> None:
    """Of each owner the last few are masked, however many there were, and whatever others have."""
    secrets = Redactor()
    for number in range(FOR_OWNER + 5):
        secrets.hide(f"eyJhbGci.one-{number:03}", f"short-{number:03}", owner="one")
    secrets.hide("eyJhbGci.two-000", owner="two")
    assert secrets.clean("a=eyJhbGci.two-000&eyJhbGci.one-005 x eyJhbGci.one-012") == "a=***&*** x ***"
    assert secrets.clean("eyJhbGci.one-004 short-012 short-004") == "eyJhbGci.one-004 *** ***"
    assert secrets.clean("eyJhbGci.two-0000") == "***0"
    assert "eyJ" not in repr(secrets)


@pytest.mark.parametrize("value", ['a/b+c="d"\\e%20', "a" * 12, "tok-ünïcode-12"])
def test_all_forms_of_a_value_of_an_owner(value: str) -> None:
    """As it is, in JSON, in a repr, in a URL; twice in a row; at both ends."""
    secrets = Redactor()
    secrets.hide(value, owner="one")
    secrets.hide("something-else", owner="two")
    for form in (value, json.dumps(value)[1:-1], repr(value)[1:-1], quote(value, safe="")):
        assert secrets.clean(form) == "***"
        assert secrets.clean(f"x={form}&y={form} ") == "x=***&y=*** "
    secrets.hide(*(f"another-value-{number}" for number in range(FOR_OWNER)), owner="one")
    assert secrets.clean(value) == value


def test_values_that_others_follow() -> None:
    """Tokens that are renewed are masked like any other; of very many only the last are kept in mind, and what was
    registered for good stays."""
    secrets = Redactor()
    secrets.hide("for-good")
    for number in range(FOR_NOW + 10):
        secrets.hide_for_now(f"token-{number:03}")
    assert secrets.clean("for-good token-010 token-073") == "*** *** ***"
    assert secrets.clean("token-009") == "token-009"
    secrets.hide_for_now("token-010")
    secrets.hide("more")
    assert secrets.clean("token-010 token-073 more") == "*** *** ***"
