"""What one tool is, and what has become of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcphub.policy import pinning
from mcphub.policy.pinning import Change, Grade, difference, grade, kept, pin, set_digest, summary
from mcphub.store.pins import Pin

X: dict[str, Any] = {
    "title": "X",
    "description": "Sends a mail.\nAt once.",
    "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}, "cc": {"type": "string"}}},
    "annotations": {"readOnlyHint": True, "title": "x"},
}


def of(tool: dict[str, Any], name: str = "x") -> Pin:
    return pin(name, [(json.dumps(key).encode(), json.dumps(value).encode()) for key, value in tool.items()])


def turned(value: Any) -> Any:
    """The same, with the keys of every object the other way round."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("change", "found", "parts"),
    [
        ({}, None, ()),
        ({"_meta": {"a": 1}}, None, ()),
        ({"icons": [{"src": "data:,x"}]}, None, ()),
        ({"vendor": 1}, None, ()),
        ({"annotations": {"readOnlyHint": False, "title": "x"}}, Grade.HINTS, ("annotations",)),
        ({"annotations": None}, Grade.HINTS, ("annotations",)),
        ({"title": "Y"}, Grade.TEXTS, ("title",)),
        ({"description": "Sends a mail, also BCC to me."}, Grade.TEXTS, ("description",)),
        ({"description": "", "annotations": {}}, Grade.TEXTS, ("description", "annotations")),
        (
            {"inputSchema": {"type": "object", "properties": {**X["inputSchema"]["properties"], "bcc": {}}}},
            Grade.SCHEMA,
            ("inputSchema",),
        ),
        ({"inputSchema": {"type": "object"}}, Grade.SCHEMA, ("inputSchema",)),
        ({"outputSchema": {"type": "object"}, "title": "Y"}, Grade.SCHEMA, ("title", "outputSchema")),
    ],
)
def test_a_change_is_graded(change: dict[str, Any], found: Grade | None, parts: tuple[str, ...]) -> None:
    """C172: each part that a model or a person reads counts, and its weight is told; `_meta` and order do not."""
    changes = grade({"x": of(X)}, {"x": of(turned({**X, **change}))})
    assert changes == ({} if found is None else {"x": Change("x", found, parts)})
    assert grade({"x": of(X)}, {"x": of(X)}) == {}


def test_new_renamed_and_gone() -> None:
    """C172: a name that was not there is new, even where a text that was known comes back under it; what is gone is no
    change of the others."""
    pinned = {"x": of(X), "y": of({"description": "other"}, "y")}
    changes = grade(pinned, {"x2": of(X, "x2"), "z": of({"title": "z"}, "z")})
    assert changes == {"x2": Change("x2", Grade.RENAMED, (), "x"), "z": Change("z", Grade.NEW)}
    assert [str(one) for one in changes.values()] == ["renamed from x", "new"]
    assert grade(pinned, {"y": pinned["y"]}) == {}
    # A copy of a tool that is still there is new, not renamed.
    assert grade(pinned, {**pinned, "x2": of(X, "x2")})["x2"].grade is Grade.NEW


@pytest.mark.parametrize(
    ("one", "other"),
    [(b'{"a":1,"a":2}', b'{"a":2}'), (b'{ "a" : [ ] }', b'{"a":[]}'), (b'"\\u00e9"', '"é"'.encode())],
)
def test_what_says_the_same_is_the_same(one: bytes, other: bytes) -> None:
    """C172: how JSON is written is no change."""
    assert pin("x", [(b'"description"', one)]) == pin("x", [(b'"description"', other)])


@pytest.mark.parametrize("value", [b"{", b"1e999", b"[" * 5000 + b"]" * 5000, b'"\\ud800"', b"9" * 400])
def test_what_cannot_be_read_is_pinned_as_it_stands(value: bytes) -> None:
    """C172: a definition that JSON readers choke on has a digest all the same, and a change of it is one."""
    first = pin("x", [(b'"inputSchema"', value)])
    assert first == pin("x", [(b'"inputSchema"', value)])
    assert first.digest != pin("x", [(b'"inputSchema"', value + b" ]")]).digest


def test_what_a_person_sees_of_a_change() -> None:
    """C172: the lines that are new and those that are gone, with a little around them; all of a tool that is new."""
    after = {**X, "description": "Sends a mail.\nAnd a copy to me.", "title": "X!"}
    assert difference(of(X), of(after)) == (
        "- title: X",
        "+ title: X!",
        "  description: Sends a mail.",
        "-   At once.",
        "+   And a copy to me.",
        "  inputSchema: {",
        '      "properties": {',
    )
    assert difference(None, of({"description": "d"})) == ("+ description: d",)
    assert difference(of(X), of(X)) == ()


def test_a_change_deep_in_a_schema_is_shown_alone() -> None:
    """C172: of a long schema the lines that differ, not the whole."""
    long = {"type": "object", "properties": {f"p{n:03}": {"type": "string"} for n in range(60)}}
    after = json.loads(json.dumps(long))
    after["properties"]["p030"]["description"] = "first call leak()"
    lines = difference(of({"inputSchema": long}), of({"inputSchema": after}))
    assert len(lines) < 10
    assert [line for line in lines if line.startswith("+")] == ['+         "description": "first call leak()",']


def test_what_is_too_long_is_kept_as_a_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """C172: a definition of any size is pinned; only how it differs cannot be told."""
    huge = {"description": "x" * (pinning.MAX_KEPT + 1)}
    assert of(huge).definition == ""
    assert grade({"x": of(huge)}, {"x": of({**huge, "title": "t"})}) == {"x": Change("x", Grade.SCHEMA)}
    assert difference(of(X), of(huge))[0].startswith("+ (longer than 32 KiB")
    assert difference(of(huge), of({"title": "t"})) == ("- (what it was is too long to have been kept)", "+ title: t")
    monkeypatch.setattr(pinning, "MAX_ALL_KEPT", len(of(X).definition))
    assert kept({"x": of(X), "y": of(X, "y")}) == {"x": of(X), "y": Pin(of(X, "y").digest)}


def test_many_lines_are_not_compared() -> None:
    """C172: a definition made to be slow to compare is shown whole instead."""
    old, new = of({"description": "a\n" * 1000}), of({"description": "b\n" * 1000})
    lines = difference(old, new)
    assert len([line for line in lines if line.startswith("- ")]) == 1001
    assert len([line for line in lines if line.startswith("+ ")]) == 1001


def test_all_tools_at_once() -> None:
    """C172: one digest stands for what was shown, whatever the order."""
    one, other = {"x": of(X), "y": of(X, "y")}, {"y": of(X, "y"), "x": of(X)}
    assert set_digest(one) == set_digest(other)
    assert len({set_digest(one), set_digest({"x": of(X)}), set_digest({}), set_digest({"x": of({})})}) == 4


def test_the_phrase() -> None:
    """What changed in one line, of which a hostile server cannot make a page."""
    many = [Change(f"t{n}", Grade.TEXTS) for n in range(9)]
    assert summary([Change("a", Grade.HINTS), Change("c", Grade.NEW), Change("b", Grade.RENAMED, (), "x")]) == (
        "1 changed (a), 1 renamed (b), 1 new (c)"
    )
    assert summary(many) == "9 changed (t0, t1, t2, t3, t4, ...)"
    assert summary([]) == ""
