"""One tool from a server's list to an agent's, held against the official types."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types.methods import validate_server_result

from mcphub.catalog.definition import MAX_TOOLS, MAX_WARNINGS, Definition, read_definitions

OBJECT = {"type": "object"}


def read(*tools: Any) -> tuple[tuple[Definition, ...], tuple[str, ...]]:
    return read_definitions(tuple(json.dumps(t).encode() for t in tools))


def rendered(definition: Definition, modern: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(definition.render("mcp__s__x", modern))
    return found


def one(tool: dict[str, Any], modern: bool = True) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """The tool as agents see it, None where it was dropped, and the warnings."""
    definitions, warnings = read({"name": "x"} | tool)
    return (rendered(definitions[0], modern) if definitions else None), warnings


@pytest.mark.parametrize(
    ("schema", "exposed", "warns"),
    [
        (OBJECT, OBJECT, ""),
        ({"type": "object", "properties": {"p": True, "q": False}}, ..., ""),
        ({"type": "object", "anyOf": [{"required": ["a"]}], "$defs": {"x": {}}, "$ref": "#/$defs/x"}, ..., ""),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "oneOf": []}, ..., ""),
        ({"type": "object", "title": 5, "x-mcp-header": "A"}, ..., ""),
        (None, OBJECT, "inputSchema has no type"),
        (True, OBJECT, "inputSchema has no type"),
        ({}, OBJECT, "inputSchema has no type"),
        ({"anyOf": [{}]}, {"type": "object", "anyOf": [{}]}, "inputSchema has no type"),
        ({"$schema": "draft-07"}, {"type": "object", "$schema": "draft-07"}, "inputSchema has no type"),
        ({"type": "object", "required": "a"}, OBJECT, "keywords of a wrong type"),
        ({"type": "object", "required": [1], "$schema": 5}, OBJECT, "keywords of a wrong type"),
        ({"type": "object", "required": None, "properties": None}, OBJECT, ""),
        ({"type": "object", "properties": []}, OBJECT, "keywords of a wrong type"),
        (
            {"type": "object", "properties": {"a": {"b": 1}, "c": None, "d": "x"}},
            {"type": "object", "properties": {"a": {"b": 1}}},
            "keywords of a wrong type",
        ),
        ({"type": "string"}, None, 'dropped, its inputSchema has the top-level type "string"'),
        ({"type": ["object", "null"]}, None, "dropped, its inputSchema has the top-level type"),
        ({"type": None}, None, "dropped, its inputSchema has the top-level type null"),
        ({"type": {}}, None, "dropped, its inputSchema has the top-level type {}"),
        (False, None, "dropped, its inputSchema is no object schema"),
        ([], None, "dropped, its inputSchema is no object schema"),
        ("object", None, "dropped, its inputSchema is no object schema"),
        (5, None, "dropped, its inputSchema is no object schema"),
    ],
)
def test_schemas(schema: Any, exposed: Any, warns: str) -> None:
    """C148: valid schemas pass, what is missing becomes an object, another type drops that tool alone, with a word."""
    good = {"name": "good", "inputSchema": OBJECT}
    definitions, warnings = read(good, {"name": "x", "inputSchema": schema}, good | {"name": "also"})
    found = {d.name: rendered(d)["inputSchema"] for d in definitions}
    assert found.pop("good") == OBJECT
    assert found.pop("also") == OBJECT
    assert found == ({} if exposed is None else {"x": schema if exposed is ... else exposed})
    assert len(warnings) == bool(warns)
    assert all(w.startswith("tool x: ") and warns in w for w in warnings)


def test_a_schema_is_passed_byte_by_byte() -> None:
    """C148: blanks, escapes, order and numbers of a valid schema are the server's."""
    schema = b'{ "properties":{"\\u00e9":{"minimum":1.0e2, "x":[ ]}} ,"type":"object","required":[]}'
    raw = b'{"inputSchema": %b, "name": "x", "outputSchema": %b}' % (schema, schema)
    (definition,), warnings = read_definitions((raw,))
    assert definition.render("n", True).count(schema) == 2
    assert definition.render("n", False).count(schema) == 2
    assert warnings == ()
    (escaped,), _ = read_definitions((b'{"name":"x","inputSchema":{"type":"\\u006fbject"}}',))
    assert rendered(escaped)["inputSchema"] == OBJECT


