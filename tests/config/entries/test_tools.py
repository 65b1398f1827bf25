"""What an entry says of single tools of its server."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.spec import ServerSpec
from tests.config.entries.written import parsed, problem


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        (None, {}),
        ({}, {}),
        ({"a": {}}, {}),
        ({"a": {"idempotencyArgument": "key"}, "b": {"idempotencyArgument": ""}}, {"a": "key"}),
        ({"a b/漢": {"idempotencyArgument": "k"}}, {"a b/漢": "k"}),
    ],
)
def test_idempotency_arguments(tools: Any, expected: dict[str, str]) -> None:
    """By the server's own name of the tool; what is empty is not said, and what is said makes another instance."""
    found = parsed({"command": "x", **({} if tools is None else {"tools": tools})})
    plain = parsed({"command": "x"}).outcome
    assert isinstance(found.outcome, ServerSpec) and isinstance(plain, ServerSpec) and found.warnings == ()
    assert found.outcome.idempotency_arguments == expected
    assert (found.outcome.key() == plain.key()) == (not expected)


@pytest.mark.parametrize(
    ("tools", "key", "part"),
    [
        ([], "tools", "expected an object, found"),
        ({"a": "key"}, "tools.a", "expected an object, found a string"),
        ({"a": {"idempotencyArgument": 5}}, "tools.a.idempotencyArgument", "expected a string, found a number"),
        ({"a": {"idempotencyArgument": "x\0"}}, "tools.a.idempotencyArgument", "cannot hold a NUL"),
    ],
)
def test_wrong_values_are_named(tools: Any, key: str, part: str) -> None:
    """What would not mean what its writer meant is an error of that entry."""
    message = problem({"command": "x", "tools": tools})
    assert f"mcpServers.s.{key}: " in message and part in message


def test_what_is_not_known() -> None:
    """It is a warning, and the rest counts."""
    found = parsed({"command": "x", "tools": {"a": {"idempotencyArgument": "k", "cost": 5}}})
    assert "tools.a.cost: unknown key, not used" in found.warnings[0]
    assert isinstance(found.outcome, ServerSpec) and found.outcome.idempotency_arguments == {"a": "k"}


@pytest.mark.parametrize(("value", "trusted"), [(None, False), (False, False), (True, True)])
def test_annotations_that_are_trusted(value: bool | None, trusted: bool) -> None:
    """The entry says so."""
    found = parsed({"command": "x", **({} if value is None else {"trustAnnotations": value})}).outcome
    assert isinstance(found, ServerSpec) and found.trust_annotations is trusted
