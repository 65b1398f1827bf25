"""What a tool's own schemas say of its arguments and its results."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from mcphub.catalog.definition import Definition, read_definitions
from mcphub.gateway import tool_schema
from mcphub.gateway import validate as module
from mcphub.gateway.validate import MAX_ARGUMENTS, MAX_RESULT, Checks

SCHEMA = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "often": {"type": "string", "default": "daily"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["count", "often"],
    "additionalProperties": False,
}
OUTPUT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TYPELESS = {"properties": {"n": {"type": "integer"}}}
LIST = {"type": "array", "items": {"type": "integer"}}
MISSING = "structuredContent is missing"
CONTENT = {"content": [{"type": "text", "text": "5"}]}


def tool(schema: Any, output: Any = None, name: str = "tool") -> Definition:
    raw = {"name": name, "inputSchema": schema, **({"outputSchema": output} if output is not None else {})}
    (found,), _ = read_definitions((json.dumps(raw).encode(),))
    assert found.structured is (output is not None)
    return found


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"count": 5}, ""),
        ({"count": 5.0, "often": "x", "tags": ["a"]}, ""),
        ({}, "count is missing"),
        ({"count": "5"}, "count must be integer, not string"),
        ({"count": None}, "count must be integer, not null"),
        ({"count": True}, "count must be integer, not boolean"),
        ({"count": 5.5}, "count must be integer, not number"),
        ({"count": 5, "extra": "s3cret"}, "extra is not known"),
        ({"count": 5, "tags": ["a", 2]}, "tags[1] must be string, not integer"),
        ({"often": 5}, "often must be string or null, not integer; count is missing"),
        ({"count": 5, "often": None, "tags": None}, ""),
        ({"count": 5, "extra": None}, "extra is not known"),
        ({"count": 5, "tags": [None]}, "tags[0] must be string, not null"),
    ],
)
def test_clear_violations(arguments: Any, told: str) -> None:
    """C151: missing, null, extra, or a string for a number: the refusal names the tool, the places and the types, and
    says that nothing was sent; nothing is turned into another type, a default makes nothing required, and what may be
    missing may be null (SEP-2243)."""
    found = Checks().refusal(tool(SCHEMA, name="to\x1bol"), json.dumps(arguments).encode())
    if not told:
        assert found == ""
        return
    before, after = "The arguments do not fit the schema of tool: ", ". Nothing was sent; correct them."
    assert found.startswith(before) and found.endswith(after)
    assert sorted(found[len(before) : -len(after)].split("; ")) == sorted(told.split("; "))


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "$schema": "https://example.org/own"}])
def test_nothing_to_check(schema: Any) -> None:
    """C151: a schema that says nothing, or that cannot be used, costs a look into a dictionary at each call."""
    checks, found = Checks(), tool(schema)
    assert checks.refusal(found, b'{"a":1}') == ""
    assert checks._arguments[id(found)].check is None


def test_a_schema_that_is_not_used_is_told_once() -> None:
    """C151: that nothing is checked is said, at the first call, and of schemas alone that somebody wrote."""
    told: list[str] = []
    checks, own, none = Checks(told.append), tool({"$schema": "https://example.org/own"}, name="to\x1bol"), tool({})
    for _ in range(2):
        assert checks.refusal(own, b"{}") == checks.refusal(none, b"{}") == ""
    [said] = told
    assert said.startswith("the inputSchema of the tool tool is not used: ")


def test_what_is_not_looked_at() -> None:
    """C151: arguments that are too large, or that only another reader can read, are the server's to judge."""
    checks, found = Checks(), tool(SCHEMA)
    assert checks.refusal(found, b'{"count":"' + b"x" * MAX_ARGUMENTS + b'"}') == ""
    assert checks.refusal(found, b'{"count":"\\ud800"}') == ""
    assert checks.refusal(found, memoryview(b'{"count":"5"}')) != ""


def test_a_schema_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool's, at its first call; another definition of the same name has its own; the number that is kept is
    bounded."""
    checks, found, same = Checks(), tool(SCHEMA), tool(SCHEMA)
    assert checks.refusal(found, b"{}")
    monkeypatch.setattr(tool_schema, "read_schema", lambda raw, **_: None)
    assert checks.refusal(found, b"{}")
    assert not checks.refusal(same, b"{}")
    monkeypatch.setattr(module, "MAX_KNOWN", 2)
    assert not checks.refusal(tool(SCHEMA), b"{}")
    assert len(checks._arguments) == 1


@pytest.mark.parametrize(
    ("output", "result", "told"),
    [
        (OUTPUT, {**CONTENT, "structuredContent": {"n": 5}}, ""),
        (OUTPUT, {**CONTENT, "structuredContent": {"n": "5"}}, "n must be integer, not string"),
        (OUTPUT, {**CONTENT, "structuredContent": [5]}, "structuredContent must be object, not array"),
        (OUTPUT, {**CONTENT, "structuredContent": {}}, "n is missing"),
        (OUTPUT, CONTENT, MISSING),
        (OUTPUT, {**CONTENT, "isError": True}, ""),
        (OUTPUT, {**CONTENT, "isError": True, "structuredContent": {"n": "5"}}, ""),
        (OUTPUT, {**CONTENT, "isError": False}, MISSING),
        (TYPELESS, {"structuredContent": {"n": "5"}}, "n must be integer, not string"),
        (TYPELESS, {"structuredContent": [5]}, ""),
        (LIST, {"structuredContent": [5]}, ""),
        (LIST, {"structuredContent": ["5"]}, "[0] must be integer, not string"),
        (TYPELESS, {"structuredContent": {"n": None}}, "n must be integer, not null"),
        ({}, {"structuredContent": None}, ""),
        ({}, CONTENT, MISSING),
        ({"type": "text"}, {"structuredContent": 5}, ""),
    ],
)
def test_results(output: Any, result: dict[str, Any], told: str) -> None:
    """C152: a result that breaks the tool's own outputSchema is told by place and type; an error is not looked at."""
    assert Checks().unlike(tool({}, output), memoryview(json.dumps(result).encode())) == told


@pytest.mark.parametrize("result", [b"[", b"", b"5", b'{"content":["' + b"x" * MAX_RESULT + b'"]}'])
def test_results_that_are_not_looked_at(result: bytes) -> None:
    """C152: what is too large or cannot be read is passed on as it is."""
    assert Checks().unlike(tool({}, OUTPUT), result) == ""


def test_the_engine_is_not_imported_for_what_is_right() -> None:
    """Its 4 MiB are for those who need them: schemas are read, and right arguments and results seen, without it."""
    code = f"""
import sys
from mcphub.catalog.definition import read_definitions
from mcphub.gateway import dispatch
from mcphub.gateway.validate import Checks
(tool,), _ = read_definitions(({json.dumps({"name": "t", "inputSchema": SCHEMA, "outputSchema": OUTPUT}).encode()!r},))
checks = Checks()
assert checks.refusal(tool, b'{{"count":5}}') == "" == checks.unlike(tool, b'{{"structuredContent":{{"n":5}}}}')
assert "jsonschema_rs" not in sys.modules
assert checks.refusal(tool, b"{{}}")
assert "jsonschema_rs" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
