"""Tables for the variables in an entry's fields."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.config.entries.context import Context
from mcphub.spec import ServerSpec
from tests.config.entries.written import USER, parsed, problem, stdio


def test_missing_variables() -> None:
    """C020: the server fails by the names of its missing variables, each with its field, and is told where to set
    them."""
    message = problem({"command": "x", "args": ["${OTHER}"], "env": {"D": "${UNSET_D}/data", "E": "${UNSET_D}"}})
    assert message == (
        f"cannot use server s: {USER}:1 mcpServers.s.args[0]: missing variable OTHER; also missing: "
        f"UNSET_D ({USER}:1 mcpServers.s.env.D); set it in /home/u/.config/mcphub/environment, "
        "or write a default: ${OTHER:-...}"
    )
    assert "workspaceFolder} has a value in project files only" in problem(
        {"command": "x", "cwd": "${workspaceFolder}"}
    )


@pytest.mark.parametrize(
    "raw",
    [{"command": "${U}"}, {"command": "x", "args": ["${U}"]}, {"command": "x", "cwd": "${U}"},
     {"command": "x", "env": {"A": "${U}"}}, {"command": "x", "envFile": "${U}"}],
)  # fmt: skip
def test_every_field_is_expanded_or_fails(raw: dict[str, Any]) -> None:
    """C020: in no field does the literal reach a program."""
    assert "missing variable U" in problem(raw)


def test_secrets_are_refused() -> None:
    """The vault's form is understood and refused, not passed on."""
    message = problem({"command": "x", "env": {"A": "${secret:gh}"}})
    assert "mcpServers.s.env.A: ${secret:gh}: secrets are not supported by this version" in message


def test_unsupported_forms_are_passed_on_with_a_warning() -> None:
    """C021: a form outside the grammar stays as it is and is reported once for the entry."""
    result = parsed({"command": "sh", "args": ["-c", "echo $A $A ${B%.*}", "$A"]})
    assert isinstance(result.outcome, ServerSpec)
    assert [str(arg) for arg in result.outcome.transport.args] == ["-c", "echo $A $A ${B%.*}", "$A"]  # type: ignore[union-attr]
    assert result.warnings == (
        f"{USER}:1 mcpServers.s: $A is not a supported form and is passed on as it stands",
        f"{USER}:1 mcpServers.s: ${{B... is not a supported form and is passed on as it stands",
    )


def test_expansion_uses_the_hubs_environment() -> None:
    """C023: only what the caller gives as the hub's environment is seen, and the message names the file to set it
    in."""
    raw = {"command": "x", "env": {"T": "${GH_T}"}}
    assert "set it in /e/environment" in problem(raw, context=Context({}, "/e/environment"))
    assert stdio(raw, context=Context({"GH_T": "abc"})).env == {"T": "abc"}