@pytest.mark.parametrize(
    ("member", "exposed", "warns"),
    [
        ({"title": "T", "description": "D"}, {"title": "T", "description": "D"}, ""),
        ({"title": None, "description": None, "annotations": None, "icons": None, "_meta": None}, {}, ""),
        ({"title": 5}, {}, "its title is of a wrong type"),
        ({"description": ["x"]}, {}, "its description is of a wrong type"),
        ({"annotations": {"readOnlyHint": True, "x": 1}}, ..., ""),
        ({"annotations": {"readOnlyHint": "yes", "title": 5, "x": 1}}, {"annotations": {"x": 1}}, ""),
        ({"annotations": [1]}, {}, "its annotations is of a wrong type"),
        ({"icons": [{"src": "data:,x", "sizes": ["any"], "theme": "dark", "more": 1}]}, ..., ""),
        ({"icons": [{"src": 5}]}, {}, "its icons is of a wrong type"),
        ({"icons": [{"src": "x", "sizes": "48x48"}]}, {}, "its icons is of a wrong type"),
        ({"icons": {}}, {}, "its icons is of a wrong type"),
        ({"_meta": {"a/b": 1}}, ..., ""),
        ({"_meta": "x"}, {}, "its _meta is of a wrong type"),
        ({"outputSchema": OBJECT}, ..., ""),
        ({"outputSchema": {"type": "array"}}, ..., ""),
        ({"outputSchema": True}, {}, "its outputSchema is of a wrong type"),
        ({"outputSchema": OBJECT | {"required": None}}, {"outputSchema": OBJECT}, ""),
        ({"execution": {"taskSupport": "required"}}, {}, ""),
        ({"vendor": {"x": [1]}, "": 1}, ..., ""),
    ],
)
def test_other_members(member: dict[str, Any], exposed: Any, warns: str) -> None:
    """C148: a member of a wrong type is left out, the tool stays; what is unknown passes."""
    found, warnings = one(member | {"inputSchema": OBJECT})
    assert found is not None
    assert found.pop("name") == "mcp__s__x"
    assert found.pop("inputSchema") == OBJECT
    assert found == (member if exposed is ... else exposed)
    assert len(warnings) == bool(warns)
    assert all(warns in w for w in warnings)


def test_legacy_agents_see_object_results_only() -> None:
    """An output schema of another type exists in the modern era alone."""
    array = {"inputSchema": OBJECT, "outputSchema": {"type": "array"}}
    assert one(array)[0] == {"name": "mcp__s__x"} | array
    assert one(array, modern=False)[0] == {"name": "mcp__s__x", "inputSchema": OBJECT}
    for schema in ({}, {"type": ["object"]}, {"type": None}):
        assert one({"outputSchema": schema}, modern=False)[0] == {"name": "mcp__s__x", "inputSchema": OBJECT}


@pytest.mark.parametrize(
    ("hints", "read_only"),
    [
        ({"readOnlyHint": True}, True),
        ({"readOnlyHint": True, "destructiveHint": False}, True),
        ({"readOnlyHint": True, "destructiveHint": True}, False),
        ({"readOnlyHint": False}, False),
        ({"readOnlyHint": "true"}, False),
        ({"readOnlyHint": 1}, False),
        ({"idempotentHint": True}, False),
        ({}, False),
        ([], False),
    ],
)
def test_read_only(hints: Any, read_only: bool) -> None:
    """C089: a tool only reads if it says so as a boolean and does not say that it destroys."""
    (definition,), _ = read({"name": "x", "annotations": hints})
    assert definition.read_only == read_only


