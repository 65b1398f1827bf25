"""Changing one member of a document that a person wrote, and nothing else."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcphub.config import jsonc
from mcphub.config.edit import has_member, remove_member, set_member
from mcphub.errors import ConfigError

S = "mcpServers"

TEAM = """\
// team
{
  "mcpServers": {
    // the database
    "db": { "command": "x" }, // prod
    "b": {
      "command": "y",
      "args": ["1"] // one
    } // tail
    // "old": {}
  },
}
"""

#: name, document, path, value, result
SETS: list[tuple[str, str, tuple[str, ...], Any, str]] = [
    ("no file", "", (S, "a"), {"x": 1}, '{\n  "mcpServers": {\n    "a": {\n      "x": 1\n    }\n  }\n}\n'),
    ("blank file", " \n", (S, "a"), 1, '{\n  "mcpServers": {\n    "a": 1\n  }\n}\n'),
    ("empty object", "{}", (S, "a"), 1, '{\n  "mcpServers": {\n    "a": 1\n  }\n}'),
    ("empty map", '{\n\t"mcpServers": {}\n}\n', (S, "a"), 1, '{\n\t"mcpServers": {\n\t\t"a": 1\n\t}\n}\n'),
    (
        "a map that only says how to fill it",
        '{\n  "mcpServers": {\n    // put servers here\n  }\n}\n',
        (S, "a"),
        1,
        '{\n  "mcpServers": {\n    // put servers here\n    "a": 1\n  }\n}\n',
    ),
    ("a comment on its one line", "{ /* none yet */ }", ("a",), 1, '{ /* none yet */\n  "a": 1\n }'),
    ("minified", '{"mcpServers":{"a":1}}', (S, "b"), {"x": [1, 2]}, '{"mcpServers":{"a":1,"b":{"x":[1,2]}}}'),
    ("one line", '{ "a": 1 }', ("b",), {"x": [1, 2]}, '{ "a": 1, "b": { "x": [1, 2] } }'),
    ("one line, comma behind the last", '{ "a": 1, }', ("b",), 2, '{ "a": 1, "b": 2, }'),
    ("lines, comma behind the last", '{\n  "a": 1,\n}', ("b",), 2, '{\n  "a": 1,\n  "b": 2,\n}'),
    ("a comment behind the last", '{\n  "a": 1 // one\n}', ("b",), 2, '{\n  "a": 1, // one\n  "b": 2\n}'),
    ("a comment behind its comma", '{\n  "a": 1, /* one */\n}', ("b",), 2, '{\n  "a": 1, /* one */\n  "b": 2,\n}'),
    ("end on the last line", '{\n  "a": 1}', ("b",), 2, '{\n  "a": 1,\n  "b": 2}'),
    ("four blanks", '{\n    "a": {}\n}', ("b",), {"c": 1}, '{\n    "a": {},\n    "b": {\n        "c": 1\n    }\n}'),
    ("CRLF", '{\r\n  "a": 1\r\n}\r\n', ("b",), {"c": 1}, '{\r\n  "a": 1,\r\n  "b": {\r\n    "c": 1\r\n  }\r\n}\r\n'),
    ("BOM", '\ufeff{"a":1}', ("a",), 2, '\ufeff{"a":2}'),
    ("value replaced", '{\n  "a": 1, // one\n  "b": 2\n}', ("a",), "x", '{\n  "a": "x", // one\n  "b": 2\n}'),
    ("object on one line replaced", '{\n  "a": {"x": 1}\n}', ("a",), {"y": 2}, '{\n  "a": { "y": 2 }\n}'),
    ("empty object replaced", '{\n  "a": {}\n}', ("a",), {"y": 2}, '{\n  "a": {\n    "y": 2\n  }\n}'),
    ("strings that look like comments", '{"a":"//","b":"/*"}', ("c",), "*/", '{"a":"//","b":"/*","c":"*/"}'),
    ("escaped key", '{"\\u0061": 1}', ("a",), 2, '{"\\u0061": 2}'),
    (
        "the team's file",
        TEAM,
        (S, "new"),
        {"command": "npx", "args": ["-y", "a"], "env": {"K": "${K}"}},
        TEAM.replace(
            "} // tail",
            '}, // tail\n    "new": {\n      "command": "npx",\n      "args": ["-y", "a"],\n      "env": {\n'
            '        "K": "${K}"\n      }\n    }',
        ),
    ),
    (
        "a member of an entry",
        TEAM,
        (S, "b", "enabled"),
        False,
        TEAM.replace('["1"] // one', '["1"], // one\n      "enabled": false'),
    ),
]

REMOVALS: list[tuple[str, str, tuple[str, ...], str]] = [
    ("not there", '{"a":1}', ("b",), '{"a":1}'),
    ("not there, below no object", '{"a":1}', ("a", "b"), '{"a":1}'),
    ("the only one", '{ "a": 1 }', ("a",), "{}"),
    ("the only one, on its line", '{\n  "a": {\n    "b": 1,\n  },\n}\n', ("a", "b"), '{\n  "a": {},\n}\n'),
    ("the only one, below a comment", '{\n  // say\n  "a": 1 // x\n}', ("a",), "{\n  // say\n}"),
    ("first of a line", '{"a":1, "b":2}', ("a",), '{"b":2}'),
    ("middle of a line", '{"a":1, "b":2, "c":3}', ("b",), '{"a":1, "c":3}'),
    ("last of a line", '{"a":1, "b":2}', ("b",), '{"a":1}'),
    ("last of a line, comma behind it", '{"a":1, "b":2,}', ("b",), '{"a":1,}'),
    ("first of lines", '{\n  "a": 1, // one\n  "b": 2\n}', ("a",), '{\n  "b": 2\n}'),
    ("last of lines", '{\n  "a": 1, // one\n  "b": 2 // two\n}', ("b",), '{\n  "a": 1 // one\n}'),
    ("last of lines, comma behind it", '{\n  "a": 1,\n  "b": 2,\n}', ("b",), '{\n  "a": 1,\n}'),
    ("comma on the next line", '{\n  "a": 1\n  , "b": 2\n}', ("b",), '{\n  "a": 1\n  \n}'),
    ("CRLF", '\ufeff{\r\n  "a": 1,\r\n  "b": 2\r\n}\r\n', ("b",), '\ufeff{\r\n  "a": 1\r\n}\r\n'),
    ("from the team's file", TEAM, (S, "db"), TEAM.replace('    "db": { "command": "x" }, // prod\n', "")),
]


@pytest.mark.parametrize(("document", "path", "value", "result"), [row[1:] for row in SETS], ids=[r[0] for r in SETS])
def test_set(document: str, path: tuple[str, ...], value: Any, result: str) -> None:
    """A member is put where a person would put it, in the style of what is there."""
    assert set_member(document.encode(), path, value).decode() == result


@pytest.mark.parametrize(("document", "path", "result"), [row[1:] for row in REMOVALS], ids=[r[0] for r in REMOVALS])
def test_remove(document: str, path: tuple[str, ...], result: str) -> None:
    """A member goes with its lines; comments on lines of their own stay."""
    assert remove_member(document.encode(), path).decode() == result


def test_there_or_not() -> None:
    """What stands at a path is told without looking at what it is."""
    assert has_member(b'{"a": {"b": null}}', ("a", "b"))
    assert not has_member(b'{"a": {"b": null}}', ("a", "b", "c"))
    assert not has_member(None, ("a",))


@pytest.mark.parametrize(
    ("document", "path", "value", "message"),
    [
        (b'{"a": 1}', ("a", "b"), 1, "expected an object at a, found a number"),
        (b"[]", ("a",), 1, "expected an object at the top, found a list"),
        (b"{", ("a",), 1, "expected a key"),
        (b'{"a":1,"a":2}', ("b",), 1, "duplicate key"),
        (b"\xff", ("b",), 1, "not UTF-8"),
        (b"{}", ("a",), "\ud800", "not Unicode"),
        (b"{}", ("a",), float("nan"), "not JSON"),
        (b"{}", ("a",), object(), "not JSON"),
    ],
)
def test_what_cannot_be_changed(document: bytes, path: tuple[str, ...], value: Any, message: str) -> None:
    """A document that is not understood whole, or a value that no document can hold, is refused."""
    with pytest.raises(ConfigError, match=message):
        set_member(document, path, value)


# --- any document ----------------------------------------------------------------------------------------------------

BLANKS = st.lists(
    st.sampled_from([" ", "  ", "\n", "\t", "/* c, } */", "// d \"{\n", "/* two\nlines */", "\n// own\n"]),
    max_size=3,
).map("".join)
KEYS = st.sampled_from(["a", "b", "c", 'q"', "//", "/*", "\u6f22"])
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 10**12), st.sampled_from(["", "//", "/* */", "}", ',"', "\u2028", "\\"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)


@st.composite
def written(draw: st.DrawFn, value: Any) -> str:
    """The value as somebody may have written it."""
    if isinstance(value, (dict, list)):
        parts = [draw(BLANKS)]
        for index, item in enumerate(value):
            text = draw(written(value[item] if isinstance(value, dict) else item))
            key = f"{jsonc_string(item)}{draw(BLANKS)}:{draw(BLANKS)}" if isinstance(value, dict) else ""
            comma = "," if index < len(value) - 1 or draw(st.booleans()) else ""
            parts += [key, text, draw(BLANKS), comma, draw(BLANKS)]
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        return opening + "".join(parts) + closing
    return jsonc_string(value)


def jsonc_string(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@st.composite
def documents(draw: st.DrawFn) -> tuple[list[str], dict[str, Any]]:
    """A document in pieces (those at 1, 3, 5, ... are its members' values), and what it says."""
    value = draw(st.dictionaries(KEYS, VALUES, max_size=4))
    pieces = [draw(st.sampled_from(["", "\ufeff"])) + draw(BLANKS) + "{" + draw(BLANKS)]
    for index, (key, item) in enumerate(value.items()):
        pieces[-1] += f"{jsonc_string(key)}{draw(BLANKS)}:{draw(BLANKS)}"
        comma = "," if index < len(value) - 1 or draw(st.booleans()) else ""
        pieces += [draw(written(item)), f"{draw(BLANKS)}{comma}{draw(BLANKS)}"]
    pieces[-1] += "}" + draw(BLANKS)
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return [piece.replace("\n", newline) for piece in pieces], value


def comments(text: str) -> list[str]:
    """Every comment of a document, as it stands, in order."""
    found = re.finditer(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|(?s:/\*.*?\*/)', text)
    return [one.group() for one in found if not one.group().startswith('"')]


def says(data: str) -> str:
    return repr(jsonc.parse(data.encode()).value)


@settings(deadline=None, max_examples=120)
@given(documents(), KEYS, VALUES)
def test_any_document_with_a_member_set(document: tuple[list[str], dict[str, Any]], key: str, value: Any) -> None:
    """Whatever the layout: the result says what was wanted. A new value disturbs no byte around the old one, a new
    member none at all: removing it again gives the document that was."""
    pieces, old = document
    data = "".join(pieces)
    made = set_member(data.encode(), (key,), value).decode()
    assert says(made) == repr({**old, key: value})
    if key in old:
        place = 2 * list(old).index(key) + 1
        assert made.startswith("".join(pieces[:place]))
        assert made.endswith("".join(pieces[place + 1 :]))
    else:
        assert comments(made) == comments(data)
        if old:
            assert remove_member(made.encode(), (key,)).decode() == data


@settings(deadline=None, max_examples=120)
@given(documents(), st.integers(0, 3))
def test_any_document_with_a_member_removed(document: tuple[list[str], dict[str, Any]], index: int) -> None:
    """Whatever the layout: only that member is gone, every other one is the same text in the same order, and no comment
    above them is lost."""
    pieces, old = document
    data = "".join(pieces)
    if not old:
        assert remove_member(data.encode(), ("a",)).decode() == data
        return
    index %= len(old)
    made = remove_member(data.encode(), (list(old)[index],)).decode()
    assert says(made) == repr({k: v for n, (k, v) in enumerate(old.items()) if n != index})
    at = 0
    for number in range(len(old)):
        if number != index:
            at = made.index(pieces[2 * number + 1], at) + len(pieces[2 * number + 1])
    head = pieces[0][: pieces[0].index("{")]
    assert made.startswith(head)
    if index > 0:
        assert made.startswith("".join(pieces[: 2 * index]))


@settings(deadline=None, max_examples=200)
@given(VALUES, KEYS, VALUES, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_a_nested_member_leaves_its_neighbours_alone(
    neighbour: Any, key: str, value: Any, newline: str, trailing: bool
) -> None:
    """What stands before and behind the changed object is the same bytes."""
    before = f"// head{newline}{{{newline}  \"x\": {jsonc_string(neighbour)}, // {newline}  \"y\": "
    behind = f"{',' if trailing else ''} /* end */{newline}}}{newline}"
    data = f"{before}{{ \"k\": 1 }}{behind}".encode()
    made = set_member(data, ("y", key), value).decode()
    assert made.startswith(before)
    assert made.endswith(behind)
    assert remove_member(made.encode(), ("y", key)) == data
