"""Servers that are Python code: how one is named and found."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcphub.embed import embedded, entries
from mcphub.errors import ConfigError

MODULE = """
def handle(method, params): return {}
class Box:
    @staticmethod
    def inner(method, params): return {}
number = 1
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "embed_fine.py").write_text(MODULE)
    (tmp_path / "embed_bad.py").write_text("raise RuntimeError('boom')")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("embed_fine", "embed_fine"),
        ("embed_fine:handle", "handle"),
        ("embed_fine:Box.inner", "Box_inner"),
        ("clock=embed_fine:handle", "clock"),
    ],
)
def test_names(text: str, name: str) -> None:
    """By what is written in front, or else by the callable or the module; each is listed as added."""
    [(found, handler)] = embedded([text]).items()
    assert found == name
    assert handler("x", {}) == {}
    [entry] = entries([found])
    assert (entry.name, entry.entry, entry.directory) == (name, {"type": "sdk", "name": name}, "")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["=embed_fine"], "expected [NAME=]MODULE[:CALLABLE]"),
        (["embed_fine:"], "expected [NAME=]MODULE[:CALLABLE]"),
        ([""], "expected [NAME=]MODULE[:CALLABLE]"),
        (["embed_fine:lost"], "embed_fine has no lost"),
        (["embed_fine:number"], "number is int, and no callable"),
        (["embed_bad"], "cannot import embed_bad: RuntimeError: boom"),
        (["embed_none"], "cannot import embed_none: ModuleNotFoundError"),
        (["embed_fine:handle", "handle=embed_fine"], "there is another server called handle"),
        (["welcome=embed_fine"], "there is another server called welcome"),
    ],
)
def test_what_cannot_be_embedded(given: list[str], said: str) -> None:
    """The text is named, with the cause."""
    with pytest.raises(ConfigError) as caught:
        embedded(given, ["welcome"])
    assert "cannot embed " in str(caught.value)
    assert said in str(caught.value)
