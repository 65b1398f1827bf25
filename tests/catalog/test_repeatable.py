"""Which tools may be sent again without asking anybody."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from mcphub.catalog.definition import Definition, read_definitions
from mcphub.catalog.repeatable import repeatable
from mcphub.spec import InProcessSpec, Origin, Scope, ServerSpec


def spec(scope: Scope = Scope.USER, **more: Any) -> ServerSpec:
    return ServerSpec("s", Origin(scope, "/f", "s"), InProcessSpec("s"), **more)


def tool(hints: dict[str, bool] | None = None, schema: Any = None) -> Definition:
    raw = {"name": "t", "inputSchema": schema or {"type": "object"}, "annotations": hints or {}}
    (found,), _ = read_definitions((json.dumps(raw).encode(),))
    return found


@pytest.mark.parametrize(
    ("hints", "again"),
    [
        ({}, False),
        ({"readOnlyHint": True}, True),
        ({"readOnlyHint": True, "destructiveHint": False}, True),
        ({"readOnlyHint": True, "destructiveHint": True}, False),
        ({"readOnlyHint": True, "destructiveHint": True, "idempotentHint": True}, False),
        ({"idempotentHint": True}, True),
        ({"idempotentHint": True, "destructiveHint": True}, True),
        ({"readOnlyHint": False, "idempotentHint": False}, False),
        ({"openWorldHint": True}, False),
    ],
)
@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize("trust", [False, True])
def test_hints(hints: dict[str, bool], again: bool, scope: Scope, trust: bool) -> None:
    """C089: what a server says of itself counts where the person, or the organisation, has written the entry, or where
    the entry says that it does."""
    (found,), warnings = repeatable(spec(scope, trust_annotations=trust), [tool(hints)])
    believed = trust or scope in ("enterprise", "managed", "user", "local")
    assert found.repeatable == (again and believed) and not warnings


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "object"}, ""),
        ({"type": "object", "properties": {"k": {}}}, ""),
        ({"type": "object", "properties": {"k": True}}, ""),
        ({"type": "object", "properties": {"k": {"type": "string", "format": "uuid"}}}, ""),
        ({"type": "object", "properties": {"k": {"type": ["string", "null"]}}, "additionalProperties": False}, ""),
        ({"type": "object", "properties": {}, "additionalProperties": False}, "its schema has no 'k'"),
        ({"type": "object", "properties": {"k": {"type": "integer"}}}, "its schema wants no string for 'k'"),
        ({"type": "object", "properties": {"k": {"enum": ["a"]}}}, "its schema wants no string for 'k'"),
        ({"type": "object", "properties": {"k": False}}, "its schema wants no string for 'k'"),
        ({"type": "object", "properties": {"k": {"minLength": 36, "maxLength": 36}}}, ""),
        ({"type": "object", "properties": {"k": {"maxLength": "odd", "minLength": None}}}, ""),
        ({"type": "object", "properties": {"k": {"maxLength": 35}}}, "its schema has no room for a UUID in 'k'"),
        ({"type": "object", "properties": {"k": {"minLength": 37}}}, "its schema has no room for a UUID in 'k'"),
        ({"type": "object", "properties": {"k": {"format": "email"}}}, "its schema has no room for a UUID in 'k'"),
    ],
)
@pytest.mark.parametrize("scope", [Scope.PROJECT, Scope.USER])
def test_an_argument(schema: Any, why: str, scope: Scope) -> None:
    """It is filled where the tool takes such a one; else a person is told, and nothing is sent again."""
    (found,), warnings = repeatable(spec(scope, idempotency_arguments={"t": "k"}), [tool(schema=schema)])
    assert found.repeatable == (not why) and found.idempotency_argument == ("" if why else "k")
    assert warnings == ((f"tools.t.idempotencyArgument is not used: {why}",) if why else ())


def test_a_tool_that_is_not_there() -> None:
    """A name that is misspelt is told; what else the tool is stays as it is."""
    given = tool()
    (found,), [warning] = repeatable(spec(idempotency_arguments={"T": "k"}), [given])
    assert found == given and "tools.T.idempotencyArgument is not used: the server lists no such tool" in warning
    assert replace(found, repeatable=True) != given
