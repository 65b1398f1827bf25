"""Which tools may be used: row by row from tests/data/policy/tools.txt, and the names in an entry."""

from __future__ import annotations

import msgspec
import pytest

from mcphub.config.policy_document import PolicyDocument
from mcphub.policy.combine import effective
from mcphub.policy.rules import AllowList, ToolRule
from mcphub.policy.tools import ToolRules, entry_refusal, nothing_left, read_tool_rule, tool_rules
from mcphub.spec import InProcessSpec, Origin, Scope, ServerSpec
from tests.policy.tables import document, lines

HERE = Origin(Scope.USER, "/u/mcp.json", "mcpServers.x", 4)


def _rows() -> list[tuple[int, tuple[PolicyDocument, ...], tuple[str, ...]]]:
    documents: list[PolicyDocument] = []
    rows = []
    for line in lines("tools.txt"):
        if line.order and line.cells == ("none",):
            documents = []
        elif line.order:
            documents = [*documents, document(Scope(line.cells[0]), line.cells[1])]
        else:
            rows.append((line.number, tuple(documents), line.cells))
    return rows


@pytest.mark.parametrize(("number", "documents", "cells"), _rows(), ids=lambda value: str(value)[:60])
def test_rows(number: int, documents: tuple[PolicyDocument, ...], cells: tuple[str, ...]) -> None:
    """A tool that is denied anywhere is denied; a list of what is allowed leaves nothing else."""
    _, server, tool, answer = cells
    said = tool_rules(effective(documents)).refusal(server, tool)
    assert said == "" if answer == "yes" else answer in said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a/b", ("a", "b")), ("a/b/c", ("a", "b/c")), ("*/*", ("*", "*")), ("a", None), ("/a", None), ("a/", None),
        ("", None),
    ],
)  # fmt: skip
def test_reading(text: str, expected: tuple[str, str] | None) -> None:
    """The first slash ends the server's name."""
    found = read_tool_rule(text, HERE)
    assert (None if found is None else (found.server, found.tool)) == expected


def test_equal_policies_have_equal_rules() -> None:
    """Nothing is read again where nothing changed."""
    one = effective([document(Scope.MANAGED, '{"deniedTools": ["a/b"]}')])
    other = effective([document(Scope.MANAGED, '{"deniedTools": ["a/b"]}')])
    assert tool_rules(one) == tool_rules(other)
    assert tool_rules(one) != ToolRules()


def test_names_in_the_entry() -> None:
    """An entry may name the tools it is for, and those it is not for; the latter win."""
    spec = ServerSpec("x", HERE, InProcessSpec("x"), enabled_tools=("a", "b"), disabled_tools=("b",))
    assert entry_refusal(spec, "a") == ""
    assert entry_refusal(spec, "b") == "switched off by /u/mcp.json:4 mcpServers.x.disabledTools"
    assert entry_refusal(spec, "c") == "not among the tools that /u/mcp.json:4 mcpServers.x.enabledTools names"
    assert entry_refusal(msgspec.structs.replace(spec, enabled_tools=None), "c") == ""


ONE, EMPTY = Origin(Scope.MANAGED, "/e", "allowedTools", 2), AllowList(Origin(Scope.MANAGED, "/e", "allowedTools", 2))


@pytest.mark.parametrize(
    ("rules", "fields", "reason"),
    [
        (ToolRules(), {}, ""),
        (ToolRules(allowed=(EMPTY,)), {}, "not allowed by policy: /e:2 allowedTools allows no usable tool"),
        (
            ToolRules(allowed=(AllowList(ONE, tools=(ToolRule("y", "*", ONE),)),)), {},
            "not allowed by policy: no rule of /e:2 allowedTools is about x",
        ),
        (
            ToolRules(allowed=(AllowList(ONE, tools=(ToolRule("x", "c", ONE),)),)), {},
            "not allowed by policy: no rule of /e:2 allowedTools covers one of them",
        ),
        (ToolRules(allowed=(AllowList(ONE, tools=(ToolRule("x", "a", ONE),)),)), {}, ""),
        (ToolRules(denied=(ToolRule("X", "*", ONE),)), {}, "denied by the rule 'X/*' of /e:2 allowedTools"),
        (ToolRules(denied=(ToolRule("x", "a", ONE),)), {}, ""),
        (
            ToolRules(denied=(ToolRule("x", "a", ONE),)), {"disabled_tools": ("b",)},
            "denied by the rule 'x/a' of /e:2 allowedTools; switched off by /u/mcp.json:4 mcpServers.x.disabledTools",
        ),
        (ToolRules(), {"enabled_tools": ()}, "/u/mcp.json:4 mcpServers.x.enabledTools names no tool"),
        (
            ToolRules(), {"enabled_tools": ("c",)},
            "not among the tools that /u/mcp.json:4 mcpServers.x.enabledTools names",
        ),
    ],
)  # fmt: skip
def test_nothing_is_left(rules: ToolRules, fields: dict[str, tuple[str, ...]], reason: str) -> None:
    """Where rules and the entry take every tool away it is said once, with file and key."""
    spec = ServerSpec("x", HERE, InProcessSpec("x"), **fields)  # type: ignore[arg-type]
    said = nothing_left(rules, spec, ["a", "b"])
    assert said == (f"agents see none of its 2 tools: {reason}" if reason else "")
    assert nothing_left(rules, spec, []) == ""