def test_unclean_characters() -> None:
    """C175: escapes, controls and invisible tags go from every text that is shown; the name on the wire stays."""
    evil = "a\x1b[31m\x00\x7f\x85\U000e0041\U000e007fb\n\t\u202ec"
    tool = {"name": "n\x1b", "title": evil, "description": evil, "annotations": {"title": evil, "readOnlyHint": True}}
    (definition,), warnings = read(tool)
    clean = "a[31mb\n\t\u202ec"
    assert (definition.name, definition.title, definition.description) == ("n\x1b", clean, clean)
    found = rendered(definition)
    assert (found["title"], found["description"], found["annotations"]["title"]) == (clean, clean, clean)
    assert definition.read_only
    assert warnings[-1] == "tool n: 18 control characters removed from its texts"
    schema = {"type": "object", "properties": {"to": {"description": evil, "pattern": "\x1b"}}}
    shown, warnings = one({"inputSchema": schema, "outputSchema": schema})
    cleaned = {"type": "object", "properties": {"to": {"description": clean, "pattern": "\x1b"}}}
    assert shown is not None
    assert (shown["inputSchema"], shown["outputSchema"]) == (cleaned, cleaned)
    assert warnings[-1] == "tool x: 12 control characters removed from its texts"
    assert not any("\x1b" in w for w in warnings)


@pytest.mark.parametrize(
    ("tools", "names", "warns"),
    [
        (["x", None, 5, [], {}, {"name": 5}, {"name": None}], [], "a tool without a name, or that is no object"),
        ([{"name": ""}, {"name": "\x00"}], [], "a tool with an empty name was dropped"),
        ([{"name": "a"}, {"name": "a"}], ["a"], "inputSchema has no type"),
        ([{"name": "a"}, {"name": "a", "title": "t"}], ["a"], "tool a: listed twice"),
        (
            [{"name": "\u6f22"}, {"name": "A"}, {"name": "a"}, {"name": "x" * 3000}],
            ["\u6f22", "A", "a", "x" * 3000],
            "",
        ),
        ([{"name": "\ud800"}], [], "a tool without a name"),
    ],
)
def test_names(tools: list[Any], names: list[str], warns: str) -> None:
    """C143, C148: a tool that cannot be named is dropped alone; the same one twice counts once."""
    definitions, warnings = read(*tools)
    assert [d.name for d in definitions] == names
    assert any(warns in w for w in warnings)


def test_bytes_that_are_no_tool() -> None:
    """C148: depth, broken bytes and doubled keys are dropped or read once; nothing is raised."""
    deep = b"[" * 5000 + b"]" * 5000
    odd = [b"", b"{", b"\xff", deep, b'{"name":"a","inputSchema":%b}' % deep, b'{"name":"b","annotations":%b}' % deep]
    odd += [b'{"name":"x","name":"c","title":"1","title":"2"}', b'{"name":"' + b"9" * 5000 + b'"}']
    odd += [b'{"name":"d","outputSchema":{"properties":{"a":%b}}}' % deep, b'{"name":"\xff"}']
    definitions, _ = read_definitions(tuple(odd))
    assert {d.name for d in definitions} <= {"b", "c", "d", "9" * 5000}
    (found,) = [d for d in definitions if d.name == "c"]
    assert rendered(found)["title"] == "2"


def test_bounds() -> None:
    """A list beyond all measure is cut, with a bounded number of words, in little time."""
    tools = tuple(b'{"name":"t%d","inputSchema":{"required":5}}' % i for i in range(MAX_TOOLS + 5))
    start = time.perf_counter()
    definitions, warnings = read_definitions(tools)
    assert time.perf_counter() - start < 10
    assert len(definitions) == MAX_TOOLS
    assert len(warnings) == MAX_WARNINGS + 1
    assert warnings[0] == f"the server lists {MAX_TOOLS + 5} tools; the first {MAX_TOOLS} are used"
    assert warnings[-1].endswith("more warnings about the list of tools")


VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.text(max_size=3)
    | st.sampled_from(["object", "array", "light"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "required", "$schema", "src", "sizes", "theme", "title", "readOnlyHint"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
SCHEMA = VALUE | st.fixed_dictionaries({"type": st.just("object")}, optional={"properties": VALUE, "required": VALUE})
TOOLS = st.lists(
    st.fixed_dictionaries(
        {"name": st.text(max_size=2) | VALUE},
        optional={
            "inputSchema": SCHEMA,
            "outputSchema": SCHEMA,
            "annotations": VALUE,
            "icons": VALUE | st.lists(st.fixed_dictionaries({"src": VALUE}, optional={"sizes": VALUE, "theme": VALUE})),
            "_meta": VALUE,
            "title": VALUE,
            "description": VALUE,
            "execution": VALUE,
            "more": VALUE,
        },
    )
    | VALUE,
    max_size=4,
)


@given(TOOLS)
def test_whatever_a_server_lists_agents_get_valid_tools(tools: list[Any]) -> None:
    """C148: no list of a server makes a list that the official types of either era refuse."""
    definitions, _ = read(*tools)
    for modern, version in ((False, "2025-11-25"), (True, "2026-07-28")):
        listed = [json.loads(d.render(f"mcp__s__{i}", modern)) for i, d in enumerate(definitions)]
        result: dict[str, Any] = {"tools": listed}
        if modern:
            result |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        validate_server_result("tools/list", version, result)


def test_long_texts_are_cut_for_agents_alone() -> None:
    """C177: no tool is lost by them; people, and what is remembered of the tool, have the whole."""
    long = "d" * 5000
    tool = {
        "name": "x", "title": long, "description": long, "annotations": {"title": long, "readOnlyHint": True},
        "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "description": long}}},
        "outputSchema": {"type": "object", "enum": [long]},
    }  # fmt: skip
    [definition], warnings = read(tool)
    shown = rendered(definition)
    for text in (
        shown["title"], shown["description"], shown["annotations"]["title"],
        shown["inputSchema"]["properties"]["a"]["description"],
    ):  # fmt: skip
        assert (len(text), text[-7:]) == (2048, "d [cut]")
    assert shown["outputSchema"]["enum"] == [long]
    assert definition.read_only
    assert {json.loads(key): json.loads(value) for key, value in definition.members} == {
        key: value for key, value in tool.items() if key != "name"
    }
    assert definition.description == long
    assert warnings == ("tool x: 4 of its texts are cut for agents to 2048 characters; whole: "
                        "mcphub tools --schemas --json",)  # fmt: skip
    (definition,), warnings = read_definitions((json.dumps({**tool, "description": "e" * 5001}).encode(),), 5000)
    assert len(rendered(definition)["description"]) == 5000
    assert warnings[0].startswith("tool x: 1 of its texts is cut for agents to 5000 characters")
    assert read_definitions((json.dumps(tool).encode(),), 5000)[1] == ()


@pytest.mark.parametrize(
    ("execution", "task"),
    [
        ({"taskSupport": "required"}, True),
        ({"taskSupport": "optional"}, False),
        ({"taskSupport": "forbidden"}, False),
        ({"taskSupport": 5}, False),
        ({}, False),
        ([], False),
        (None, False),
    ],
)
def test_a_tool_that_must_be_a_task(execution: Any, task: bool) -> None:
    """B78: whether it must be is known to mcphub, and shown to no agent."""
    (definition,), warnings = read({"name": "x", "inputSchema": OBJECT, "execution": execution})
    assert definition.task is task and warnings == ()
    assert "execution" not in rendered(definition) and "execution" not in rendered(definition, modern=False)
