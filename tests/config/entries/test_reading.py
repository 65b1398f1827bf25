"""Tables for the variables in an entry's fields."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.config.entries.context import Context
from mcphub.config.entries.entry import parse_entry
from mcphub.config.layer import Entry
from mcphub.spec import HttpSpec, Origin, Problem, Scope, ServerSpec, StdioSpec
from tests.config.entries.written import USER, parsed, problem, stdio
from tests.tables import Row, label, rows


def test_missing_variables() -> None:
    """C020: the server fails by the names of its missing variables, each with its field, and is told where to set
    them."""
    message = problem({"command": "x", "args": ["${OTHER}"], "env": {"D": "${UNSET_D}/data", "E": "${UNSET_D}"}})
    assert message == (
        f"cannot use server s: {USER}:1 mcpServers.s.args[0]: missing variable OTHER; also missing: "
        f"UNSET_D ({USER}:1 mcpServers.s.env.D); set it in /home/u/.config/mcphub/environment, "
        "or write a default: ${OTHER:-...}"
    )
    assert "workspaceFolder} has a value in the entries of a project only" in problem(
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
    """The vault's form is understood and refused, not passed on; why there is none is said."""
    raw = {"command": "x", "env": {"A": "${secret:gh}"}}
    assert "mcpServers.s.env.A: ${secret:gh}: secrets are known to the daemon alone" in problem(raw)
    for locked in ("the vault is locked", ""):
        context = Context({}, secrets=lambda name: None, no_secrets=lambda: locked)  # noqa: B023
        why = locked or "no secret has this name; keep one: mcphub secret set gh"
        assert f"${{secret:gh}}: {why}" in problem(raw, context=context)


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


def field_of(row: Row) -> str:
    """What the server gets for the text in the row's field, or the message after `! `."""
    _, scope, field, text, _ = row.columns
    env = dict(line.split("=", 1) for line in row.setup if not line.startswith("secret "))
    kept = dict(line.removeprefix("secret ").split("=", 1) for line in row.setup if line.startswith("secret "))
    fields: dict[str, dict[str, Any]] = {
        "args": {"command": "x", "args": [text]},
        "env": {"command": "x", "env": {"A": text}},
        "headers": {"type": "http", "url": "https://h.example/", "headers": {"A": text}},
        "url": {"type": "http", "url": text},
    }
    places = {"CLAUDE_PLUGIN_ROOT": "/p", "CLAUDE_PLUGIN_DATA": "/d"} if scope == "plugin" else {}
    entry = Entry("s", fields[field], Origin(Scope(scope), "/f", "mcpServers.s"), variables=places)
    outcome = parse_entry(entry, "/w", Context(env, "/c/environment", secrets=kept.get)).outcome
    if isinstance(outcome, Problem):
        return f"! {outcome.message}"
    assert isinstance(outcome, ServerSpec)
    transport = outcome.transport
    if isinstance(transport, HttpSpec):
        return str(transport.url if field == "url" else transport.headers["A"])
    assert isinstance(transport, StdioSpec)
    return str(transport.args[0] if field == "args" else transport.env["A"])


@pytest.mark.parametrize("row", rows("expand", "entries"), ids=label)
def test_the_table(row: Row) -> None:
    """C020, C021: what a server gets is what the table says, or it fails by name with a message that helps."""
    expected = row.columns[-1]
    found = field_of(row)
    if expected.startswith("! "):
        assert found.startswith("! ") and expected[2:] in found
    else:
        assert found.strip() == ("" if expected == '""' else expected)


def test_a_secret_does_not_show() -> None:
    """C025: it is in no repr, and of an argument only the reference is shown."""
    context = Context({}, secrets={"gh": "s3cret"}.get)
    transport = stdio({"command": "x", "args": ["--key=${secret:gh}"], "env": {"A": "${secret:gh}"}}, context=context)
    assert transport.args == ("--key=s3cret",)
    assert transport.shown == ("x", "--key=${secret:gh}")
    assert "s3cret" not in repr(transport) + repr(context)


def test_a_plugin_finds_its_places_in_its_environment() -> None:
    """As a hook of the plugin does; what the entry sets itself wins."""
    places = {"CLAUDE_PLUGIN_ROOT": "/p", "CLAUDE_PLUGIN_DATA": "/d"}
    raw = {"command": "./run", "cwd": "sub", "env": {"CLAUDE_PLUGIN_DATA": "${V}"}}
    entry = Entry("plugin:p:s", raw, Origin(Scope.PLUGIN, "/p/.mcp.json", "mcpServers.s"), variables=places)
    outcome = parse_entry(entry, "/p", Context({"V": "mine", "CLAUDE_PLUGIN_ROOT": "/elsewhere"})).outcome
    assert isinstance(outcome, ServerSpec) and isinstance(outcome.transport, StdioSpec)
    assert outcome.transport.env == {"CLAUDE_PLUGIN_ROOT": "/p", "CLAUDE_PLUGIN_DATA": "mine"}
    assert (outcome.transport.cwd, outcome.workspace) == ("/p/sub", "")
