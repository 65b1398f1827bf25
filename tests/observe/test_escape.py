"""What reaches a terminal or a log."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.observe.escape import block, json_document, line

FORBIDDEN = [
    *range(0x20),
    *range(0x7F, 0xA0),
    0x061C,
    0x200B,
    0x200E,
    0x200F,
    0x2028,
    0x2029,
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
    0xFEFF,
    0xD800,
    *range(0xE0000, 0xE0080),
    *range(0xE0100, 0xE01F0),
]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ~", "plain ~"),
        ("Grüße 中文\u3000日本 🎉", "Grüße 中文\u3000日本 🎉"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("gpj.\u202eexe", "gpj.\\u202eexe"),
        ("\U000e0041", "\\U000e0041"),
        ("git\u200dhub", "git\\u200dhub"),
        ("\udc80", "\\udc80"),
    ],
)
def test_one_line(text: str, shown: str) -> None:
    """Scripts stay readable; what steers a terminal or hides is visible."""
    assert line(text) == shown
    assert line(shown) == shown


def test_several_lines() -> None:
    """Line breaks, tabs and joiners of a result stay; all else is as on one line."""
    assert block("a\r\nb\tc\n") == "a\nb\tc\n"
    assert block("می\u200cخواهم 👩\u200d🔬") == "می\u200cخواهم 👩\u200d🔬"
    assert block("a\rb\x1b]0;x\x07") == "a\\rb\\x1b]0;x\\x07"


@pytest.mark.parametrize("code", FORBIDDEN)
def test_no_invisible_character_gets_through(code: int) -> None:
    """Every control, bidirectional control, tag and zero-width character, in any text."""
    text = f"a{chr(code)}b"
    assert chr(code) not in line(text)
    assert chr(code) not in block(text) or code in (0x09, 0x0A)
    assert chr(code) not in json_document(json.dumps(text, ensure_ascii=False))


@given(st.text(alphabet=st.characters()))
def test_json_stays_the_same_value(text: str) -> None:
    """Escaping changes how a document looks, never what it says."""
    document = json_document(json.dumps({text: text}, ensure_ascii=False, indent=2))
    assert json.loads(document) == {text: text}
    assert all(char.isprintable() or char == "\n" or char in "\u3000\u00a0" for char in document)
