"""Tables for the entries of servers that live in the daemon."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.spec import InProcessSpec, Scope
from tests.config.entries.written import parsed, problem, spec


@pytest.mark.parametrize(("raw", "name"), [({"type": "sdk"}, "s"), ({"type": "sdk", "name": "clock"}, "clock")])
def test_the_server_that_is_meant(raw: dict[str, Any], name: str) -> None:
    """By its own name, or by that of the entry; common fields count."""
    found = spec({**raw, "timeout": 5000})
    assert found.transport == InProcessSpec(name)
    assert found.call_timeout == 5
    assert parsed(raw).warnings == ()


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ({"command": "x"}, "has no command and no url"),
        ({"url": "https://h/"}, "has no command and no url"),
        ({"name": 1}, "expected a string"),
    ],
)
def test_wrong_entries(more: dict[str, Any], cause: str) -> None:
    """Each is an error."""
    assert cause in problem({"type": "sdk", **more})


def test_a_repository_names_none() -> None:
    """What lives in the daemon is not a project's to list."""
    assert "works only for the host that supplies the server" in problem({"type": "sdk"}, Scope.PROJECT)
